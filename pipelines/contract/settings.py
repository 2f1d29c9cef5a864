"""The base class, the field types and the checks that models of scenario parts and of protocol settings share."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, Self, TypeVar, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    Tag,
    model_validator,
)
from pydantic_core import CoreSchema

from pipelines.errors import InputError, KeyPath, Problem, nearest, raise_problems

MAX_ROUND = 2**31 - 1
MAX_NODES = 1_000_000
MAX_NAME = 200
"""The maximum length of a node's name."""
MAX_WHOLE = 2**63 - 1
MAX_SEED = 2**62

Round = Annotated[int, Field(ge=0, le=MAX_ROUND, strict=True)]
Natural = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
"""A number of nodes, rounds or other units, at least 1."""
LatencyRounds = Natural
FilePath = Annotated[str, Field(min_length=1, max_length=4096)]
Seed = Annotated[int, Field(ge=0, le=MAX_SEED, strict=True)]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False, strict=True)]
Positive = Annotated[float, Field(gt=0.0, le=1e15, allow_inf_nan=False, strict=True)]
Number = Annotated[float, Field(ge=-1e300, le=1e300, allow_inf_nan=False, strict=True)]
Count = Annotated[int, Field(ge=0, le=100_000_000, strict=True)]
Flag = Annotated[bool, Field(strict=True)]
Whole = Annotated[int, Field(ge=-MAX_WHOLE, le=MAX_WHOLE, strict=True)]
Scalar = str | Whole | Number | bool


def nfc(text: str) -> str:
    """Returns a name or topic in Unicode's composed form (NFC), in which all names and topics are compared."""
    return unicodedata.normalize("NFC", text)


NFC = AfterValidator(nfc)
Composed = Annotated[str, NFC]
NodeName = Annotated[str, Field(min_length=1, max_length=MAX_NAME), NFC]
Prefix = Annotated[str, Field(max_length=50), NFC]
Topic = Annotated[str, Field(min_length=1, max_length=1000), NFC]


