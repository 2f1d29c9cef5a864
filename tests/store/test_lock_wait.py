"""Views ``key_lock`` and ``lock_wait``: who holds a key item at a broker, and who waits for it (rule G1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import pipelines as rt
from pipelines.engines.session import Session

SCENARIO = """name: locks
protocol: {name: ginger}
overlay:
  links: [[B0, B1, 3], [B0, B2, 5], [B1, B3, 2]]
  clients: [{name: CA, at: B3}, {name: CB, at: B2}]
workload:
  subscriptions: [{at: CA, topic: t}, {at: CB, topic: t}]
  publications:
    - {at: CA, round: 100, topic: t, guarantee: total, keys: [x]}
    - {at: CA, round: 102, topic: t, guarantee: causal, keys: [x, y]}
    - {at: CA, round: 103, topic: t, guarantee: eventual, keys: [y]}
    - {at: CA, round: 104, topic: t, guarantee: total, keys: [y]}
    - {at: CB, round: 105, topic: t, guarantee: total, keys: [x]}
    - {at: CB, round: 108, topic: t, guarantee: causal, keys: [z]}
time: {rounds: HORIZON}
"""


@pytest.fixture(scope="module")
def result(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[rt.Result]:
    sail.activate()
    text = SCENARIO.replace("HORIZON", "500")
    with rt.run(text, spark=sail.spark, store=tmp_path_factory.mktemp("locks") / "store") as found:
        assert found.verdict == "valid"
        yield found


def locks(result: rt.Result, source: str, call: int) -> list[tuple[object, ...]]:
    columns = "name, key_item, number, locked_round, unlocked_round, lock_rounds"
    where = f"source_name = '{source}' and source_seq = {call}"
    return [tuple(row) for row in result.sql(f"select {columns} from key_lock where {where} order by name").collect()]


def waits(result: rt.Result, where: str) -> list[tuple[object, ...]]:
    columns = "name, key_item, source_name, source_seq, reason, holder_name, holder_seq, since_round, until_round"
    found = result.sql(
        f"select {columns} from lock_wait where {where} order by since_round, source_seq, holder_seq, name"
    )
    return [tuple(row) for row in found.collect()]


def test_a_lock_lasts_from_the_message_to_the_news_that_it_is_processed(result: rt.Result) -> None:
    """Down to B2 in 111, its TotalAck at B0 in 116, and the news at B1 in 119, at B3 and B2 in 121."""
    assert locks(result, "CA", 2) == [
        ("B0", "x", 1, 106, 116, 10), ("B1", "x", 1, 103, 119, 16), ("B2", "x", 1, 111, 121, 10),
        ("B3", "x", 1, 101, 121, 20),
    ]  # fmt: skip


def test_who_waits_for_whom(result: rt.Result) -> None:
    """Call 3 waits for two locks of x; with its key item y it keeps calls 4 and 5 back, and 4 keeps 5 back."""
    assert waits(result, "source_name = 'CA'") == [
        ("B3", "x", "CA", 3, "lock", "CA", 2, 103, 121),
        ("B3", "y", "CA", 4, "queue", "CA", 3, 104, 126),
        ("B3", "y", "CA", 5, "queue", "CA", 3, 105, 126),
        ("B3", "y", "CA", 5, "queue", "CA", 4, 105, 126),
        ("B3", "x", "CA", 3, "lock", "CB", 2, 116, 126),
    ]


def test_total_order_messages_wait_for_earlier_ones_on_the_key_item(result: rt.Result) -> None:
    """CB's call locks x at B2 in 106, at B0 in 111, at B1 in 114 and at B3 in 116; CA's is processed before it."""
    found = waits(result, "source_name = 'CB'")
    assert [row[:7] for row in found] == [(name, "x", "CB", 2, "order", "CA", 2) for name in ("B0", "B2", "B1", "B3")]
    assert [row[7:] for row in found] == [(111, 116), (111, 121), (114, 119), (116, 121)]


def test_a_key_item_that_nobody_locks_keeps_nobody_back(result: rt.Result) -> None:
    assert waits(result, "key_item = 'z'") == []


def test_what_is_locked_at_the_end_has_no_end(sail: Session, tmp_path: Path) -> None:
    sail.activate()
    with rt.run(SCENARIO.replace("HORIZON", "110"), spark=sail.spark, store=tmp_path / "store") as found:
        assert locks(found, "CA", 2)[-1] == ("B3", "x", 1, 101, None, None)
        assert waits(found, "reason = 'lock'") == [("B3", "x", "CA", 3, "lock", "CA", 2, 103, None)]
