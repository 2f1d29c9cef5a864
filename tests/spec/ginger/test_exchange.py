"""How nodes of `ginger` get and give missing messages (section 4.3), row by row, without an engine.

The broker is 1, below 0 and above 2; its client is 9, who has published all messages. 7 has just been taken in. Every
case is worked out by hand from the algorithms.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.ginger.items import (
    around,
    bare,
    bodies,
    got,
    had,
    kept,
    listed,
    memory,
    message,
    mode,
    passed,
    play,
    remembered,
    sent,
    sub_tree,
    told,
    view,
)

from udfs.ginger.items import Item, with_message

TREE = [mode(), *around(0, (2,), (9,)), *sub_tree((0, 2), (9,))]
WITH_7 = [mode(), *around(0, (2, 7), (9,)), *sub_tree((0, 2, 7), (9,)), Item("await", 7, peer=7)]


def timer(*what: Any, node: int = 1) -> Item:
    return got(1, "Timer", node, details=json.dumps(what))


def test_a_new_parent_takes_what_it_lacked_and_answers_with_what_the_child_lacks() -> None:
    """Alg. 12: message 2 goes on a hop farther to all but the child, which then gets 1, in that order."""
    request = told("LostMessageRequest", 7, passed(2), passed={"t": {(9, 2)}}, failed={6})
    rows = play(1, WITH_7, had(5, passed(1)), memory(), request)
    assert sent(rows, "source_seq", "hops") == [
        ("Metadata", 0, 2, 5), ("Metadata", 2, 2, 5), ("Metadata", 9, 2, 5),
        ("Failed", 0, None, None), ("Failed", 2, None, None),
        ("LostMessages", 7, None, None),
    ]  # fmt: skip
    assert bodies(rows, "LostMessages") == [
        {"events": [["passed", "t", 9, 1, "causal", ["k"], 1, 3]], "passed": listed(1, 2), "processed": listed(),
         "failed": [6]}
    ]  # fmt: skip
    assert (kept(rows, "await"), kept(rows, "failed", "peer"), remembered(rows)["dead"]) == ([], [6], [6])


def test_pending_messages_wait_for_a_child_that_came_back_and_count_it_if_it_is_a_client() -> None:
    """7 had acknowledged 3; it is asked once more. 8 subscribes to t, and has locked with its broker."""
    pending = with_message("pending", 5, message(3), kind="above", hops=2, covered=[1], acked=[7])
    rows = play(1, WITH_7, pending, memory(), told("LostMessageRequest", 7))
    assert kept(rows, "pending", "acked", "covered") == [([], [1])]
    client = [*WITH_7[:-1], Item("neighbour", 8, "client", 8, latency_rounds=1), Item("await", 8, peer=8)]
    rows = play(1, client, pending, memory(clients={"8": ["t"]}), told("LostMessageRequest", 8))
    assert kept(rows, "pending", "acked", "covered") == [([7], [1, 8])]
    assert ("client", 8) in kept(rows, "subscriber", "kind", "peer")


def test_a_stranger_hears_that_it_is_no_neighbour_and_one_that_is_level_nothing() -> None:
    rows = play(1, WITH_7, memory(), told("LostMessageRequest", 8))
    assert sent(rows, "details") == [("NeighborDown", 8, "1")]
    assert sent(play(1, TREE, memory(), told("LostMessageRequest", 2))) == []


def test_messages_are_held_until_the_new_child_is_level() -> None:
    """Alg. 9: application messages wait in their order, repair messages pass, those of strangers are dropped."""
    about = [message(k, "causal") for k in (1, 2, 3)]
    inbox = [got(1, "Metadata", 2, about[0]), got(2, "Metadata", 9, about[1]), got(3, "Metadata", 6, about[2])]
    rows = play(1, WITH_7, memory(), inbox)
    assert (sent(rows), kept(rows, "hold", "source_seq")) == ([], [1, 2])
    hold = [row for row in rows if row.relation == "hold"]
    released = play(1, WITH_7, hold, memory(), told("LostMessageRequest", 7))
    assert [(kind, seq) for kind, to, seq in sent(released, "source_seq") if to == 2] == [("Metadata", 2)]
    assert [(kind, seq) for kind, to, seq in sent(released, "source_seq") if to == 7] == [
        ("LostMessages", None), ("Metadata", 1), ("Metadata", 2),
    ]  # fmt: skip
    assert kept(released, "hold") == []


@pytest.mark.parametrize(("number", "is_lost"), [(3, True), (2, False)])
def test_a_child_that_does_not_ask_in_time_has_failed(number: int, is_lost: bool) -> None:
    rows = play(1, WITH_7, memory(taken={"7": 3}), timer("child", 7, number))
    assert (7 in kept(rows, "neighbour", "peer"), kept(rows, "await", "peer")) == (
        not is_lost,
        [] if is_lost else [7],
    )


ORPHAN = [mode(), *around(4, (2,), (9,)), *sub_tree((4, 2), (9,))]


def test_an_orphan_tells_its_new_parent_what_that_lacks() -> None:
    """Alg. 11; also who has to lock, where a broker joins. What it has sent to an earlier parent it sends again."""
    buffer = told("ParentBuffer", 4, passed={"t": {(9, 1)}}, members={"t": [1, 2, 4]})
    events = had(5, passed(1)), had(6, passed(2)), had(7, passed(3, "total", "processed"))
    rows = play(1, ORPHAN, *events, memory(is_level=False, dead=[0]), Item("failed", 0, peer=0), buffer)
    (request,) = bodies(rows, "LostMessageRequest")
    assert [(event[0], event[3]) for event in request["events"]] == [("passed", 2), ("processed", 3)]
    assert (request["passed"], request["processed"]) == (listed(1, 2, 3), listed(3))
    assert (request["failed"], "back" in request) == ([0], False)
    assert kept(rows, "member", "topic", "covered") == [("t", [1, 2, 4])]
    back = play(1, ORPHAN, memory(is_level=False), Item("failed", 0, peer=0), buffer)
    assert bodies(back, "LostMessageRequest")[0]["back"] == [0]
    assert sent(play(1, ORPHAN, memory(is_level=False), buffer._replace(peer=2))) == []


def test_an_orphan_is_level_with_the_missing_messages_and_lets_go_what_it_held() -> None:
    """Message 1 was missing, 2 held; the news that 0 failed goes away from who tells it."""
    held = with_message("hold", 5, message(2, "causal"), kind="Metadata", peer=9, hops=1)
    missing = told("LostMessages", 4, passed(1), failed={0, 6}, back={6})
    rows = play(1, ORPHAN, held, memory(is_level=False), missing)
    assert sent(rows, "source_seq", "hops", "details") == [
        ("Metadata", 2, 1, 5, None), ("Metadata", 9, 1, 5, None),
        ("Failed", 2, None, None, "[0, true]"), ("Failed", 2, None, None, "[6, false]"),
        ("Metadata", 2, 2, 2, None), ("Metadata", 4, 2, 2, None), ("Metadata", 9, 2, 2, None),
    ]  # fmt: skip
    assert (remembered(rows)["is_level"], remembered(rows)["dead"], kept(rows, "hold")) == (True, [0], [])
    late = play(1, ORPHAN, memory(is_level=False), missing._replace(peer=2))
    assert (sent(late), remembered(late)["is_level"]) == ([], False)


def test_a_missing_total_order_message_is_locked_or_processed_as_if_it_had_come() -> None:
    """1 passed at the partner and 2 was processed there; 3 was processed here before."""
    events = [passed(1, "total"), passed(2, "total"), passed(2, "total", "processed"), passed(3, "total", "processed")]
    known = had(5, passed(3, "total", "processed"))
    rows = play(1, ORPHAN, known, memory(is_level=False), told("LostMessages", 4, *events))
    assert kept(rows, "pending", "source_seq", "kind", "hops") == [(1, "above", 4)]
    assert [(kind, to, hops) for kind, to, seq, hops in sent(rows, "source_seq", "hops") if seq == 2] == [
        ("Metadata", 2, 5), ("Metadata", 9, 5), ("TotalProcessed", 2, 5),
    ]  # fmt: skip
    assert [seq for *_, seq in sent(rows, "source_seq") if seq == 3] == []


def test_a_message_of_which_only_the_id_is_left_is_asked_of_its_publisher() -> None:
    """4.3.2.3: the answer is put aside, and the client hears of it; or the tree, if it hangs elsewhere."""
    missing = told("LostMessages", 4, bare(1), passed(2))
    rows = play(1, ORPHAN, memory(is_level=False), missing)
    assert sent(rows, "source_seq", "latency_rounds", "details") == [
        ("Exception", 9, 1, 1, "1"), ("Timer", 1, None, 2 + 3 * 12, '["gap", 1, 1]'),
    ]  # fmt: skip
    assert (kept(rows, "parked", "kind", "peer"), kept(rows, "gap", "kind", "source_seq")) == (
        [("LostMessages", 4)], [("open", 1)],
    )  # fmt: skip
    assert remembered(rows)["is_level"] is False
    elsewhere = play(1, [mode(), *around(4, (2, 3)), *sub_tree((4, 2))], memory(is_level=False), missing)
    assert sent(elsewhere, "details")[:3] == [("Exception", 2, "1"), ("Exception", 3, "1"), ("Exception", 4, "1")]


PARKED = [
    *ORPHAN, told("LostMessages", 4, bare(1), passed(2))._replace(relation="parked", position=4),
    with_message("gap", 5, message(1).without_body(), kind="open"), memory(is_level=False, n_asked=1),
]  # fmt: skip


def test_the_answer_is_handled_when_the_publisher_has_repeated_the_message() -> None:
    rows = play(1, PARKED, got(1, "Repeat", 9, message(1, "causal"), details="1"))
    assert [(kind, seq) for kind, to, seq in sent(rows, "source_seq") if to == 2] == [("Metadata", 1), ("Metadata", 2)]
    assert (kept(rows, "parked"), kept(rows, "gap"), remembered(rows)["is_level"]) == ([], [], True)
    other = play(1, PARKED, got(1, "Repeat", 9, message(6, "causal"), details="1"))
    assert (sent(other), len(kept(other, "parked", "kind"))) == ([], 1)


def test_publishers_are_asked_again_and_after_fifty_times_the_message_is_lost() -> None:
    again = play(1, PARKED, timer("gap", 1, 1))
    assert sent(again, "details") == [("Exception", 9, "1"), ("Timer", 1, '["gap", 1, 2]')]
    assert sent(play(1, PARKED, timer("gap", 1, 2))) == []
    for asked, is_over in ((49, False), (50, True)):
        rows = play(1, [*PARKED[:-1], memory(is_level=False, n_asked=asked)], timer("gap", 1, asked))
        assert kept(rows, "status", "kind") == (["MESSAGE_LOST"] if is_over else [])
        assert kept(rows, "gap", "kind", "source_seq") == [("given_up" if is_over else "open", 1)]
        assert remembered(rows)["is_level"] == is_over


def test_nobody_is_asked_who_has_nobody_to_pass_the_message_on_to() -> None:
    """The id is enough then; children that are awaited ask for themselves."""
    alone = [mode(), *around(4), *sub_tree((4,)), memory(is_level=False)]
    rows = play(1, alone, told("LostMessages", 4, bare(1)))
    assert sent(rows) == []
    assert kept(rows, "history", "source_seq", "guarantee", "hops") == [(1, "", 4)]
    awaited = [mode(), *around(4, (7,)), *sub_tree((4, 7)), memory(is_level=False), Item("await", 7, peer=7)]
    assert sent(play(1, awaited, told("LostMessages", 4, bare(1)))) == []


def test_an_exception_goes_to_the_publisher_and_a_repeat_to_who_lacks_the_message() -> None:
    about = message(1)
    exception = got(1, "Exception", 0, about, details="5")
    assert sent(play(1, TREE, memory(), exception), "details") == [("Exception", 9, "5")]
    other = got(1, "Exception", 0, message(1, source=8), details="5")
    assert sent(play(1, TREE, memory(), other), "details") == [("Exception", 2, "5")]
    repeat = got(1, "Repeat", 2, about, details="9")
    assert sent(play(1, TREE, memory(), repeat), "details") == [("Repeat", 9, "9")]
    assert sent(play(1, TREE, memory(), repeat._replace(details="5")), "details") == [("Repeat", 0, "5")]


def test_whoever_joins_the_sub_tree_of_a_topic_asks_all_its_neighbours() -> None:
    """2 asks 1, which is not in sub-tree u: it asks 0, and answers when 0 has; both have found nobody."""
    rows = play(1, TREE, memory(), got(1, "JoinTopic", 2, topic="u"))
    assert sent(rows, "topic", "latency_rounds") == [("JoinTopic", 0, "u", 2)]
    assert remembered(rows)["joins"] == {"u": {"askers": [2], "waiting": [0], "is_own": False}}
    assert remembered(rows)["sought"] == ["u"]
    over = play(1, TREE, memory(**remembered(rows)), got(1, "TopicJoined", 0, topic="u"))
    assert sent(over, "topic", "details") == [("TopicJoined", 2, "u", None)]
    assert remembered(over)["joins"] == {}
    assert "joined" not in remembered(over)
    assert sent(play(1, TREE, memory(), got(1, "JoinTopic", 6, topic="u"))) == []


def test_whoever_is_in_the_sub_tree_lets_its_neighbour_in_and_tells_what_it_has_had() -> None:
    tree = [mode(), *around(0, (2, 3)), *sub_tree((2,))]
    rows = play(1, tree, had(5, passed(1)), memory(), got(1, "JoinTopic", 3, topic="t"))
    assert sent(rows, "topic") == [("TopicJoined", 3, "t")]
    (answer,) = bodies(rows, "TopicJoined")
    assert ([event[3] for event in answer["events"]], answer["passed"]) == ([1], listed(1))
    assert kept(rows, "subscriber", "peer") == [2, 3]
    later = play(1, tree, memory(is_level=False), got(1, "JoinTopic", 3, topic="t"))
    assert (sent(later), remembered(later)["later"]) == ([], [[3, "t"]])


def test_two_parts_of_a_sub_tree_give_each_other_what_they_lack() -> None:
    """0 lets 1 in: message 1 goes on to 2, and 0 is told of 2; whoever waits for 1 is let in then."""
    tree = [mode(), *around(0, (2, 3)), *sub_tree((2,))]
    joins = {"t": {"askers": [3], "waiting": [0], "is_own": True}}
    said = told("TopicJoined", 0, passed(1), passed={"t": {(9, 1)}})._replace(topic="t")
    rows = play(1, tree, had(5, passed(2)), memory(joins=joins), said)
    assert sent(rows, "source_seq", "topic") == [
        ("Metadata", 2, 1, "t"), ("TopicJoined", 0, None, "t"), ("TopicJoined", 3, None, "t"),
    ]  # fmt: skip
    first, second = bodies(rows, "TopicJoined")
    assert [event[3] for event in first["events"]] == [2]
    assert sorted(event[3] for event in second["events"]) == [1, 2]
    assert kept(rows, "subscriber", "peer") == [0, 2, 3]
    assert remembered(rows)["joined"] == ["t"]


COLLECTS = [
    mode(collect_every=1), *around(0, (2,), (9,)), *sub_tree((0, 2), (9,), [0, 1, 2, 9]),
    had(5, passed(1)), had(6, passed(2)),
]  # fmt: skip


def received(sender: int, last: int, *covered: int) -> Item:
    """A node and those below it have had all messages up to one."""
    return got(sender, "Received", sender, topic="t", details=json.dumps({"9": [[1, last]]}), covered=list(covered))


def test_a_broker_tells_its_parent_what_all_below_it_have_had() -> None:
    """2 has had both, 9 only the first; then it is told when there is one more."""
    one = play(1, COLLECTS, memory(), received(2, 2, 2, 20))
    assert sent(one) == []
    both = play(1, COLLECTS, memory(), received(2, 2, 2, 20), received(9, 1, 9))
    assert sent(both, "topic", "details", "covered", "latency_rounds") == [
        ("Received", 0, "t", '{"9": [[1, 1]]}', [1, 2, 9, 20], 2)
    ]
    known = remembered(both)
    assert known["told"] == {"t": 1}
    assert sent(play(1, COLLECTS, memory(**known), received(9, 1, 9))) == []
    assert sent(play(1, COLLECTS, memory(**known), received(9, 2, 9)), "details") == [
        ("Received", 0, '{"9": [[1, 2]]}')
    ]


def test_the_topics_root_forgets_what_all_members_have_had_and_says_so() -> None:
    root = [mode(collect_every=1), *around(None, (2,), (9,)), *sub_tree((2,), (9,), [1, 2, 9, 20]), *COLLECTS[-2:]]
    rows = play(1, root, memory(), received(2, 2, 2, 20), received(9, 1, 9))
    assert sent(rows, "topic", "details") == [
        ("Collect", 2, "t", '{"9": [[1, 1]]}'),
        ("Collect", 9, "t", '{"9": [[1, 1]]}'),
    ]
    (left,) = kept(rows, "discarded", "details", "position")
    assert left == ('{"collected": {"9": [[1, 1]]}, "left": []}', 5)
    assert kept(rows, "history", "kind", "position") == [("left", 5)]
    assert sent(play(1, root, memory(), received(2, 2, 2), received(9, 1, 9))) == []


def test_what_everybody_has_had_is_forgotten_below_and_pending_messages_are_over() -> None:
    """Collect comes from the parent only."""
    pending = with_message("pending", 7, message(1, "total"), kind="above", hops=2, covered=[1], acked=[], sent=[1])
    collect = got(1, "Collect", 0, topic="t", details='{"9": [[1, 1]]}')
    rows = play(1, COLLECTS, pending, memory(told={"t": 2}), collect)
    assert kept(rows, "pending") == []
    assert [to for kind, to in sent(rows) if kind == "Collect"] == [2, 9]
    assert remembered(rows)["told"] == {"t": 1}
    assert sent(play(1, COLLECTS, memory(), collect._replace(peer=2))) == []


JOIN = got(1, "Join", None, covered=[0, 4], acked=[2, 5], details="RECOVERING")


def test_a_broker_that_comes_back_asks_the_nearest_and_tells_of_its_failure_itself() -> None:
    """Its numbers are above those of an earlier life: 256 times the round."""
    rows = play(1, [mode()], JOIN)
    assert sent(rows, "latency_rounds", "details") == [
        ("ParentRequest", 0, 2, '{"subscribedTopics": [], "breakDegree": false, "isJoining": true}'),
        ("Timer", 1, 2 * 2 + 36, f'["parent", 0, {7 * 256 + 1}]'),
    ]  # fmt: skip
    assert (kept(rows, "status", "kind"), kept(rows, "failed", "peer")) == (["RECOVERING"], [1])
    assert kept(rows, "tree_view", "peer", "hops", "issued_round", "latency_rounds") == [(0, 0, 1, 2), (4, 0, 2, 5)]
    known = remembered(rows)
    assert (known["is_new"], known["is_level"], known["is_root"]) == (True, False, False)
    assert (known["election"], known["taken"]) == (7 * 256, {"1": 7 * 256})
    new = play(1, [mode()], JOIN._replace(details="JOINING"))
    assert (kept(new, "status", "kind"), kept(new, "failed")) == (["JOINING"], [])


def test_a_broker_is_operational_when_it_is_level() -> None:
    tree = [mode(), *around(4), memory(is_level=False, is_joining=True, is_new=True)]
    rows = play(1, tree, told("LostMessages", 4))
    assert (kept(rows, "status", "kind"), remembered(rows)["is_joining"]) == (["OPERATIONAL"], False)
    assert kept(play(1, tree, timer("again", 1, 9)), "status") == []


def test_what_has_left_the_buffer_is_not_read_back_into_it() -> None:
    """All up to position 5 has left; of what everybody has had nothing is told."""
    left = Item("discarded", 5, topic="t", details='{"left": [["passed", 9, 1, 3]], "collected": {}}')
    events = had(5, passed(2)), had(6, passed(3)), Item("history", 7, "left", topic="t")
    rows = play(1, ORPHAN, left, *events, memory(is_level=False), told("ParentBuffer", 4))
    (request,) = bodies(rows, "LostMessageRequest")
    assert [(event[3], event[4]) for event in request["events"]] == [(1, ""), (3, "causal")]
    assert request["passed"] == listed(1, 3)


def test_a_message_that_is_there_is_not_asked_for() -> None:
    """Message 1 is in the buffer, of 3 a total-order message is pending here."""
    pending = with_message("pending", 7, message(3, "total"), kind="above", hops=2, covered=[1], acked=[], sent=None)
    known = [had(5, passed(1)), had(6, passed(3, "total")), pending, memory(is_level=False)]
    rows = play(1, ORPHAN, *known, told("LostMessages", 4, bare(1), bare(3)))
    assert [kind for kind, _ in sent(rows) if kind == "Exception"] == []
    assert (remembered(rows)["is_level"], kept(rows, "parked")) == (True, [])


def test_while_an_answer_is_put_aside_its_sender_is_not_taken_for_failed_and_if_it_fails_it_is_forgotten() -> None:
    rows = play(1, PARKED, timer("parent", 4, 0))
    assert (sent(rows), len(kept(rows, "parked", "kind"))) == ([], 1)
    rows = play(1, PARKED, view(n6=(0, 2)), got(1, "NeighborDown", 1, details="4", latency_rounds=5))
    assert (kept(rows, "parked"), kept(rows, "gap")) == ([], [])
    assert sent(rows)[0] == ("ParentRequest", 6)


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 0), (0, 0)])
def test_what_is_forgotten_has_not_been_told_any_more(before: int, after: int) -> None:
    """It has had two messages, of which one is collected; it never told fewer than none."""
    collect = got(1, "Collect", 0, topic="t", details='{"9": [[1, 1]]}')
    assert remembered(play(1, COLLECTS, memory(told={"t": before}), collect))["told"] == {"t": after}
