"""Frames of Spark Connect over few rows, as rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import local
from time import thread_time
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Row, types as T
from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame
from pyspark.sql.connect.proto import relations_pb2 as proto

from pipelines.engines.rows.kinds import Kind, UnknownPlanError, arrow_of, fits, kinds_of, rows_of, table_of
from pipelines.engines.rows.operators import Rows, longest, most_rows
from pipelines.engines.rows.plans import LEAF, Leaf, compiled
from pipelines.engines.rows.source import Node, picker

_MOST_PLANS: Final = 4000
_PLANS: Final[dict[tuple[bytes, tuple[Leaf, ...]], _Plan | str]] = {}
"""Plans, or why they are not known here, by their text and what they read."""
_FEW_ROWS: Final = 5000
"""So many rows are worked out here however long that takes."""
_FORGOTTEN: Final = 0.9
"""Of a pace, each time it is held against a plan: it may have been measured on a bad day, and is measured again."""
_READ_SECONDS: Final = 2e-6
"""CPU seconds for each row that an engine has written and that is read for a plan."""
_INPUTS: Final = {"join": ("left", "right"), "set_op": ("left_input", "right_input")}
_ONE_INPUT: Final = ("input",)
_WITHOUT_INPUT: Final = frozenset(["local_relation", "read", "range"])


@dataclass(frozen=True)
class Unread:
    """Rows that an engine has written.

    Attributes:
        n_rows: How many there are.
        read: Reads them.
    """

    n_rows: int
    read: Callable[[], Rows]


class Held:
    """Rows of a relation with their columns.

    Attributes:
        names: The columns.
        kinds: What they hold.
        n_rows: How many rows there are.
    """

    def __init__(self, names: Sequence[str], kinds: Sequence[Kind], rows: Rows | Unread) -> None:
        """Takes rows that are here, or that are read when they are asked for."""
        self.names, self.kinds = tuple(names), tuple(kinds)
        self.n_rows = len(rows.rows) if isinstance(rows, Rows) else rows.n_rows
        self._rows = rows

    @classmethod
    def of(cls, table: pa.Table, schema: T.StructType) -> Held:
        """Returns the rows of a table with these columns."""
        kinds = kinds_of(schema)
        return cls(schema.names, kinds, Rows(rows_of(table, kinds)))

    @property
    def rows(self) -> Rows:
        """The rows."""
        if isinstance(self._rows, Unread):
            self._rows = self._rows.read()
        return self._rows

    @property
    def n_unread(self) -> int:
        """How many rows are still to be read."""
        return self.n_rows if isinstance(self._rows, Unread) else 0

    def picked(self, names: Sequence[str], kinds: Sequence[Kind]) -> Rows:
        """Returns the rows with some of the columns.

        Args:
            names: The columns.
            kinds: What they have to hold.

        Raises:
            UnknownPlanError: One is not there, or twice, or holds something else.
        """
        if any(self.names.count(name) != 1 for name in names):
            raise UnknownPlanError("a column that is not there, or twice")
        places = tuple(self.names.index(name) for name in names)
        if not all(fits(kind, self.kinds[place]) for kind, place in zip(kinds, places, strict=True)):
            raise UnknownPlanError("a column of another type")
        if places == (*range(len(self.names)),):
            return self.rows
        return Rows([*map(picker(places), self.rows.rows)])

    def collected(self) -> list[Row]:
        """Returns the rows as a frame's ``collect`` does."""
        make = Row(*self.names)
        return [make(*row) for row in self.rows.rows]

    def table(self) -> pa.Table:
        """Returns the rows as a table."""
        return table_of(self.rows.rows, pa.schema([*zip(self.names, map(arrow_of, self.kinds), strict=True)]))


