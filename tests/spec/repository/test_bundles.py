"""Bundles of repositories: section 4; rules P13, P17, P19, P21, P22, P26, P27, P29, P31."""

from __future__ import annotations

from support.repository.layouts import QUIET, Layout, losing

from pipelines.protocols.repository import RepositorySettings
from udfs.nodes.context import Context, Internal
from udfs.nodes.world import Flight
from udfs.repository import recovery, storage
from udfs.repository.at import At
from udfs.repository.events import BundleRecovery, Key, Order, Publication
from udfs.repository.records import Orphan

CHAIN = {"r1": 1, "r2": 2, "r3": 3}
SETTINGS = {"publisher_rounds": 12, "failure_rounds": 50, "idle_rounds": 40, "fetch_rounds": 10, "assist_rounds": 60}


def chain(**settings: int) -> Layout:
    return Layout(3, CHAIN, {"p": 1, "s1": 1, "s2": 2, "s3": 3}, **{**SETTINGS, **settings})


def steering(layout: Layout, name: str, role: str = "subscriber") -> int:
    return int(layout.node(name).steering["t", role].repository)


def operational(layout: Layout, name: str) -> list[int]:
    rows = layout.network.rows.statuses
    return [round_ for node, round_, status in rows if (node, status) == (layout.ids[name], "OPERATIONAL")]


def test_the_nearest_repository_steers() -> None:
    layout = chain()
    layout.subscribe("s1", "s2", "s3")
    layout.network.play(50)
    assert [steering(layout, f"s{one}") for one in (1, 2, 3)] == [layout.ids[f"r{one}"] for one in (1, 2, 3)]


def test_a_bundle_of_the_first_repositories() -> None:
    """r3 serves nothing, so s3 has the one of its neighbour."""
    layout = chain(bundle_size=2)
    layout.publish("p", 100, matches=layout.subscribe("s1", "s3"))
    layout.network.play(150)
    assert [steering(layout, name) for name in ("s1", "s3")] == [layout.ids["r1"], layout.ids["r2"]]
    assert {name: len(layout.slots(name)) for name in CHAIN if name in ("r1", "r2")} == {"r1": 1, "r2": 1}
    assert not layout.node("r3").log
    assert layout.delivered("s3") == [1]


def test_of_equally_near_ones_the_lowest_id_steers() -> None:
    layout = Layout(1, dict.fromkeys(("r1", "r2", "r3"), 1), {"s": 1})
    layout.subscribe("s")
    layout.network.play(50)
    assert steering(layout, "s") == layout.ids["r1"]


def test_passive_repositories_store_and_say_nothing_to_clients() -> None:
    layout = chain()
    layout.publish("p", 100, matches=layout.subscribe("s1"))
    layout.network.play(150)
    origins = {one.src for one in [*layout.sent("R2P-ACK"), *layout.sent("R2S*-Persistent"), *layout.sent("R2S-Sync")]}
    assert origins == {layout.ids["r1"]}
    assert {len(layout.slots(name)) for name in CHAIN} == {1}
    assert {len(layout.node(name).acknowledged) for name in CHAIN} == {1}


def test_a_failed_steering_repository_is_replaced() -> None:
    layout = chain()
    layout.publish("p", *range(100, 300, 10), matches=layout.subscribe("s1", "s3"))
    layout.crash("r1", 155)
    layout.network.play(600)
    assert layout.delivered("s1") == layout.delivered("s3") == list(range(1, 21))
    assert steering(layout, "p", "publisher") == steering(layout, "s1") == layout.ids["r2"]


def test_late_answers_of_distant_repositories_choose_none() -> None:
    """A client waits 4 rounds for an answer: those of r1 arrive in time, those of r2 and r3 during the next search."""
    layout = chain(publisher_rounds=2, tries=1)
    layout.subscribe("s1")
    layout.crash("r1", 100, 150)
    layout.network.play(300)
    assert steering(layout, "s1") == layout.ids["r1"]
    assert layout.node("s1").steering["t", "subscriber"].is_established


