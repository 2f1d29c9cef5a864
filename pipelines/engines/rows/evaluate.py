"""Frames of Spark Connect over few rows, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from time import thread_time
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame
from pyspark.sql.connect.proto import relations_pb2 as proto

from pipelines.engines.rows.held import Held
from pipelines.engines.rows.kinds import UnknownPlanError
from pipelines.engines.rows.operators import longest, most_rows
from pipelines.engines.rows.plans import Leaf, compiled
from pipelines.engines.rows.reading import reading, ready
from pipelines.engines.rows.source import Node

_MOST_PLANS: Final = 4000
_PLANS: Final[dict[tuple[bytes, tuple[Leaf, ...]], _Plan | str]] = {}
"""Plans, or why they are not known here, by their text and what they read."""
_FEW_ROWS: Final = 5000
"""So many rows are worked out here however long that takes."""
_FORGOTTEN: Final = 0.97
"""Of what was measured, each time it is held against a plan: the day may have been bad, and it is measured again."""
_MOVED_SECONDS: Final = 2e-6
"""CPU seconds for each row that an engine has written and that is read for a plan; as many to give it back to it."""
_INPUTS: Final = {"join": ("left", "right"), "set_op": ("left_input", "right_input")}
_ONE_INPUT: Final = ("input",)
_WITHOUT_INPUT: Final = frozenset(["local_relation", "read", "range"])


@dataclass
class _Plan:
    """A plan that rounds have worked out again and again.

    Attributes:
        node: What it does.
        pace: How many CPU seconds it took for each row that it read, when it last read many: where most of them are
            only looked up, many rows take less time here than an engine's plan.
        share: How many rows it returned for each of them, one at most.
    """

    node: Node
    pace: float = 0
    share: float = 0

    def held(self, leaves: Sequence[Held], n_rows: int, n_unread: int) -> Held:
        """Returns the rows of the plan.

        Args:
            leaves: What it reads.
            n_rows: How many rows that are.
            n_unread: How many of them are still to be read.

        Raises:
            UnknownPlanError: An engine takes less time for so many, by the pace.
        """
        n_moved = n_unread * (1 + self.share)
        if n_rows > _FEW_ROWS and self.pace * n_rows + _MOVED_SECONDS * n_moved > longest():
            self.pace, self.share = _FORGOTTEN * self.pace, _FORGOTTEN * self.share
            raise UnknownPlanError("many rows to work on")
        read = [leaf.rows for leaf in leaves]
        begin = thread_time()
        rows = self.node.make(read)
        if n_rows > _FEW_ROWS:
            self.pace, self.share = (thread_time() - begin) / n_rows, min(1, len(rows.rows) / n_rows)
        return Held(self.node.names, self.node.kinds, rows)


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
    with reading(may_wait=may_wait) as leaves:
        # To make a plan's message takes far longer than to look at what it reads.
        _n_rows(ready(frame._plan))
        plan = frame._plan.plan(frame._session.client)
    n_rows = _n_rows(leaves)
    _forget_numbers(plan)
    key = plan.SerializeToString(deterministic=True), tuple((leaf.names, leaf.kinds) for leaf in leaves)
    known = _PLANS.get(key)
    if known is None:
        if len(_PLANS) >= _MOST_PLANS:
            _PLANS.clear()
        known = _PLANS[key] = _plan(plan, key[1])
    if isinstance(known, str):
        raise UnknownPlanError(known)
    return known.held(leaves, n_rows, sum(leaf.n_unread for leaf in {*leaves}))


def is_here(frame: DataFrame) -> bool:
    """Returns whether the rows of a frame are worked out in this process."""
    try:
        evaluated(frame, may_wait=True)
    except UnknownPlanError:
        return False
    return True


def _n_rows(leaves: Iterable[Held]) -> int:
    """Returns how many rows a plan reads; a relation counts once, as an engine, too, reads it as often as it is named.

    Raises:
        UnknownPlanError: They are too many to be worked on here.
    """
    n_rows = sum(leaf.n_rows for leaf in {*leaves})
    if n_rows > most_rows():
        raise UnknownPlanError("many rows")
    return n_rows


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
