"""The errors of Roundtable: one base class and a subclass for each cause.

Each message says which value is wrong, which values are allowed, and what to do next. Each class also derives from a
builtin error, so callers can catch, for example, `ValueError`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from numbers import Integral

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


def is_whole(value: object) -> bool:
    """Returns whether a value is an integer; the result is False for True and False."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def check_run_id(run_id: object, known: Collection[int]) -> None:
    """Raises `QueryError` if ``run_id`` is not in ``known``, the run ids of a store, or no integer (such as True)."""
    if not is_whole(run_id) or run_id not in known:
        raise QueryError(f"run {run_id!r} does not exist; the store has runs {min(known)} to {max(known)}")
