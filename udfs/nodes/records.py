"""Records and messages: dataclasses that declare the rows of a node's tables and the messages that nodes exchange.

A *record* is a row that a node stores; a *message* is an object that a node sends. The fields of both become columns.
The first line of the docstring of the class is the grain of its table. A column comment is either the string in
``Annotated[int, "comment"]`` or the entry of the field in section ``Attributes`` of the docstring. A message class may
inherit fields with their comments.

`Keyed` is a dict that iterates in the order of its keys. A node may iterate over a table to send messages. A restored
node reads the rows of its tables in the order of keys, so a node in memory must iterate in this order, too.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, KeysView, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform, get_type_hints

from udfs.nodes.fields import FieldType, types_of

T = TypeVar("T")
_ATTRIBUTE = re.compile(r"^    (\w+): (.*)$")
HEAD = ("source", "source_seq")
"""The columns of every message table: the source and the number of the application call that caused the message."""


@dataclass(frozen=True)
class RecordSpec:
    """The specification of a record or message class.

    Attributes:
        key: The fields that identify a row among the rows of its node; empty for a message.
        grain: The meaning of a row.
        types: The storage type of each field.
        comments: The comment of each field.
    """

    key: tuple[str, ...]
    grain: str
    types: dict[str, FieldType]
    comments: dict[str, str]


@dataclass_transform(field_specifiers=(field,))
def record(*, key: str = "") -> Callable[[type[T]], type[T]]:
    """Returns a class decorator that declares a record.

    Args:
        key: The fields that identify a row among the rows of its node, separated by commas. An empty key declares a
            single row or an ordered list of rows.
    """

    def declare(cls: type[T]) -> type[T]:
        made = dataclass(slots=True)(cls)
        made.__key__ = tuple(part.strip() for part in key.split(",") if part.strip())  # type: ignore[attr-defined]
        return made

    return declare


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def message(kind: str = "", hidden: str = "") -> Callable[[type[T]], type[T]]:
    """Returns a class decorator that declares an immutable message.

    Type checkers enforce immutability. At run time, the decorator freezes a class only if a base class is frozen. The
    construction of a message of twelve fields takes 1.3 µs in a frozen class, and 0.2 µs in any other class.

    Args:
        kind: The message kind in the history. If it is empty, the name of the class is the message kind.
        hidden: The fields that the history omits, separated by commas. If it is empty, the class inherits the hidden
            fields of its base class.
    """

    def declare(cls: type[T]) -> type[T]:
        made = dataclass(slots=True, frozen=_has_frozen_base(cls), unsafe_hash=True)(cls)
        made.__kind__ = kind or cls.__name__  # type: ignore[attr-defined]
        if hidden:
            made.__hidden__ = tuple(part.strip() for part in hidden.split(","))  # type: ignore[attr-defined]
        return made

    return declare


def _has_frozen_base(cls: type) -> bool:
    parameters = (getattr(base, "__dataclass_params__", None) for base in cls.__mro__[1:])
    return any(one is not None and one.frozen for one in parameters)


def kind_of(cls: type) -> str:
    """Returns the message kind of a message class."""
    return str(cls.__kind__)  # type: ignore[attr-defined]


def hidden_of(cls: type) -> tuple[str, ...]:
    """Returns the fields of a message class that the history omits."""
    return tuple(getattr(cls, "__hidden__", ()))


@cache
def spec_of(cls: type) -> RecordSpec:
    """Returns the specification of a record or message class.

    Raises:
        TypeError: The type of a field is not supported, a field has no comment or two comments, or `key` or `hidden`
            names an unknown field.
    """
    types, doc = types_of(cls), inspect.getdoc(cls) or ""
    docs = [inspect.cleandoc(base.__dict__.get("__doc__") or "") for base in reversed(cls.__mro__[:-1])]
    described = {name: text for one in docs for name, text in _comments(one.splitlines()).items()}
    annotated = _annotated(cls)
    for name in described.keys() & annotated.keys():
        raise TypeError(f"{cls.__name__}.{name} has two comments; keep the one in Annotated or that under Attributes")
    comments = described | annotated
    key: tuple[str, ...] = getattr(cls, "__key__", ())
    for name in types:
        if name not in comments:
            raise TypeError(
                f'{cls.__name__}.{name} has no comment; write Annotated[..., "what it means"], or describe it in the '
                "docstring under Attributes"
            )
    for name in key:
        if name not in types:
            raise TypeError(f"{cls.__name__} has key {name!r}; allowed: {', '.join(types)}")
    for name in hidden_of(cls):
        if name not in types or name in HEAD:
            raise TypeError(
                f"{cls.__name__} hides {name!r}; allowed: {', '.join(one for one in types if one not in HEAD)}"
            )
    first = doc.split("\n", 1)[0].rstrip(".")
    return RecordSpec(key, first[:1].lower() + first[1:], types, comments)


@cache
def key_of(cls: type) -> Callable[[Any], Any]:
    """Returns a function that reads the key of a record. If the record has several key fields, the key is a tuple."""
    return attrgetter(*spec_of(cls).key)


def _annotated(cls: type) -> dict[str, str]:
    hints = get_type_hints(cls, include_extras=True)
    extras = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name: text for name, of_field in extras.items() for text in of_field if isinstance(text, str)}


def _comments(lines: Sequence[str]) -> dict[str, str]:
    comments: dict[str, str] = {}
    name, is_inside = "", False
    for line in lines:
        if line.strip() == "Attributes:":
            is_inside = True
        elif is_inside and (found := _ATTRIBUTE.match(line)):
            name = found[1]
            comments[name] = found[2]
        elif is_inside and name and line.startswith("     "):
            comments[name] += f" {line.strip()}"
    return {name: text.rstrip(".") for name, text in comments.items()}


K = TypeVar("K", bound=Any)
V = TypeVar("V")


class Keyed(dict[K, V]):
    """A dict that iterates in ascending order of its keys, which must be comparable.

    The dict may be changed during an iteration. The iteration yields the rows that existed when it started.
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[K]:
        """Iterates over a snapshot of the keys, ascending."""
        return iter(sorted(super().__iter__()))

    def __reversed__(self) -> Iterator[K]:
        """Iterates over a snapshot of the keys, descending."""
        return iter(sorted(super().__iter__(), reverse=True))

    def popitem(self) -> tuple[K, V]:
        """Removes the row with the greatest key, and returns the key and the row."""
        if not self:
            raise KeyError("popitem(): the attribute has no rows")
        key = max(super().__iter__())
        return key, self.pop(key)

    def keys(self) -> KeysView[K]:  # type: ignore[override]
        """Returns a view of the keys, ascending."""
        return KeysView(self)

    def values(self) -> list[V]:  # type: ignore[override]
        """Returns a list of the rows, ascending by key."""
        return [*map(self.__getitem__, sorted(super().__iter__()))]

    def items(self) -> list[tuple[K, V]]:  # type: ignore[override]
        """Returns a list of (key, row) pairs, ascending by key."""
        return [(key, self[key]) for key in sorted(super().__iter__())]