def test_a_repository_that_is_paused_in_round_0_serves_after_its_pause() -> None:
    """Probes arrive during the pause. At its end r1 handles them before its timer ``start``, and needs no recovery."""
    layout = chain()
    layout.network.pause(layout.ids["r1"], 0, 15)
    layout.publish("p", 100, matches=layout.subscribe("s1", "s3"))
    layout.network.play(200)
    assert layout.delivered("s1") == layout.delivered("s3") == [1]
    assert len(layout.slots("r1")) == 1
    assert operational(layout, "r1") == [15]


def test_a_client_changes_its_repository_at_any_time() -> None:
    layout = chain()
    layout.publish("p", *range(100, 200, 5), matches=layout.subscribe("s1"))
    for round_, name in ((110, "r3"), (130, "r2"), (150, "r3")):
        layout.call("s1", "steer", round_, peer=layout.ids[name])
        layout.call("p", "steer", round_ + 3, peer=layout.ids[name])
    layout.network.play(400)
    assert layout.delivered("s1") == list(range(1, 21))
    assert steering(layout, "s1") == steering(layout, "p", "publisher") == layout.ids["r3"]


def test_what_another_repository_has_is_fetched_in_passive_mode() -> None:
    layout = chain()
    layout.faults = losing(
        lambda one: one.dst == layout.ids["r3"] and one.kind in ("Message", "P2R-Order") and one.sent_round < 110
    )
    layout.publish("p", 100, matches=layout.subscribe("s3"))
    layout.network.play(111)
    assert layout.slots("r3") == []
    layout.network.play(200)
    assert len(layout.slots("r3")) == 1
    assert layout.sent("R2R-NAK")
    assert not layout.sent("R2P-NAK")
    assert layout.delivered("s3") == [1]


def recovering() -> tuple[Layout, At]:
    """Returns r2 in the round after its recovery, before any message of p has come."""
    layout = Layout(1, {"r1": 1, "r2": 1}, {"p": 1})
    layout.publish("p", 900, matches=())
    layout.crash("r2", 5, 8)
    layout.network.play(8)
    context = Context(layout.ids["r2"], 9, RepositorySettings().model_dump(), Internal())
    return layout, At(layout.node("r2"), context, "t")


def test_the_first_live_message_shows_what_is_missed() -> None:
    """The assisting repository reports 2000, the first live order is 2010: 9 numbers more are set aside."""
    layout, at = recovering()
    node, p = at.node, layout.ids["p"]
    prefixes, newest = (Key(p, 0, 2000),), (Key(p, 0, 0),)
    values = (prefixes, (), newest, (), (), (layout.ids["r1"], layout.ids["r2"]), ())
    recovery.on_recovery(at, BundleRecovery((at.me,), layout.ids["r1"], 0, "t", *values))
    assert at.log.last_seq == 2000
    storage.on_order(at, Order((at.me,), p, 0, "t", 0, layout.ids["r1"], p, 2010, 0, 2010))
    assert at.log.last_seq == 2010
    assert sorted(n for _, _, _, n in node.missed)[2000:] == list(range(2001, 2010))
    assert not at.duty.is_operational


def test_a_recovery_waits_for_no_orphan_before_the_first_live_message() -> None:
    """Numbers 1 to 3 are missing before the first live order, 4; 2 is an orphan on the disk of r2."""
    layout, at = recovering()
    node, p = at.node, layout.ids["p"]
    node.orphan["t", p, 0, 2] = Orphan("t", p, 0, 2, Publication(p, 2, 1, ()))
    storage.on_order(at, Order((at.me,), p, 0, "t", 0, layout.ids["r1"], p, 4, 0, 4))
    assert sorted(n for _, _, _, n in node.missed) == [1, 3]
    assert [one.status for one in node.slot.values()] == ["reserved", "stored", "reserved", "reserved"]


