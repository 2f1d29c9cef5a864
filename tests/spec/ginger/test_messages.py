"""What brokers and clients of `ginger` do with single messages (chapter 3), row by row, without an engine.

The broker is 1, below 0 and above 2 and 3; its clients are 8 and 9. Every case is worked out by hand.
"""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from support.ginger.items import ROUND, around, got, kept, memory, message, mode, play, sent, state, sub_tree

from udfs.ginger.bank import Accounts, replay
from udfs.ginger.items import Item

BROKER = [*around(0, (2, 3), (8, 9)), *sub_tree((0, 2, 3), (8, 9))]
"""All around it are in the sub-tree."""


def test_an_eventual_message_goes_a_hop_on_to_all_but_the_broker_that_brings_it() -> None:
    about = message(1, "eventual")
    rows = play(1, BROKER, got(1, "Metadata", 2, about, hops=3))
    assert sent(rows, "hops", "latency_rounds") == [
        ("Metadata", 0, 4, 2), ("Metadata", 3, 4, 1), ("Metadata", 8, 4, 1), ("Metadata", 9, 4, 1),
    ]  # fmt: skip
    assert [row.relation for row in rows] == ["out"] * 4
    assert {row.message for row in rows} == {about}


def test_the_client_that_brings_a_message_gets_it_back() -> None:
    rows = play(1, BROKER, got(1, "Metadata", 9, message(1, "causal"), hops=1))
    assert [to for _, to, _ in sent(rows, "hops")] == [0, 2, 3, 8, 9]


def test_rows_of_a_round_have_positions_above_those_of_the_last() -> None:
    rows = play(1, BROKER, got(1, "Metadata", 2, message(1, "eventual")))
    positions = [row.position for row in rows]
    assert positions == sorted(set(positions))
    assert {position >> 20 for position in positions} == {ROUND}


def test_a_total_order_message_from_a_client_locks_and_waits_for_both_children() -> None:
    """Then the parent gets it, with all that have locked its keys; news of more of them follow as TotalAck.

    Its positions in the queue and in the buffer come before that among the pending messages.
    """
    about = message(1)
    first = play(1, BROKER, got(1, "Metadata", 9, about, hops=1))
    assert sent(first, "hops") == [("Metadata", 2, 2), ("Metadata", 3, 2)]
    assert kept(first, "pending", "kind", "position", "hops", "covered", "acked", "sent") == [
        ("below", (ROUND << 20) + 3, 1, [1, 8, 9], [], None)
    ]
    second = play(1, BROKER, state(first), got(2, "TotalAck", 2, about, covered=[2, 20]), round_=8)
    assert sent(second) == []
    third = play(1, BROKER, state(second), got(3, "TotalAck", 3, about, covered=[3]), round_=9)
    assert sent(third, "hops", "covered") == [("Metadata", 0, 2, [1, 2, 3, 8, 9, 20])]
    assert kept(third, "pending", "acked", "sent") == [([2, 3], [1, 2, 3, 8, 9, 20])]
    again = play(1, BROKER, state(third), got(4, "TotalAck", 3, about, covered=[3, 30]), round_=10)
    assert sent(again, "hops", "covered") == [("TotalAck", 0, 2, [1, 2, 3, 8, 9, 20, 30])]
    same = play(1, BROKER, state(again), got(5, "TotalAck", 3, about, covered=[30]), round_=11)
    assert sent(same) == []


def test_what_the_parent_brings_it_is_told_and_never_sent() -> None:
    about = message(1)
    leaf = [*around(0, (), (9,)), *sub_tree((0,), (9,))]
    rows = play(1, leaf, got(1, "Metadata", 0, about, hops=4, covered=[0]))
    assert sent(rows, "hops", "covered") == [("TotalAck", 0, 5, [0, 1, 9])]
    assert kept(rows, "pending", "kind", "hops", "sent") == [("above", 4, [0, 1, 9])]


def test_a_parent_that_brings_what_came_from_below_has_got_it() -> None:
    """It is told anew what it had been told before; from a child the same message says nothing new."""
    about = message(1)
    leaf = [*around(0, (), (9,)), *sub_tree((0,), (9,))]
    first = play(1, leaf, got(1, "Metadata", 9, about, hops=1))
    assert sent(first) == [("Metadata", 0)]
    back = play(1, leaf, state(first), got(2, "Metadata", 0, about, hops=3), round_=8)
    assert sent(back, "hops", "covered") == [("TotalAck", 0, 2, [1, 9])]
    assert kept(back, "pending", "kind") == ["above"]
    other = play(1, [*around(0, (2,)), *sub_tree((0, 2))], state(first), got(2, "Metadata", 2, about), round_=8)
    assert sent(other) == []


