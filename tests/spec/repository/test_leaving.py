"""Departures and removals of repositories: section 4.10; rules P26, P30, P37."""

from __future__ import annotations

import pytest
from support.repository.layouts import Layout, losing

SETTINGS = {"publisher_rounds": 12, "failure_rounds": 50, "idle_rounds": 40, "fetch_rounds": 10, "assist_rounds": 60}


def left_round(layout: Layout, name: str) -> int | None:
    rows = layout.network.rows.statuses
    return next((round_ for node, round_, status in rows if (node, status) == (layout.ids[name], "LEFT")), None)


def test_who_has_left_asks_for_nothing() -> None:
    """r1 has heard that r2 has a message, and leaves without it."""
    layout = Layout(2, {"r1": 1, "r2": 2}, {"p": 2, "s": 2}, **SETTINGS)
    r1 = layout.ids["r1"]
    carries = {"Message", "P2R-Order", "P2R-Retransmit", "R2R-Retransmit"}
    layout.faults = losing(lambda one: one.kind in carries and one.dst == r1)
    layout.publish("p", 100, matches=layout.subscribe("s"))
    layout.call("r1", "leave", 150)
    layout.network.play(600)
    round_ = left_round(layout, "r1")
    assert round_ is not None
    assert layout.sent("R2R-NAK")
    assert not [one for one in layout.sent("R2R-NAK", round_ + 1) if one.src == r1]
    assert layout.delivered("s") == [1]


def test_registrations_are_handed_over_before_a_repository_leaves() -> None:
    """r1 alone has the registration, behind a number that is reserved for a lost message; r2 hears it all the same."""
    topics = {"t": {"owner": "o", "publishers": ["p"], "subscribers": ["s"]}}
    layout = Layout(2, {"r1": 1, "r2": 2}, {"p": 1, "q": 2, "s": 2, "o": 1}, topics=topics, **SETTINGS)
    p, q, r1 = (layout.ids[name] for name in ("p", "q", "r1"))
    layout.faults = losing(
        lambda one: (
            (one.kind == "Gossip-ACK" and one.message.origin == r1 and one.sent_round < 260)
            or (one.kind in ("Message", "P2R-Retransmit") and one.message.source == p and one.sent_round < 500)
        )
    )
    layout.publish("p", 100, matches=layout.subscribe("s"))
    layout.call("o", "register", 110, peer=q, role="publisher")
    layout.publish("q", 120, matches=(layout.ids["s"],))
    layout.call("r1", "leave", 240)
    layout.network.play(480)
    assert layout.node("r1").log["t"].frontier < layout.node("r1").registration["t", q, "publisher"].seq
    assert layout.node("r2").registration["t", q, "publisher"].is_registered
    assert left_round(layout, "r1") is None
    layout.network.play(900)
    assert left_round(layout, "r1") is not None
    assert {one.source for _, _, one in layout.network.rows.delivered} == {p, q}


def test_a_repository_does_not_leave_to_one_that_was_never_complete() -> None:
    """No answer to its R2R-Assist comes to r2, which joins: it has all messages, but may not steer."""
    layout = Layout(2, {"r1": 1, "r2": 2}, {"p": 1, "s": 1}, **SETTINGS)
    layout.faults = losing(lambda one: one.kind == "R2R-Recovery" and one.sent_round < 400)
    layout.publish("p", 100, 250, 500, matches=layout.subscribe("s"))
    layout.call("r2", "join", 120)
    layout.call("r1", "leave", 200)
    layout.network.play(399)
    assert left_round(layout, "r1") is None
    assert len(layout.slots("r2")) == 2
    layout.network.play(700)
    assert left_round(layout, "r1") is not None
    assert layout.delivered("s") == [1, 2, 3]