def test_a_recovering_repository_steers_nobody() -> None:
    layout = chain()
    layout.publish("p", *range(100, 140), matches=layout.subscribe("s3"))
    layout.crash("r3", 50, 200)
    layout.faults = losing(lambda one: one.kind == "R2R-Retransmit" and one.sent_round < 300)
    layout.network.play(299)
    assert operational(layout, "r3") == [0]
    assert steering(layout, "s3") == layout.ids["r2"]
    layout.network.play(600)
    assert len(operational(layout, "r3")) == 2
    assert len(layout.slots("r3")) == 40
    assert layout.delivered("s3") == list(range(1, 41))


def test_a_recovery_waits_for_the_answer_of_each_heard_member() -> None:
    """Rule P21: r2 answers at once, the answers of r1 are lost until round 230."""
    layout = chain()
    layout.publish("p", 90, matches=layout.subscribe("s2"))
    layout.crash("r3", 150, 200)
    r1 = layout.ids["r1"]
    layout.faults = losing(
        lambda one: one.kind == "R2R-Recovery" and one.message.origin == r1 and one.sent_round < 230
    )  # fmt: skip
    layout.network.play(600)
    assert [at >= 230 for at in operational(layout, "r3")] == [False, True]


def test_a_recovery_beside_a_dead_member_ends_when_the_member_is_not_heard() -> None:
    layout = chain()
    layout.publish("p", 90, matches=layout.subscribe("s2"))
    layout.crash("r1", 100, 1000)
    layout.crash("r3", 150, 200)
    layout.network.play(600)
    begun, recovered = operational(layout, "r3")
    assert begun == 0
    assert 200 + SETTINGS["assist_rounds"] <= recovered <= 200 + SETTINGS["assist_rounds"] + SETTINGS["fetch_rounds"]


def test_nobody_is_left_to_assist() -> None:
    layout = chain()
    layout.publish("p", 100, 300, matches=layout.subscribe("s1"))
    for name in CHAIN:
        layout.crash(name, 150, 200)
    layout.network.play(259)
    assert [len(operational(layout, name)) for name in CHAIN] == [1, 1, 1]
    layout.network.play(500)
    assert [len(operational(layout, name)) for name in CHAIN] == [2, 2, 2]
    assert layout.delivered("s1") == [1, 2]


def test_a_repository_is_added() -> None:
    layout = chain()
    layout.publish("p", *range(100, 200, 10), matches=layout.subscribe("s2"))
    layout.call("r2", "join", 150)
    layout.network.play(149)
    assert layout.slots("r2") == []
    assert steering(layout, "s2") == layout.ids["r1"]
    layout.network.play(400)
    assert len(layout.slots("r2")) == 10
    assert layout.node("p").bundle["t"].members == tuple(layout.ids[name] for name in CHAIN)
    assert layout.node("r2").subscriber["t", layout.ids["s2"]].interests
    assert layout.delivered("s2") == list(range(1, 11))


def test_a_repository_leaves() -> None:
    layout = chain()
    layout.publish("p", *range(100, 300, 10), matches=layout.subscribe("s1"))
    layout.call("r1", "leave", 200)
    layout.network.play(500)
    assert layout.node("r1").log["t"].is_left
    assert layout.sent("R2C-Migrate")
    assert layout.sent("Gossip-LEAVE")
    assert layout.delivered("s1") == list(range(1, 21))
    assert steering(layout, "s1") == layout.ids["r2"]
    assert [one.is_left for one in layout.node("r2").member.values() if one.repository == layout.ids["r1"]] == [True]
    assert layout.node("p").unstable == {}
    assert layout.node("s1").bundle["t"].members == (layout.ids["r2"], layout.ids["r3"])


def test_of_two_that_leave_the_lower_id_goes_first() -> None:
    layout = chain()
    layout.publish("p", 100, matches=layout.subscribe("s1"))
    for name in ("r1", "r2"):
        layout.call(name, "leave", 200)
    layout.network.play(500)
    left = {node: round_ for node, round_, status in layout.network.rows.statuses if status == "LEFT"}
    assert left[layout.ids["r1"]] < left[layout.ids["r2"]]


