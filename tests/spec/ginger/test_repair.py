"""Nodes of `ginger` when neighbours fail, and brokers recover or join (chapter 4), row by row, without an engine.

The broker is 1, below 0 and above 2; its client is 9. It sees its grandparent 4 and its sibling 5, both four rounds
away. The expected rows are computed by hand from the algorithms.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.ginger.single import (
    ROUND,
    Got,
    Outcome,
    Ran,
    ack,
    around,
    asks,
    down,
    had,
    ids,
    kept,
    memory,
    message,
    messages,
    metadata,
    missing,
    mode,
    passed,
    paths,
    pending,
    play,
    processed,
    remembered,
    repair,
    sent,
    sub_tree,
    timers,
    view,
)

from udfs.ginger import messages as ms
from udfs.ginger.buffer import MissingSets
from udfs.ginger.records import Awaited, Coverage
from udfs.nodes.context import Watched

TREE: list[Any] = [mode(), *around(0, (2,), (9,)), *sub_tree((0, 2), (9,))]
SEES = view(n4=(0, 2), n5=(1, 1))
PATIENCE = 2 * 4 + 3 * 12
"""Rounds in which a node four rounds away has answered: there and back, and three times the timer."""


def test_a_child_that_fails_is_forgotten_and_the_news_goes_on() -> None:
    """Alg. 3: neighbours get Failed, and the children get the new view."""
    rows = play(1, TREE, around(None, (3,)), sub_tree((3,)), down(2))
    assert sent(rows, "failed", "incarnation") == [
        ("Failed", 0, 2, 0), ("Failed", 3, 2, 0),
        ("TreeViewUpdate", 3, None, None), ("TreeViewUpdate", 9, None, None),
    ]  # fmt: skip
    assert paths(rows) == [(3, [(0, 0, 1, 2)]), (9, [(0, 0, 1, 2), (3, 1, 0, 1)])]
    assert kept(rows, "neighbour", "relationship", "neighbour", "latency_rounds") == [
        ("parent", 0, 2), ("child", 3, 1), ("client", 9, 1),
    ]  # fmt: skip
    assert kept(rows, "subscriber", "relationship", "neighbour") == [("broker", 0), ("broker", 3), ("client", 9)]
    assert kept(rows, "failed", "failed") == [2]
    assert (repair(rows).dead, 2 in rows.ctx.watched) == ({2}, False)


@pytest.mark.parametrize(("rounds", "is_heard"), [(1, False), (0, True)])
def test_news_from_before_the_connection_is_stale(rounds: int, is_heard: bool) -> None:
    """1 accepted 7 in round 7. News that arrives in round 8 was sent in round 7 or earlier."""
    first = play(1, TREE, SEES, Got(7, asks()))
    assert 7 in kept(first, "neighbour", "neighbour")
    rows = play(1, first, down(7, 1 + rounds), round_=8)
    assert (7 not in kept(rows, "neighbour", "neighbour")) == is_heard


def test_a_child_that_fails_is_not_waited_for_and_its_acknowledgement_does_not_count() -> None:
    """The parent gets TotalAck when the only child without an acknowledgement fails."""
    about = message(1)
    wide = [mode(), *around(0, (2, 3)), *sub_tree((0, 2, 3))]
    first = play(1, wide, Got(0, metadata(about)), Got(3, ack(about, 3)))
    assert [kind for kind, to in sent(first) if to == 0] == []
    second = play(1, first, down(2), round_=8)
    assert [(kind, covered) for kind, to, covered in sent(second, "covered") if to == 0] == [
        ("Failed", None), ("TotalAck", (1, 3)),
    ]  # fmt: skip
    assert kept(play(1, first, down(3), round_=8), "pending", "acked") == [set()]


WIDE: list[Any] = [mode(), *around(0, (2, 3)), *sub_tree((0, 2, 3))]


def to_parent(rows: Outcome) -> list[tuple[int, ...]]:
    """Returns the nodes that have locked the key items, in the reports that broker 1 sends to parent 0."""
    return [covered for kind, to, covered in sent(rows, "covered") if (kind, to) == ("TotalAck", 0)]


def test_what_a_failed_child_has_reported_is_withdrawn() -> None:
    """Rule G33: 2 has reported itself, 5 and 20, of which 3 reports 5, too. A later report replaces an earlier one."""
    about = message(1)
    first = play(1, WIDE, Got(0, metadata(about)), Got(2, ack(about, 2, 5, 20)), Got(3, ack(about, 3, 5, 30)))
    assert to_parent(first) == [(1, 2, 3, 5, 20, 30)]
    assert kept(first, "coverage", "source_seq", "reported") == [(1, {2: {2, 5, 20}, 3: {3, 5, 30}})]
    second = play(1, first, down(2), round_=8)
    assert (to_parent(second), kept(second, "coverage", "reported")) == ([(1, 3, 5, 30)], [{3: {3, 5, 30}}])
    third = play(1, second, Got(3, ack(about, 3, 5)), round_=9)
    assert to_parent(third) == [(1, 3, 5)]
    last = play(1, third, down(3), round_=10)
    assert (to_parent(last), kept(last, "coverage", "reported")) == ([(1,)], [])
    assert kept(play(1, first, Got(0, processed(about)), round_=8), "coverage", "reported") == []


def test_a_client_that_has_come_here_has_locked_though_it_was_below_the_failed_child() -> None:
    about = message(1)
    client = [mode(), *around(0, (2,), (9,)), *sub_tree((0, 2), (9,))]
    rows = play(1, client, Got(0, metadata(about)), Got(2, ack(about, 1, 2, 9, 20)))
    assert kept(play(1, rows, down(2), round_=8), "pending", "covered") == [{1, 9}]


@pytest.mark.parametrize("sent_before", [{1, 2, 3, 20}, {1, 3}, None])
def test_a_withdrawal_does_not_wait_for_a_child_that_has_not_acknowledged(sent_before: set[int] | None) -> None:
    """Child 4 has not acknowledged. The parent hears of 2's failure if it has counted 2 and 20, and of nothing else."""
    waits = pending(message(1), covered={1, 2, 3, 20}, acked={2, 3}, sent=sent_before)
    reported = Coverage("t", 9, 1, {2: {2, 20}, 3: {3}})
    tree = [mode(), *around(0, (2, 3, 4)), *sub_tree((0, 2, 3, 4))]
    assert to_parent(play(1, tree, waits, reported, down(2))) == ([(1, 3)] if sent_before == {1, 2, 3, 20} else [])


