"""The election of a root among orphans of `ginger` (section 4.2.3, Alg. 7), row by row, without an engine.

The broker is 1, above 2; its client is 9. Its parent was 0, its siblings are 5 and 6, four rounds away. The expected
rows are computed by hand from the algorithms.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.ginger.single import (
    Got,
    Outcome,
    Ran,
    around,
    asks,
    down,
    election,
    kept,
    memory,
    messages,
    mode,
    paths,
    play,
    repair,
    sent,
    sub_tree,
    timers,
    view,
)

from udfs.ginger import messages as ms, records
from udfs.ginger.messages import Incarnation
from udfs.ginger.records import Deferred, Vote


def gone(*brokers: int, incarnation: int = 0) -> tuple[Incarnation, ...]:
    """Returns failed brokers of one incarnation."""
    return tuple(Incarnation(broker, incarnation) for broker in brokers)


ELECTING: list[Any] = [mode(), *around(0, (2,), (9,)), *sub_tree((0, 2), (9,)), *view(n5=(1, 1), n6=(1, 1))]


def test_children_of_the_root_elect_a_new_one_by_their_residual_degrees() -> None:
    """Alg. 4: the vote is the residual degree: five connections minus those in use, without the parent."""
    rows = play(1, ELECTING, down(0))
    assert sent(rows, "rounds", "vote") == [("RootElection", 5, 4, 3), ("RootElection", 6, 4, 3)]
    assert timers(rows) == {("vote", 5): 20, ("vote", 6): 20}
    assert (election(rows).is_electing, election(rows).vote, repair(rows).is_root) == (True, 3, False)


VOTED: dict[str, Any] = {
    "is_level": False, "is_root": False, "is_electing": True, "vote": 3, "upward": ["t"], "dead": {0}, "lost_parent": 0,
    "gone": [*gone(0)], "heard": [*gone(0)],
}  # fmt: skip
VOTER: list[Any] = [mode(), *around(None, (2,), (9,)), *sub_tree((2,), (9,)), *view(n5=(1, 1), n6=(1, 1))]
BY_5 = {5: Vote(2, [*gone(0)])}


def voted(vote: int | None, sender: int = 6, brokers: tuple[Incarnation, ...] = gone(0), **values: Any) -> Outcome:
    """Returns a broker that has the vote 2 of sibling 5; all know that 0 failed."""
    known = {**VOTED, "votes": BY_5, **values}
    return play(1, VOTER, memory(**known), Got(sender, ms.RootElection(vote, brokers)))


@pytest.mark.parametrize(("vote", "winner"), [(2, 1), (3, 1), (4, 6)])
def test_the_highest_degree_wins_then_the_lowest_id(vote: int, winner: int) -> None:
    """Alg. 7: the winner is the root and has an empty view; the losers send it a ParentRequest.

    The winner's view shows its electors as children at once (rule G20).
    """
    rows = voted(vote)
    assert (repair(rows).is_root, election(rows).is_electing, election(rows).votes) == (winner == 1, False, {})
    if winner == 1:
        coming = [(5, 1, 0, 4), (6, 1, 0, 4)]
        assert paths(rows) == [(2, coming), (9, [(2, 1, 0, 1), *coming])]
        assert (kept(rows, "tree_view", "peer"), repair(rows).is_level, election(rows).is_elected) == ([], True, True)
    else:
        assert (sent(rows)[0], messages(rows, ms.ParentRequest)) == (("ParentRequest", 6), [asks()])


def test_votes_count_once_all_siblings_have_voted_and_also_before_the_election() -> None:
    rows = voted(4, votes={})
    assert (sent(rows), election(rows).votes) == ([], {6: (4, [*gone(0)])})
    early = play(1, ELECTING, Got(5, ms.RootElection(2, gone(0))))
    assert (sent(early), election(early).votes) == ([], BY_5)


def test_a_recovered_broker_counts_votes_once_it_has_a_parent() -> None:
    """Rules G13 and G19: 0 has accepted 1, and has not sent the missing messages yet."""
    recovered = memory(is_joining=True, is_new=True, is_level=False)
    early = play(1, ELECTING, recovered, Got(5, ms.RootElection(2, gone(0))))
    assert (sent(early), election(early).votes) == ([], BY_5)
    refused = play(1, ELECTING, recovered, Got(5, ms.RootElection(2, gone(8))))
    assert sent(refused, "brokers", "vote") == [("RootElection", 5, gone(0), None)]
    newcomer = play(1, VOTER, recovered, Got(5, ms.RootElection(2, gone(0))))
    assert (sent(newcomer), election(newcomer).votes) == ([], {})


def test_votes_with_others_gone_do_not_count_together_and_are_told_again() -> None:
    """Rule G18: 6 knows that 7 failed, too, so 1 sends a vote that names both 0 and 7."""
    rows = voted(2, brokers=gone(0, 7))
    assert [row for row in sent(rows, "brokers") if row[0] == "RootElection"] == [
        ("RootElection", 5, gone(0, 7)), ("RootElection", 6, gone(0, 7)),
    ]  # fmt: skip
    assert (election(rows).gone, election(rows).is_electing) == ([*gone(0, 7)], True)


def test_a_broker_with_another_parent_answers_a_vote_with_its_ancestors() -> None:
    """Rule G19: the parent of 1 is 0, which no vote names as failed."""
    rows = play(1, ELECTING, Got(5, ms.RootElection(2, gone(8))))
    assert sent(rows, "brokers", "vote") == [("RootElection", 5, gone(0), None)]


def test_a_root_tells_so_and_ends_the_election_of_who_hears_it() -> None:
    assert sent(play(1, mode(), around(None, (2,)), Got(5, ms.RootElection(2, ()))), "vote") == [
        ("RootElection", 5, None)
    ]
    assert sent(voted(None, 7, ()))[0] == ("ParentRequest", 7)
    over = voted(None, 7, (), is_electing=False, asked=4)
    assert (sent(over), repair(over).asked) == ([], 4)


def test_who_is_below_another_elector_is_not_asked() -> None:
    """Rule G19: 6 is below 5, whose vote counts for both."""
    rows = voted(None, 6, gone(5))
    assert (election(rows).below, repair(rows).is_root) == ([6], True)


def test_an_orphan_below_failed_brokers_is_not_asked() -> None:
    """Rule G19: 6 does not vote with 1, and all brokers above it have failed. A root has no broker above it."""
    rows = voted(None, 6, gone(0))
    assert (sent(rows)[:1], election(rows).below, repair(rows).is_root) == ([("TreeViewUpdate", 2)], [6], True)
    assert sent(voted(None, 6, ()))[0] == ("ParentRequest", 6)


def test_a_sibling_that_does_not_vote_in_time_has_failed() -> None:
    """The silent sibling counts as failed, so the remaining siblings vote again (rule G18)."""
    rows = play(1, VOTER, memory(**VOTED, votes=BY_5), Ran("vote", 6))
    assert sent(rows, "brokers", "vote")[0] == ("RootElection", 5, gone(0, 6), 3)
    assert (timers(rows), repair(rows).dead) == ({("vote", 5): 20}, {0, 6})
    known = {**VOTED, "gone": election(rows).gone, "dead": repair(rows).dead}
    assert repair(play(1, VOTER, memory(**known), Got(5, ms.RootElection(2, gone(0, 6))))).is_root
    for known in (VOTED | {"is_electing": False}, VOTED | {"votes": {6: Vote(1, [*gone(0)])}}):
        assert repair(play(1, VOTER, memory(**known), Ran("vote", 6))).dead == {0}


def test_questions_of_siblings_wait_for_the_end_of_the_election() -> None:
    rows = play(1, VOTER, memory(**VOTED), Got(5, asks(), 4))
    assert (sent(rows), election(rows).deferred) == ([], [Deferred(5, asks())])
    over = voted(2, deferred=election(rows).deferred)
    assert [(kind, to) for kind, to in sent(over) if to == 5] == [
        ("ParentResponse", 5), ("ParentBuffer", 5), ("TreeViewUpdate", 5),
    ]  # fmt: skip
    assert election(over).deferred == []


OUT: dict[str, Any] = {
    "is_level": False, "is_root": False, "upward": ["t"], "dead": {0}, "lost_parent": 0, "heard": [*gone(0)],
}  # fmt: skip


def called(*brokers: int, at: list[Any] = VOTER, **values: Any) -> Outcome:
    """Returns the vote of 5, which names failed brokers, to 1, which does not vote."""
    return play(1, at, memory(**OUT | values), Got(5, ms.RootElection(2, gone(*brokers))))


def test_who_asks_a_broker_that_no_vote_names_goes_on_waiting_for_it() -> None:
    """Rule G18: the sibling gets a vote, because it has none of 1. If its vote names 4, 1 stops waiting for 4."""
    sees_4 = [*VOTER, *view(n4=(0, 2))]
    rows = called(0, at=sees_4, asked=4)
    assert sent(rows, "brokers", "vote") == [("RootElection", 5, gone(0), 3)]
    assert (repair(rows).asked, election(rows).is_electing) == (4, False)
    rows = called(0, 4, at=sees_4, asked=4)
    assert sent(rows, "brokers") == [("RootElection", 5, gone(0, 4)), ("RootElection", 6, gone(0, 4))]
    assert (repair(rows).asked, repair(rows).dead, election(rows).is_electing) == (None, {0, 4}, True)


def test_in_a_pause_after_an_election_who_hears_of_more_that_are_gone_votes_again() -> None:
    """Rule G18: a vote about known failures starts no second election; the sibling gets the vote of 1, once."""
    rows = called(0, 7, decided=[*gone(0)])
    assert sent(rows, "brokers") == [("RootElection", 5, gone(0, 7)), ("RootElection", 6, gone(0, 7))]
    assert election(rows).is_electing
    same = called(0, decided=[*gone(0)])
    assert sent(same, "brokers", "vote") == [("RootElection", 5, gone(0), 3)]
    assert not election(same).is_electing
    assert sent(called(0, decided=[*gone(0)], answered=[5])) == []


def test_an_orphan_votes_with_a_voter_that_its_view_lacks() -> None:
    """Rule G27: 7 became a child of a root that 1 has elected, and that failed before 1 was its child."""
    rows = play(1, VOTER, memory(**VOTED, votes=BY_5), Got(7, ms.RootElection(4, gone(0))))
    assert sent(rows, "brokers", "vote") == [("RootElection", 7, gone(0), 3)]
    assert (kept(rows, "tree_view", "peer"), election(rows).votes) == ([5, 6, 7], {**BY_5, 7: (4, [*gone(0)])})
    asking = play(1, VOTER, memory(**OUT, decided=[*gone(0)], asked=5), Got(7, ms.RootElection(4, gone(6))))
    assert sent(asking, "brokers", "vote") == [("RootElection", 7, gone(0, 6), 3)]


def test_an_orphan_that_sees_a_broker_above_votes_with_its_siblings_only() -> None:
    """Rule G27: 1 asks 4, which no vote names; the voter 7 may be in another part of the tree."""
    sees_4 = [*VOTER, *view(n4=(0, 2))]
    rows = play(1, sees_4, memory(**OUT, asked=4), Got(7, ms.RootElection(4, gone(0))))
    assert sent(rows, "vote") == [("RootElection", 7, None)]
    rows = play(1, sees_4, memory(**OUT, asked=4), Got(7, ms.RootElection(4, gone(0, 4))))
    assert (kept(rows, "tree_view", "peer"), repair(rows).dead) == ([4, 5, 6, 7], {0, 4})


BACK: list[Any] = [*VOTER, *view(n0=(1, 1))]
"""Broker 0, the former parent of 1, has recovered and become a sibling."""


def from_0(incarnation: int) -> Got:
    """Returns the vote of broker 0, which names 6."""
    return Got(0, ms.RootElection(2, gone(6), incarnation))


def test_the_vote_of_a_later_incarnation_shows_that_a_sibling_is_back() -> None:
    """Rule G29: votes go on to name the failed incarnation, but a vote of this incarnation itself changes nothing."""
    knows = {**OUT, "dead": {0, 5}, "decided": [*gone(0, 5)], "asked": 6, "awaited": 6}
    rows = play(1, BACK, memory(**knows), from_0(1))
    assert sent(rows, "brokers", "vote") == [("RootElection", 0, gone(0, 5, 6), 3)]
    assert (repair(rows).dead, repair(rows).incarnations) == ({5, 6}, {0: 1})
    again = play(1, BACK, memory(**knows | {"incarnations": {0: 2}}), from_0(1))
    assert (repair(again).dead, repair(again).incarnations) == ({0, 5, 6}, {0: 2})


def test_a_vote_that_names_an_earlier_incarnation_of_a_known_broker_is_no_news_of_a_failure() -> None:
    """Rule G29: 5 names the incarnation 0 of its former parent 0, of which 1 knows incarnation 1."""
    knows = {**OUT, "lost_parent": 4, "heard": [*gone(4)], "dead": {4}, "incarnations": {0: 1}, "asked": 6}
    rows = play(1, BACK, memory(**knows), Got(5, ms.RootElection(2, gone(0, 4))))
    assert (sent(rows, "brokers", "vote"), repair(rows).dead) == ([("RootElection", 5, gone(0, 4), 3)], {4})
    down_again = play(1, BACK, memory(**knows), Got(5, ms.RootElection(2, (*gone(0, incarnation=1), *gone(4)))))
    assert repair(down_again).dead == {0, 4}


def test_a_vote_that_names_an_earlier_incarnation_of_the_parent_is_answered() -> None:
    """Rule G32: 0 is the parent of 1 again. A vote that names its present incarnation is early, and waits."""
    back = [mode(), records.Neighbour(0, "parent", 2, 1), *ELECTING[4:]]
    rows = play(1, back, Got(5, ms.RootElection(2, gone(0))))
    assert sent(rows, "brokers", "vote") == [("RootElection", 5, gone(0, incarnation=1), None)]
    assert election(rows).votes == {}
    early = play(1, back, Got(5, ms.RootElection(2, gone(0, incarnation=1))))
    assert (sent(early), [*election(early).votes]) == ([], [5])


def test_who_was_below_an_earlier_incarnation_of_the_voter_is_an_orphan() -> None:
    """Rule G19: 6 has lost its parent 1, which has recovered and votes, but does not know it yet."""
    later = {"incarnations": {1: 1}, "heard": [*gone(0)]}
    rows = play(1, VOTER, memory(**VOTED | later), Got(6, ms.RootElection(None, gone(1))))
    assert election(rows).below == [6]
