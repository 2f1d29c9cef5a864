"""What nodes of `ginger` do when others fail, come back or join (chapter 4), row by row, without an engine.

The broker is 1, below 0 and above 2; its client is 9. It sees its grandparent 4 and its sibling 5, both four rounds
away. Every case is worked out by hand from the algorithms.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.ginger.items import (
    ROUND,
    around,
    bodies,
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
    state,
    sub_tree,
    view,
)

from udfs.ginger.items import Item

TREE = [mode(), *around(0, (2,), (9,)), *sub_tree((0, 2), (9,))]
SEES = view(n4=(0, 2), n5=(1, 1))
PATIENCE = 2 * 4 + 3 * 12
"""Rounds in which a node four rounds away has answered: there and back, and three times the timer."""


def down(node: int, latency_rounds: int = 6) -> Item:
    """The failure detector's news."""
    return got(1, "NeighborDown", 1, details=str(node), latency_rounds=latency_rounds)


def timer(*what: Any) -> Item:
    return got(1, "Timer", 1, details=json.dumps(what))


def asks(**values: Any) -> str:
    return json.dumps({"subscribedTopics": ["t"], "breakDegree": False, "isJoining": False, **values})


def test_a_child_that_fails_is_forgotten_and_the_news_goes_on() -> None:
    """Alg. 3: neighbours hear of it, and what can be seen from here changes for those below."""
    rows = play(1, TREE, around(None, (3,)), sub_tree((3,)), down(2))
    assert sent(rows, "details") == [
        ("Failed", 0, "[2, true]"), ("Failed", 3, "[2, true]"),
        ("TreeViewUpdate", 3, "[[0, 0, 1, 2]]"), ("TreeViewUpdate", 9, "[[0, 0, 1, 2], [3, 1, 0, 1]]"),
    ]  # fmt: skip
    assert kept(rows, "neighbour", "kind", "peer", "latency_rounds") == [
        ("parent", 0, 2),
        ("child", 3, 1),
        ("client", 9, 1),
    ]
    assert kept(rows, "subscriber", "kind", "peer") == [("broker", 0), ("broker", 3), ("client", 9)]
    assert kept(rows, "failed", "peer") == [2]
    assert remembered(rows)["dead"] == [2]


@pytest.mark.parametrize(("latency_rounds", "is_heard"), [(3, False), (2, True)])
def test_news_from_before_the_connection_is_stale(latency_rounds: int, is_heard: bool) -> None:
    """The connection is of round 5; the news was sent in round 4, or in round 5."""
    rows = play(1, TREE, memory(since={"2": 5}), down(2, latency_rounds))
    assert (2 not in kept(rows, "neighbour", "peer")) == is_heard


def test_a_child_that_fails_is_not_waited_for_and_its_acknowledgement_does_not_count() -> None:
    """The parent is told when the only child that had not acknowledged is gone."""
    about = message(1)
    wide = [mode(), *around(0, (2, 3)), *sub_tree((0, 2, 3))]
    first = play(1, wide, got(1, "Metadata", 0, about), got(2, "TotalAck", 3, about, covered=[3]))
    assert [kind for kind, to in sent(first) if to == 0] == []
    again = [row for row in state(first) if row.relation in ("pending", "repair", "history")]
    second = play(1, wide, again, down(2), round_=8)
    assert [(kind, covered) for kind, to, covered in sent(second, "covered") if to == 0] == [
        ("Failed", None), ("TotalAck", [1, 3]),
    ]  # fmt: skip
    assert kept(play(1, wide, again, down(3), round_=8), "pending", "acked") == [[]]


def test_an_orphan_asks_ancestors_then_siblings_and_holds_what_comes() -> None:
    """Alg. 4: the grandparent first; the news waits until what came from the parent before has been handled."""
    rows = play(1, TREE, SEES, down(0), got(2, "Metadata", 9, message(1, "causal")), got(3, "Metadata", 7, message(2)))
    assert sent(rows, "latency_rounds", "details") == [
        ("ParentRequest", 4, 4, asks()), ("Timer", 1, PATIENCE, '["parent", 4, 1]'),
    ]  # fmt: skip
    assert kept(rows, "neighbour", "kind", "peer") == [("child", 2), ("client", 9)]
    assert kept(rows, "tree_view", "kind", "peer", "hops", "issued_round", "latency_rounds") == [
        ("ancestor", 4, 0, 2, 4), ("sibling", 5, 1, 1, 4),
    ]  # fmt: skip
    assert kept(rows, "hold", "kind", "peer", "details", "source_seq") == [
        ("Failed", 1, "[0, true]", None), ("Metadata", 9, None, 1),
    ]  # fmt: skip
    known = remembered(rows)
    assert (known["is_level"], known["is_root"], known["upward"], known["dead"]) == (False, False, ["t"], [0])