def test_the_topics_root_waits_for_a_client_whose_edge_broker_has_failed() -> None:
    """Rule G33: client 20 was below 2, which fails. The root processes message 1 after 3 has reported 20."""
    tree = [mode(), memory(is_root=True), *around(None, (2, 3)), *sub_tree((2, 3), (), [1, 2, 3, 20, 30])]
    about = message(1)
    first = play(1, tree, Got(2, metadata(about, 1, 2, 20)), Got(3, ack(about, 3)))
    assert kept(first, "pending", "covered") == [{1, 2, 3, 20}]
    second = play(1, first, down(2), Got(3, ack(about, 3, 30)), round_=8)
    assert kept(second, "pending", "covered") == [{1, 3, 30}]
    third = play(1, second, Got(3, ack(about, 3, 20, 30)), round_=9)
    assert ("TotalProcessed", 3) in sent(third)
    assert kept(third, "coverage", "reported") == kept(third, "pending", "covered") == []


@pytest.mark.parametrize("came", [ack(message(1), 2, 20), metadata(message(1), 0, 2, 20)])
def test_what_a_child_has_reported_before_it_fails_does_not_count_later(came: Any) -> None:
    """1 awaits 7, so it holds the report of 2, which fails."""
    tree = [mode(), *around(0, (2, 7)), *sub_tree((0, 2, 7)), Awaited(7), pending(message(1))]
    rows = play(1, play(1, tree, Got(2, came)), down(2), round_=8)
    told = Got(7, ms.LostMessageRequest(MissingSets()))
    assert kept(play(1, rows, told, round_=9), "pending", "covered") == [{1}]


