"""Single messages at brokers and clients of `ginger` (chapter 3), row by row, without an engine.

The broker is 1, below 0 and above 2 and 3; its clients are 8 and 9. The expected rows are computed by hand.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.ginger.single import (
    ROUND,
    Got,
    ack,
    around,
    had,
    kept,
    memory,
    message,
    metadata,
    mode,
    passed,
    play,
    processed,
    sent,
    sub_tree,
)

from udfs.ginger.bank import Accounts, replay
from udfs.ginger.buffer import Message
from udfs.ginger.records import ClientTopic, Neighbour
from udfs.nodes.calls import PublishCall

BROKER = [*around(0, (2, 3), (8, 9)), *sub_tree((0, 2, 3), (8, 9))]
"""All around it are in the sub-tree."""


def test_an_eventual_message_goes_a_hop_on_to_all_but_the_broker_that_brings_it() -> None:
    about = message(1, "eventual")
    rows = play(1, BROKER, Got(2, metadata(about, 3)))
    assert sent(rows, "hops", "rounds") == [
        ("Metadata", 0, 4, 2), ("Metadata", 3, 4, 1), ("Metadata", 8, 4, 1), ("Metadata", 9, 4, 1),
    ]  # fmt: skip
    assert {message.message for _, message, _ in rows.ctx.sent} == {about}
    assert [kept(rows, name, "source_seq") for name in ("metadata_buffer", "pending", "entry_queue")] == [[], [], []]


def test_the_client_that_brings_a_message_gets_it_back() -> None:
    rows = play(1, BROKER, Got(9, metadata(message(1, "causal"), 1)))
    assert [to for _, to in sent(rows)] == [0, 2, 3, 8, 9]


def test_positions_of_a_round_are_above_those_of_the_last() -> None:
    """The rows are a message in the queue, and two pending ones."""
    inbox = [Got(0, metadata(message(1))), Got(9, metadata(message(2, "causal"))), Got(0, metadata(message(3)))]
    rows = play(1, BROKER, *inbox)
    positions = [*kept(rows, "pending", "arrival"), *kept(rows, "entry_queue", "arrival")]
    assert sorted(positions) == [(ROUND << 20) + place for place in (1, 2, 3)]


def test_a_total_order_message_from_a_client_locks_and_waits_for_both_children() -> None:
    """The parent gets the message with the nodes that have locked its keys. News of more such nodes follow as TotalAck.

    The position in the queue precedes that among the pending messages.
    """
    about = message(1)
    first = play(1, BROKER, Got(9, metadata(about, 1)))
    assert sent(first, "hops") == [("Metadata", 2, 2), ("Metadata", 3, 2)]
    assert kept(first, "pending", "came_from", "arrival", "hops", "covered", "acked", "sent") == [
        ("below", (ROUND << 20) + 2, 1, {1, 8, 9}, set(), None)
    ]
    second = play(1, first, Got(2, ack(about, 2, 20)), round_=8)
    assert sent(second) == []
    third = play(1, second, Got(3, ack(about, 3)), round_=9)
    assert sent(third, "hops", "covered") == [("Metadata", 0, 2, (1, 2, 3, 8, 9, 20))]
    assert kept(third, "pending", "acked", "sent") == [({2, 3}, {1, 2, 3, 8, 9, 20})]
    again = play(1, third, Got(3, ack(about, 3, 30)), round_=10)
    assert sent(again, "hops", "covered") == [("TotalAck", 0, 2, (1, 2, 3, 8, 9, 20, 30))]
    same = play(1, again, Got(3, ack(about, 30)), round_=11)
    assert sent(same) == []


def test_what_the_parent_brings_it_is_told_and_never_sent() -> None:
    leaf = [*around(0, (), (9,)), *sub_tree((0,), (9,))]
    rows = play(1, leaf, Got(0, metadata(message(1), 4, 0)))
    assert sent(rows, "hops", "covered") == [("TotalAck", 0, 5, (0, 1, 9))]
    assert kept(rows, "pending", "came_from", "hops", "sent") == [("above", 4, {0, 1, 9})]


def test_a_parent_that_brings_what_came_from_below_has_got_it() -> None:
    """The parent gets TotalAck again. The message from a child changes nothing."""
    about = message(1)
    first = play(1, around(0, (), (9,)), sub_tree((0,), (9,)), Got(9, metadata(about, 1)))
    assert sent(first) == [("Metadata", 0)]
    back = play(1, first, Got(0, metadata(about, 3)), round_=8)
    assert sent(back, "hops", "covered") == [("TotalAck", 0, 2, (1, 9))]
    assert kept(back, "pending", "came_from") == ["above"]
    first = play(1, around(0, (2,)), sub_tree((0, 2)), Got(2, metadata(about, 1)))
    assert sent(first) == [("Metadata", 0)]
    assert sent(play(1, first, Got(2, metadata(about)), round_=8)) == []


def test_what_the_topics_root_has_processed_is_delivered_and_passed_on_a_hop_farther() -> None:
    about, later = message(1), message(2, "causal")
    pending = play(1, BROKER, Got(0, metadata(about, 2)))
    waits = play(1, pending, Got(9, metadata(later, 1)), round_=8)
    assert kept(waits, "entry_queue", "source_seq", "client", "hops", "arrival") == [(2, 9, 1, (8 << 20) + 1)]
    rows = play(1, waits, Got(0, processed(about, 5)), round_=9)
    assert sent(rows, "source_seq", "hops") == [
        ("Metadata", 8, 1, 6), ("Metadata", 9, 1, 6), ("TotalProcessed", 2, 1, 6), ("TotalProcessed", 3, 1, 6),
        *[("Metadata", node, 2, 2) for node in (0, 2, 3, 8, 9)],
    ]  # fmt: skip
    assert (kept(rows, "pending", "source_seq"), kept(rows, "entry_queue", "source_seq")) == ([], [])


def test_the_topics_root_processes_when_all_members_have_locked() -> None:
    """Parent 0 is outside the sub-tree. 20 is a member behind 2."""
    about = message(1)
    root = [*around(0, (2,), (9,)), *sub_tree((2,), (9,), [1, 2, 9, 20])]
    first = play(1, root, Got(9, metadata(about, 1)))
    second = play(1, first, Got(2, ack(about, 2)), round_=8)
    assert (sent(second), kept(second, "pending", "acked")) == ([], [{2}])
    third = play(1, second, Got(2, ack(about, 20)), round_=9)
    assert sent(third, "hops") == [("Metadata", 9, 2), ("TotalProcessed", 2, 2)]
    assert kept(third, "pending", "acked") == []


def test_earlier_messages_on_the_keys_are_processed_first_others_do_not_wait() -> None:
    """At the topic's root message 2 waits behind message 1 on key k. Message 3 has another key."""
    queue = [message(1), message(2, "total", "k", "l"), message(3, "total", "m")]
    first = play(1, around(None, (2,)), sub_tree((2,), members=[1]), [Got(2, metadata(m, 2)) for m in queue])
    assert [seq for _, _, seq in sent(first, "source_seq")] == [1, 2, 3]
    both = [*around(None, (2,), (9,)), *sub_tree((2,), (9,), [1])]
    first = play(1, both, [Got(9, metadata(m, 1)) for m in queue])
    second = play(1, first, [Got(2, ack(m)) for m in queue[1:]], round_=8)
    assert [seq for kind, to, seq in sent(second, "source_seq") if to == 2] == [3]


