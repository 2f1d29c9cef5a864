"""Errors that Roundtable raises: one base class, one subclass a cause.

Every message says what was given, what is allowed, and what to do next. Each
class is also a builtin error, so that callers who do not know Roundtable can
still catch it by kind.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches


class RoundtableError(Exception):
    """Base of all errors that are the user's to mend."""


class ScenarioError(RoundtableError, ValueError):
    """A scenario file, or a value set from outside, is wrong.

    Attributes:
        problems: One line a problem, each ``place: what is wrong; what is allowed``.
    """

    def __init__(self, problems: Iterable[str]) -> None:
        """Keeps every problem; the message is one line for each."""
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with an experiment's input.

    Attributes:
        path: Where in the scenario, e.g. ``("overlay", "links", 3)``.
        message: ``what is wrong; what is allowed or what to do``.
    """

    path: tuple[str | int, ...]
    message: str


class InputError(RoundtableError, ValueError):
    """A part of a scenario is well formed but cannot be used; carries all problems with their places."""

    def __init__(self, *problems: Problem) -> None:
        """Keeps every problem; the message is one line for each."""
        self.problems = problems
        super().__init__("\n".join(f"{'.'.join(map(str, p.path))}: {p.message}" for p in problems))


class OverlayError(InputError):
    """An overlay cannot be built, or the protocol cannot run on it."""


class WorkloadError(InputError):
    """A workload names what the overlay lacks, or cannot be read."""


class FaultError(InputError):
    """A fault names what the overlay lacks, contradicts another one, or cannot be placed."""


class PredicateError(RoundtableError, ValueError):
    """A subscription cannot be parsed as a conjunction of predicates.

    Attributes:
        column: Index of the character, from 1; None where the whole subscription is wrong.
    """

    def __init__(self, message: str, column: int | None = None) -> None:
        """Puts the column, if it is known, in front of the message."""
        self.column = column
        super().__init__(message if column is None else f"column {column} of the predicate: {message}")


class DataFileError(RoundtableError, OSError):
    """An input file is missing or cannot be read."""


class FormError(RoundtableError, ValueError):
    """A protocol cannot be played in the form that is asked for."""


class EngineError(RoundtableError, RuntimeError):
    """An engine cannot be started or lacks what is needed."""


class StoreError(RoundtableError, OSError):
    """A store does not exist, is not empty, or has another format."""


class VacuumedError(StoreError):
    """A version of a table has lost its files, as after VACUUM.

    Attributes:
        table: The table.
        version: Its version.
    """

    def __init__(self, root: object, table: str, version: int, newest: int) -> None:
        """Keeps table and version; the message says what still exists."""
        self.table = table
        self.version = version
        super().__init__(
            f"version {version} of table {table!r} of the store {str(root)!r} is gone: VACUUM (or another program) "
            f"removed its files; its newest version is {newest}. Ask for the end of the run, or for a later round; "
            "to have every version again, run the scenario again with a new --store and do not VACUUM it"
        )


class QueryError(RoundtableError, ValueError):
    """A SQL statement over a store cannot be answered."""


class ProtocolError(RoundtableError, ValueError):
    """A protocol cannot be loaded, or breaks the contract.

    Attributes:
        problems: One line a problem, each ``what is wrong; what is allowed``.
    """

    def __init__(self, protocol: str, problems: Iterable[str]) -> None:
        """Keeps every problem; the message is one line for each."""
        self.problems = tuple(problems)
        super().__init__("\n".join(f"protocol {protocol}: {problem}" for problem in self.problems))


class InternalError(RoundtableError, RuntimeError):
    """The program broke a rule of its own: to be reported."""


class AmbiguousOrderError(InternalError):
    """Two rows have equal keys in an order that decides something: rows would differ between executions."""


class NodeProgramError(RoundtableError, RuntimeError):
    """A handler of a node program has failed: the message names protocol, run, node, round and what it handled."""


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Returns `` did you mean 'x'?`` for the closest allowed name, or an empty text."""
    found = get_close_matches(str(name), [str(item) for item in allowed], n=1)
    return f" did you mean {found[0]!r}?" if found else ""


def plural(number: int, noun: str) -> str:
    """Returns ``1 run``, ``2 runs``."""
    return f"{number:,} {noun}" + ("s" if number != 1 else "")