def test_what_the_topics_root_has_processed_is_delivered_and_passed_on_a_hop_farther() -> None:
    about, later = message(1), message(2, "causal")
    pending = play(1, BROKER, got(1, "Metadata", 0, about, hops=2))
    waits = play(1, BROKER, state(pending), got(2, "Metadata", 9, later, hops=1), round_=8)
    assert kept(waits, "entry_queue", "source_seq", "peer", "hops", "position") == [(2, 9, 1, (8 << 20) + 1)]
    rows = play(1, BROKER, state(waits), got(3, "TotalProcessed", 0, about, hops=5), round_=9)
    assert sent(rows, "source_seq", "hops") == [
        ("Metadata", 8, 1, 6), ("Metadata", 9, 1, 6), ("TotalProcessed", 2, 1, 6), ("TotalProcessed", 3, 1, 6),
        *[("Metadata", node, 2, 2) for node in (0, 2, 3, 8, 9)],
    ]  # fmt: skip
    assert state(rows) == []


def test_the_topics_root_processes_when_all_members_have_locked() -> None:
    """0 is above, but not in the sub-tree; 20 is a member behind 2."""
    about = message(1)
    root = [*around(0, (2,), (9,)), *sub_tree((2,), (9,), [1, 2, 9, 20])]
    first = play(1, root, got(1, "Metadata", 9, about, hops=1))
    second = play(1, root, state(first), got(2, "TotalAck", 2, about, covered=[2]), round_=8)
    assert (sent(second), kept(second, "pending", "acked")) == ([], [[2]])
    third = play(1, root, state(second), got(3, "TotalAck", 2, about, covered=[20]), round_=9)
    assert sent(third, "hops") == [("Metadata", 9, 2), ("TotalProcessed", 2, 2)]
    assert kept(third, "pending") == []


def test_earlier_messages_on_the_keys_are_processed_first_others_do_not_wait() -> None:
    """At the topic's root, 2 comes behind 1 on key k, 3 has another key."""
    root = [*around(None, (2,)), *sub_tree((2,))]
    queue = [message(1), message(2, "total", "k", "l"), message(3, "total", "m")]
    first = play(1, root, [got(m.source_seq, "Metadata", 2, m, hops=2) for m in queue])
    assert [seq for _, _, seq in sent(first, "source_seq")] == [1, 2, 3]
    held = [got(m.source_seq, "Metadata", 9, m, hops=1) for m in queue]
    both = [*around(None, (2,), (9,)), *sub_tree((2,), (9,))]
    first = play(1, both, held)
    second = play(1, both, state(first), [got(5, "TotalAck", 2, m) for m in queue[1:]], round_=8)
    assert [seq for kind, to, seq in sent(second, "source_seq") if to == 2] == [3]


def test_the_parent_is_told_of_an_earlier_message_on_the_key_first() -> None:
    leaf = [*around(0, (2,)), *sub_tree((0, 2))]
    one, other, free = message(1), message(2), message(3, "total", "m")
    first = play(1, leaf, [got(m.source_seq, "Metadata", 0, m) for m in (one, other, free)])
    second = play(1, leaf, state(first), [got(5, "TotalAck", 2, m) for m in (other, free)], round_=8)
    assert sent(second, "source_seq") == [("TotalAck", 0, 3)]
    third = play(1, leaf, state(second), got(6, "TotalAck", 2, one), round_=9)
    assert sent(third, "source_seq") == [("TotalAck", 0, 1), ("TotalAck", 0, 2)]


