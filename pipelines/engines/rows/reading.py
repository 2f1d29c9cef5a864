"""What plans read whose rows may be in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from threading import local

from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.plan import LogicalPlan
from pyspark.sql.connect.proto import relations_pb2 as proto

from pipelines.engines.rows.held import Held
from pipelines.engines.rows.plans import LEAF


class _Reading(local):
    """What the plan reads that this thread is about to work out."""

    is_on = False
    may_wait = False

    def __init__(self) -> None:
        self.leaves: list[Held] = []


_READING = _Reading()


def may_wait() -> bool:
    """Returns whether the plan waits for relations that are not there yet."""
    return _READING.may_wait


@contextmanager
def reading(*, may_wait: bool) -> Iterator[list[Held]]:
    """Collects what a plan reads; a plan within it is worked out by itself."""
    before = _READING.is_on, _READING.leaves, _READING.may_wait
    leaves: list[Held] = []
    _READING.is_on, _READING.leaves, _READING.may_wait = True, leaves, may_wait
    try:
        yield leaves
    finally:
        _READING.is_on, _READING.leaves, _READING.may_wait = before


class Source(LogicalPlan, ABC):
    """A part of a plan that stands for rows: those of this process while a plan is worked out here."""

    @property
    @abstractmethod
    def held(self) -> Held:
        """The rows.

        Raises:
            UnfinishedError: They are not there yet.
            UnknownPlanError: They are not in this process.
        """

    def ready(self) -> Held | None:
        """Returns the same, but for rows that are still to be worked out: None."""
        return self.held

    def sent(self, session: SparkConnectClient) -> proto.Relation:
        """Returns what an engine reads."""
        return super().plan(session)

    def plan(self, session: SparkConnectClient) -> proto.Relation:
        """Returns what is read: here, or by an engine."""
        if not _READING.is_on:
            return self.sent(session)
        leaves = _READING.leaves
        leaves.append(self.held)
        return proto.Relation(local_relation=proto.LocalRelation(schema=f"{LEAF}{len(leaves) - 1}"))


def ready(plan: LogicalPlan) -> Iterator[Held]:
    """Returns the rows that a plan reads, without those that are still to be worked out.

    Raises:
        UnfinishedError: See `Source.held`.
        UnknownPlanError: The same.
    """
    parts, seen = [plan], {id(plan)}
    while parts:
        part = parts.pop()
        if not isinstance(part, Source):
            inner = [value for value in vars(part).values() if isinstance(value, LogicalPlan) and id(value) not in seen]
            seen.update(map(id, inner))
            parts += inner
        elif (held := part.ready()) is not None:
            yield held
