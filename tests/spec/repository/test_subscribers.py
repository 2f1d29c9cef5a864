"""Subscribers: sections 3.7 to 3.11; rules P6 to P10, P12."""

from __future__ import annotations

import pytest
from support.repository.layouts import Layout, losing

from udfs.nodes.world import Flight

SETTINGS = {"wait_rounds": 8, "acknowledge_rounds": 6, "rectify_rounds": 20, "publisher_rounds": 12}


def layout_with(*clients: str, **settings: int) -> Layout:
    return Layout(1, {"r1": 1}, dict.fromkeys(clients, 1), **{**SETTINGS, **settings})


def lose(layout: Layout, kind: str, seq: int, before: int = 10**6) -> None:
    """Has links lose an event about a message on its way to ``s``."""

    def is_hit(one: Flight) -> bool:
        is_kind = one.kind == kind and one.dst == layout.ids["s"] and one.sent_round < before
        return is_kind and one.message.source_seq == seq

    layout.faults = losing(is_hit)


def test_a_message_is_delivered_when_it_is_persistent() -> None:
    layout = layout_with("p", "s")
    layout.publish("p", 100, matches=layout.subscribe("s"))
    layout.network.play(102)
    assert len(layout.node("s").buffered) == 1
    assert layout.delivered("s") == []
    layout.network.play(104)
    assert layout.deliveries("s") == [(104, 1)]


@pytest.mark.parametrize("kind", ["Message", "R2S*-Persistent"])
def test_what_is_lost_is_asked_for_and_holds_up_what_follows(kind: str) -> None:
    layout = layout_with("p", "s")
    lose(layout, kind, 2)
    layout.publish("p", 100, 101, 102, matches=layout.subscribe("s"))
    layout.network.play(109)
    assert layout.delivered("s") == [1]
    layout.network.play(150)
    assert layout.delivered("s") == [1, 2, 3]


def test_a_sync_never_passes_what_is_not_acknowledged() -> None:
    """The first message never comes: what is behind is not acknowledged, and no sync goes so far."""
    layout = layout_with("p", "s")
    layout.publish("p", 100, 101, matches=layout.subscribe("s"))
    layout.faults = losing(lambda one: one.dst == layout.ids["s"] and getattr(one.message, "source_seq", 0) == 1)
    layout.network.play(300)
    first = layout.slots("r1")[0][0]
    told = [one.message.sync for kind in ("R2S-Sync", "R2S-Rectify") for one in layout.sent(kind)]
    assert told
    assert max(told) < first
    assert layout.delivered("s") == []
    listed = layout.sent("R2S-Rectify")[-1].message.listed
    assert [one.n for one in listed] == [1, 2]


def test_a_notification_names_all_receivers_in_one_row() -> None:
    layout = layout_with("p", "s", "s2")
    layout.publish("p", 100, 110, matches=layout.subscribe("s", "s2"))
    layout.network.play(150)
    first, second = (one.message for one in layout.sent("R2S*-Persistent"))
    assert [one.client for one in second.receivers] == [layout.ids["s"], layout.ids["s2"]]
    assert {one.prev for one in first.receivers} == {0}
    assert {one.prev for one in second.receivers} == {first.seq}


def test_only_matching_subscribers_are_told() -> None:
    layout = layout_with("p", "s", "s2")
    layout.subscribe("s2")
    layout.publish("p", 100, matches=layout.subscribe("s"))
    layout.network.play(150)
    assert [one.message.to for one in layout.sent("R2S*-Persistent")] == [(layout.ids["s"],)]
    assert layout.delivered("s2") == []


def test_a_subscription_starts_at_its_cut() -> None:
    layout = layout_with("p", "s")
    matches = layout.subscribe("s", round_=150)
    layout.publish("p", 100, 101, 102, 200, matches=matches)
    layout.network.play(250)
    (row,) = layout.node("s").subscribed.values()
    assert [(one.publisher, one.incarnation, one.n) for one in row.cut] == [(layout.ids["p"], 0, 3)]
    assert layout.delivered("s") == [4]
    assert layout.node("r1").subscriber["t", layout.ids["s"]].interests[0].cut == row.cut


def test_a_second_subscription_starts_behind_the_own_marks() -> None:
    layout = layout_with("p", "s")
    first = layout.subscribe("s")
    layout.call("s", "subscribe", 120, subscription_id=99)
    layout.publish("p", 100, 200, matches=(*first, 99))
    layout.network.play(250)
    assert layout.delivered("s") == [1, 2]
    assert [one.n for one in layout.node("s").subscribed["t", 99].cut] == [1]


def test_what_lies_at_the_mark_is_acknowledged_and_not_delivered_again() -> None:
    """The subscriber crashes after its delivery; the acknowledgement is lost, so it is told again."""
    layout = layout_with("p", "s")
    layout.faults = losing(lambda one: one.kind == "S2R-ACK" and one.sent_round < 110)
    layout.publish("p", 100, matches=layout.subscribe("s"))
    layout.crash("s", 108, 150)
    layout.network.play(300)
    assert layout.deliveries("s") == [(104, 1)]
    assert [len(one.message.listed) for one in layout.sent("R2S-Rectify", 150)][:1] == [1]
    assert len(layout.node("r1").acknowledged) == 1
    assert layout.node("s").unsynced == {}