def test_a_message_that_a_client_sends_again_waits_once() -> None:
    """2 waits behind 1; then it passes through another way, and when the key is unlocked 3 enters instead of it."""
    about, again, next_ = message(1), message(2, "causal"), message(3, "causal")
    first = play(1, BROKER, got(1, "Metadata", 0, about), got(2, "Metadata", 9, again), got(3, "Metadata", 9, again))
    assert kept(first, "entry_queue", "source_seq") == [2]
    second = play(1, BROKER, state(first), got(4, "Metadata", 9, next_), got(5, "Metadata", 2, again), round_=8)
    assert [to for kind, to, seq in sent(second, "source_seq") if seq == 2] == [0, 3, 8, 9]
    third = play(
        1, BROKER, state(second), Item("history", 0, "passed", topic="t", source=9, source_seq=2, guarantee="causal"),
        got(6, "TotalProcessed", 0, about), round_=9,
    )  # fmt: skip
    assert {seq for kind, to, seq in sent(third, "source_seq") if seq > 1} == {3}


def test_what_has_passed_or_was_processed_does_not_count_again() -> None:
    passed = Item("history", 1, "passed", topic="t", source=9, source_seq=1, guarantee="causal", keys=["k"])
    done = passed._replace(kind="processed", source_seq=2, guarantee="total")
    for sender in (2, 9):
        assert play(1, BROKER, passed, got(1, "Metadata", sender, message(1, "causal"))) == []
    assert play(1, BROKER, done, got(1, "Metadata", 2, message(2))) == []
    assert play(1, BROKER, done, got(1, "TotalProcessed", 0, message(2))) == []
    assert play(1, BROKER, got(1, "TotalAck", 2, message(3))) == []


CLIENT = [Item("neighbour", 0, "edge", 4, latency_rounds=3), Item("client_topic", 0, "subscribed", topic="t")]


def test_a_client_publishes_at_its_edge_broker() -> None:
    rows = play(9, CLIENT, got(1, "publish", None, message(1)))
    assert sent(rows, "hops", "latency_rounds", "source_seq") == [("Metadata", 4, 1, 3, 1)]
    assert [row.relation for row in rows] == ["out"]
    stored = play(9, CLIENT, mode(), got(1, "publish", None, message(1)))
    assert sent(stored, "hops") == [("Metadata", 4, 1)]
    assert kept(stored, "history", "kind", "source_seq") == [("published", 1)]


@pytest.mark.parametrize("state_", [[memory("client", is_level=False), *CLIENT], [memory("client"), *CLIENT[1:]]])
def test_without_a_broker_that_it_is_level_with_a_client_stores_what_it_publishes(state_: list[Item]) -> None:
    rows = play(9, state_, mode(), got(1, "publish", None, message(1)))
    assert sent(rows) == []
    assert kept(rows, "history", "kind") == ["published"]


def test_a_client_delivers_a_message_once_with_its_hops() -> None:
    rows = play(9, CLIENT, got(1, "Metadata", 4, message(1), hops=6), got(2, "Metadata", 4, message(1), hops=7))
    assert kept(rows, "delivered", "source_seq", "hops") == [(1, 6)]
    assert kept(rows, "history") == []


def test_where_nodes_may_crash_deliveries_stay_in_a_buffer() -> None:
    abouts = [message(1, "total"), message(2, "causal"), message(3, "total")]
    rows = play(9, CLIENT, mode(buffer_size=2), [got(m.source_seq, "Metadata", 4, m, hops=6) for m in abouts])
    assert kept(rows, "history", "kind", "source_seq", "hops") == [
        ("processed", 1, 0), ("passed", 2, 0), ("processed", 3, 0), ("left", None, None),
    ]  # fmt: skip
    (left,) = kept(rows, "discarded", "details")
    assert json.loads(left) == {"left": [["processed", 9, 1, 0]], "collected": {}}
    again = play(9, CLIENT, mode(), memory("client"), state(rows), got(4, "Metadata", 4, message(1)), round_=8)
    assert kept(again, "delivered") == []


def test_interest_is_paid_per_mille_and_a_withdrawal_takes_what_it_says() -> None:
    accounts = Accounts(1000)
    accounts.apply({"operation": "applyInterest", "account": "a", "interest": 5})
    assert accounts.of("a") == 1005
    assert not accounts.apply({"operation": "withdraw", "account": "a", "amount": 5})
    assert not accounts.apply({"operation": "withdraw", "account": "b", "amount": 1000})
    assert (accounts.of("a"), accounts.of("b")) == (1000, 0)


def test_a_replay_of_no_replicas_has_no_rows() -> None:
    (out,) = replay([pa.RecordBatch.from_pylist([], pa.schema([("run_id", pa.int64())]))])
    assert (out.num_rows, out.num_columns) == (0, 8)