def test_a_dead_member_that_is_removed_holds_up_no_copy() -> None:
    """Until then p keeps all copies, and announces them again and again."""
    layout = Layout(2, {"r1": 1, "r2": 2, "r3": 2}, {"p": 1, "s": 1}, **SETTINGS)
    layout.publish("p", *range(110, 210, 10), 700, matches=layout.subscribe("s"))
    layout.crash("r3", 100)
    layout.call("r1", "remove", 400, peer=layout.ids["r3"])
    layout.network.play(399)
    assert len(layout.node("p").unstable) == 10
    layout.network.play(499)
    assert layout.node("p").unstable == {}
    assert [layout.node(name).member["t", layout.ids["r3"]].is_left for name in ("r1", "r2")] == [True, True]
    layout.network.play(800)
    assert layout.node("p").bundle["t"].members == (layout.ids["r1"], layout.ids["r2"])
    assert len(layout.sent("P2R-Order", 500)) <= 2
    assert not [one for one in layout.network.rows.handled if one.sent_round > 500 and one.dst == layout.ids["r3"]]
    assert layout.delivered("s") == list(range(1, 12))


def test_a_removed_repository_that_comes_back_has_left() -> None:
    layout = Layout(1, {"r1": 1, "r2": 1}, {"p": 1, "s": 1}, **SETTINGS)
    layout.publish("p", 120, 700, matches=layout.subscribe("s"))
    layout.crash("r1", 100, 500)
    layout.call("r2", "remove", 300, peer=layout.ids["r1"])
    layout.network.play(800)
    assert 500 < (left_round(layout, "r1") or 0) < 520
    assert not [one for one in layout.network.rows.handled if one.src == layout.ids["r1"] and one.sent_round > 560]
    assert layout.delivered("s") == [1, 2]


def test_a_removed_repository_that_was_cut_off_leaves_when_it_is_heard() -> None:
    """r1 steers p and s on the other side of b2 until then; nothing is lost, and they turn to r2."""
    layout = Layout(3, {"r1": 1, "r2": 3}, {"p": 1, "s": 1, "s2": 3}, **SETTINGS)
    layout.crash("b2", 100, 500)
    layout.publish("p", 200, 700, matches=layout.subscribe("s", "s2"))
    layout.call("r2", "remove", 300, peer=layout.ids["r1"])
    layout.network.play(499)
    assert layout.delivered("s") == [1]
    layout.network.play(900)
    assert 500 < (left_round(layout, "r1") or 0) < 540
    assert [layout.delivered(name) for name in ("s", "s2")] == [[1, 2], [1, 2]]
    roles = (("p", "publisher"), ("s", "subscriber"))
    assert {layout.node(name).steering["t", role].repository for name, role in roles} == {layout.ids["r2"]}
    assert layout.node("p").unstable == {}


def test_a_repository_that_joins_waits_for_no_message_of_a_removed_one() -> None:
    """r2 removes r1 before the R2R-Recovery of r1 arrives. Rule P23: the message that only r1 has is lost."""
    layout = Layout(2, {"r1": 1, "r2": 2}, {"p": 1, "s": 1}, **SETTINGS)
    layout.publish("p", 100, matches=layout.subscribe("s"))
    layout.call("r2", "join", 150)
    layout.call("r2", "remove", 151, peer=layout.ids["r1"])
    layout.network.play(600)
    r2 = layout.node("r2")
    assert (r2.duty["t"].is_operational, r2.missed, r2.lacking) == (True, {}, {})
    assert layout.slots("r2") == [(2, "void", 0, 1)]


def test_the_only_member_left_becomes_operational_without_any_answer() -> None:
    """r1 dies before it has answered r2, and r2 removes it: rule P22."""
    layout = Layout(2, {"r1": 1, "r2": 2}, {"p": 1, "s": 1}, **SETTINGS)
    layout.publish("p", 100, 400, matches=layout.subscribe("s"))
    layout.call("r2", "join", 150)
    layout.call("r2", "remove", 300, peer=layout.ids["r1"])
    layout.crash("r1", 152)
    layout.network.play(299)
    assert not layout.node("r2").duty["t"].is_operational
    layout.network.play(1200)
    assert layout.node("r2").duty["t"].is_operational
    assert layout.delivered("s") == [1, 2]


