"""Frames of Spark Connect over few rows, as rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import local
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, Row, types as T
from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame
from pyspark.sql.connect.proto import relations_pb2 as proto

from pipelines.engines.rows.kinds import Kind, UnknownPlanError, arrow_of, fits, kinds_of, rows_of, table_of
from pipelines.engines.rows.operators import Rows, most_rows
from pipelines.engines.rows.plans import LEAF, Leaf, compiled
from pipelines.engines.rows.source import Node, picker

_MOST_NODES: Final = 4000
_NODES: Final[dict[tuple[bytes, tuple[Leaf, ...]], Node | str]] = {}
"""What plans do, or why that is not known here, by their text and what they read."""
_INPUTS: Final = {"join": ("left", "right"), "set_op": ("left_input", "right_input")}
_ONE_INPUT: Final = ("input",)
_WITHOUT_INPUT: Final = frozenset(["local_relation", "read", "range"])


@dataclass(frozen=True)
class Held:
    """Rows of a relation with their columns."""

    names: tuple[str, ...]
    kinds: tuple[Kind, ...]
    rows: Rows

    @classmethod
    def of(cls, table: pa.Table, schema: T.StructType) -> Held:
        """Returns the rows of a table with these columns."""
        kinds = kinds_of(schema)
        return cls(tuple(schema.names), kinds, Rows(rows_of(table, kinds)))

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
    if sum({id(leaf.rows): len(leaf.rows.rows) for leaf in leaves}.values()) > most_rows():
        raise UnknownPlanError("many rows")
    _forget_numbers(plan)
    key = plan.SerializeToString(deterministic=True), tuple((leaf.names, leaf.kinds) for leaf in leaves)
    node = _NODES.get(key)
    if node is None:
        if len(_NODES) >= _MOST_NODES:
            _NODES.clear()
        node = _NODES[key] = _node(plan, key[1])
    if isinstance(node, str):
        raise UnknownPlanError(node)
    return Held(node.names, node.kinds, node.make([leaf.rows for leaf in leaves]))


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


def _node(plan: proto.Relation, leaves: Sequence[Leaf]) -> Node | str:
    """Returns a plan as a function of what it reads, or why it is none.

    The error itself would hold what the frames of its traceback do: all relations of a round.
    """
    try:
        return compiled(plan, leaves)
    except UnknownPlanError as error:
        return str(error)