def test_designation_numbers_rise_and_name_every_event() -> None:
    layout = layout_with("p", "s")
    layout.publish("p", 100, 250, matches=layout.subscribe("s"))
    layout.crash("s", 120, 200)
    layout.network.play(300)
    numbers = [one.message.designation for one in layout.sent("S2R-Recovery")]
    assert numbers == sorted(numbers)
    assert numbers[0] < 120 < 200 < numbers[-1]
    assert layout.sent("S2R-ACK")[-1].message.designation == numbers[-1]
    assert layout.delivered("s") == [1, 2]


def test_an_answer_to_an_older_designation_is_dropped() -> None:
    layout = Layout(1, {"r1": 1, "r2": 1}, {"p": 1, "s": 1}, **SETTINGS)
    layout.publish("p", 149, matches=layout.subscribe("s"))
    layout.call("s", "steer", 150, peer=layout.ids["r2"])
    layout.network.play(152)
    late = [one for one in layout.sent("R2S*-Persistent") if one.src == layout.ids["r1"]]
    assert len(late) == 1
    layout.network.play(153)
    assert layout.node("s").expected == {}
    layout.network.play(200)
    assert layout.delivered("s") == [1]
    assert layout.node("r1").designation["t", layout.ids["s"], "subscriber"].is_active is False


@pytest.mark.parametrize(("count", "interval", "most"), [(1, 50, 12), (4, 50, 3), (0, 20, 2)])
def test_acknowledgements_by_count_and_by_interval(count: int, interval: int, most: int) -> None:
    layout = layout_with("p", "s", acknowledge_count=count, acknowledge_rounds=interval)
    layout.publish("p", *range(100, 112), matches=layout.subscribe("s"))
    layout.network.play(160)
    acks = layout.sent("S2R-ACK")
    assert 0 < len(acks) <= most
    assert len(layout.node("r1").acknowledged) == 12
    if not count:
        assert [(run.first, run.last) for run in acks[0].message.runs] == [(2, 13)]


def test_a_long_disconnect() -> None:
    layout = layout_with("p", "s")
    layout.publish("p", *range(100, 400, 10), matches=layout.subscribe("s"))
    layout.crash("s", 150, 395)
    layout.faults = losing(lambda one: "Recovery" in one.kind and 395 <= one.sent_round < 420)
    layout.network.play(600)
    assert layout.delivered("s") == list(range(1, 31))


def test_a_repository_recovers_from_its_own_storage() -> None:
    layout = layout_with("p", "s")
    layout.publish("p", *range(100, 300, 10), matches=layout.subscribe("s"))
    layout.crash("r1", 150, 250)
    layout.network.play(450)
    assert layout.delivered("s") == list(range(1, 21))
    assert len(layout.slots("r1")) == 20


def test_a_silent_repository_is_polled_every_t_p_and_given_up_after_k_polls() -> None:
    """Nothing is heard after 108: polls at 148, 160, 172; at 184 the next repository has its turn (rule P14)."""
    layout = Layout(1, {"r1": 1, "r2": 1}, {"p": 1, "s": 1}, **SETTINGS, idle_rounds=40, failure_rounds=400, tries=3)
    layout.publish("p", 100, 250, matches=layout.subscribe("s"))
    layout.crash("r1", 120)
    layout.network.play(300)
    polls = [one.sent_round for one in layout.sent("S2R-Recovery", since=109) if layout.ids["r1"] in one.message.to]
    heard = 108
    assert polls[:3] == [heard + 40, heard + 40 + 12, heard + 40 + 2 * 12]
    assert layout.node("s").steering["t", "subscriber"].designation == heard + 40 + 3 * 12 + 4
    assert layout.node("s").steering["t", "subscriber"].repository == layout.ids["r2"]
    assert layout.delivered("s") == [1, 2]


def test_after_the_last_unsubscription_nothing_is_asked_any_more() -> None:
    layout = layout_with("p", "s")
    (own,) = layout.subscribe("s")
    layout.publish("p", 100, 200, matches=(own,))
    layout.call("s", "unsubscribe", 150, subscription_id=own)
    layout.network.play(400)
    assert layout.delivered("s") == [1]
    assert layout.node("s").steering == {}
    assert layout.node("r1").subscriber["t", layout.ids["s"]].interests == ()


def test_a_subscription_does_not_start_before_what_its_client_has_delivered_since() -> None:
    """R2S-Confirm comes late: in between s delivers q's message, whose number is behind p's that only 99 asks for."""
    layout = layout_with("p", "q", "s")
    first = layout.subscribe("s")

    def struck(one: Flight) -> Flight:
        if one.kind != "R2S-Confirm" or not 100 < one.sent_round < 130:
            return one
        return one._replace(due_round=130) if one.sent_round < 108 else one._replace(fate="lost_link")

    layout.faults = lambda flights: [struck(one) for one in flights]
    layout.call("s", "subscribe", 100, subscription_id=99)
    layout.publish("p", 108, matches=(99,))
    layout.publish("q", 112, matches=first)
    layout.network.play(300)
    got = [(one.source, one.source_seq) for _, _, one in layout.network.rows.delivered]
    p, q = layout.ids["p"], layout.ids["q"]
    assert got == [(q, 1)]
    assert [(one.publisher, one.n) for one in layout.node("s").subscribed["t", 99].cut] == [(p, 1), (q, 1)]