def without_operational_member() -> Layout:
    """Returns a network in which r2 and r3 join, and never get an answer from r1, which dies.

    Only r3 gets the second message of p, and only r2 that of q. They do not exchange these messages before round 500.
    """
    layout = Layout(3, {"r1": 1, "r2": 2, "r3": 3}, {"p": 1, "q": 3, "s": 1}, **SETTINGS)
    p, r2, r3 = (layout.ids[name] for name in ("p", "r2", "r3"))
    carries = {"Message", "P2R-Order", "P2R-Retransmit"}
    layout.faults = losing(
        lambda one: (
            (one.kind == "R2R-Recovery" and one.sent_round < 400)
            or (one.kind in carries and one.dst == (r2 if one.message.source == p else r3) and one.sent_round < 600)
            or (one.kind == "R2R-Retransmit" and 186 <= one.sent_round < 500)
        )
    )
    matches = layout.subscribe("s")
    for name in ("p", "q"):
        layout.publish(name, 150, 190, 900, matches=matches)
        layout.crash(name, 200, 700)
    for name, round_ in (("r2", 140), ("r3", 145)):
        layout.call(name, "join", round_)
    layout.crash("r1", 189)
    return layout


def test_members_that_were_never_operational_serve_after_the_last_other_is_removed() -> None:
    """Rule P22: before that, r2 and r3 fetch what the other one has."""
    layout = without_operational_member()
    layout.call("r2", "remove", 400, peer=layout.ids["r1"])
    joined = [layout.node(name) for name in ("r2", "r3")]
    layout.network.play(499)
    assert [(one.duty["t"].is_operational, len(one.lacking)) for one in joined] == [(False, 1), (False, 1)]
    layout.network.play(530)
    assert [(one.duty["t"].is_operational, len(one.lacking)) for one in joined] == [(True, 0), (True, 0)]
    layout.network.play(1200)
    assert sorted(layout.delivered("s")) == [1, 1, 2, 2, 3, 3]


def test_members_that_were_never_operational_wait_for_one_that_may_have_been() -> None:
    """Rule P22: r1 is not removed, so it may recover."""
    layout = without_operational_member()
    layout.network.play(1500)
    assert not [name for name in ("r2", "r3") if layout.node(name).duty["t"].is_operational]


def test_a_message_of_a_member_that_comes_back_late_is_not_skipped() -> None:
    """r1 recovers long after P2R-Dropped, and r2 hears it before r1 tells its messages by gossip."""
    layout = Layout(3, {"r1": 3, "r2": 2}, {"p": 1, "s": 3}, **SETTINGS)
    layout.publish("p", 70, 571, matches=layout.subscribe("s"))
    layout.call("r2", "join", 145)
    layout.crash("r1", 152, 910)
    layout.faults = losing(lambda one: one.kind == "R2R-Retransmit" and one.sent_round < 300)
    layout.network.play(1500)
    assert layout.sent("P2R-Dropped")
    assert layout.node("r2").incarnation["t", layout.ids["p"], 0].skipped == set()
    assert [slot[1:] for slot in layout.slots("r2")][-2:] == [("stored", 0, 1), ("stored", 0, 2)]


def test_a_message_that_publisher_and_members_lack_blocks_no_other() -> None:
    """Rule P37: p has deleted its first message, which r1 alone had. r3 learns from r2 that nobody has it.

    The first answers of p are lost, so r2 asks again.
    """
    layout = Layout(3, {"r1": 1, "r2": 2, "r3": 3}, {"p": 1, "q": 3, "s": 3}, **SETTINGS)
    matches = layout.subscribe("s")
    for name, round_ in (("r2", 150), ("r3", 900)):
        layout.call(name, "join", round_)
    layout.call("r2", "remove", 600, peer=layout.ids["r1"])
    layout.publish("p", 100, 400, 420, 1100, matches=matches)
    layout.publish("q", 500, matches=matches)
    layout.crash("r1", 156)
    lost = {"R2R-Retransmit": 300, "P2R-Dropped": 560}
    layout.faults = losing(lambda one: one.sent_round < lost.get(one.kind, 0))
    layout.network.play(599)
    assert min(one.sent_round for one in layout.sent("P2R-Dropped")) < 560
    assert [status for _, status, _, _ in layout.slots("r2")][-4:] == ["reserved", "stored", "stored", "stored"]
    layout.network.play(1300)
    p, q = layout.ids["p"], layout.ids["q"]
    stored = [("stored", 0, 2), ("stored", 0, 3), ("stored", 0, 1), ("stored", 0, 4)]
    assert [slot[1:] for slot in layout.slots("r2")][-5:] == [("void", 0, 1), *stored]
    assert [slot[1:] for slot in layout.slots("r3")] == stored
    for name in ("r2", "r3"):
        rows = layout.node(name).incarnation
        assert (rows["t", p, 0].prefix, rows["t", q, 0].prefix) == (4, 1)
        assert layout.node(name).missed == layout.node(name).lacking == {}
    assert layout.node("p").unstable == {}
    assert [seq for round_, seq in layout.deliveries("s") if round_ > 150] == [2, 3, 1, 4]