def test_an_orphan_asks_ancestors_then_siblings_and_holds_what_comes() -> None:
    """Alg. 4: the grandparent is first. The news waits behind messages of the parent that arrived earlier."""
    rows = play(1, TREE, SEES, down(0), Got(9, metadata(message(1, "causal"))), Got(7, metadata(message(2))))
    assert (sent(rows, "rounds"), messages(rows, ms.ParentRequest)) == ([("ParentRequest", 4, 4)], [asks()])
    assert timers(rows) == {("parent", 0): PATIENCE}
    assert kept(rows, "neighbour", "relationship", "neighbour") == [("child", 2), ("client", 9)]
    assert kept(rows, "tree_view", "relationship", "peer", "n_up", "n_down", "latency_rounds") == [
        ("ancestor", 4, 0, 2, 4), ("sibling", 5, 1, 1, 4),
    ]  # fmt: skip
    assert kept(rows, "hold", "kind", "sender", "failed", "source_seq") == [
        ("Failed", 1, 0, None), ("Metadata", 9, None, 1),
    ]  # fmt: skip
    known = repair(rows)
    assert (known.is_level, known.is_root, known.upward, known.dead) == (False, False, ["t"], {0})


ORPHAN: list[Any] = [mode(), *around(None, (2,), (9,)), *sub_tree((2,), (9,)), *SEES]
SEEKS: dict[str, Any] = {"is_level": False, "is_root": False, "upward": ["t"], "asked": 4, "awaited": 4}


def answered(answer: str, sender: int = 4, incarnation: int = 0, of_4: int = 0, **values: Any) -> Outcome:
    return play(1, ORPHAN, memory(**SEEKS | values), Got(sender, ms.ParentResponse(answer, incarnation, of_4)))


def test_a_broker_that_accepts_is_the_parent_in_all_sub_trees_of_the_old_one() -> None:
    rows = answered(ms.ACCEPTED, break_degree=True, n_passes=2, declined=[5])
    assert sent(rows) == []
    assert (rows.ctx.watched[4], rows.ctx.statuses) == (Watched(4, 4, ROUND), [])
    assert ("parent", 4) in kept(rows, "neighbour", "relationship", "neighbour")
    assert ("broker", 4) in kept(rows, "subscriber", "relationship", "neighbour")
    known = repair(rows)
    assert (known.asked, known.is_level, timers(rows)) == (None, False, {("parent", 0): PATIENCE})
    assert (known.break_degree, known.n_passes, known.declined) == (False, 0, [])


def test_a_broker_that_declines_is_not_asked_again_in_this_pass() -> None:
    """The sibling is next. An answer of a broker that was not asked has no effect."""
    rows = answered(ms.DECLINED)
    assert (sent(rows), messages(rows, ms.ParentRequest)) == ([("ParentRequest", 5)], [asks()])
    assert (repair(rows).declined, repair(rows).awaited, timers(rows)) == ([4], 5, {("parent", 0): PATIENCE})
    assert sent(answered(ms.DECLINED, 5)) == []
    assert repair(answered(ms.ACCEPTED, 5)).asked == 4


@pytest.mark.parametrize("answer", [ms.ACCEPTED, ms.DECLINED, ms.JOINING, ms.BACK])
def test_an_answer_to_another_incarnation_has_no_effect(answer: str) -> None:
    """Rule G28: broker 1 has not recovered, so its incarnation is 0."""
    rows = answered(answer, incarnation=1)
    assert (sent(rows), timers(rows), repair(rows).asked, repair(rows).is_promised) == ([], {}, 4, False)
    assert ("parent", 4) not in kept(rows, "neighbour", "relationship", "neighbour")