ORPHAN = [mode(), *around(None, (2,), (9,)), *sub_tree((2,), (9,)), *SEES]
SEEKS: dict[str, Any] = {
    "is_level": False,
    "is_root": False,
    "upward": ["t"],
    "asked": 4,
    "attempt": 1,
    "is_seeking": True,
}


def answered(answer: str, sender: int = 4, **values: Any) -> list[Item]:
    return play(1, ORPHAN, memory(**SEEKS | values), got(1, "ParentResponse", sender, details=answer))


def test_whoever_accepts_is_the_parent_in_all_sub_trees_of_the_old_one() -> None:
    rows = answered("true", break_degree=True, passes=2, declined=[5])
    assert sent(rows) == []
    assert kept(rows, "connected", "peer", "latency_rounds") == [(4, 4)]
    assert (("parent", 4) in kept(rows, "neighbour", "kind", "peer"), kept(rows, "status")) == (True, [])
    assert ("broker", 4) in kept(rows, "subscriber", "kind", "peer")
    known = remembered(rows)
    assert (known["asked"], known["since"], known["is_level"]) == (None, {"4": ROUND}, False)
    assert (known["is_seeking"], known["break_degree"], known["passes"], known["declined"]) == (False, False, 0, [])


def test_whoever_declines_is_not_asked_again_in_this_pass() -> None:
    """The sibling is next; an answer of one that was not asked says nothing."""
    rows = answered("false")
    assert sent(rows, "details") == [("ParentRequest", 5, asks()), ("Timer", 1, '["parent", 5, 2]')]
    assert remembered(rows)["declined"] == [4]
    assert sent(answered("false", 5)) == []
    assert remembered(answered("true", 5))["asked"] == 4


def test_a_second_pass_breaks_degrees_and_after_it_comes_a_pause() -> None:
    second = answered("false", 5, asked=5, attempt=2, declined=[4])
    assert sent(second, "details") == [("ParentRequest", 4, asks(breakDegree=True)), ("Timer", 1, '["parent", 4, 3]')]
    assert (remembered(second)["break_degree"], remembered(second)["declined"]) == (True, [])
    pause = answered("false", 5, asked=5, attempt=4, declined=[4], break_degree=True)
    assert sent(pause, "latency_rounds", "details") == [("Timer", 1, 12, '["again", 1, 5]')]
    known = remembered(pause)
    assert (known["passes"], known["break_degree"], known["declined"], known["attempt"]) == (1, False, [], 5)
    again = play(1, ORPHAN, memory(**known), timer("again", 1, 5))
    assert sent(again, "details")[0] == ("ParentRequest", 4, asks())
    assert sent(play(1, ORPHAN, memory(**known), timer("again", 1, 4))) == []


@pytest.mark.parametrize(("passes", "is_over"), [(19, False), (20, True)])
def test_after_twenty_pauses_a_node_is_isolated(passes: int, is_over: bool) -> None:
    rows = answered("false", 5, asked=5, declined=[4], break_degree=True, passes=passes)
    assert kept(rows, "status", "kind") == (["ISOLATED"] if is_over else [])
    assert remembered(rows).get("is_isolated", False) == is_over


def test_a_broker_that_knows_of_nobody_alive_is_the_root_of_what_is_left() -> None:
    """Rule G16: its child and its client go on with it, and hear that 4, which did not answer, has failed."""
    rows = play(1, ORPHAN, memory(**SEEKS | {"dead": [5]}), timer("parent", 4, 1))
    assert sent(rows, "details") == [
        ("TreeViewUpdate", 2, "[]"), ("TreeViewUpdate", 9, "[[2, 1, 0, 1]]"), ("Failed", 2, "[4, true]"),
    ]  # fmt: skip
    known = remembered(rows)
    assert (kept(rows, "status"), known["is_root"], known["is_level"], known["dead"]) == ([], True, True, [4, 5])


def test_whoever_joins_sub_trees_first_is_asked_again_meanwhile() -> None:
    """Rule G25: after the time in which any other answer comes."""
    rows = answered("null")
    assert sent(rows, "latency_rounds", "details") == [("Timer", 1, PATIENCE, '["parent", 4, 2]')]
    known = remembered(rows)
    assert (known["asked"], known["is_promised"]) == (4, True)
    again = play(1, ORPHAN, memory(**known), timer("parent", 4, 2))
    assert sent(again, "details") == [("ParentRequest", 4, asks()), ("Timer", 1, '["parent", 4, 3]')]
    assert (remembered(again)["is_promised"], remembered(again).get("dead", [])) == (False, [])


