"""Brokers of `ginger` that join the sub-trees of topics (section 4.2.3) and collect buffers (6.1), row by row.

The broker is 1, below 0 and above 2 and 3. Every case is worked out by hand.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.ginger.items import (
    around,
    got,
    had,
    kept,
    memory,
    message,
    mode,
    passed,
    play,
    remembered,
    sent,
    sub_tree,
    told,
)

from udfs.ginger.items import Item, with_message

BARE = [mode(), *around(0, (2, 3))]
ASKED: dict[str, Any] = {"askers": [2], "waiting": [0, 3], "is_own": False}


def question(sender: int, topic: str = "u") -> Item:
    return got(1, "JoinTopic", sender, topic=topic)


def answer(sender: int, *events: Any, **known: Any) -> Item:
    """A neighbour is in the sub-tree."""
    return told("TopicJoined", sender, *events, passed={"u": set()}, processed={"u": set()}, **known)._replace(
        topic="u"
    )


def test_a_second_neighbour_that_asks_is_answered_with_the_first() -> None:
    rows = play(1, BARE, memory(joins={"u": ASKED | {"waiting": [0]}}), question(3))
    assert (sent(rows), remembered(rows)["joins"]["u"]["askers"]) == ([], [2, 3])
    over = play(1, BARE, memory(**remembered(rows)), got(1, "TopicJoined", 0, topic="u"))
    assert sent(over, "details") == [("TopicJoined", 2, None), ("TopicJoined", 3, None)]


def test_answers_are_awaited_of_all_and_one_that_is_inside_is_enough() -> None:
    rows = play(1, BARE, memory(joins={"u": ASKED}), got(1, "TopicJoined", 0, topic="u"))
    assert (sent(rows), remembered(rows)["joins"]["u"]["waiting"]) == ([], [3])
    inside = play(1, BARE, memory(joins={"u": ASKED}), answer(0))
    assert [row[:2] for row in sent(inside)] == [("TopicJoined", 2)]
    assert kept(inside, "subscriber", "peer", "topic") == [(0, "u"), (2, "u")]
    assert sent(play(1, BARE, memory(joins={"u": ASKED}), answer(8))) == []


def test_two_that_look_for_the_same_sub_tree_make_it() -> None:
    """0 asks 1, which has asked 0: the two are connected; 1 joins for its own sake only if it wants to."""
    for is_own in (True, False):
        rows = play(1, BARE, memory(joins={"u": {"askers": [], "waiting": [0, 2], "is_own": is_own}}), question(0))
        assert kept(rows, "subscriber", "peer", "topic") == [(0, "u")]
        assert (sent(rows), remembered(rows)["joins"]) == ([], {})
        assert remembered(rows).get("joined", []) == (["u"] if is_own else [])


@pytest.mark.parametrize(
    ("known", "tree", "is_inside"),
    [
        ({"joined": ["u"]}, [], True),
        ({}, [Item("member", 0, topic="u", covered=[1, 5])], True),
        ({"is_new": True}, [Item("member", 0, topic="u", covered=[1, 5])], False),
        ({}, [Item("member", 0, topic="u", covered=[5])], False),
        ({"is_new": True}, sub_tree((3,), topic="u"), True),
        ({}, sub_tree((), (9,), topic="u"), True),
    ],
)
def test_a_broker_is_in_a_sub_tree_with_somebody_by_its_wish_or_from_the_start(
    known: dict[str, Any], tree: list[Item], is_inside: bool
) -> None:
    """A broker that came back is not in those any more that it was in at the start."""
    rows = play(1, BARE, tree, memory(**known), question(2))
    assert ([kind for kind, _ in sent(rows)] == ["TopicJoined"]) == is_inside


def test_a_parent_in_the_sub_tree_is_told_again_what_is_pending() -> None:
    pending = with_message("pending", 5, message(1, topic="u"), kind="below", hops=2, covered=[1], acked=[], sent=[1])
    rows = play(1, BARE, sub_tree((2,), topic="u"), pending._replace(acked=[2]), memory(), answer(0))
    assert [(kind, to) for kind, to, seq in sent(rows, "source_seq") if seq == 1] == [("Metadata", 0)]
    other = play(1, BARE, sub_tree((0, 2), topic="u"), pending._replace(acked=[2, 3]), memory(), answer(3))
    assert [(kind, to) for kind, to, seq in sent(other, "source_seq") if seq == 1] == []


def test_questions_that_came_meanwhile_are_answered_when_the_broker_is_level() -> None:
    """And then asked over the new connection, like all that was looked for."""
    orphan = [*BARE, *sub_tree((2,)), memory(is_level=False, later=[[2, "t"], [3, "t"]])]
    rows = play(1, orphan, told("LostMessages", 0))
    assert [row[:2] for row in sent(rows)] == [("TopicJoined", 2), ("TopicJoined", 3), ("JoinTopic", 0)]
    assert remembered(rows)["later"] == []
    assert sent(play(1, orphan, got(1, "TopicJoined", 3, topic="u"))) == []


def test_over_a_new_connection_it_looks_for_what_was_looked_for() -> None:
    """It is in t, where 7 is already, and in s; for u it asks all its neighbours."""
    tree = [mode(), *around(0, (2, 7)), *sub_tree((7,)), *sub_tree((2,), topic="s"), Item("await", 7, peer=7)]
    rows = play(1, tree, memory(sought=["t", "s", "u"]), told("LostMessageRequest", 7))
    assert [row for row in sent(rows, "topic") if row[0] == "JoinTopic"] == [
        ("JoinTopic", 7, "s"), ("JoinTopic", 0, "u"), ("JoinTopic", 2, "u"), ("JoinTopic", 7, "u"),
    ]  # fmt: skip
    assert remembered(rows)["joins"] == {"u": {"askers": [], "waiting": [0, 2, 7], "is_own": False}}


def test_a_neighbour_that_failed_answers_nothing_and_is_not_answered() -> None:
    down = got(1, "NeighborDown", 1, details="3", latency_rounds=6)
    rows = play(1, BARE, memory(joins={"u": ASKED | {"waiting": [3]}}), down)
    assert [row[:2] for row in sent(rows) if row[0] == "TopicJoined"] == [("TopicJoined", 2)]
    asked = play(1, BARE, memory(joins={"u": {"askers": [3, 2], "waiting": [0], "is_own": False}}), down)
    assert remembered(asked)["joins"]["u"] == {"askers": [2], "waiting": [0], "is_own": False}


def received(sender: int, last: int, *covered: int) -> Item:
    details = f'{{"9": [[1, {last}]]}}'
    return got(sender, "Received", sender, topic="t", details=details, covered=list(covered))


ROOT = [mode(collect_every=1), *around(None, (2,), (9,)), *sub_tree((2,), (9,), [1, 2, 9, 20])]
TWO = [had(5, passed(1, "total")), had(6, passed(2, "total"))]


def test_messages_that_are_pending_have_not_been_had_for_good() -> None:
    pending = with_message("pending", 7, message(2), kind="below", hops=2, covered=[1], acked=[], sent=[1])
    leaf = [mode(collect_every=1), *around(0, (2,), (9,)), *sub_tree((0, 2), (9,), [1, 2, 9])]
    rows = play(1, leaf, TWO, pending, memory(), received(2, 2, 2), received(9, 2, 9))
    assert [row for row in sent(rows, "details") if row[0] == "Received"] == [("Received", 0, '{"9": [[1, 1]]}')]


def test_members_that_failed_need_not_have_had_a_message() -> None:
    """20 is nowhere below; a client that only publishes hears of what is over, too."""
    publisher = Item("neighbour", 8, "client", 8, latency_rounds=1)
    own = with_message("history", 7, message(3, "causal", source=8), kind="passed", hops=1)
    said = [
        received(2, 2, 2)._replace(details='{"8": [[3, 3]]}'),
        received(9, 2, 9)._replace(details='{"8": [[3, 3]]}'),
    ]
    assert sent(play(1, ROOT, publisher, own, memory(), said)) == []
    rows = play(1, ROOT, publisher, own, memory(), Item("failed", 20, peer=20), said)
    assert sent(rows) == [("Collect", 2), ("Collect", 8), ("Collect", 9)]


def test_what_a_neighbour_that_failed_has_had_counts_no_more_and_all_is_told_anew() -> None:
    known = {"t": {"2": [[2], {"9": [[1, 1]]}], "9": [[9], {}]}}
    rows = play(
        1, ROOT, memory(received=known, told={"t": 1}), got(1, "NeighborDown", 1, details="2", latency_rounds=6)
    )
    assert (remembered(rows)["received"], remembered(rows)["told"]) == ({"t": {"9": [[9], {}]}}, {})


def test_failed_brokers_need_not_lock_and_the_news_goes_on_once() -> None:
    """20 would have had to lock message 1; 0 tells that it failed, and 2 tells it once more."""
    tree = [mode(), *around(None, (2, 3), (9,)), *sub_tree((2,), (9,), [1, 2, 9, 20])]
    pending = with_message("pending", 7, message(1), kind="below", hops=2, covered=[1, 2, 9], acked=[2], sent=None)
    news = got(1, "Failed", 3, details="[20, true]")
    rows = play(1, tree, pending, memory(), news)
    assert sent(rows, "details")[0] == ("Failed", 2, "[20, true]")
    assert ("Metadata", 9) in sent(rows)
    assert (remembered(rows)["dead"], kept(rows, "failed", "peer")) == ([20], [20])
    assert sent(play(1, tree, memory(), Item("failed", 20, peer=20), news)) == []
    back = play(1, tree, memory(), got(1, "Failed", 3, details="[20, false]"))
    assert (sent(back, "details"), remembered(back).get("dead", [])) == ([("Failed", 2, "[20, false]")], [])