def test_who_accepts_another_incarnation_is_told_that_it_has_failed() -> None:
    """Rule G28: 1 asks 5 now. If 1 asked 4 again, its request would say so."""
    rows = answered(ms.ACCEPTED, incarnation=1, asked=5)
    assert (sent(rows), repair(rows).asked) == ([("Disconnect", 4)], 5)
    assert sent(answered(ms.DECLINED, incarnation=1, asked=5)) == []


def test_an_answer_names_the_incarnation_in_the_request() -> None:
    """Rule G28, for each answer: accepted, declined, joining, and that of a newcomer."""
    cases = [
        requested(7, incarnation=3), requested(7, topics=("u",), incarnation=3),
        requested(7, topics=("u",), break_degree=True, incarnation=3),
        requested(7, known={"is_joining": True, "is_level": False}, incarnation=3),
    ]  # fmt: skip
    found = [answer for rows in cases for answer in messages(rows, ms.ParentResponse)]
    assert found == [ms.ParentResponse(answer, 3) for answer in (ms.ACCEPTED, ms.DECLINED, ms.JOINING, ms.BACK)]


def test_a_node_that_is_no_neighbour_any_more_says_so() -> None:
    """Rule G28: 4 has forgotten that it is the parent of 1. Node 7 is no neighbour of 1, so 1 ignores it."""
    rows = play(1, mode(), around(4, (2,)), view(n5=(0, 2)), Got(4, ms.Disconnect()))
    assert ("ParentRequest", 5) in sent(rows)
    assert sent(play(1, mode(), around(4, (2,)), view(n5=(0, 2)), Got(7, ms.Disconnect()))) == []


def test_a_second_pass_breaks_degrees_and_after_it_comes_a_pause() -> None:
    second = answered(ms.DECLINED, 5, asked=5, declined=[4])
    assert (sent(second), messages(second, ms.ParentRequest)) == ([("ParentRequest", 4)], [asks(break_degree=True)])
    assert (repair(second).break_degree, repair(second).declined) == (True, [])
    pause = answered(ms.DECLINED, 5, asked=5, declined=[4], break_degree=True)
    assert (sent(pause), timers(pause)) == ([], {("parent", 0): 12})
    known = repair(pause)
    assert (known.n_passes, known.break_degree, known.declined, known.awaited) == (1, False, [], None)
    again = play(1, ORPHAN, remembered(pause), Ran("parent"))
    assert (sent(again), messages(again, ms.ParentRequest)) == ([("ParentRequest", 4)], [asks()])


@pytest.mark.parametrize(("passes", "is_over"), [(19, False), (20, True)])
def test_after_twenty_pauses_a_node_is_isolated(passes: int, is_over: bool) -> None:
    rows = answered(ms.DECLINED, 5, asked=5, declined=[4], break_degree=True, n_passes=passes)
    assert rows.ctx.statuses == (["ISOLATED"] if is_over else [])
    assert bool(timers(rows)) != is_over


def test_a_broker_that_knows_of_nobody_alive_is_the_root_of_what_is_left() -> None:
    """Rule G16: child and client stay, and get the news that 4, which did not answer, has failed."""
    rows = play(1, ORPHAN, memory(**SEEKS | {"dead": {5}}), Ran("parent"))
    assert paths(rows) == [(2, []), (9, [(2, 1, 0, 1)])]
    assert sent(rows, "failed")[2:] == [("Failed", 2, 4)]
    known = repair(rows)
    assert (rows.ctx.statuses, known.is_root, known.is_level, known.dead) == ([], True, True, {4, 5})


def test_a_broker_that_joins_sub_trees_first_is_asked_again() -> None:
    """Rule G25: 1 asks again after the time in which any other answer arrives."""
    rows = answered(ms.JOINING)
    assert (sent(rows), timers(rows)) == ([], {("parent", 0): PATIENCE})
    assert (repair(rows).asked, repair(rows).is_promised) == (4, True)
    again = play(1, ORPHAN, remembered(rows), Ran("parent"))
    assert (sent(again), messages(again, ms.ParentRequest)) == ([("ParentRequest", 4)], [asks()])
    assert (repair(again).is_promised, repair(again).dead) == (False, set())