def test_the_parent_is_told_of_an_earlier_message_on_the_key_first() -> None:
    one, other, free = message(1), message(2), message(3, "total", "m")
    first = play(1, around(0, (2,)), sub_tree((0, 2)), [Got(0, metadata(m)) for m in (one, other, free)])
    second = play(1, first, [Got(2, ack(m)) for m in (other, free)], round_=8)
    assert sent(second, "source_seq") == [("TotalAck", 0, 3)]
    third = play(1, second, Got(2, ack(one)), round_=9)
    assert sent(third, "source_seq") == [("TotalAck", 0, 1), ("TotalAck", 0, 2)]


def test_a_message_that_a_client_sends_again_waits_once() -> None:
    """2 waits behind 1, and then arrives from a broker and passes. When the key is unlocked, 3 enters."""
    about, again, next_ = message(1), message(2, "causal"), message(3, "causal")
    brought = [Got(0, metadata(about)), Got(9, metadata(again)), Got(9, metadata(again))]
    first = play(1, BROKER, mode(), brought)
    assert kept(first, "entry_queue", "source_seq") == [2]
    second = play(1, first, Got(9, metadata(next_)), Got(2, metadata(again)), round_=8)
    assert [to for kind, to, seq in sent(second, "source_seq") if seq == 2] == [0, 3, 8, 9]
    third = play(1, second, Got(0, processed(about)), round_=9)
    assert {seq for kind, to, seq in sent(third, "source_seq") if seq > 1} == {3}


