"""Brokers of `ginger` that join the sub-trees of topics (section 4.2.3) and collect buffers (6.1), row by row.

The broker is 1, below 0 and above 2 and 3. The expected rows are computed by hand.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.ginger.single import (
    Got,
    around,
    down,
    had,
    kept,
    kinds,
    memory,
    message,
    missing,
    mode,
    passed,
    pending,
    play,
    repair,
    sent,
    sub_tree,
)

from udfs.ginger import messages as ms
from udfs.ginger.buffer import Event
from udfs.ginger.records import Awaited, FailedBroker, Member, Neighbour, Postponed, Receipt, Reported, TopicJoin

BARE: list[Any] = [mode(), *around(0, (2, 3))]


def search(askers: list[int], waiting: list[int], *, is_own: bool = False) -> TopicJoin:
    """Returns the row of an open search for the sub-tree of u."""
    return TopicJoin("u", False, True, is_own, askers, waiting)


def question(sender: int, topic: str = "u") -> Got:
    return Got(sender, ms.JoinTopic(topic))


def nothing(sender: int) -> Got:
    """Returns TopicJoined of a neighbour that has not found the sub-tree."""
    return Got(sender, ms.TopicJoined("u", None))


def answer(sender: int, *events: Event) -> Got:
    """Returns TopicJoined of a neighbour in the sub-tree."""
    return Got(sender, ms.TopicJoined("u", missing(*events, passed={"u": set()}, processed={"u": set()})))


def test_a_second_neighbour_that_asks_is_answered_with_the_first() -> None:
    """1 asks 2 for 3: 2 was not asked before, because it asked first, and may now be in the sub-tree."""
    rows = play(1, BARE, search([2], [0]), question(3))
    assert (sent(rows), kept(rows, "topic_join", "askers", "waiting")) == ([("JoinTopic", 2)], [([2, 3], [0, 2])])
    over = play(1, rows, nothing(0), nothing(2), round_=8)
    assert sent(over, "told") == [("TopicJoined", 2, None), ("TopicJoined", 3, None)]
    inside = play(1, rows, answer(2), round_=8)
    assert (kinds(inside), kept(inside, "subscriber", "neighbour")) == (["TopicJoined", "TopicJoined"], [2, 3])


def test_answers_are_awaited_of_all_and_one_that_is_inside_is_enough() -> None:
    rows = play(1, BARE, search([2], [0, 3]), nothing(0))
    assert (sent(rows), kept(rows, "topic_join", "waiting")) == ([], [[3]])
    inside = play(1, BARE, search([2], [0, 3]), answer(0))
    assert sent(inside) == [("TopicJoined", 2)]
    assert kept(inside, "subscriber", "neighbour", "topic") == [(0, "u"), (2, "u")]
    assert sent(play(1, BARE, search([2], [0, 3]), answer(8))) == []


def test_two_that_look_for_the_same_sub_tree_make_it() -> None:
    """0 asks 1, which has asked 0, so the two connect and exchange messages.

    1 itself joins only if it searches for itself.
    """
    for is_own in (True, False):
        rows = play(1, BARE, search([], [0, 2], is_own=is_own), question(0))
        assert kept(rows, "subscriber", "neighbour", "topic") == [(0, "u")]
        assert (sent(rows), kept(rows, "topic_join", "is_open", "is_joined")) == (
            [("TopicJoined", 0)],
            [(False, is_own)],
        )


@pytest.mark.parametrize(
    ("known", "tree", "is_inside"),
    [
        ({}, [TopicJoin("u", is_joined=True)], True),
        ({}, [TopicJoin("u")], False),
        ({}, [Member("u", {1, 5})], True),
        ({"is_new": True}, [Member("u", {1, 5})], False),
        ({}, [Member("u", {5})], False),
        ({"is_new": True}, sub_tree((3,), topic="u"), True),
        ({}, sub_tree((), (9,), topic="u"), True),
    ],
)
def test_a_broker_is_in_a_sub_tree_with_somebody_by_its_wish_or_from_the_start(
    known: dict[str, Any], tree: list[Any], is_inside: bool
) -> None:
    """A recovered broker has left the sub-trees of the start."""
    rows = play(1, BARE, tree, memory(**known), question(2))
    assert ([kind for kind in kinds(rows) if kind != "Current"] == ["TopicJoined"]) == is_inside


def test_a_parent_in_the_sub_tree_is_told_again_what_is_pending() -> None:
    about = message(1, topic="u")
    rows = play(1, BARE, sub_tree((2,), topic="u"), pending(about, "below", acked={2}, sent={1}), answer(0))
    assert [(kind, to) for kind, to, seq in sent(rows, "source_seq") if seq == 1] == [("Metadata", 0)]
    other = play(1, BARE, sub_tree((0, 2), topic="u"), pending(about, "below", acked={2, 3}, sent={1}), answer(3))
    assert [(kind, to) for kind, to, seq in sent(other, "source_seq") if seq == 1] == []


def test_postponed_questions_are_answered_when_the_broker_is_level() -> None:
    """1 answers, and repeats its open searches over the new connection."""
    orphan = [*BARE, *sub_tree((2,)), memory(is_level=False), Postponed(2, "t"), Postponed(3, "t")]
    rows = play(1, orphan, Got(0, ms.LostMessages(missing())))
    assert sent(rows) == [("TopicJoined", 2), ("TopicJoined", 3), ("Current", 3), ("JoinTopic", 0)]
    assert kept(rows, "postponed", "sender") == []
    assert sent(play(1, orphan, nothing(3))) == []


def test_over_a_new_connection_it_looks_for_what_was_looked_for() -> None:
    """1 is in the sub-trees of t, which includes 7, and of s. It sends JoinTopic for u to all its neighbours."""
    tree = [mode(), *around(0, (2, 7)), *sub_tree((7,)), *sub_tree((2,), topic="s"), Awaited(7)]
    sought = [TopicJoin(name) for name in "tsu"]
    rows = play(1, tree, sought, Got(7, ms.LostMessageRequest(missing())))
    assert [row for row in sent(rows, "topic") if row[0] == "JoinTopic"] == [
        ("JoinTopic", 7, "s"), ("JoinTopic", 0, "u"), ("JoinTopic", 2, "u"), ("JoinTopic", 7, "u"),
    ]  # fmt: skip
    assert kept(rows, "topic_join", "topic", "is_open", "is_own", "askers", "waiting") == [
        ("s", False, False, [], []), ("t", False, False, [], []), ("u", True, False, [], [0, 2, 7]),
    ]  # fmt: skip


def test_a_neighbour_that_failed_answers_nothing_and_is_not_answered() -> None:
    rows = play(1, BARE, search([2], [3]), down(3))
    assert [row for row in sent(rows) if row[0] == "TopicJoined"] == [("TopicJoined", 2)]
    asked = play(1, BARE, search([3, 2], [0]), down(3))
    assert kept(asked, "topic_join", "is_open", "askers", "waiting") == [(True, [2], [0])]


def received(sender: int, runs: dict[int, list[list[int]]]) -> Got:
    return Got(sender, ms.Received("t", (sender,), runs))


ROOT: list[Any] = [mode(collect_every=1), *around(None, (2,), (9,)), *sub_tree((2,), (9,), [1, 2, 9, 20])]
TWO = [had(5, passed(1, "total")), had(6, passed(2, "total"))]


def test_messages_that_are_pending_have_not_been_had_for_good() -> None:
    leaf = [mode(collect_every=1), *around(0, (2,), (9,)), *sub_tree((0, 2), (9,), [1, 2, 9])]
    both = [received(2, {9: [[1, 2]]}), received(9, {9: [[1, 2]]})]
    rows = play(1, leaf, TWO, pending(message(2), "below", sent={1}), both)
    assert [row for row in sent(rows, "runs") if row[0] == "Received"] == [("Received", 0, {9: [[1, 1]]})]


def test_members_that_failed_need_not_have_had_a_message() -> None:
    """Member 20 has failed and is not below. A client that only publishes gets Collect, too."""
    own = had(7, Event("passed", message(3, "causal", source=8), 1))
    said = [received(2, {8: [[3, 3]]}), received(9, {8: [[3, 3]]})]
    state = [*ROOT, Neighbour(8, "client", 1), own]
    assert sent(play(1, state, said)) == []
    assert sent(play(1, state, FailedBroker(20), said)) == [("Collect", 2), ("Collect", 8), ("Collect", 9)]


def test_messages_of_a_failed_neighbour_count_no_more_and_all_are_reported_again() -> None:
    known = Receipt("t", 2, (2,), {9: [[1, 1]]}), Receipt("t", 9, (9,), {})
    rows = play(1, ROOT, *known, Reported("t", 1), down(2))
    assert (kept(rows, "receipt", "sender"), kept(rows, "reported", "topic")) == ([9], [])


def test_failed_brokers_need_not_lock_and_the_news_goes_on_once() -> None:
    """Member 20 has not locked message 1. 0 and then 2 report its failure; 1 forwards the first report only."""
    tree = [mode(), *around(None, (2, 3), (9,)), *sub_tree((2,), (9,), [1, 2, 9, 20])]
    waits = pending(message(1), "below", covered={1, 2, 9}, acked={2})
    rows = play(1, tree, waits, Got(3, ms.Failed(20, 0)))
    assert sent(rows, "failed", "incarnation")[0] == ("Failed", 2, 20, 0)
    assert ("Metadata", 9) in sent(rows)
    assert (repair(rows).dead, kept(rows, "failed", "failed")) == ({20}, [20])
    assert sent(play(1, tree, FailedBroker(20), Got(3, ms.Failed(20, 0)))) == []
    back = play(1, tree, memory(incarnations={20: 1}), Got(3, ms.Failed(20, 0)))
    assert (sent(back, "failed", "incarnation"), repair(back).dead) == ([("Failed", 2, 20, 0)], set())
