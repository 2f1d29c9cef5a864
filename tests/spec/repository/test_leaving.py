"""What a repository hands over before it leaves, and that it is quiet afterwards: section 4.10; rules P26, P30."""

from __future__ import annotations

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