class Strict(BaseModel):
    """The base class of the parts of a scenario. Its objects are immutable, and an unknown key is an error.

    Subclasses whose keys depend on each other yield the conflicts in ``_problems``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        raise_problems(self._problems())
        return self

    def _problems(self) -> Iterator[Problem]:
        return iter(())


def _ordered(bounds: tuple[Any, Any]) -> tuple[Any, Any]:
    if bounds[0] > bounds[1]:
        raise ValueError(
            f"the first value {bounds[0]} is above the second, {bounds[1]}; allowed: [low, high] with low <= high"
        )
    return bounds


ORDERED = AfterValidator(_ordered)
"""The validator of pairs ``[low, high]`` with low ≤ high."""


@dataclass(frozen=True)
class Branches:
    """An annotation of a union: selects the branch of a value, so that errors concern this branch only.

    A list, a string or a number selects the branch of its type. A mapping with key ``file`` or ``generate`` selects the
    model with this key. Any other mapping selects the model with the mapping's value of `key` as its constant, or, if
    `key` is empty, the only model without such keys.
    """

    key: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:  # noqa: ANN401
        """Returns the schema of the union `source`."""
        tags = {self._tag(branch): branch for branch in get_args(source)}

        def selected(value: Any) -> str | None:  # noqa: ANN401 - any value of a file
            if not isinstance(value, (Mapping, Strict)):
                return _TAGS.get(type(value))
            given = value if isinstance(value, Mapping) else dict(value)
            if found := next((tag for tag in _SOURCES if tag[1:-1] in given and tag in tags), None):
                return found
            if not self.key:
                return "<mapping>"
            if self.key in given:
                return f"<{given[self.key]}>" if isinstance(given[self.key], str) else None
            return "<generate>" if nearest("generate", given) else None  # the key may be mistyped

        union = reduce(or_, (Annotated[branch, Tag(tag)] for tag, branch in tags.items()))
        error: dict[str, Any] = {"custom_error_type": "choice" if self.key else "form"}
        error |= {"custom_error_message": "unknown", "custom_error_context": {"key": self.key}}
        return handler.generate_schema(Annotated[union, Discriminator(selected, **error)])

    def _tag(self, branch: Any) -> str:  # noqa: ANN401 - any type
        # The angle brackets distinguish tags from keys in pydantic's error locations.
        kind = get_args(branch)[0] if get_origin(branch) is Annotated else branch
        if not (isinstance(kind, type) and issubclass(kind, Strict)):
            return _TAGS.get(get_origin(kind) or kind, "<text>")
        if self.key in kind.model_fields:
            return f"<{get_args(kind.model_fields[self.key].annotation)[0]}>"
        return next((tag for tag in _SOURCES if tag[1:-1] in kind.model_fields), "<mapping>")


_TAGS = {list: "<list>", tuple: "<list>", str: "<text>", int: "<number>", float: "<number>"}
_SOURCES = ("<file>", "<generate>")
BY_FORM = Branches()
BY_KIND = Branches("kind")
Listed = TypeVar("Listed")
Generated = TypeVar("Generated")
Group = TypeVar("Group")
ListOr = Annotated[list[Listed] | Generated, BY_FORM]
"""A list of `Listed`, or a mapping with key ``generate``."""
_Names = Annotated[list[NodeName], Field(min_length=1)]
NamesOr = Annotated[_Names | Group, BY_FORM]
"""A list of names of nodes, or the name of a group of nodes."""
Nodes = Annotated[
    _Names
    | Annotated[int, Field(ge=1, le=MAX_NODES, strict=True)]
    | Literal["all", "leaves", "brokers", "servers", "clients"],
    BY_FORM,
]


def one_of(model: Strict, names: tuple[str, ...], what: str) -> None:
    """Checks that exactly one of the keys `names` of `model` is not None. Errors name the model as `what`.

    Raises:
        InputError: None of the keys is set, or several are.
    """
    given = [name for name in names if getattr(model, name) is not None]
    if not given:
        raise InputError(Problem((), f"{what} has none of {', '.join(names)}; write exactly one of them"))
    if len(given) > 1:
        message = f"{what} has {' and '.join(given)}; exactly one of {', '.join(names)} is allowed"
        raise InputError(*(Problem((name,), message) for name in given[1:]))


def repetition_problems(path: KeyPath, values: Sequence[object]) -> Iterator[Problem]:
    """Yields a problem for each value of the list `values` at `path` that equals an earlier value of the list.

    1 equals 1.0, but 1 does not equal true.
    """
    first: dict[Hashable, int] = {}
    for index, value in enumerate(values):
        is_plain = not isinstance(value, (list, dict))
        key = (isinstance(value, bool), value) if is_plain else json.dumps(value, sort_keys=True)
        before = first.setdefault(key, index)
        if before != index:
            shown = f"{value!r} is" if isinstance(value, (str, int, float, type(None))) else "this value is"
            yield Problem(
                (*path, index), f"{shown} there already, as number {before + 1} of the list; allowed: each value once"
            )


def repeated_links(links: Iterable[tuple[Any, ...]]) -> Iterator[Problem]:
    """Yields a problem for each link ``(a, b, ...)`` of `links` that is a self-loop or equals an earlier link."""
    first: dict[frozenset[str], int] = {}
    for index, (a, b, *_) in enumerate(links):
        if a == b:
            yield Problem(("links", index), f"the link joins {a!r} to itself; allowed: two different nodes")
        elif (before := first.setdefault(frozenset((a, b)), index)) != index:
            message = f"the link {a!r} - {b!r} already exists, as number {before + 1} of the list"
            yield Problem(("links", index), f"{message}; write each once, in either direction")


def end_problems(round_: int, until: int | None) -> Iterator[Problem]:
    """Yields a problem if `until`, the end of an interval, is not None and not after its start `round_`."""
    if until is not None and until <= round_:
        yield Problem(("until",), f"until is {until}, not after round {round_}; allowed: {round_ + 1} or later")
