"""Publishers and storage: sections 3.4 to 3.6; rules P1 to P5, P24."""

from __future__ import annotations

import pytest
from support.repository.layouts import Layout, losing

SETTINGS = {"publisher_rounds": 12, "nak_rounds": 10, "fetch_rounds": 10}


def lost_at_first(layout: Layout, kinds: tuple[str, ...], seq: int, before: int = 10**6) -> None:
    """Has links lose the first copies of what is about a message, on their way to repositories."""
    repositories = {node for name, node in layout.ids.items() if name.startswith("r")}
    layout.faults = losing(
        lambda one: (
            one.kind in kinds and one.dst in repositories and one.message.source_seq == seq and one.sent_round < before
        )
    )


def test_numbers_are_set_aside_for_missing_messages() -> None:
    layout = Layout(1, {"r1": 1}, {"p": 1, "s": 1}, **SETTINGS)
    matches = layout.subscribe("s")
    layout.publish("p", 100, 101, 102, matches=matches)
    lost_at_first(layout, ("Message", "P2R-Order"), 2)
    layout.network.play(104)
    assert layout.slots("r1") == [(2, "stored", 0, 1), (3, "reserved", 0, 2), (4, "stored", 0, 3)]
    assert [one.message.ns for one in layout.sent("R2P-NAK")] == [(2,)]
    assert layout.node("r1").log["t"].frontier == 2
    layout.network.play(150)
    assert [status for _, status, _, _ in layout.slots("r1")] == ["stored"] * 3
    assert len(layout.sent("P2R-Retransmit")) == 1
    assert layout.delivered("s") == [1, 2, 3]


def test_notifications_and_confirmations_stop_at_the_frontier() -> None:
    layout = Layout(1, {"r1": 1}, {"p": 1, "q": 1, "s": 1}, **SETTINGS)
    matches = layout.subscribe("s")
    layout.publish("p", 100, 101, matches=matches)
    layout.publish("q", 103, matches=matches)
    layout.faults = losing(
        lambda one: (
            one.kind in ("Message", "P2R-Order", "P2R-Retransmit")
            and (one.dst, one.message.source, one.message.source_seq) == (layout.ids["r1"], layout.ids["p"], 1)
            and one.sent_round < 140
        )
    )
    layout.network.play(139)
    assert layout.delivered("s") == []
    acks = [one.message for one in layout.sent("R2P-ACK", 100)]
    assert acks
    assert {ack.upto for ack in acks} == {0}
    layout.network.play(200)
    assert len(layout.delivered("s")) == 3


def test_what_an_older_incarnation_lacks_is_void() -> None:
    """The second message is lost with its publisher; the third waits for it among the orphans, for ever."""
    layout = Layout(1, {"r1": 1}, {"p": 1, "s": 1}, **SETTINGS)
    matches = layout.subscribe("s")
    layout.publish("p", 100, 101, 102, 200, matches=matches)
    lost_at_first(layout, ("Message", "P2R-Order", "P2R-Retransmit"), 2)
    layout.crash("p", 103, 150)
    layout.network.play(140)
    assert [status for _, status, _, _ in layout.slots("r1")] == ["stored", "reserved", "stored"]
    layout.network.play(250)
    assert [slot[1:] for slot in layout.slots("r1")] == [
        ("stored", 0, 1), ("void", 0, 2), ("void", 0, 3), ("stored", 150, 1),
    ]  # fmt: skip
    assert [key[1:] for key in layout.node("r1").orphan] == [(layout.ids["p"], 0, 3)]
    assert layout.delivered("s") == [1, 4]


def test_orphans_are_stored_again_when_another_repository_has_what_is_before_them() -> None:
    layout = Layout(1, {"r1": 1, "r2": 1}, {"p": 1, "s": 1}, **SETTINGS)
    matches = layout.subscribe("s")
    layout.publish("p", 100, 101, 102, 200, matches=matches)
    lost = (layout.ids["r1"], 2), (layout.ids["r2"], 3)
    layout.faults = losing(
        lambda one: (
            (one.kind in ("Message", "P2R-Order", "P2R-Retransmit") and (one.dst, one.message.source_seq) in lost)
            or (one.kind.startswith(("Gossip", "R2R")) and one.sent_round < 180)
        )
    )
    layout.crash("p", 103, 150)
    layout.network.play(175)
    assert [slot[1:] for slot in layout.slots("r1")][1:] == [("void", 0, 2), ("void", 0, 3)]
    layout.network.play(300)
    stored = [(incarnation, n) for _, status, incarnation, n in layout.slots("r1") if status == "stored"]
    assert sorted(stored) == [(0, 1), (0, 2), (0, 3), (150, 1)]
    assert stored.index((0, 2)) < stored.index((0, 3))
    assert layout.node("r1").orphan == {}
    assert sorted(layout.delivered("s")) == [1, 2, 3, 4]


def test_a_copy_is_dropped_when_all_members_hold_it() -> None:
    layout = Layout(1, {"r1": 1, "r2": 1}, {"p": 1}, **SETTINGS, failure_rounds=1000)
    layout.crash("r2", 90, 300)
    layout.publish("p", 100, matches=())
    layout.network.play(299)
    assert [one.is_acknowledged for one in layout.node("p").unstable.values()] == [True]
    assert {one.message.stable for one in layout.sent("R2P-ACK")} == {0}
    layout.network.play(500)
    assert layout.node("p").unstable == {}


def test_a_copy_is_dropped_if_its_order_is_repeated_less_often_than_the_publisher_gives_up() -> None:
    """T_fail is less than 3 T_p: each time the order is due again, p seeks a repository and ignores the answer (P4)."""
    layout = Layout(2, {"r1": 1, "r2": 2}, {"p": 1, "s": 2}, **{**SETTINGS, "publisher_rounds": 30}, failure_rounds=60)
    layout.publish("p", 100, matches=layout.subscribe("s"))
    layout.crash("r2", 90, 200)
    layout.network.play(900)
    assert len(layout.slots("r2")) == len(layout.slots("r1"))
    assert not layout.node("p").unstable


def test_a_confirmation_needs_all_before_it() -> None:
    layout = Layout(1, {"r1": 1}, {"p": 1}, **SETTINGS)
    layout.publish("p", 100, 101, matches=())
    lost_at_first(layout, ("Message", "P2R-Order", "P2R-Retransmit"), 1, before=130)
    layout.network.play(200)
    singles = [one.message.single for one in layout.sent("R2P-ACK")]
    assert singles[0] == (2,)
    confirmed = [round_ for _, _, round_, kind in layout.network.rows.calls if kind == "confirmed"]
    assert len(confirmed) == 2
    assert min(confirmed) > 130


@pytest.mark.parametrize("kind", ["P2R-Recovery", "R2P-Recovery"])
def test_lost_recovery_events_are_repeated(kind: str) -> None:
    layout = Layout(1, {"r1": 1}, {"p": 1, "s": 1}, **SETTINGS)
    layout.faults = losing(lambda one: one.kind == kind and one.sent_round < 40)
    layout.publish("p", 20, matches=layout.subscribe("s"))
    layout.network.play(120)
    assert layout.delivered("s") == [1]


def test_a_message_whose_order_never_comes_is_evicted() -> None:
    layout = Layout(1, {"r1": 1}, {"p": 1}, **SETTINGS, failure_rounds=20)
    lost_at_first(layout, ("P2R-Order",), 1)
    layout.publish("p", 100, matches=())
    layout.crash("p", 101)
    layout.network.play(120)
    assert len(layout.node("r1").buffered) == 1
    layout.network.play(200)
    assert layout.node("r1").buffered == {}
