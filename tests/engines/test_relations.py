"""State relations between rounds: rows that rounds add are kept apart until writing them again costs too much."""

from __future__ import annotations

from types import SimpleNamespace

import pyarrow as pa
from pyspark.sql import DataFrame

from pipelines.contract.round import StateRelation
from pipelines.engines.checkpoints import DriverCheckpoints
from pipelines.engines.frames import frame_of
from pipelines.engines.session import Session
from pipelines.rounds.engine import Relations
from pipelines.tables import BIGINT, table

ITEM = table("item", "an item", "node_id,number", ("node_id", BIGINT, "the node"), ("number", BIGINT, "the item"))


def greatest(rows: DataFrame) -> DataFrame:
    return rows.groupBy("run_id", "node_id").agg({"number": "max"}).toDF("run_id", "node_id", "number")


class Played:
    """Relation ``item``, and rounds that change it."""

    def __init__(self, session: Session, relation: StateRelation) -> None:
        self._checkpoints = DriverCheckpoints(session)
        self.relations = Relations(SimpleNamespace(states=[relation]), self._checkpoints)  # type: ignore[arg-type]
        self.n_written: list[int] = []

    def rows(self, *numbers: int) -> DataFrame:
        items = {"run_id": [0] * len(numbers), "node_id": [1] * len(numbers), "number": [*numbers]}
        return frame_of(self._checkpoints.session.spark, pa.table(items))

    def play(self, *, state: DataFrame | None = None, added: DataFrame | None = None) -> None:
        parts = self.relations.parts(*({} if one is None else {"item": one} for one in (state, added)))
        result = self._checkpoints.checkpoint(parts)
        self.n_written.append(sum(sum(counts.values()) for counts in result.counts.values()))
        self.relations.take(result)

    @property
    def numbers(self) -> list[int]:
        return sorted(row.number for row in self.relations.frames()["item"].collect())


def test_a_round_writes_the_added_rows_and_at_times_the_whole_relation(sail: Session) -> None:
    one = Played(sail, StateRelation(ITEM, facts={"even": "number % 2 = 0"}))
    one.play(state=one.rows(*range(10)))
    for number in range(10, 17):
        one.play(added=one.rows(number))
        assert one.numbers == list(range(number + 1))
        assert one.relations.facts == {"item": {"even": number // 2 + 1}}
    # 1 + 2 + 3 + 4 + 5 added rows cost more than the 10 rows before.
    assert one.n_written == [10, 1, 2, 3, 4, 5, 16, 1]


def test_a_replaced_relation_has_no_added_rows(sail: Session) -> None:
    one = Played(sail, StateRelation(ITEM, facts={"even": "number % 2 = 0"}))
    one.play(state=one.rows(1, 2, 3))
    one.play(added=one.rows(4))
    one.play(state=one.rows(8))
    assert (one.numbers, one.relations.facts) == ([8], {"item": {"even": 1}})
    one.play(state=one.rows(2), added=one.rows(6))
    assert (one.numbers, one.relations.facts, len(one.relations.kept)) == ([2, 6], {"item": {"even": 2}}, 1)


def test_a_round_without_new_rows_changes_nothing(sail: Session) -> None:
    one = Played(sail, StateRelation(ITEM))
    one.play(state=one.rows(1))
    assert [*one.relations.to_write()] == ["state_item"]
    one.play(added=one.rows())
    assert (one.numbers, one.relations.to_write()) == ([1], {})


def test_stored_rows_are_compact(sail: Session) -> None:
    """A round may read added rows that are not merged; `StateRelation.compact` merges them for the store."""
    one = Played(sail, StateRelation(ITEM, compact=greatest))
    one.play(state=one.rows(5))
    one.play(added=one.rows(7))
    assert one.numbers == [5, 7]
    assert [row.number for row in one.relations.to_write()["state_item"].collect()] == [7]
    one.play(state=one.rows(3), added=one.rows(4))
    assert one.numbers == [4]
    for number in (9, 8, 11, 12, 13):
        one.play(added=one.rows(number))
    assert one.numbers[-1] == 13
    assert len(one.numbers) < 4