@pytest.mark.parametrize("lost", [{"P2R-Dropped"}, {"P2R-Dropped", "Message", "P2R-Order", "P2R-Retransmit"}])
def test_a_member_that_joined_before_a_message_was_skipped_learns_of_it_by_gossip(lost: set[str]) -> None:
    """Rule P37: r3 does not get P2R-Dropped. If it gets nothing from p, it has them as orphans (rule P32)."""
    layout = Layout(3, {"r1": 1, "r2": 2, "r3": 3}, {"p": 1, "q": 3, "s": 3}, **SETTINGS, void_rounds=100)
    matches, (p, r3) = layout.subscribe("s"), (layout.ids["p"], layout.ids["r3"])
    for name, round_ in (("r2", 150), ("r3", 250)):
        layout.call(name, "join", round_)
    layout.call("r2", "remove", 200, peer=layout.ids["r1"])
    layout.publish("p", 80, 100, 220, 900, matches=matches)
    layout.publish("q", 500, matches=matches)
    layout.crash("r1", 156)
    layout.faults = losing(
        lambda one: (
            (one.kind == "R2R-Retransmit" and one.sent_round < 300)
            or (one.kind in lost and one.dst == r3 and p in (one.message.origin, getattr(one.message, "source", None)))
        )
    )
    layout.network.play(340)
    assert [status for _, status, _, n in layout.slots("r3") if n < 3] == ["reserved", "reserved"]
    layout.network.play(1300)
    for name in ("r2", "r3"):
        node = layout.node(name)
        assert (node.incarnation["t", p, 0].prefix, node.incarnation["t", p, 0].skipped) == (4, {1, 2})
        assert (node.log["t"].frontier, node.orphan) == (node.log["t"].last_seq, {})
    assert layout.node("p").unstable == {}
    assert [seq for round_, seq in layout.deliveries("s") if round_ > 150] == [3, 1, 4]


def test_a_message_that_a_member_may_have_is_waited_for() -> None:
    """r1 is down for longer than T_void, and nobody removes it: r2 stores its message in the reserved slot."""
    layout = Layout(2, {"r1": 1, "r2": 2}, {"p": 1, "s": 2}, **SETTINGS)
    matches = layout.subscribe("s")
    layout.call("r2", "join", 150)
    layout.publish("p", 100, 400, matches=matches)
    layout.crash("r1", 156, 1000)
    layout.faults = losing(lambda one: one.kind == "R2R-Retransmit" and one.sent_round < 300)
    layout.network.play(999)
    assert layout.sent("P2R-Dropped")
    assert [slot[1:] for slot in layout.slots("r2")][-2:] == [("reserved", 0, 1), ("stored", 0, 2)]
    layout.network.play(1300)
    assert [slot[1:] for slot in layout.slots("r2")][-2:] == [("stored", 0, 1), ("stored", 0, 2)]
    assert layout.delivered("s") == [1, 2]


def test_a_fetch_asks_only_members_that_are_heard() -> None:
    """r2 alone has a message, whose publisher is dead, and is dead itself for a while."""
    layout = Layout(1, {"r1": 1, "r2": 1}, {"p": 1, "s": 1}, **SETTINGS)
    r1, r2 = layout.ids["r1"], layout.ids["r2"]
    carries = {"Message", "P2R-Order", "P2R-Retransmit", "R2R-Retransmit"}
    layout.faults = losing(lambda one: one.kind in carries and one.dst == r1 and one.sent_round < 400)
    layout.publish("p", 100, matches=layout.subscribe("s"))
    layout.crash("p", 110)
    layout.crash("r2", 150, 450)
    layout.network.play(700)
    asked = [one.sent_round for one in layout.sent("R2R-NAK") if one.message.origin == r1 and r2 in one.message.to]
    assert [round_ for round_ in asked if round_ < 150]
    assert not [round_ for round_ in asked if 150 + SETTINGS["assist_rounds"] + 20 < round_ < 450]
    assert layout.delivered("s") == [1]