def test_whoever_does_not_answer_in_time_has_failed() -> None:
    """Alg. 8; the timer of an earlier question, or of a node that is level, says nothing.

    Only the sibling is left, so it elects with it (rule G17): three of five connections are free.
    """
    rows = play(1, ORPHAN, memory(**SEEKS), timer("parent", 4, 1))
    assert sent(rows, "covered", "details")[0] == ("RootElection", 5, [4], "3")
    assert (remembered(rows)["dead"], remembered(rows)["declined"]) == ([4], [4])
    for known in (SEEKS | {"attempt": 2}, SEEKS | {"is_level": True}):
        assert sent(play(1, ORPHAN, memory(**known), timer("parent", 4, 1))) == []


def test_a_new_parent_that_does_not_go_on_in_time_has_failed() -> None:
    known = {"is_level": False, "attempt": 1, "upward": ["t"]}
    rows = play(1, [mode(), *around(4, (2,))], view(n5=(0, 2)), memory(**known), timer("parent", 4, 1))
    assert sent(rows)[0] == ("ParentRequest", 5)
    assert remembered(rows)["dead"] == [4]


def requested(sender: int = 7, *more: Item, settings: Any = None, known: Any = None, **values: Any) -> list[Item]:
    tree = [mode(**settings or {}), *TREE[1:], *SEES, memory(**known or {})]
    return play(1, tree, *more, got(1, "ParentRequest", sender, latency_rounds=3, details=asks(**values)))


def test_a_broker_with_degree_left_takes_an_orphan_in() -> None:
    """Alg. 5: it is connected, told what passed here, and waited for; all below see it."""
    rows = requested(7, had(5, passed(1)), known={"dead": [6, 7]})
    assert sent(rows, "latency_rounds") == [
        ("ParentResponse", 7, 3), ("ParentBuffer", 7, 3), ("Timer", 1, 2 * 3 + 3 * 12),
        ("TreeViewUpdate", 2, 1), ("TreeViewUpdate", 7, 3), ("TreeViewUpdate", 9, 1),
    ]  # fmt: skip
    (told,) = bodies(rows, "ParentBuffer")
    assert told == {"events": [], "passed": {"t": [[9, 1]]}, "processed": {"t": []}, "failed": []}
    assert bodies(rows, "ParentResponse") == [True]
    assert bodies(rows, "Timer") == [["child", 7, 1]]
    assert bodies(rows, "TreeViewUpdate")[1] == [[0, 0, 1, 2], [2, 1, 0, 1], [4, 0, 2, 4], [5, 1, 1, 4]]
    assert (kept(rows, "await", "peer"), kept(rows, "connected", "peer", "latency_rounds")) == ([7], [(7, 3)])
    assert ("broker", 7) in kept(rows, "subscriber", "kind", "peer")
    assert ("child", 7) in kept(rows, "neighbour", "kind", "peer")
    known = remembered(rows)
    assert (known["dead"], known["taken"], known["since"]) == ([6], {"7": 1}, {"7": ROUND})


def test_numbers_of_those_taken_in_ascend() -> None:
    assert bodies(requested(7, known={"taken": {"1": 4, "8": 6}}), "Timer") == [["child", 7, 7]]


@pytest.mark.parametrize(
    ("degree", "values", "is_taken"),
    [
        (4, {}, True),
        (3, {}, False),
        (3, {"breakDegree": True}, True),
        (3, {"isClient": True, "subscribed": ["t"]}, True),
    ],
)
def test_a_full_broker_takes_clients_in_and_orphans_that_break_degrees(
    degree: int, values: dict[str, Any], is_taken: bool
) -> None:
    """It has three connections."""
    assert bodies(requested(7, settings={"total_degree": degree}, **values), "ParentResponse") == [is_taken]


def test_a_client_is_not_in_the_sub_tree_before_it_is_level() -> None:
    rows = requested(7, isClient=True, subscribed=["t"])
    assert ("client", 7) in kept(rows, "neighbour", "kind", "peer")
    assert 7 not in kept(rows, "subscriber", "peer")
    assert remembered(rows)["clients"] == {"7": ["t"]}