def test_two_do_not_leave_to_each_other() -> None:
    layout = Layout(2, {"r1": 1, "r2": 2}, {"p": 1, "s": 2}, **SETTINGS)
    layout.publish("p", 100, matches=layout.subscribe("s"))
    for name in ("r1", "r2"):
        layout.call(name, "leave", 200)
    layout.network.play(500)
    assert [layout.node(name).log["t"].is_left for name in ("r1", "r2")] == [False, False]


def test_routes_lead_around_a_broker_that_is_down() -> None:
    """A ring of four brokers: the way over b2 fails, after `reroute_rounds` events go over b4, and later back."""
    clients = {"p": 1, "s": 3}
    layout = Layout(4, {"r1": 1}, clients, links=((1, 4),), **SETTINGS, reroute_rounds=5)
    layout.crash("b2", 150, 250)
    layout.publish("p", *range(100, 300, 10), matches=layout.subscribe("s"))
    layout.network.play(154)
    assert layout.node("b1").hop[layout.ids["s"]].next == layout.ids["b2"]
    layout.network.play(155)
    assert layout.node("b1").hop[layout.ids["s"]].next == layout.ids["b4"]
    layout.network.play(256)
    assert layout.node("b1").hop[layout.ids["s"]].next == layout.ids["b2"]
    layout.network.play(500)
    assert layout.delivered("s") == list(range(1, 21))


def test_bundles_overlap() -> None:
    """Repository r2 serves both topics, with numbers of their own."""
    bundles = [
        {"repositories": ["r1", "r2"], "topics": ["t"]},
        {"repositories": ["r2", "r3"], "topics": ["u"]},
    ]
    layout = Layout(3, CHAIN, {"p": 1, "s": 3}, bundles=bundles)
    for topic, number in (("t", 1), ("u", 2)):
        layout.call("s", "subscribe", 1, subscription_id=number, topic=topic)
        layout.call("p", "publish", 100 + number, topic=topic, matches=(number,))
    layout.network.play(200)
    assert layout.delivered("s") == [1, 2]
    topics = {name: {slot.topic for slot in layout.node(name).slot.values()} for name in CHAIN}
    assert topics == {"r1": {"t"}, "r2": {"t", "u"}, "r3": {"u"}}
    assert layout.node("s").steering["u", "subscriber"].repository == layout.ids["r3"]


def test_copies_that_come_twice_are_not_asked_for_twice() -> None:
    """One message at a time, every answer doubled: a second copy starts no chain of requests of its own."""
    layout = Layout(1, {"r1": 1, "r2": 1}, {"p": 1}, **{**QUIET, "fetch_batch": 1})
    layout.faults = lambda flights: [
        copy for one in flights for copy in ([one, one] if one.kind == "R2R-Retransmit" else [one])
    ]
    layout.crash("r2", 100, 400)
    layout.publish("p", *range(150, 170), matches=())
    layout.network.play(700)
    assert len(layout.slots("r2")) == 20
    assert len(layout.sent("R2R-NAK")) == 20


def test_an_answer_to_an_earlier_recovery_ends_no_broker_up() -> None:
    """Section 3, rule P31: b1 crashes again while the answer to its first Broker-Up is on its way."""
    layout = Layout(2, {"r1": 2}, {"p": 2, "s": 1}, reroute_rounds=3)
    layout.publish("p", 60, 400, matches=layout.subscribe("s"))
    layout.crash("b1", 100, 120)
    layout.crash("b1", 130, 140)

    def faults(flights: list[Flight]) -> list[Flight]:
        return [
            one._replace(due_round=141)
            if one.kind == "Broker-Up-ACK" and one.sent_round < 140
            else one._replace(fate="lost_link")
            if one.kind == "Broker-Up" and 140 <= one.sent_round < 145
            else one
            for one in flights
        ]

    layout.faults = faults
    layout.network.play(700)
    assert any(one.kind == "Broker-Up-ACK" and one.due_round == 141 for one in layout.network.rows.handled)
    assert layout.delivered("s") == [1, 2]
