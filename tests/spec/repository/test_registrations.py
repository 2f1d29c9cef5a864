"""Registration of clients by the owner of a topic (section 3.3; rules P17 and P25)."""

from __future__ import annotations

from support.repository.layouts import Layout, losing

SETTINGS = {"publisher_rounds": 12, "failure_rounds": 40}


def owned(publishers: list[str], subscribers: list[str]) -> Layout:
    topics = {"t": {"owner": "o", "publishers": publishers, "subscribers": subscribers}}
    return Layout(1, {"r1": 1, "r2": 1}, dict.fromkeys(("o", "p", "s", "s2"), 1), topics=topics, **SETTINGS)


def refused(layout: Layout) -> set[int]:
    return {one.message.to[0] for one in layout.sent("Refuse")}


def test_registered_clients_only() -> None:
    layout = owned(["p"], ["s"])
    layout.publish("p", 100, matches=layout.subscribe("s", "s2"))
    layout.network.play(200)
    assert layout.delivered("s") == [1]
    assert layout.delivered("s2") == []
    assert refused(layout) == {layout.ids["s2"]}
    assert {one.message.topic for one in layout.sent("Refuse")} == {"t"}


def test_a_publisher_that_is_not_registered_publishes_nothing() -> None:
    layout = owned([], ["s"])
    layout.publish("p", 100, matches=layout.subscribe("s"))
    layout.network.play(200)
    assert not layout.sent("Message")
    assert refused(layout) == {layout.ids["p"]}


def test_the_owner_registers_a_publisher() -> None:
    layout = owned([], ["s"])
    layout.publish("p", 100, matches=layout.subscribe("s"))
    layout.call("o", "register", 150, peer=layout.ids["p"], role="publisher")
    layout.network.play(300)
    assert layout.delivered("s") == [1]
    assert [seq for node, seq, _, kind in layout.network.rows.calls if (node, kind) == (layout.ids["o"], "confirmed")]


def test_a_deregistration_cuts_at_every_repository() -> None:
    layout = owned(["p"], ["s"])
    layout.publish("p", 100, 110, 200, matches=layout.subscribe("s"))
    layout.call("o", "deregister", 150, peer=layout.ids["s"], role="subscriber")
    layout.network.play(300)
    assert layout.delivered("s") == [1, 2]
    for name in ("r1", "r2"):
        row = layout.node(name).registration["t", layout.ids["s"], "subscriber"]
        assert (row.is_registered, [one.n for one in row.cut]) == (False, [2])


def test_a_repeated_deregistration_extends_no_cut() -> None:
    """The owner repeats the event every 12 rounds, and p publishes; all members have heard of it by round 165."""
    layout = owned(["p"], ["s"])
    rounds = range(100, 300, 4)
    layout.publish("p", *rounds, matches=layout.subscribe("s"))
    layout.call("o", "deregister", 150, peer=layout.ids["s"], role="subscriber")
    layout.network.play(500)
    assert len(layout.sent("Deregister")) > 1
    rows = [layout.node(name).registration["t", layout.ids["s"], "subscriber"] for name in ("r1", "r2")]
    [last] = {one.n for row in rows for one in row.cut}
    assert layout.delivered("s") == [*range(1, last + 1)]
    assert rounds[last - 1] <= 165
    assert max(confirmations(layout)) < 200


def test_a_deregistered_publisher_is_refused_until_it_is_registered_again() -> None:
    layout = owned(["p"], ["s"])
    layout.publish("p", 100, 200, 500, matches=layout.subscribe("s"))
    layout.call("o", "deregister", 150, peer=layout.ids["p"], role="publisher")
    layout.call("o", "register", 400, peer=layout.ids["p"], role="publisher")
    layout.network.play(390)
    assert layout.delivered("s") == [1]
    assert refused(layout) == {layout.ids["p"]}
    assert len(layout.sent("Refuse")) < 12
    layout.network.play(700)
    assert layout.delivered("s")[-1] == 3


def test_messages_stored_before_its_publisher_registers_again_are_delivered() -> None:
    """r2, which does not steer p, stores what p sends before it is refused; s has passed that when it is covered."""
    layout = owned(["p", "s2"], ["s"])
    matches = layout.subscribe("s")
    layout.publish("p", 100, 200, matches=matches)
    layout.publish("s2", 240, matches=matches)
    layout.call("o", "deregister", 150, peer=layout.ids["p"], role="publisher")
    layout.call("o", "register", 300, peer=layout.ids["p"], role="publisher")
    layout.network.play(299)
    assert len(layout.slots("r1")) == 3
    assert layout.delivered("s") == [1, 1]
    layout.network.play(500)
    assert layout.delivered("s") == [1, 1, 2]
    assert layout.node("s").unsynced == {}


def test_registrations_take_sequence_numbers_and_reach_the_bundle() -> None:
    layout = owned([], [])
    layout.call("o", "register", 50, peer=layout.ids["p"], role="publisher")
    layout.network.play(150)
    for name in ("r1", "r2"):
        (slot,) = layout.node(name).slot.values()
        assert (slot.seq, slot.status, slot.action.client) == (1, "action", layout.ids["p"])
        assert layout.node(name).log["t"].frontier == 1


