"""The errors of Roundtable: one base class and a subclass for each cause.

Each message says which value is wrong, which values are allowed, and what to do next. Each class also derives from a
builtin error, so callers can catch, for example, `ValueError`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache, wraps
from inspect import Signature, signature
from numbers import Integral, Real
from types import UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

_Parameters = ParamSpec("_Parameters")
_Answer = TypeVar("_Answer")
_MAX_SHOWN = 60
_NUMBERS: Mapping[Any, type] = {int: Integral, float: Real}
_JAVA_FRAME = re.compile(r"\s*(?:at \S+\(.*\)$|\.\.\. \d+ more$)")


class RoundtableError(Exception):
    """Base class of all Roundtable errors. `InternalError` reports bugs; users can correct the others."""


class ScenarioError(RoundtableError, ValueError):
    """A scenario or an override is invalid. ``problems``: a line each, ``place: what is wrong; what is allowed``."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


KeyPath = tuple[str | int, ...]
"""The path of a value in a scenario: keys, and indexes of list items, e.g. ``("overlay", "links", 3)``."""


@dataclass(frozen=True)
class Problem:
    """A problem in the input: ``path`` of the value in the scenario, and ``message``: what is wrong; what to do."""

    path: KeyPath
    message: str


class InputError(RoundtableError, ValueError):
    """A part of a scenario is well formed but unusable; attribute ``problems`` lists all problems with their paths."""

    def __init__(self, *problems: Problem) -> None:
        self.problems = problems
        super().__init__("\n".join(f"{'.'.join(map(str, p.path))}: {p.message}" for p in problems))


def raise_problems(problems: Iterable[Problem]) -> None:
    """Raises an `InputError` with all of ``problems``; does nothing if there are none."""
    if found := tuple(problems):
        raise InputError(*found)


class PredicateError(RoundtableError, ValueError):
    """A subscription's predicate is not a valid conjunction of comparisons.

    ``column`` is the position of the wrong character, from 1; None if the whole predicate is wrong.
    """

    def __init__(self, message: str, column: int | None = None) -> None:
        self.column = column
        super().__init__(message if column is None else f"column {column} of the predicate: {message}")


class DataFileError(RoundtableError, OSError):
    """An input file is missing or cannot be read, or its content is invalid.

    ``field`` is the scenario key that caused the error, beside the key of the file, for example ``"member"``.
    """

    def __init__(self, message: str, field: str = "path") -> None:
        self.field = field
        super().__init__(message)


@contextmanager
def blamed_on(*place: str | int) -> Iterator[None]:
    """Inside the ``with`` block, a `DataFileError` becomes an `InputError` of the part `place` of the scenario."""
    try:
        yield
    except DataFileError as error:
        raise InputError(Problem((*place, error.field), str(error))) from error


class FormError(RoundtableError, ValueError):
    """A protocol lacks the requested form (program or dataflow), or the form cannot execute the run."""


class EngineError(RoundtableError, RuntimeError):
    """An engine cannot be started, or a component that it needs is missing."""


class StoreError(RoundtableError, OSError):
    """A store does not exist, is not empty, is damaged, is locked, or has another format."""


class VacuumedError(StoreError):
    """Version ``version`` of table ``table`` has lost its files, for example after VACUUM."""

    def __init__(self, root: object, table: str, version: int, newest: int) -> None:
        self.table = table
        self.version = version
        super().__init__(
            f"version {version} of table {table!r} of the store {str(root)!r} is gone: VACUUM (or another program) "
            f"removed its files; its newest version is {newest}. Ask for the end of the run, or for a later round; "
            "to have every version again, run the scenario again with a new --store and do not VACUUM it"
        )


class QueryError(RoundtableError, ValueError):
    """A SQL statement or a request to a store cannot be answered."""


class ArgumentError(RoundtableError, TypeError):
    """An argument of a public function has a wrong type."""


class ProtocolError(RoundtableError, ValueError):
    """A protocol cannot be loaded or violates the contract. ``problems``: a line each, what is wrong and allowed."""

    def __init__(self, protocol: str, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(f"protocol {protocol}: {problem}" for problem in self.problems))


class InternalError(RoundtableError, RuntimeError):
    """The program violated one of its own invariants; users should report it."""


class AmbiguousOrderError(InternalError):
    """Two rows have equal sort keys although their order affects the result, so two executions can differ."""