@pytest.mark.parametrize(
    ("sender", "known", "values", "is_taken"),
    [
        (0, {}, {}, False),
        (2, {}, {}, False),
        (4, {}, {}, False),
        (4, {}, {"isJoining": True}, True),
        (0, {}, {"isJoining": True}, False),
        (5, {}, {}, True),
        (7, {"is_level": False}, {}, False),
    ],
)
def test_nobody_takes_in_an_ancestor_or_a_child_and_no_orphan_anybody(
    sender: int, known: dict[str, Any], values: dict[str, Any], is_taken: bool
) -> None:
    assert bodies(requested(sender, known=known, **values), "ParentResponse") == [is_taken]


def test_a_broker_outside_a_sub_tree_joins_it_only_for_who_breaks_degrees() -> None:
    """Until it has, the orphan is told to be patient, and the neighbours are asked."""
    assert bodies(requested(7, subscribedTopics=["u"]), "ParentResponse") == [False]
    rows = requested(7, subscribedTopics=["u"], breakDegree=True)
    assert sent(rows, "topic", "latency_rounds") == [
        ("ParentResponse", 7, None, 3), ("JoinTopic", 0, "u", 2), ("JoinTopic", 2, "u", 1),
    ]  # fmt: skip
    assert bodies(rows, "ParentResponse") == [None]
    known = remembered(rows)
    assert known["entrants"] == [[7, json.loads(asks(subscribedTopics=["u"], breakDegree=True)), 3]]
    assert known["joins"] == {"u": {"askers": [], "waiting": [0, 2], "is_own": True}}
    elected = requested(7, known={"is_elected": True}, subscribedTopics=["u"])
    assert bodies(elected, "ParentResponse") == [None]


ELECTING = [mode(), *around(0, (2,), (9,)), *sub_tree((0, 2), (9,)), *view(n5=(1, 1), n6=(1, 1))]


def test_children_of_the_root_elect_a_new_one_by_their_residual_degrees() -> None:
    """Alg. 4: the vote is what is left of five connections without the parent."""
    rows = play(1, ELECTING, down(0))
    assert sent(rows, "latency_rounds", "details") == [
        ("RootElection", 5, 4, "3"), ("Timer", 1, 20, '["vote", 5, 1]'),
        ("RootElection", 6, 4, "3"), ("Timer", 1, 20, '["vote", 6, 1]'),
    ]  # fmt: skip
    known = remembered(rows)
    assert (known["is_electing"], known["election"], known["vote"], known["is_root"]) == (True, 1, 3, False)


VOTED: dict[str, Any] = {
    "is_level": False,
    "is_root": False,
    "is_electing": True,
    "election": 1,
    "vote": 3,
    "upward": ["t"],
    "dead": [0],
    "lost_parent": 0,
    "gone": [0],
}
VOTER = [mode(), *around(None, (2,), (9,)), *sub_tree((2,), (9,)), *view(n5=(1, 1), n6=(1, 1))]


def voted(vote: str, sender: int = 6, **values: Any) -> list[Item]:
    """5 has voted 2; all know that 0 is gone."""
    known = {**VOTED, "votes": {"5": [2, [0]]}, **values}
    return play(1, VOTER, memory(**known), got(1, "RootElection", sender, covered=[0], details=vote))


@pytest.mark.parametrize(("vote", "winner"), [("2", 1), ("3", 1), ("4", 6)])
def test_the_highest_degree_wins_then_the_lowest_id(vote: str, winner: int) -> None:
    """Alg. 7: the winner is the root and sees nobody above; the others ask it.

    It shows those that elected it as its children at once (rule G20).
    """
    rows = voted(vote)
    known = remembered(rows)
    assert (known["is_root"], known["is_electing"], known["votes"]) == (winner == 1, False, {})
    if winner == 1:
        coming = "[5, 1, 0, 4], [6, 1, 0, 4]]"
        assert sent(rows, "details") == [
            ("TreeViewUpdate", 2, f"[{coming}"), ("TreeViewUpdate", 9, f"[[2, 1, 0, 1], {coming}"),
        ]  # fmt: skip
        assert (kept(rows, "tree_view"), known["is_level"], known["is_elected"]) == ([], True, True)
    else:
        assert sent(rows, "details")[0] == ("ParentRequest", 6, asks())
        assert known["is_seeking"]


def test_votes_count_once_all_siblings_have_voted_and_also_before_the_election() -> None:
    rows = voted("4", votes={})
    assert (sent(rows), remembered(rows)["votes"]) == ([], {"6": [4, [0]]})
    early = play(1, ELECTING, memory(), got(1, "RootElection", 5, covered=[0], details="2"))
    assert (sent(early), remembered(early)["votes"]) == ([], {"5": [2, [0]]})