def test_two_registrations_of_a_round_are_confirmed_each_by_itself() -> None:
    """The way to r1 loses one of them: the confirmation of the other one does not stand for both."""
    layout = owned([], [])
    for name in ("p", "s"):
        layout.call("o", "register", 50, peer=layout.ids[name], role="publisher")
    p = layout.ids["p"]
    layout.faults = losing(lambda one: one.kind == "Register" and one.message.client == p and one.sent_round < 55)
    layout.network.play(150)
    assert layout.node("o").registering == {}
    confirmed = [round_ for node, _, round_, kind in layout.network.rows.calls if kind == "confirmed"]
    assert len(confirmed) == 2
    assert layout.node("r1").registration["t", p, "publisher"].is_registered


def test_of_a_registration_and_its_contrary_in_a_round_the_later_counts() -> None:
    layout = owned(["p"], [])
    for kind in ("deregister", "register"):
        layout.call("o", kind, 50, peer=layout.ids["p"], role="publisher")
    layout.network.play(150)
    for name in ("r1", "r2"):
        assert layout.node(name).registration["t", layout.ids["p"], "publisher"].is_registered


def test_only_the_owner_registers() -> None:
    layout = owned([], [])
    layout.publish("p", 10, matches=())
    layout.call("s", "register", 50, peer=layout.ids["p"], role="publisher")
    layout.network.play(70)
    assert layout.ids["s"] in refused(layout)
    assert layout.node("r1").slot == {}


def confirmations(layout: Layout) -> list[int]:
    """Returns the rounds in which calls of the owner are confirmed."""
    rows = layout.network.rows.calls
    return [round_ for node, _, round_, kind in rows if (node, kind) == (layout.ids["o"], "confirmed")]


def test_an_owner_finds_members_that_have_replaced_the_founders() -> None:
    """Its bundle is r1, which leaves: nobody that the owner knows is there (rule P33)."""
    topics = {"t": {"owner": "o", "publishers": [], "subscribers": []}}
    layout = Layout(2, {"r1": 1, "r2": 2}, dict.fromkeys(("o", "p"), 1), topics=topics, **SETTINGS)
    layout.call("r2", "join", 20)
    layout.call("r1", "leave", 100)
    layout.call("o", "register", 300, peer=layout.ids["p"], role="publisher")
    layout.network.play(299)
    assert layout.node("r1").log["t"].is_left
    layout.network.play(400)
    assert confirmations(layout)
    assert layout.node("r2").registration["t", layout.ids["p"], "publisher"].is_registered


def test_a_message_behind_the_cut_of_its_publisher_is_not_confirmed() -> None:
    """r2, which does not steer p, stores what r1 refuses, and r1 fetches that; nobody is to get it."""
    layout = owned(["p", "s2"], ["s"])
    layout.publish("p", 100, 200, matches=layout.subscribe("s"))
    layout.call("o", "deregister", 150, peer=layout.ids["p"], role="publisher")
    layout.call("o", "register", 400, peer=layout.ids["p"], role="publisher")
    layout.network.play(399)
    assert [len(layout.slots(name)) for name in ("r1", "r2")] == [2, 2]
    assert layout.delivered("s") == [1]
    assert layout.node("p").publishing["t"].confirmed == 1
    assert [one.n for one in layout.node("p").unstable.values()] == [2]
    layout.network.play(600)
    assert layout.delivered("s") == [1, 2]
    assert layout.node("p").publishing["t"].confirmed == 2
    assert layout.node("p").unstable == {}


def test_a_member_that_was_not_heard_since_it_joined_counts_for_a_confirmation() -> None:
    """r3 joins by r2, which does not know of the deregistration: the owner waits until r3 knows, too."""
    topics = {"t": {"owner": "o", "publishers": ["p"], "subscribers": ["s"]}}
    clients = dict.fromkeys(("o", "p", "s"), 1)
    layout = Layout(1, dict.fromkeys(("r1", "r2", "r3"), 1), clients, topics=topics, **SETTINGS)
    ids = [layout.ids[name] for name in ("r1", "r2", "r3")]
    ends = {(ids[0], ids[1]): 180, (ids[0], ids[2]): 240, (ids[2], ids[0]): 230, (ids[1], ids[2]): 240}
    layout.faults = losing(
        lambda one: one.kind == "Gossip-ACK" and one.sent_round < ends.get((one.message.origin, one.dst), 0)
    )
    layout.call("r3", "join", 150)
    layout.call("o", "deregister", 149, peer=layout.ids["s"], role="subscriber")
    layout.network.play(400)
    (round_,) = confirmations(layout)
    told = [
        one.due_round
        for one in layout.network.rows.handled
        if one.kind == "Gossip-ACK" and one.dst == ids[2] and one.fate == "delivered"
        and any(entry.action for entry in one.message.entries)
    ]  # fmt: skip
    assert min(told) < round_