class NodeProgramError(RoundtableError, RuntimeError):
    """A handler of a node program raised an exception; the message names protocol, run, node, round and message."""


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Returns `` did you mean 'x'?`` with the most similar allowed name; an empty string if no name is similar."""
    found = get_close_matches(str(name), [str(item) for item in allowed], n=1)
    return f" did you mean {found[0]!r}?" if found else ""


def first_line(error: BaseException) -> str:
    """Returns the first line of the message of `error`, or the name of its class if the message is empty."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def root_cause(message: str) -> str:
    """Returns the message of an error in one line; if it contains stack traces of Java or Python, their root cause."""
    *_, last = message.split("\nCaused by: ")
    _, trace, after = last.rpartition("Traceback (most recent call last):\n")
    lines = [line for line in after.splitlines() if not _JAVA_FRAME.match(line)]
    if trace:
        lines = [line for line in lines if line.strip() and not line[0].isspace()][:1]
    return " ".join(" ".join(lines).split())  # the first line of an engine's error message is often empty


def shortened(text: str, most: int) -> str:
    """Returns ``text``, or its first ``most`` characters and its length if it is longer."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def listed(names: Iterable[str], most: int = 10) -> str:
    """Returns the first ``most`` names as a comma-separated list, followed by the number of omitted names."""
    names = [*names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def plural(number: int, noun: str) -> str:
    """Returns a number with its noun: ``1 run``, ``2 runs``."""
    return f"{number:,} {noun}" + ("s" if number != 1 else "")


def check_run_id(run_id: int, known: Collection[int]) -> None:
    """Raises `QueryError` if ``run_id`` is not in ``known``, the run ids of a store."""
    if run_id not in known:
        raise QueryError(f"run {run_id} does not exist; the store has runs {min(known)} to {max(known)}")


def checked(function: Callable[_Parameters, _Answer]) -> Callable[_Parameters, _Answer]:
    """Wraps a function: an argument whose type differs from the annotation raises `ArgumentError`.

    The function itself checks values: the strings of a Literal, the limits of a number, and sessions of Spark.
    """

    @wraps(function)
    def checking(*args: _Parameters.args, **kwargs: _Parameters.kwargs) -> _Answer:
        expected, types = _annotations(function)
        for name, value in expected.bind(*args, **kwargs).arguments.items():
            if name in types and not _has_type(value, types[name]):
                shown = shortened(" ".join(repr(value).split()), _MAX_SHOWN)
                raise ArgumentError(
                    f"{name} is {shown}, of type {type(value).__name__}; allowed: "
                    f"{', '.join(map(_name, _alternatives(types[name])))}"
                )
        return function(*args, **kwargs)

    return checking


@cache
def _annotations(function: Callable[..., Any]) -> tuple[Signature, Mapping[str, Any]]:
    return signature(function), get_type_hints(function)


def _alternatives(kind: Any) -> Sequence[Any]:  # noqa: ANN401 - an annotation
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else [kind]


def _has_type(value: Any, kind: Any) -> bool:  # noqa: ANN401 - any argument, and an annotation
    return any(_is_of(value, one) for one in _alternatives(kind))


def _is_of(value: Any, kind: Any) -> bool:  # noqa: ANN401 - any argument, and an annotation
    import numpy as np  # slow imports, which commands without an engine do not need
    from pyspark.sql import SparkSession

    origin, parts = get_origin(kind), get_args(kind)
    if kind in (Any, SparkSession):
        return True
    if origin is Literal:
        return isinstance(value, str)
    if origin in (Sequence, tuple):
        is_listed = isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes))
        has_length = is_listed and (origin is Sequence or len(value) == len(parts))
        return has_length and all(_has_type(one, parts[0]) for one in value)
    if kind in _NUMBERS:
        return isinstance(value, _NUMBERS[kind]) and not isinstance(value, bool)
    return isinstance(value, origin or kind)


def _name(kind: Any) -> str:  # noqa: ANN401 - an annotation
    origin = get_origin(kind)
    if origin is Literal:
        return ", ".join(map(repr, get_args(kind)))
    if origin in (Sequence, tuple):
        return f"{origin.__name__}[{', '.join(map(_name, get_args(kind)))}]"
    return "None" if kind is type(None) else str((origin or kind).__name__)