def test_votes_with_others_gone_do_not_count_together_and_are_told_again() -> None:
    """Rule G18: 6 knows that 7 is gone, too, so 1 votes again with both gone."""
    rows = play(
        1, VOTER, memory(**VOTED, votes={"5": [2, [0]]}), got(1, "RootElection", 6, covered=[0, 7], details="2")
    )
    assert [row[:3] for row in sent(rows, "covered") if row[0] == "RootElection"] == [
        ("RootElection", 5, [0, 7]), ("RootElection", 6, [0, 7]),
    ]  # fmt: skip
    assert (remembered(rows)["election"], remembered(rows)["is_electing"]) == (2, True)


def test_whoever_has_another_parent_answers_a_vote_with_those_above_it() -> None:
    """Rule G19: 1 is below 0, which nobody has lost."""
    rows = play(1, ELECTING, memory(), got(1, "RootElection", 5, covered=[8], details="2"))
    assert sent(rows, "covered", "details") == [("RootElection", 5, [0], "null")]


def test_a_root_tells_so_and_ends_the_election_of_who_hears_it() -> None:
    root = [mode(), *around(None, (2,))]
    assert sent(play(1, root, memory(), got(1, "RootElection", 5, details="2")), "details") == [
        ("RootElection", 5, "null")
    ]
    assert sent(voted("null", 7))[0] == ("ParentRequest", 7)
    over = voted("null", 7, is_electing=False, asked=4)
    assert (sent(over), remembered(over)["asked"]) == ([], 4)


def test_a_sibling_that_does_not_vote_in_time_has_failed() -> None:
    """It is one of those that are gone, so the others vote again (rule G18)."""
    rows = play(1, VOTER, memory(**VOTED, votes={"5": [2, [0]]}), timer("vote", 6, 1))
    assert sent(rows, "covered", "details")[0] == ("RootElection", 5, [0, 6], "3")
    assert (remembered(rows)["election"], remembered(rows)["dead"]) == (2, [0, 6])
    known = {**VOTED, **{name: remembered(rows)[name] for name in ("election", "gone", "dead")}}
    rows = play(1, VOTER, memory(**known), got(1, "RootElection", 5, covered=[0, 6], details="2"))
    assert remembered(rows)["is_root"]
    for known, late in (
        (VOTED, ("vote", 6, 2)),
        (VOTED | {"is_electing": False}, ("vote", 6, 1)),
        (VOTED | {"votes": {"6": [1, [0]]}}, ("vote", 6, 1)),
    ):
        rows = play(1, VOTER, memory(**known), timer(*late))
        assert remembered(rows)["dead"] == [0]


def test_questions_of_siblings_wait_for_the_end_of_the_election() -> None:
    rows = play(1, VOTER, memory(**VOTED), got(1, "ParentRequest", 5, latency_rounds=4, details=asks()))
    assert (sent(rows), remembered(rows)["deferred"]) == ([], [[5, json.loads(asks())]])
    over = voted("2", deferred=remembered(rows)["deferred"])
    assert [(kind, to) for kind, to in sent(over) if to == 5] == [
        ("ParentResponse", 5), ("ParentBuffer", 5), ("TreeViewUpdate", 5),
    ]  # fmt: skip
    assert remembered(over)["deferred"] == []


def test_what_the_parent_sees_is_seen_a_step_farther_down_within_the_hops() -> None:
    """Alg. 2: 4 is its parent, 5 another child; 6, 7 are farther, 8 a sibling of 4; whoever is seen is not dead."""
    seen = [[1, 1, 0, 9], [4, 0, 1, 3], [5, 1, 0, 3], [6, 0, 3, 3], [7, 0, 2, 3], [8, 1, 1, 3], [10, 1, 2, 3]]
    update = got(1, "TreeViewUpdate", 0, details=json.dumps(seen), latency_rounds=2)
    rows = play(1, TREE, view(n3=(0, 2)), memory(dead=[3, 4]), update)
    assert kept(rows, "tree_view", "kind", "peer", "hops", "issued_round", "latency_rounds") == [
        ("ancestor", 4, 0, 2, 5), ("sibling", 5, 1, 1, 5), ("ancestor", 7, 0, 3, 5), ("ancestor", 8, 1, 2, 5),
    ]  # fmt: skip
    assert remembered(rows)["dead"] == [3]
    assert bodies(rows, "TreeViewUpdate")[0] == [[0, 0, 1, 2], [4, 0, 2, 5], [5, 1, 1, 5], [7, 0, 3, 5], [8, 1, 2, 5]]
    assert sent(play(1, TREE, memory(), update._replace(peer=3))) == []