@dataclass
class _Plan:
    """A plan that rounds have worked out again and again.

    Attributes:
        node: What it does.
        pace: How many CPU seconds it took for each row that it read, when it last read many: where most of them are
            only looked up, many rows take less time here than an engine's plan.
    """

    node: Node
    pace: float = 0

    def held(self, leaves: Sequence[Held], n_rows: int, n_unread: int) -> Held:
        """Returns the rows of the plan.

        Args:
            leaves: What it reads.
            n_rows: How many rows that are.
            n_unread: How many of them are still to be read.

        Raises:
            UnknownPlanError: An engine takes less time for so many, by the pace.
        """
        if n_rows > _FEW_ROWS and self.pace * n_rows + _READ_SECONDS * n_unread > longest():
            self.pace *= _FORGOTTEN
            raise UnknownPlanError("many rows to work on")
        read = [leaf.rows for leaf in leaves]
        begin = thread_time()
        rows = self.node.make(read)
        if n_rows > _FEW_ROWS:
            self.pace = (thread_time() - begin) / n_rows
        return Held(self.node.names, self.node.kinds, rows)


class _Reading(local):
    """What the plan reads that this thread is about to work out."""

    is_on = False
    may_wait = False

    def __init__(self) -> None:
        self.leaves: list[Held] = []


_READING = _Reading()


def read(held: Held) -> proto.Relation:
    """Returns what stands for rows in a plan that is worked out here."""
    leaves = _READING.leaves
    leaves.append(held)
    return proto.Relation(local_relation=proto.LocalRelation(schema=f"{LEAF}{len(leaves) - 1}"))


def is_reading() -> bool:
    """Returns whether this thread makes a plan that is worked out here, rather than sent."""
    return _READING.is_on


def may_wait() -> bool:
    """Returns whether it waits for relations that are not there yet."""
    return _READING.may_wait


@contextmanager
def _reading(*, may_wait: bool) -> Iterator[list[Held]]:
    """Collects what a plan reads; a plan within it is worked out by itself."""
    before = _READING.is_on, _READING.leaves, _READING.may_wait
    leaves: list[Held] = []
    _READING.is_on, _READING.leaves, _READING.may_wait = True, leaves, may_wait
    try:
        yield leaves
    finally:
        _READING.is_on, _READING.leaves, _READING.may_wait = before


def evaluated(frame: DataFrame, *, may_wait: bool) -> Held:
    """Returns the rows of a frame.

    Args:
        frame: Any frame.
        may_wait: Whether to wait for relations that it reads and that are not there yet.

    Raises:
        UnfinishedError: Such a relation is not there.
        UnknownPlanError: It is an engine's work: it is a classic frame, reads many rows, or does what is not understood
            here.
    """
    if not isinstance(frame, RemoteFrame):
        raise UnknownPlanError("a classic frame")
    with _reading(may_wait=may_wait) as leaves:
        plan = frame._plan.plan(frame._session.client)
    # A relation that is read several times counts once: an engine reads it several times, too.
    several = {id(leaf): leaf for leaf in leaves}.values()
    n_rows = sum(leaf.n_rows for leaf in several)
    if n_rows > most_rows():
        raise UnknownPlanError("many rows")
    _forget_numbers(plan)
    key = plan.SerializeToString(deterministic=True), tuple((leaf.names, leaf.kinds) for leaf in leaves)
    known = _PLANS.get(key)
    if known is None:
        if len(_PLANS) >= _MOST_PLANS:
            _PLANS.clear()
        known = _PLANS[key] = _plan(plan, key[1])
    if isinstance(known, str):
        raise UnknownPlanError(known)
    return known.held(leaves, n_rows, sum(leaf.n_unread for leaf in several))


def is_here(frame: DataFrame) -> bool:
    """Returns whether the rows of a frame are worked out in this process."""
    try:
        evaluated(frame, may_wait=True)
    except UnknownPlanError:
        return False
    return True


def _forget_numbers(plan: proto.Relation) -> None:
    """Leaves out the numbers of a plan's parts, which are others each time."""
    parts = [plan]
    while parts:
        part = parts.pop()
        part.ClearField("common")
        kind = part.WhichOneof("rel_type")
        if kind is not None and kind not in _WITHOUT_INPUT:
            of = getattr(part, kind)
            parts += [getattr(of, name) for name in _INPUTS.get(kind, _ONE_INPUT) if hasattr(of, name)]


def _plan(plan: proto.Relation, leaves: Sequence[Leaf]) -> _Plan | str:
    """Returns a plan as a function of what it reads, or why it is none.

    The error itself would hold what the frames of its traceback do: all relations of a round.
    """
    try:
        return _Plan(compiled(plan, leaves))
    except UnknownPlanError as error:
        return str(error)