def test_a_broker_without_an_answer_in_time_has_failed() -> None:
    """Alg. 8: the timer of an earlier request, or of a node that is not under repair, has no effect.

    Only the sibling is live, so 1 elects with it (rule G17): three of five connections are free.
    """
    rows = play(1, ORPHAN, memory(**SEEKS), Ran("parent"))
    assert sent(rows, "brokers", "vote")[0] == ("RootElection", 5, ((4, 0),), 3)
    assert (repair(rows).dead, repair(rows).declined) == ({4}, [4])
    for known in (SEEKS | {"asked": None}, SEEKS | {"is_level": True}):
        assert sent(play(1, ORPHAN, memory(**known), Ran("parent"))) == []


def test_a_new_parent_that_does_not_go_on_in_time_has_failed() -> None:
    known = memory(is_level=False, awaited=4, upward=["t"])
    rows = play(1, mode(), around(4, (2,)), view(n5=(0, 2)), known, Ran("parent"))
    assert sent(rows)[0] == ("ParentRequest", 5)
    assert (repair(rows).dead, 4 in rows.ctx.watched) == ({4}, False)


def requested(sender: int = 7, *more: Any, settings: Any = None, known: Any = None, **values: Any) -> Outcome:
    tree = [mode(**settings or {}), *TREE[1:], *SEES, memory(**known or {})]
    return play(1, tree, *more, Got(sender, asks(**values), 3))


def answers(rows: Outcome) -> list[str]:
    return [m.answer for m in messages(rows, ms.ParentResponse)]


def test_a_broker_with_degree_left_takes_an_orphan_in() -> None:
    """Alg. 5: 1 connects the orphan, sends it ParentBuffer, awaits it, and sends the new view to all below."""
    rows = requested(7, had(5, passed(1)), known={"dead": {6, 7}})
    assert sent(rows, "rounds") == [
        ("ParentResponse", 7, 3), ("ParentBuffer", 7, 3),
        ("TreeViewUpdate", 2, 1), ("TreeViewUpdate", 7, 3), ("TreeViewUpdate", 9, 1),
    ]  # fmt: skip
    assert messages(rows, ms.ParentBuffer) == [ms.ParentBuffer(missing(passed=ids(1), processed=ids()))]
    assert (answers(rows), timers(rows)) == ([ms.ACCEPTED], {("child", 7): 2 * 3 + 3 * 12})
    assert paths(rows)[1] == (7, [(0, 0, 1, 2), (2, 1, 0, 1), (4, 0, 2, 4), (5, 1, 1, 4)])
    assert (kept(rows, "awaited", "partner"), rows.ctx.watched[7]) == ([7], Watched(7, 3, ROUND))
    assert ("broker", 7) in kept(rows, "subscriber", "relationship", "neighbour")
    assert ("child", 7) in kept(rows, "neighbour", "relationship", "neighbour")
    assert repair(rows).dead == {6}


@pytest.mark.parametrize(
    ("degree", "values", "is_taken"),
    [
        (4, {}, True),
        (3, {}, False),
        (3, {"break_degree": True}, True),
        (3, {"is_client": True, "subscribed": ("t",)}, True),
    ],
)
def test_a_full_broker_takes_clients_in_and_orphans_that_break_degrees(
    degree: int, values: dict[str, Any], is_taken: bool
) -> None:
    """The broker has three connections, as many as totalDegree."""
    rows = requested(7, settings={"total_degree": degree}, **values)
    assert answers(rows) == [ms.ACCEPTED if is_taken else ms.DECLINED]


def test_a_client_is_not_in_the_sub_tree_before_it_is_level() -> None:
    rows = requested(7, is_client=True, subscribed=("t",))
    assert ("client", 7) in kept(rows, "neighbour", "relationship", "neighbour")
    assert 7 not in kept(rows, "subscriber", "neighbour")
    assert kept(rows, "client_subscription", "client", "topics") == [(7, ("t",))]