def test_a_message_that_a_client_sends_again_enters_once_and_never_if_it_has_passed() -> None:
    """2 waits behind 1, which is processed in the same round in the second case. 3 has passed, so it does not wait."""
    about, waiting, over = message(1), message(2, "causal"), message(3, "causal")
    brought = [Got(9, metadata(m)) for m in (waiting, waiting, over)]
    rows = play(1, BROKER, mode(), had(1, passed(3)), Got(0, metadata(about)), brought)
    assert kept(rows, "entry_queue", "source_seq") == [2]
    at_once = play(1, BROKER, mode(), Got(0, metadata(about)), brought[:2], Got(0, processed(about)))
    assert [to for kind, to, seq in sent(at_once, "source_seq") if seq == 2] == [0, 2, 3, 8, 9]


def test_what_has_passed_or_was_processed_does_not_count_again() -> None:
    known = [*BROKER, mode(), had(1, passed(1)), had(2, passed(2, "total", "processed"))]
    for sender in (2, 9):
        assert sent(play(1, known, Got(sender, metadata(message(1, "causal"))))) == []
    assert sent(play(1, known, Got(2, metadata(message(2))))) == []
    assert sent(play(1, known, Got(0, processed(message(2))))) == []
    assert sent(play(1, known, Got(2, ack(message(3))))) == []


CLIENT: list[Any] = [Neighbour(4, "edge", 3), ClientTopic("t", "subscribed")]


def publish(about: Message) -> PublishCall:
    return PublishCall(about.source_seq, ROUND, about.topic, guarantee=about.guarantee, keys=("l", "k"))


def test_a_client_publishes_at_its_edge_broker() -> None:
    rows = play(9, CLIENT, publish(message(1)))
    assert sent(rows, "hops", "rounds", "topic", "source_seq", "guarantee", "keys") == [
        ("Metadata", 4, 1, 3, "t", 1, "total", ("k", "l")),
    ]  # fmt: skip
    assert kept(rows, "metadata_buffer", "event") == []
    stored = play(9, CLIENT, mode(), publish(message(1)))
    assert sent(stored, "hops") == [("Metadata", 4, 1)]
    assert kept(stored, "metadata_buffer", "event", "source_seq") == [("published", 1)]


@pytest.mark.parametrize("state", [[memory(is_level=False), *CLIENT], [memory(role="client"), *CLIENT[1:]]])
def test_without_a_broker_that_it_is_level_with_a_client_stores_what_it_publishes(state: list[Any]) -> None:
    rows = play(9, state, mode(), publish(message(1)))
    assert sent(rows) == []
    assert kept(rows, "metadata_buffer", "event") == ["published"]


def test_a_client_delivers_a_message_once_with_its_hops() -> None:
    rows = play(9, CLIENT, mode(), Got(4, metadata(message(1), 6)), Got(4, metadata(message(1), 7)))
    assert rows.ctx.deliveries == [(9, 1, ROUND - 1, 6)]
    assert kept(rows, "delivered", "position", "source", "source_seq") == [((ROUND << 20) + 1, 9, 1)]


def test_where_nodes_may_crash_deliveries_stay_in_a_buffer() -> None:
    abouts = [message(1, "total"), message(2, "causal"), message(3, "total")]
    inbox = [Got(4, metadata(m, 6)) for m in abouts]
    assert kept(play(9, CLIENT, inbox), "metadata_buffer", "event") == []
    rows = play(9, CLIENT, mode(buffer_size=2), inbox)
    assert kept(rows, "metadata_buffer", "event", "source_seq", "hops") == [("passed", 2, 0), ("processed", 3, 0)]
    ((left, position),) = kept(rows, "discarded", "left", "position")
    assert (left, position) == ([("processed", 9, 1, 0)], (ROUND << 20) + 2)
    again = play(9, rows, Got(4, metadata(message(1))), round_=8)
    assert again.ctx.deliveries == []


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
