"""The exchange of missing messages between nodes of `ginger` (section 4.3), row by row, without an engine.

The broker is 1, below 0 and above 2; its client is 9, who has published all messages. 7 is a new child. The expected
rows are computed by hand from the algorithms.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.ginger.single import (
    NOW,
    ROUND,
    Got,
    Ran,
    around,
    bare,
    down,
    had,
    ids,
    kept,
    kinds,
    memory,
    message,
    messages,
    metadata,
    missing,
    mode,
    passed,
    pending,
    play,
    repair,
    sent,
    sub_tree,
    timers,
    view,
)

from udfs.ginger import messages as ms
from udfs.ginger.buffer import Departed, MissingSets
from udfs.ginger.records import (
    Awaited,
    ClientSubscription,
    Contact,
    Discarded,
    FailedBroker,
    Gap,
    Neighbour,
    Parked,
    Reported,
    TopicJoin,
)
from udfs.nodes.calls import JoinCall

TREE: list[Any] = [mode(), *around(0, (2,), (9,)), *sub_tree((0, 2), (9,))]
WITH_7: list[Any] = [mode(), *around(0, (2, 7), (9,)), *sub_tree((0, 2, 7), (9,)), Awaited(7)]


def asks_back(sender: int, told: MissingSets | None = None) -> Got:
    return Got(sender, ms.LostMessageRequest(told or missing()))


def answers(sender: int, told: MissingSets | None = None) -> Got:
    return Got(sender, ms.LostMessages(told or missing()))


def test_a_new_parent_takes_what_it_lacked_and_answers_with_what_the_child_lacks() -> None:
    """Alg. 12: 1 forwards message 2 to all neighbours but the child, and then sends the child message 1."""
    rows = play(1, WITH_7, had(5, passed(1)), asks_back(7, missing(passed(2), passed=ids(2), failed={6: 0})))
    assert sent(rows, "source_seq", "hops") == [
        ("Metadata", 0, 2, 5), ("Metadata", 2, 2, 5), ("Metadata", 9, 2, 5),
        ("Failed", 0, None, None), ("Failed", 2, None, None),
        ("LostMessages", 7, None, None),
    ]  # fmt: skip
    assert messages(rows, ms.LostMessages) == [
        ms.LostMessages(MissingSets([passed(1)], ids(1, 2), ids(), failed={6: 0}))
    ]
    assert (kept(rows, "awaited", "partner"), kept(rows, "failed", "failed"), repair(rows).dead) == ([], [6], {6})


def test_pending_messages_wait_for_a_child_that_came_back_and_count_it_if_it_is_a_client() -> None:
    """7 had acknowledged message 3, and must acknowledge it again. Client 8 subscribes to t, so it is covered."""
    waits = pending(message(3), acked={7})
    assert kept(play(1, WITH_7, waits, asks_back(7)), "pending", "acked", "covered") == [(set(), {1})]
    client = [*WITH_7[:-1], Neighbour(8, "client", 1), Awaited(8), ClientSubscription(8, ("t",))]
    rows = play(1, client, waits, asks_back(8))
    assert kept(rows, "pending", "acked", "covered") == [({7}, {1, 8})]
    assert ("client", 8) in kept(rows, "subscriber", "relationship", "neighbour")


def test_a_stranger_hears_that_it_is_no_neighbour_and_one_that_is_level_nothing() -> None:
    assert sent(play(1, WITH_7, asks_back(8))) == [("Disconnect", 8)]
    assert sent(play(1, TREE, asks_back(2))) == []


def test_messages_are_held_until_the_new_child_is_level() -> None:
    """Alg. 9: 1 holds application messages in order, handles repair messages, and drops messages of non-neighbours."""
    inbox = [Got(sender, metadata(message(seq, "causal"))) for sender, seq in ((2, 1), (9, 2), (6, 3))]
    rows = play(1, WITH_7, inbox)
    assert (sent(rows), kept(rows, "hold", "source_seq", "sender")) == ([], [(1, 2), (2, 9)])
    released = play(1, rows, asks_back(7), round_=8)
    assert [(kind, seq) for kind, to, seq in sent(released, "source_seq") if to == 2] == [("Metadata", 2)]
    assert [(kind, seq) for kind, to, seq in sent(released, "source_seq") if to == 7] == [
        ("LostMessages", None), ("Metadata", 1), ("Metadata", 2),
    ]  # fmt: skip
    assert kept(released, "hold", "kind") == []


def test_all_kinds_of_messages_are_released_as_they_came() -> None:
    """The awaited child 7 fails. 1 processes message 4, forwards the news that 6 failed, and then handles message 3."""
    about = message(3), message(4)
    inbox = [
        Got(2, ms.TotalAck(*about[0], 1, (2,))), Got(0, ms.TotalProcessed(*about[1], 3)), Got(0, ms.Failed(6, True)),
    ]  # fmt: skip
    rows = play(1, WITH_7, pending(about[0], acked={7}), inbox)
    assert kept(rows, "hold", "kind", "hops", "covered") == [
        ("TotalAck", 1, (2,)), ("TotalProcessed", 3, None), ("Failed", None, None),
    ]  # fmt: skip
    released = play(1, rows, down(7), round_=8)
    told = [row for row in sent(released, "source_seq", "hops", "covered", "failed") if row[1] == 0]
    assert told == [("Failed", 0, None, None, None, 7), ("TotalAck", 0, 3, 3, (1, 2), None)]
    assert [(kind, to) for kind, to, failed in sent(released, "failed") if failed == 6] == [("Failed", 2)]
    assert [row for row in sent(released, "source_seq", "hops") if row[2] == 4] == [
        ("Metadata", 9, 4, 4), ("TotalProcessed", 2, 4, 4),
    ]  # fmt: skip


def test_a_message_that_was_held_still_tells_who_has_locked_its_keys() -> None:
    """2 and 20 below it have locked the keys. The awaited child 7 has failed."""
    rows = play(1, WITH_7, Got(2, metadata(message(3), 1, 2, 20)))
    assert kept(play(1, rows, down(7), round_=8), "pending", "covered", "hops") == [({1, 2, 9, 20}, 1)]


@pytest.mark.parametrize(("partner", "is_lost"), [(7, True), (2, False)])
def test_a_child_that_does_not_ask_in_time_has_failed(partner: int, is_lost: bool) -> None:
    """2 has sent its LostMessageRequest; 7 has not."""
    rows = play(1, WITH_7, Ran("child", partner))
    assert (7 in kept(rows, "neighbour", "neighbour"), kept(rows, "awaited", "partner")) == (
        not is_lost, [] if is_lost else [7],
    )  # fmt: skip
    assert 2 in kept(rows, "neighbour", "neighbour")


ORPHAN: list[Any] = [mode(), *around(4, (2,), (9,)), *sub_tree((4, 2), (9,))]


def test_an_orphan_tells_its_new_parent_what_that_lacks() -> None:
    """Alg. 11. A joining broker also gets the members of topics. The new parent gets pending messages again."""
    buffer = ms.ParentBuffer(missing(passed=ids(1), members={"t": {1, 2, 4}}))
    events = had(5, passed(1)), had(6, passed(2)), had(7, passed(3, "total", "processed"))
    rows = play(1, ORPHAN, *events, memory(is_level=False, dead={0}), FailedBroker(0), Got(4, buffer))
    (request,) = (m.told for m in messages(rows, ms.LostMessageRequest))
    assert [(event.what, event.message.source_seq) for event in request.events] == [("passed", 2), ("processed", 3)]
    assert (request.passed, request.processed) == (ids(1, 2, 3), ids(3))
    assert request.failed == {0: 0}
    assert kept(rows, "member", "topic", "members") == [("t", {1, 2, 4})]
    back = play(1, ORPHAN, memory(is_level=False, incarnations={0: 2}), FailedBroker(0), Got(4, buffer))
    assert [m.told.failed for m in messages(back, ms.LostMessageRequest)] == [{0: 1}]
    assert sent(play(1, ORPHAN, memory(is_level=False), Got(2, buffer))) == []


def test_an_orphan_is_level_with_the_missing_messages_and_lets_go_what_it_held() -> None:
    """Message 1 was missing and message 2 held. The news that 0 failed goes to all neighbours but its sender."""
    held = play(1, ORPHAN, memory(is_level=False), Got(9, metadata(message(2, "causal"), 1)))
    lost = missing(passed(1), failed={0: 0, 6: 0})
    rows = play(1, held, memory(incarnations={6: 1}), answers(4, lost), round_=8)
    assert sent(rows, "source_seq", "hops", "failed", "incarnation") == [
        ("Metadata", 2, 1, 5, None, None), ("Metadata", 9, 1, 5, None, None),
        ("Failed", 2, None, None, 0, 0), ("Failed", 2, None, None, 6, 0),
        ("Metadata", 2, 2, 2, None, None), ("Metadata", 4, 2, 2, None, None), ("Metadata", 9, 2, 2, None, None),
    ]  # fmt: skip
    assert (repair(rows).is_level, repair(rows).dead, kept(rows, "hold", "kind")) == (True, {0}, [])
    late = play(1, ORPHAN, memory(is_level=False), answers(2, lost))
    assert (sent(late), repair(late).is_level) == ([], False)


def test_a_missing_total_order_message_is_locked_or_processed_as_if_it_had_come() -> None:
    """The partner passed message 1 and processed message 2. 1 processed message 3 before."""
    events = [passed(1, "total"), passed(2, "total"), passed(2, "total", "processed"), passed(3, "total", "processed")]
    known = had(5, passed(3, "total", "processed"))
    rows = play(1, ORPHAN, known, memory(is_level=False), answers(4, missing(*events)))
    assert kept(rows, "pending", "source_seq", "came_from", "hops") == [(1, "above", 4)]
    assert [(kind, to, hops) for kind, to, seq, hops in sent(rows, "source_seq", "hops") if seq == 2] == [
        ("Metadata", 2, 5), ("Metadata", 9, 5), ("TotalProcessed", 2, 5),
    ]  # fmt: skip
    assert [seq for *_, seq in sent(rows, "source_seq") if seq == 3] == []


def test_a_message_of_which_only_the_id_is_left_is_asked_of_its_publisher() -> None:
    """4.3.2.3: 1 parks the answer and sends an Exception to its client, or to all neighbours for another client."""
    lost = answers(4, missing(bare(1), passed(2)))
    rows = play(1, ORPHAN, memory(is_level=False), lost)
    assert sent(rows, "source_seq", "rounds", "lacking") == [("Exception", 9, 1, 1, 1)]
    assert timers(rows) == {("gap", 0): 2 + 3 * 12}
    assert (kept(rows, "parked", "kind", "partner"), kept(rows, "gap", "status", "source_seq")) == (
        [("LostMessages", 4)], [("open", 1)],
    )  # fmt: skip
    assert (repair(rows).is_level, repair(rows).n_asked) == (False, 1)
    elsewhere = play(1, mode(), around(4, (2, 3)), sub_tree((4, 2)), memory(is_level=False), lost)
    assert sent(elsewhere, "lacking") == [("Exception", 2, 1), ("Exception", 3, 1), ("Exception", 4, 1)]
    edge = play(1, mode(), around(4, (), (9,)), sub_tree((4,), (9,)), memory(is_level=False), lost)
    assert sent(edge, "lacking") == [("Exception", 9, 1)]


PARKED: list[Any] = [
    *ORPHAN, Parked(4, "LostMessages", None, missing(bare(1), passed(2))), Gap(*bare(1).message, "open"),
    memory(is_level=False, n_asked=1),
]  # fmt: skip


def test_the_answer_is_handled_when_the_publisher_has_repeated_the_message() -> None:
    rows = play(1, PARKED, Got(9, ms.Repeat(*message(1, "causal"), 1)))
    assert [(kind, seq) for kind, to, seq in sent(rows, "source_seq") if to == 2] == [("Metadata", 1), ("Metadata", 2)]
    assert (kept(rows, "parked", "kind"), kept(rows, "gap", "status"), repair(rows).is_level) == ([], [], True)
    other = play(1, PARKED, Got(9, ms.Repeat(*message(6, "causal"), 1)))
    assert (sent(other), len(kept(other, "parked", "kind"))) == ([], 1)


def test_publishers_are_asked_again_and_after_fifty_times_the_message_is_lost() -> None:
    again = play(1, PARKED, Ran("gap"))
    assert (sent(again, "lacking"), repair(again).n_asked) == ([("Exception", 9, 1)], 2)
    assert timers(again) == {("gap", 0): 2 + 3 * 12}
    assert sent(play(1, ORPHAN, Ran("gap"))) == []
    for asked, is_over in ((49, False), (50, True)):
        rows = play(1, PARKED[:-1], memory(is_level=False, n_asked=asked), Ran("gap"))
        assert rows.ctx.statuses == (["MESSAGE_LOST"] if is_over else [])
        assert kept(rows, "gap", "status", "source_seq") == [("given_up" if is_over else "open", 1)]
        assert repair(rows).is_level == is_over


def test_nobody_is_asked_who_has_nobody_to_pass_the_message_on_to() -> None:
    """Without further receivers the id suffices. Awaited children request the message themselves."""
    lost = answers(4, missing(bare(1)))
    rows = play(1, mode(), around(4), sub_tree((4,)), memory(is_level=False), lost)
    assert sent(rows) == []
    assert kept(rows, "metadata_buffer", "source_seq", "guarantee", "hops") == [(1, "", 4)]
    assert sent(play(1, mode(), around(4, (7,)), sub_tree((4, 7)), memory(is_level=False), Awaited(7), lost)) == []


def test_a_message_is_asked_for_on_behalf_of_a_child_that_has_been_answered_and_is_still_waited_for() -> None:
    """7 has sent message 1 without its body, so its request is parked, although it has the ids of 1.

    4 sends message 2 without body later; the Exception comes from 1 alone.
    """
    tree = [mode(), *around(4, (7,)), *sub_tree((4, 7)), Awaited(7), memory(is_level=False)]
    first = play(1, tree, asks_back(7, missing(bare(1))))
    assert sent(first, "source_seq") == [("Exception", 4, 1), ("Exception", 7, 1), ("LostMessages", 7, None)]
    rows = play(1, first, answers(4, missing(bare(2))), round_=8)
    assert [row for row in sent(rows, "source_seq") if row[1] == 4] == [("Exception", 4, 1), ("Exception", 4, 2)]
    assert (kept(rows, "parked", "partner"), repair(rows).is_level) == ([4, 7], False)


def test_an_exception_goes_to_the_publisher_and_a_repeat_to_who_lacks_the_message() -> None:
    about = message(1)
    assert sent(play(1, TREE, Got(0, ms.Lacking(*about, 5))), "lacking") == [("Exception", 9, 5)]
    other = ms.Lacking(*message(1, source=8), 5)
    assert sent(play(1, TREE, Got(0, other)), "lacking") == [("Exception", 2, 5)]
    assert sent(play(1, TREE, Got(2, ms.Repeat(*about, 9))), "lacking") == [("Repeat", 9, 9)]
    assert sent(play(1, TREE, Got(2, ms.Repeat(*about, 5))), "lacking") == [("Repeat", 0, 5)]


def test_a_broker_that_joins_the_sub_tree_of_a_topic_asks_all_its_neighbours() -> None:
    """2 sends JoinTopic for u to 1, which is outside. 1 forwards it to 0, and answers after 0. No broker is inside."""
    rows = play(1, TREE, Got(2, ms.JoinTopic("u")))
    assert sent(rows, "topic", "rounds") == [("JoinTopic", 0, "u", 2)]
    assert kept(rows, "topic_join", "topic", "is_open", "is_own", "askers", "waiting") == [("u", True, False, [2], [0])]
    over = play(1, rows, Got(0, ms.TopicJoined("u", None)), round_=8)
    assert sent(over, "topic", "told") == [("TopicJoined", 2, "u", None)]
    assert kept(over, "topic_join", "topic", "is_open", "is_joined") == [("u", False, False)]
    assert sent(play(1, TREE, Got(6, ms.JoinTopic("u")))) == []


def test_a_broker_in_the_sub_tree_admits_its_neighbour_and_reports_its_messages() -> None:
    tree = [mode(), *around(0, (2, 3)), *sub_tree((2,))]
    rows = play(1, tree, had(5, passed(1)), Got(3, ms.JoinTopic("t")))
    assert sent(rows, "topic") == [("TopicJoined", 3, "t"), ("Current", 3, "t")]
    (answer,) = (m.told for m in messages(rows, ms.TopicJoined))
    assert (answer.events, answer.passed) == ([passed(1)], ids(1))
    assert kept(rows, "subscriber", "neighbour") == [2, 3]
    later = play(1, tree, memory(is_level=False), Got(3, ms.JoinTopic("t")))
    assert (sent(later), kept(later, "postponed", "sender", "topic")) == ([], [(3, "t")])


def test_a_broker_answers_a_search_while_it_awaits_messages_of_a_publisher() -> None:
    """Rule G30: the answer of parent 0 has only the id of message 1. 3 asks before this answer, and 7 after it."""
    tree = [mode(), *around(0, (2, 3, 7)), *sub_tree((0, 2)), memory(is_level=False)]
    rows = play(1, tree, Got(3, ms.JoinTopic("t")), answers(0, missing(bare(1), passed=ids(1))))
    assert kinds(rows) == ["Exception"] * 4 + ["TopicJoined", "Current"]
    later = play(1, rows, Got(7, ms.JoinTopic("t")), round_=8)
    assert (kinds(later), kept(later, "parked", "partner")) == (["TopicJoined", "Current"], [0])


def test_two_parts_of_a_sub_tree_give_each_other_what_they_lack() -> None:
    """0 is inside and adds 1. Message 1 goes to 2, 0 gets message 2, and 1 accepts the waiting child."""
    tree = [mode(), *around(0, (2, 3)), *sub_tree((2,)), TopicJoin("t", False, True, True, [3], [0])]
    rows = play(1, tree, had(5, passed(2)), Got(0, ms.TopicJoined("t", missing(passed(1), passed=ids(1)))))
    assert sent(rows, "source_seq", "topic") == [
        ("Metadata", 2, 1, "t"), ("TopicJoined", 0, None, "t"), ("Current", 0, None, "t"),
        ("TopicJoined", 3, None, "t"), ("Current", 3, None, "t"),
    ]  # fmt: skip
    first, second = (m.told.events for m in messages(rows, ms.TopicJoined))
    assert first == [passed(2)]
    assert sorted(event.message.source_seq for event in second) == [1, 2]
    assert kept(rows, "subscriber", "neighbour") == [0, 2, 3]
    assert kept(rows, "topic_join", "is_joined", "is_open") == [(True, False)]


COLLECTS: list[Any] = [
    mode(collect_every=1), *around(0, (2,), (9,)), *sub_tree((0, 2), (9,), [0, 1, 2, 9]),
    had(5, passed(1)), had(6, passed(2)),
]  # fmt: skip


def received(sender: int, last: int, *covered: int) -> Got:
    """Returns the report that a node and all nodes below it have received the messages up to a number."""
    return Got(sender, ms.Received("t", covered, {9: [[1, last]]}))


def test_a_broker_tells_its_parent_what_all_below_it_have_had() -> None:
    """2 has received both messages, 9 only the first. The parent gets the next report after one message more."""
    assert sent(play(1, COLLECTS, received(2, 2, 2, 20))) == []
    both = play(1, COLLECTS, received(2, 2, 2, 20), received(9, 1, 9))
    assert sent(both, "topic", "runs", "covered", "rounds") == [("Received", 0, "t", {9: [[1, 1]]}, (1, 2, 9, 20), 2)]
    assert kept(both, "reported", "topic", "n_messages") == [("t", 1)]
    assert sent(play(1, both, received(9, 1, 9), round_=8)) == []
    assert sent(play(1, both, received(9, 2, 9), round_=8), "runs") == [("Received", 0, {9: [[1, 2]]})]


def test_the_topics_root_forgets_what_all_members_have_had_and_says_so() -> None:
    root = [mode(collect_every=1), *around(None, (2,), (9,)), *sub_tree((2,), (9,), [1, 2, 9, 20]), *COLLECTS[-2:]]
    rows = play(1, root, received(2, 2, 2, 20), received(9, 1, 9))
    assert sent(rows, "topic", "runs") == [("Collect", 2, "t", {9: [[1, 1]]}), ("Collect", 9, "t", {9: [[1, 1]]})]
    assert kept(rows, "discarded", "left", "collected", "position") == [([], {9: [[1, 1]]}, 5)]
    assert kept(rows, "metadata_buffer", "position") == [6]
    assert sent(play(1, root, received(2, 2, 2), received(9, 1, 9))) == []


def test_what_everybody_has_had_is_forgotten_below_and_pending_messages_are_over() -> None:
    """A broker accepts Collect from its parent only."""
    collect = ms.Collect("t", {9: [[1, 1]]})
    rows = play(1, COLLECTS, pending(message(1), sent={1}), Reported("t", 2), Got(0, collect))
    assert kept(rows, "pending", "source_seq") == []
    assert [to for kind, to in sent(rows) if kind == "Collect"] == [2, 9]
    assert kept(rows, "reported", "n_messages") == [1]
    assert sent(play(1, COLLECTS, Got(2, collect))) == []


def test_what_everybody_has_had_is_over_for_who_has_not_had_it() -> None:
    """1 joined the sub-tree late and has received neither message. It forwards no copy that arrives after Collect."""
    rows = play(1, TREE, Got(0, ms.Collect("t", {9: [[1, 2]]})))
    assert sent(rows) == []
    copies = [Got(0, metadata(message(seq, "causal"))) for seq in (2, 3)]
    assert sent(play(1, rows, copies, round_=8), "source_seq") == [("Metadata", 2, 3), ("Metadata", 9, 3)]


def test_what_a_new_parent_knows_that_everybody_has_had_is_forgotten_here_too() -> None:
    buffer = ms.ParentBuffer(missing(passed=ids(2), collected={"t": {9: [[1, 1]]}}))
    rows = play(1, ORPHAN, had(5, passed(1)), had(6, passed(2)), memory(is_level=False), Got(4, buffer))
    assert kept(rows, "metadata_buffer", "source_seq") == [2]
    assert kept(rows, "discarded", "left", "collected") == [([], {9: [[1, 1]]})]


CONTACTS = [Contact(0, 2, False), Contact(4, 5, False)]


def test_a_broker_that_comes_back_asks_the_nearest_and_tells_of_its_failure_itself() -> None:
    rows = play(1, CONTACTS, NOW)
    assert sent(rows, "rounds", "topics", "break_degree", "is_joining") == [("ParentRequest", 0, 2, (), False, True)]
    assert timers(rows) == {("parent", 0): 2 * 2 + 36}
    assert (rows.ctx.statuses, kept(rows, "failed", "failed")) == (["RECOVERING"], [1])
    assert kept(rows, "tree_view", "peer", "n_up", "n_down", "latency_rounds") == [(0, 0, 1, 2), (4, 0, 2, 5)]
    known = repair(rows)
    assert (known.is_new, known.is_level, known.is_root, known.is_mended) == (True, False, False, True)


def test_a_broker_that_joins_asks_its_join_point_before_it_handles_anything() -> None:
    """Rule G24: a broker answers no request before it joins."""
    request = Got(7, ms.ParentRequest((), break_degree=False))
    new = play(1, CONTACTS[:1], JoinCall(1, ROUND), request)
    assert (new.ctx.statuses, kept(new, "failed", "failed")) == (["JOINING"], [])
    assert sent(new) == [("ParentRequest", 0), ("ParentResponse", 7)]
    assert sent(play(1, CONTACTS[:1], memory(is_present=False), request)) == []


def test_a_broker_is_operational_when_it_is_level() -> None:
    tree = [mode(), *around(4), memory(is_level=False, is_joining=True, is_new=True, join_seq=1)]
    rows = play(1, tree, answers(4))
    assert (rows.ctx.statuses, rows.ctx.confirmed, repair(rows).is_joining) == (["OPERATIONAL"], [1], False)
    assert play(1, tree, Ran("parent")).ctx.statuses == []


def test_what_has_left_the_buffer_is_told_by_its_id() -> None:
    left = Discarded("t", 5, [Departed("passed", 9, 1, 3)], {})
    rows = play(1, ORPHAN, left, had(6, passed(3)), memory(is_level=False), Got(4, ms.ParentBuffer(missing())))
    (request,) = (m.told for m in messages(rows, ms.LostMessageRequest))
    assert [(one.message.source_seq, one.message.guarantee) for one in request.events] == [(1, ""), (3, "causal")]
    assert request.passed == ids(1, 3)


def test_a_message_that_is_there_is_not_asked_for() -> None:
    """Message 1 is in the buffer. Total-order message 3 is pending here."""
    known = [had(5, passed(1)), had(6, passed(3, "total")), pending(message(3)), memory(is_level=False)]
    rows = play(1, ORPHAN, known, answers(4, missing(bare(1), bare(3))))
    assert [kind for kind, _ in sent(rows) if kind == "Exception"] == []
    assert (repair(rows).is_level, kept(rows, "parked", "kind")) == (True, [])


def test_while_an_answer_is_put_aside_its_sender_is_not_taken_for_failed_and_if_it_fails_it_is_forgotten() -> None:
    rows = play(1, PARKED, memory(awaited=4), Ran("parent"))
    assert (sent(rows), len(kept(rows, "parked", "kind"))) == ([], 1)
    rows = play(1, PARKED, view(n6=(0, 2)), down(4, 5))
    assert (kept(rows, "parked", "kind"), kept(rows, "gap", "status")) == ([], [])
    assert sent(rows)[0] == ("ParentRequest", 6)


def test_a_neighbour_whose_answer_was_put_aside_is_in_the_sub_tree_when_the_publisher_has_repeated_the_message() -> (
    None
):
    """1 joins t for 3. 0 is inside, but has only the id of message 1. After Repeat 1 forwards it and accepts 3."""
    tree = [mode(), *around(0, (2, 3)), *sub_tree((2,)), TopicJoin("t", False, True, True, [3], [0])]
    rows = play(1, tree, Got(0, ms.TopicJoined("t", missing(bare(1), passed=ids(1)))))
    assert (kinds(rows), kept(rows, "parked", "kind", "topic")) == (["Exception"] * 3, [("TopicJoined", "t")])
    over = play(1, rows, Got(0, ms.Repeat(*message(1, "causal"), 1)), round_=8)
    assert sent(over, "topic", "source_seq") == [
        ("Metadata", 2, "t", 1), ("Current", 0, "t", None), ("TopicJoined", 3, "t", None), ("Current", 3, "t", None),
    ]  # fmt: skip
    assert kept(over, "subscriber", "topic", "neighbour") == [("t", 0), ("t", 2), ("t", 3)]


def test_what_a_parent_sent_is_dropped_when_it_fails_before_it_told_what_was_before_that() -> None:
    """Rule G23: message 2 of parent 4 may follow one that 1 lacks. Message 3 of a client and the news about 6 stay.

    In the second case 1 awaits 7 and lacks no message of 0, so messages of 0 stay.
    """
    inbox = [Got(4, metadata(message(2, "causal"))), Got(4, ms.Failed(6, True)), Got(9, metadata(message(3, "causal")))]
    held = play(1, ORPHAN, view(n5=(0, 2)), memory(is_level=False), inbox)
    rows = play(1, held, down(4), round_=8)
    assert kept(rows, "hold", "sender", "source_seq", "failed") == [(4, None, 6), (9, 3, None), (1, None, 4)]
    level = play(1, WITH_7, view(n5=(0, 2)), Got(0, metadata(message(2, "causal"))))
    rows = play(1, level, down(0), round_=8)
    assert kept(rows, "hold", "sender", "source_seq", "failed") == [(0, 2, None), (1, None, 0)]


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 0), (0, 0)])
def test_what_is_forgotten_has_not_been_told_any_more(before: int, after: int) -> None:
    """One of two reported messages is collected, so one remains reported. The number is never negative."""
    rows = play(1, COLLECTS, Reported("t", before), Got(0, ms.Collect("t", {9: [[1, 1]]})))
    assert kept(rows, "reported", "n_messages") == [after]