@pytest.mark.parametrize(
    ("sender", "known", "values", "is_taken"),
    [
        (0, {}, {}, False),
        (2, {}, {}, False),
        (4, {}, {}, False),
        (4, {}, {"is_joining": True}, True),
        (0, {}, {"is_joining": True}, False),
        (5, {}, {}, True),
        (7, {"is_level": False}, {}, False),
    ],
)
def test_nobody_takes_in_an_ancestor_or_a_child_and_no_orphan_anybody(
    sender: int, known: dict[str, Any], values: dict[str, Any], is_taken: bool
) -> None:
    assert answers(requested(sender, known=known, **values)) == [ms.ACCEPTED if is_taken else ms.DECLINED]


def test_a_newcomer_has_no_place_to_give() -> None:
    """Rule G22: a TreeViewUpdate with the newcomer makes it a candidate. A broker that lost a parent is no newcomer.

    If a TreeViewUpdate has shown its present incarnation, it has a parent, and may accept children soon.
    """
    assert answers(requested(7, known={"is_joining": True, "is_level": False})) == [ms.BACK]
    assert answers(requested(7, known={"is_joining": True, "is_level": False, "lost_parent": 8})) == [ms.DECLINED]
    assert repair(answered(ms.BACK, of_4=1)).dead == {4}
    assert repair(answered(ms.BACK, of_4=1, incarnations={4: 1})).declined == [4]
    assert repair(answered(ms.BACK, of_4=1, is_joining=True)).declined == [4]


def test_a_broker_outside_a_sub_tree_joins_it_only_for_who_breaks_degrees() -> None:
    """The orphan gets `joining`, and the neighbours get JoinTopic."""
    assert answers(requested(7, topics=("u",))) == [ms.DECLINED]
    rows = requested(7, topics=("u",), break_degree=True)
    assert sent(rows, "topic", "rounds") == [
        ("ParentResponse", 7, None, 3), ("JoinTopic", 0, "u", 2), ("JoinTopic", 2, "u", 1),
    ]  # fmt: skip
    assert answers(rows) == [ms.JOINING]
    assert kept(rows, "entrant", "node", "request", "latency_rounds") == [
        (7, asks(topics=("u",), break_degree=True), 3)
    ]
    assert kept(rows, "topic_join", "topic", "is_open", "is_own", "askers", "waiting") == [
        ("u", True, True, [], [0, 2])
    ]
    elected = requested(7, known={"is_elected": True}, topics=("u",))
    assert answers(elected) == [ms.JOINING]


def test_what_the_parent_sees_is_seen_a_step_farther_down_within_the_hops() -> None:
    """Alg. 2: parent 0 has parent 4 and another child 5; 6 and 7 are farther, 8 is a sibling of 4. All are live."""
    seen = [(1, 1, 0, 9), (4, 0, 1, 3), (5, 1, 0, 3), (6, 0, 3, 3), (7, 0, 2, 3), (8, 1, 1, 3), (10, 1, 2, 3)]
    update = ms.TreeViewUpdate(tuple(ms.Seen(*one) for one in seen))
    rows = play(1, TREE, view(n3=(0, 2)), memory(dead={3, 4}), Got(0, update, 2))
    assert kept(rows, "tree_view", "relationship", "peer", "n_up", "n_down", "latency_rounds") == [
        ("ancestor", 4, 0, 2, 5), ("sibling", 5, 1, 1, 5), ("ancestor", 7, 0, 3, 5), ("ancestor", 8, 1, 2, 5),
    ]  # fmt: skip
    assert repair(rows).dead == {3}
    assert paths(rows)[0] == (2, [(0, 0, 1, 2), (4, 0, 2, 5), (5, 1, 1, 5), (7, 0, 3, 5), (8, 1, 2, 5)])
    assert sent(play(1, TREE, Got(3, update, 2))) == []
