"""The pass over an entry queue, and messages that lock key items at a broker, without an engine."""

from __future__ import annotations

from typing import Any

import pytest
from support.ginger.single import (
    Got,
    ack,
    around,
    down,
    kept,
    memory,
    message,
    metadata,
    missing,
    mode,
    play,
    processed,
    sent,
    sub_tree,
)

from udfs.ginger import messages as ms
from udfs.ginger.buffer import Message, next_admitted
from udfs.ginger.records import Awaited, FailedBroker, Member, TopicJoin


def keys_of(text: str) -> tuple[str, ...]:
    return tuple(text.replace("-", "").split(","))


@pytest.mark.parametrize(
    ("queue", "locked", "admitted"),
    [
        ([], "", None),
        (["E a"], "", 0),
        (["E a"], "a", None),
        (["E a", "E b"], "a", 1),
        (["E a", "E a,b", "E b"], "a", None),
        (["T a"], "a", 0),
        (["E a", "T a"], "a", None),
        (["E a", "T b,c"], "a", 1),
        (["E a", "T a,b", "E b", "E c"], "a", 3),
        (["E -"], "a", 0),
    ],
)
def test_the_first_message_that_may_enter(queue: list[str], locked: str, admitted: int | None) -> None:
    """E waits for a locked key. E and T wait for a key of an earlier waiting message."""
    messages = [
        Message("t", 9, position, "total" if text[0] == "T" else "causal", keys_of(text[2:]), 1)
        for position, text in enumerate(queue)
    ]
    assert next_admitted(messages, set(filter(None, locked.split(",")))) == admitted


def tree(parent: int | None = None, children: tuple[int, ...] = (), clients: tuple[int, ...] = ()) -> list[Any]:
    """Returns the neighbours of broker 1, or of broker 0 without `parent`. All of them are in the sub-tree of t."""
    above = () if parent is None else (parent,)
    first = 0 if parent is None else 1
    return [*around(parent, children, clients), *sub_tree((*above, *children), clients, [first])]


def test_a_total_order_message_goes_down_then_up_then_all_around() -> None:
    """Figure 3.2 at an inner broker: the parent is 0, the children are 2 and 3, and child 2 sends the message."""
    about = message(1)
    first = play(1, tree(0, (2, 3), (9,)), Got(2, metadata(about, 1, 2, 20)))
    assert sent(first, "source_seq") == [("Metadata", 3, 1)]
    second = play(1, first, Got(3, ack(about, 3)), round_=8)
    assert sent(second, "source_seq", "covered") == [("Metadata", 0, 1, (1, 2, 3, 9, 20))]
    third = play(1, second, Got(0, processed(about)), round_=9)
    assert sent(third, "source_seq") == [("Metadata", 9, 1), ("TotalProcessed", 2, 1), ("TotalProcessed", 3, 1)]
    assert (kept(third, "pending", "source_seq"), kept(third, "entry_queue", "source_seq")) == ([], [])


def test_what_a_client_brings_waits_for_the_lock_and_what_a_broker_brings_does_not() -> None:
    about, entering, passing = message(1), message(2, "causal"), message(3, "causal")
    inbox = [Got(0, metadata(about)), Got(9, metadata(entering, 1)), Got(2, metadata(passing))]
    first = play(1, tree(0, (2,), (9,)), inbox)
    assert sent(first, "source_seq") == [("Metadata", 2, 1), ("Metadata", 0, 3), ("Metadata", 9, 3)]
    assert kept(first, "entry_queue", "source_seq") == [2]
    second = play(1, first, Got(2, ack(about)), Got(0, processed(about)), round_=8)
    assert sent(second, "source_seq") == [
        ("TotalAck", 0, 1),
        *[("Metadata", 9, 1), ("TotalProcessed", 2, 1)],
        *[("Metadata", 0, 2), ("Metadata", 2, 2), ("Metadata", 9, 2)],
    ]


def test_a_later_message_on_the_key_is_told_the_parent_after_the_earlier() -> None:
    one, other = message(1), message(2, "total", "k", "l")
    first = play(1, tree(0, (2,)), Got(0, metadata(one)), Got(0, metadata(other)))
    second = play(1, first, Got(2, ack(other)), round_=8)
    assert sent(second) == []
    third = play(1, second, Got(2, ack(one)), round_=9)
    assert sent(third, "source_seq") == [("TotalAck", 0, 1), ("TotalAck", 0, 2)]


def test_the_topics_root_processes_in_the_order_of_arrival() -> None:
    one, other, free = message(1), message(2), message(3, "total", "m")
    first = play(0, tree(None, (2, 3)), [Got(2, metadata(m, 1)) for m in (one, other, free)])
    rows = play(0, first, [Got(3, ack(m)) for m in (other, free, one)], round_=8)
    assert [row for row in sent(rows, "source_seq") if row[1] == 2] == [
        ("TotalProcessed", 2, 3), ("TotalProcessed", 2, 1), ("TotalProcessed", 2, 2),
    ]  # fmt: skip


def test_what_enters_when_a_message_is_processed_has_no_other_processed_twice() -> None:
    """Message 1 has keys k and l. Message 2 (k) and messages 3 and 4 of client 9 (l) wait for it; 4 and 2 enter."""
    one, other = message(1, "total", "k", "l"), message(2)
    entering = message(3, "causal", "l"), message(4, "total", "l")
    brought = [Got(2, metadata(m, 1)) for m in (one, other)], [Got(9, metadata(m, 1)) for m in entering]
    first = play(0, tree(None, (2, 3), (9,)), *brought)
    rows = play(0, first, Got(3, ack(other)), Got(3, ack(one)), round_=8)
    assert [row for row in sent(rows, "source_seq") if row[1] != 2] == [
        ("Metadata", 9, 1), ("TotalProcessed", 3, 1),
        ("Metadata", 3, 3), ("Metadata", 9, 3),
        ("Metadata", 3, 4),
        ("Metadata", 9, 2), ("TotalProcessed", 3, 2),
    ]  # fmt: skip
    assert kept(rows, "pending", "source_seq") == [4]


def test_the_topics_root_watches_brokers_whose_locks_are_missing() -> None:
    """Rule G35: 2 has acknowledged for itself. Broker 7 has failed, and is no neighbour. Last, 2 is missing."""
    members = [*around(None, (2,), (9,)), *sub_tree((2,), (9,), [1, 2, 7, 9])]
    first = play(1, mode(), members, Got(2, metadata(message(1), 1, 2)))
    assert sorted(first.ctx.watched) == [2, 7]
    rows = play(1, first, down(7), round_=20)
    assert sent(rows) == [("Failed", 2), ("Metadata", 9), ("TotalProcessed", 2)]
    waits = play(1, mode(), members, Got(9, metadata(message(1))))
    assert sorted(waits.ctx.watched) == [2]


APART: list[Any] = [
    mode(), memory(is_new=True), *around(0, (3,), (9,)), *sub_tree((3,), (9,), [2, 9, 20]),
    TopicJoin("t", is_joined=True),
]  # fmt: skip
"""Broker 1 has recovered, and is not current. Broker 2 and client 20 are members, too."""


def test_a_broker_that_is_not_current_passes_no_message_of_a_client() -> None:
    """Rule G34: broker 0 has told 1 what it lacks, and then that it is current. 1 tells 3, which was no member, too."""
    first = play(1, APART, Got(9, metadata(message(1, "causal"))))
    second = play(1, first, Got(0, ms.TopicJoined("t", missing())), round_=8)
    assert (sent(first), sent(second), kept(second, "entry_queue", "source_seq")) == ([], [], [1])
    third = play(1, second, Got(0, ms.Current("t")), round_=16)
    assert sent(third) == [("Current", 3), ("Metadata", 0), ("Metadata", 3), ("Metadata", 9)]
    assert kept(third, "topic_join", "is_current") == [True]
    assert sent(play(1, third, Got(3, ms.Current("t")), round_=24)) == []


def test_a_broker_under_repair_holds_current_behind_earlier_messages() -> None:
    """Rule G34: message 2 of the broker that is current must pass before the message of client 9."""
    waits = [*APART, Awaited(3), Got(9, metadata(message(1, "causal"))), Got(0, metadata(message(2, "total")))]
    first = play(1, *waits, Got(0, ms.Current("t")))
    assert (sent(first), kept(first, "hold", "kind", "topic")[2]) == ([], ("Current", "t"))
    second = play(1, first, Got(3, ms.LostMessageRequest(missing())), round_=8)
    assert [seq for kind, to, seq in sent(second, "source_seq") if (kind, to) == ("Metadata", 3)] == [2]
    assert kept(second, "entry_queue", "source_seq") == [1]


def test_every_broker_is_current_when_all_first_brokers_have_failed() -> None:
    """Rule G34: broker 2 was the only broker of the sub-tree, and client 20 has not failed."""
    last = [*APART, Member("t", {2, 9, 20}, clients={9, 20}), Got(9, metadata(message(1, "causal")))]
    assert sent(play(1, *last)) == []
    assert ("Metadata", 9) in sent(play(1, *last, FailedBroker(2)))


def test_a_broker_without_a_neighbour_in_the_sub_tree_is_not_current() -> None:
    """Rule G34: broker 3 fails, so the messages of other brokers no longer arrive."""
    current = [*APART, TopicJoin("t", is_joined=True, is_current=True)]
    assert kept(play(1, current, down(3)), "topic_join", "is_current") == [False]
    assert kept(play(1, current, sub_tree((0,)), down(3)), "topic_join", "is_current") == [True]
