"""Phase 1 of a round of `delta` as a whole: bypass, connections, handing over and rising, at single nodes.

0 - 1 - 2 - 3 - 5        N is node 1, δ is 2
    |
    4
"""

from __future__ import annotations

from typing import Any

import pytest
from support.delta.rounds import both, due, network, sent
from support.frames import found, frame, way

from pipelines.engines.session import Session
from pipelines.protocols.delta.phases import faults

N, SOURCE = 1, 9
HERE = {"node_id": N}
UP = {"incarnation": 1, "status": "OPERATIONAL"}
LISTED = {
    **HERE, "source": SOURCE, "source_seq": 1, "kind": "SUB", "sender": 0, "hops": 1, "round": 7, "trigger": 40,
    "subscription_id": 7, "origin": 0, "is_confirmed": False, "is_reopened": False,
}  # fmt: skip
REQUESTS = "kind src dst incarnation"
LATENCIES = "kind src dst latency_rounds"


def peer(node: int, status: str, incarnation: int | None = 0, latency: int | None = 3) -> dict[str, Any]:
    return {**HERE, "peer": node, "status": status, "incarnation": incarnation, "latency_rounds": latency}


def test_past_a_neighbour_that_failed_the_next_node_is_asked_and_takes_over(sail: Session) -> None:
    """2 fails. 3 takes its recipients; message 2, which 2 alone had to confirm, ends, and its entry is there.

    Node 3 is down as well by now, so its failure is to be reported.
    """
    down = frame(sail, "node_id incarnation end_round", *({"node_id": n, "incarnation": 0} for n in (2, 3)))
    one = network(
        sail, due("DETECT", {"down": down}, joiners=1), 1,
        inbox=[{"dst": N, "src": N, "kind": "DETECT", "peer": 2, "incarnation": 0}],
        processing=[
            {**LISTED, "recipient": 3, "responsible": 2}, {**LISTED, "recipient": 4, "responsible": 4},
            {**LISTED, "source_seq": 2, "subscription_id": 8, "recipient": 2, "responsible": 2},
        ],
        routing_entry=[{**HERE, "subscription_id": 5, "origin": 3, "distance": 2, "first_hop": 2, "responsible": 2}],
    )  # fmt: skip
    faults.handle_faults(one)
    assert found(one.now("peer"), "peer status incarnation latency_rounds") == [
        (2, "FAILED", 0, None), (3, "WAITING", None, 6),
    ]  # fmt: skip
    assert sent(one, REQUESTS) == [("CON_REQUEST", N, 3, 0)]
    assert found(one.now("path"), "target responsible") == [(0, 0), (1, 1), (2, None), (3, 3), (4, 4), (5, 3)]
    assert found(one.now("routing_entry"), "subscription_id responsible") == [(5, 3), (8, 0)]
    assert found(one.now("processing"), "source_seq recipient responsible") == [(1, 3, 3), (1, 4, 4)]
    assert both(one.resent, "source_seq recipient responsible") == [(1, 3, 3), (2, 2, None)]
    assert both(one.finished, "source_seq trigger round") == [(2, -1, 20)]
    assert both(one.broken, "node_id peer ended") == [(N, 3, 0)]


def test_a_peer_that_is_asked_already_is_not_asked_again(sail: Session) -> None:
    """2 failed before, and 3 was asked then; now 3 fails, and only 5 is new. Nobody who is down is known of."""
    one = network(
        sail, due("DETECT", joiners=1), 1,
        inbox=[{"dst": N, "src": N, "kind": "DETECT", "peer": 2, "incarnation": 0}],
        peer=[peer(3, "WAITING", None)],
    )  # fmt: skip
    faults.handle_faults(one)
    assert found(one.now("peer"), "peer status") == [(2, "FAILED"), (3, "WAITING")]
    assert sent(one, REQUESTS) == []
    assert both(one.broken, "peer") == []


@pytest.mark.parametrize("detached", [1, 0])
def test_a_detached_node_does_not_go_past_its_join_point(sail: Session, detached: int) -> None:
    """7 hears that 1 has failed: it asks it again, which is back. Once it has joined it suspects it."""
    status = "DETACHED" if detached else "VALID_JOINED"
    one = network(
        sail, due("DETECT", detached=detached, joiners=1),
        path=[way(7), way(7, 1)],
        inbox=[{"dst": 7, "src": 7, "kind": "DETECT", "peer": 1, "incarnation": 0}],
        join=[{"node_id": 7, "join_point": 1, "source_seq": 1, "status": status, "is_asked": True}],
    )  # fmt: skip
    faults.handle_faults(one)
    assert sent(one, "kind src dst") == ([("JOIN_REQUEST", 7, 1)] if detached else [])
    assert found(one.now("peer"), "node_id peer status") == ([] if detached else [(7, 1, "FAILED")])


def test_a_recovering_node_asks_behind_a_partner_that_failed_for_routing_information(sail: Session) -> None:
    """2 has stored that 8 joined there; 3 was asked before, and what 0 handed over stays. Nobody answers 2 any more."""
    joined = {"node_id": 2, "a": 2, "b": 8, "is_marked": False}
    one = network(
        sail, due("DETECT", recovering=1, synchs=3, syn_requests=1, joiners=1), 1,
        inbox=[{"dst": N, "src": N, "kind": "DETECT", "peer": 2, "incarnation": 0}],
        status=[{**HERE, "status": "RECOVERING", "incarnation": 1}],
        synch=[{**HERE, "peer": p, "is_answered": p == 0} for p in (0, 2, 3, 4)], syn_request=[{**HERE, "peer": 2}],
        join=[{"node_id": 8, "join_point": 2, "source_seq": 1, "status": "VALID_JOINED", "is_asked": True}],
    )  # fmt: skip
    one.round.state["topology"] = one.now("topology").unionByName(  # type: ignore[index]
        frame(sail, one.now("topology").columns, joined)
    )
    faults.handle_faults(one)
    assert found(one.now("topology").where("node_id = 1 and b = 8"), "a b") == [(2, 8)]
    assert found(one.now("path").where("target = 8"), "node_id path responsible") == [(N, [1, 2, 8], 8)]
    assert sent(one, REQUESTS) == [("SYN_REQUEST", N, 8, 1)]
    assert found(one.now("synch"), "peer is_answered") == [(0, True), (3, False), (4, False), (8, False)]
    assert found(one.now("syn_request"), "peer") == []


def test_the_last_partner_that_fails_lets_a_node_rise(sail: Session) -> None:
    """1 waited for 5 alone, past 2 and 3, which failed before; so it hands over what 4 has asked it for."""
    one = network(
        sail, due("DETECT", recovering=1, synchs=1, syn_requests=1), 1,
        inbox=[{"dst": N, "src": N, "kind": "DETECT", "peer": 5, "incarnation": 0}],
        status=[{**HERE, "status": "RECOVERING", "incarnation": 1}],
        synch=[{**HERE, "peer": 5, "is_answered": False}], syn_request=[{**HERE, "peer": 4}],
        peer=[peer(2, "FAILED", 0, None), peer(3, "FAILED", 0, None), peer(5, "OPERATIONAL", 0, 9)],
    )  # fmt: skip
    faults.handle_faults(one)
    assert found(one.now("status"), "node_id status") == [(N, "REJOINING")]
    told = [("PAR_SUB", N, 4), ("PAR_TOP", N, 4), ("STATUS", N, 0), ("STATUS", N, 4)]
    assert sent(one, "kind src dst") == told
    assert found(one.now("syn_request"), "peer") == []
    assert both(one.copies, "node_id kind source_seq") == [(N, "REJOIN", -1)]


def test_a_node_that_comes_back_asks_its_neighbours(sail: Session) -> None:
    """0 does; 1 had joined here and comes back as well; 4 had not, and asks its join point again."""
    back = [{"node_id": n, "incarnation": 1, "round": 20} for n in (0, 4)]
    down = frame(sail, "node_id incarnation end_round", {"node_id": 1, "incarnation": 0})
    faults_now = {"recovered": frame(sail, "node_id incarnation round", *back), "down": down}
    one = network(
        sail, due("", faults_now, detached=1),
        topology=[{"node_id": n, "a": 0, "b": 1, "is_marked": False} for n in (0, 2)],
        own_subscription=[{"node_id": n, "subscription_id": 6} for n in (0, 2)],
        join=[{"node_id": 4, "join_point": 1, "source_seq": 1, "status": "ATTACHED", "is_asked": True}],
    )  # fmt: skip
    faults.handle_faults(one)
    assert found(one.now("status"), "node_id status") == [(0, "RECOVERING"), (4, "OPERATIONAL")]
    assert found(one.now("join"), "node_id status") == [(4, "DETACHED")]
    assert sent(one, REQUESTS) == [("JOIN_REQUEST", 4, 1, 1), ("SYN_REQUEST", 0, 1, 1)]
    assert found(one.now("path"), "node_id target") == [(0, 0), (0, 1)]
    assert found(one.now("routing_entry"), "node_id subscription_id") == [(0, 6)]
    assert both(one.broken, "node_id peer ended") == [(0, 1, 0), (4, 1, 0)]
    assert one.fates == []


def test_who_comes_back_and_has_nobody_is_operational_at_once(sail: Session) -> None:
    back = frame(sail, "node_id incarnation round", {**HERE, "incarnation": 1, "round": 20})
    one = network(sail, due("", {"recovered": back}))
    faults.handle_faults(one)
    assert found(one.now("status"), "node_id status incarnation") == [(N, "OPERATIONAL", 1)]
    assert both(one.statuses, "node_id status") == [(N, "OPERATIONAL"), (N, "RECOVERING")]
    assert (sent(one, "kind"), both(one.copies, "kind")) == ([], [])


def test_crashes_set_the_detectors_of_peers(sail: Session) -> None:
    """1 crashes; 2, 4 and 0 are connected to it. Nobody hears of it yet."""
    crashed = frame(sail, "node_id incarnation round", {**HERE, "incarnation": 0, "round": 20})
    one = network(
        sail, due("", {"crashed": crashed, "down": crashed}), 0, 2,
        peer=[{"node_id": 3, "peer": N, "status": "WAITING", "latency_rounds": 6}],
    )  # fmt: skip
    faults.handle_faults(one)
    assert both(one.broken, "node_id peer ended") == [(0, N, 0), (2, N, 0), (3, N, 0)]
    assert both(one.statuses, "node_id round status") == [(N, 20, "FAILED")]
    assert (one.result.state, one.result.added) == ({}, {})
    calm = network(sail, due("PUB", {"down": crashed}), 0, 2)
    faults.handle_faults(calm)
    assert (calm.broken, calm.statuses, calm.fates) == ([], [], [])
    assert (calm.result.state, calm.result.added) == ({}, {})


@pytest.mark.parametrize(("returned", "fates"), [(0, []), (1, [(50, "lost_crash")])])
def test_only_where_somebody_came_back_something_is_meant_for_the_dead(
    sail: Session, returned: int, fates: list[tuple[int, str]]
) -> None:
    one = network(
        sail, due("PUB", returned=returned), 1,
        inbox=[{"dst": N, "kind": "PUB"}, {"dst": N, "kind": "PUB", "for_incarnation": 1}],
        status=[{**HERE, **UP}],
    )  # fmt: skip
    faults.handle_faults(one)
    assert both(one.fates, "message_id fate") == fates
    assert len(found(one.inbox, "message_id")) == 2 - len(fates)


def test_what_waited_for_an_answer_leaves_with_it(sail: Session) -> None:
    """3 answers: what it is responsible for goes there; 4 has been sent its share long ago."""
    one = network(
        sail, due("STATUS", peers=1), 1,
        inbox=[{"dst": N, "src": 3, "kind": "STATUS", **UP}],
        peer=[peer(2, "FAILED", 0, None), peer(3, "WAITING", None, 6)],
        processing=[{**LISTED, "recipient": r, "responsible": by} for r, by in ((3, 3), (5, 3), (4, 4))],
    )  # fmt: skip
    faults.handle_faults(one)
    assert found(one.now("peer"), "peer status incarnation") == [(2, "FAILED", 0), (3, "OPERATIONAL", 1)]
    assert both(one.resent, "recipient responsible now_round") == [(3, 3, 20), (5, 3, 20)]
    assert sent(one, REQUESTS) == []


def test_a_recovering_neighbour_gets_what_it_is_on_the_way_of_and_routing_information(sail: Session) -> None:
    """2 is back. Message 1 went past it to 3; of message 2 nobody saw 5 so far, and 0 has to confirm it still."""
    one = network(
        sail, due("SYN_REQUEST", peers=1), 1,
        inbox=[{"dst": N, "src": 2, "kind": "SYN_REQUEST", "incarnation": 1}],
        peer=[peer(2, "FAILED", 0, None), peer(3, "OPERATIONAL", 0, 6)],
        processing=[
            *({**LISTED, "recipient": r, "responsible": by} for r, by in ((2, None), (3, 3), (4, 4), (5, 3))),
            *({**LISTED, "source_seq": 2, "sender": None, "trigger": 41, "recipient": r, "responsible": by}
              for r, by in ((0, 0), (3, 3), (4, 4), (2, None))),
        ],
        routing_entry=[{**HERE, "subscription_id": 7, "origin": 4, "distance": 1, "first_hop": 4, "responsible": 4}],
    )  # fmt: skip
    faults.handle_faults(one)
    assert found(one.now("peer"), "peer status incarnation") == [(2, "RECOVERING", 1), (3, "OPERATIONAL", 0)]
    told = [("PAR_SUB", N, 2), ("PAR_TOP", N, 2), ("STATUS", N, 2)]
    assert sent(one, "kind src dst") == told
    assert [row for row in sent(one, "kind rank status for_incarnation") if row[0] == "STATUS"] == [
        ("STATUS", 0, "OPERATIONAL", 1)
    ]
    assert found(one.now("syn_request"), "peer") == []
    behind = [(2, 2), (3, 2), (5, 2)]
    assert found(one.now("processing"), "source_seq recipient responsible") == [
        *((1, *pair) for pair in (*behind[:2], (4, 4), behind[2])), (2, 0, 0),
        *((2, *pair) for pair in (*behind[:2], (4, 4), behind[2])),
    ]  # fmt: skip
    assert both(one.resent, "source_seq recipient responsible") == [(k, *pair) for k in (1, 2) for pair in behind]


def test_a_new_peer_gets_the_recipients_that_have_come_into_view(sail: Session) -> None:
    """3 connects past 2, and knows of 8; it answers for 8 and had not been asked for 5; PUB goes where it went."""
    link = {"a": 3, "b": 8, "is_marked": False}
    one = network(
        sail, due("CON_REQUEST", peers=1, joiners=1), 1,
        inbox=[{"dst": N, "src": 3, "kind": "CON_REQUEST", "incarnation": 0, "links": [link]}],
        peer=[peer(2, "FAILED", 0, None), peer(3, "WAITING", None, 6)],
        processing=[
            *({**LISTED, "recipient": r, "responsible": by} for r, by in ((3, 3), (4, 4))),
            {**LISTED, "kind": "PUB", "source_seq": 2, "recipient": 3, "responsible": 3},
        ],
    )  # fmt: skip
    faults.handle_faults(one)
    assert found(one.now("path").where("target = 8"), "path responsible") == [([1, 2, 3, 8], 3)]
    assert sent(one, "kind src dst status") == [("STATUS", N, 3, "OPERATIONAL")]
    assert found(one.now("processing"), "source_seq recipient responsible") == [
        (1, 2, None), (1, 3, 3), (1, 4, 4), (1, 5, 3), (1, 8, 3), (2, 3, 3),
    ]  # fmt: skip
    assert {*both(one.resent, "source_seq recipient responsible")} == {
        (1, 2, None), (1, 3, 3), (1, 5, 3), (1, 8, 3), (2, 3, 3),
    }  # fmt: skip


def test_a_partner_that_came_back_itself_is_asked_again(sail: Session) -> None:
    """2 has not got the request of 1, which recovers as well. 4 has asked before, and is told when 2 has answered."""
    one = network(
        sail, due("SYN_REQUEST", recovering=1, synchs=1, syn_requests=1), 1,
        inbox=[{"dst": N, "src": 2, "kind": "SYN_REQUEST", "incarnation": 1}],
        peer=[peer(2, "WAITING", None)], status=[{**HERE, "status": "RECOVERING", "incarnation": 1}],
        synch=[{**HERE, "peer": 2, "is_answered": False}], syn_request=[{**HERE, "peer": 4}],
    )  # fmt: skip
    faults.handle_faults(one)
    told = [("PAR_SUB", N, 2), ("PAR_TOP", N, 2), ("STATUS", N, 2), ("SYN_REQUEST", N, 2)]
    assert sent(one, "kind src dst") == told
    assert found(one.now("syn_request"), "peer") == [(4,)]
    assert found(one.now("status"), "status") == [("RECOVERING",)]


def test_a_node_whose_partners_have_all_answered_rises(sail: Session) -> None:
    """PAR_SUB of 2 was the last that 1 waited for: STATUS to its peers, REJOIN; Γ of its Guided PUB anew.

    0 sees nobody that is up: it is OPERATIONAL without a REJOIN.
    """
    told = {"dst": N, "src": 2, "sent_round": 15}
    entries = [{"subscription_id": 7, "origin": 5, "distance": 3}, {"subscription_id": 8, "origin": 5, "distance": 3}]
    one = network(
        sail, due("PAR_TOP PAR_SUB", recovering=2, synchs=1, joiners=1), 1,
        inbox=[
            {**told, "kind": "PAR_TOP", "links": [{"a": 2, "b": 8, "is_marked": False}]},
            {**told, "kind": "PAR_SUB", "entries": entries, "tombstones": [8]},
        ],
        status=[{"node_id": n, "status": "RECOVERING", "incarnation": 1} for n in (0, 1)],
        synch=[{**HERE, "peer": 2, "is_answered": False}],
        peer=[peer(p, "OPERATIONAL") for p in (0, 2, 4)],
        processing=[{**LISTED, "kind": "PUB", "subscription_id": None, "recipient": 4, "responsible": 4}],
    )  # fmt: skip
    faults.handle_faults(one)
    assert found(one.now("topology").where("b = 8"), "node_id a") == [(N, 2)]
    assert found(one.now("path").where("target = 8"), "node_id path responsible") == [(N, [1, 2, 8], 2)]
    assert found(one.now("routing_entry"), "node_id subscription_id distance first_hop responsible") == [
        (N, 7, 3, 2, 2)
    ]
    assert found(one.now("tombstone"), "node_id subscription_id") == [(N, 8)]
    assert found(one.now("synch"), "peer is_answered") == [(2, True)]
    assert found(one.now("status"), "node_id status") == [(0, "OPERATIONAL"), (1, "REJOINING")]
    assert both(one.statuses, "node_id round status") == [(0, 20, "OPERATIONAL")]
    assert both(one.alone, "node_id round") == [(0, 20)]
    assert sent(one, "kind rank src dst status") == [("STATUS", 2, N, p, "OPERATIONAL") for p in (0, 2, 4)]
    assert both(one.copies, "node_id kind source_seq") == [(N, "REJOIN", -1)]
    assert both(one.again, "node_id source kind now_round") == [(N, SOURCE, "PUB", 20)]


def test_who_is_handed_nothing_over_keeps_its_view(sail: Session) -> None:
    """1 gets PAR_TOP; at 0, which gets a STATUS in the same round, nothing is computed anew."""
    one = network(
        sail, due("PAR_TOP STATUS", joiners=1), 1,
        inbox=[
            {"dst": N, "src": 2, "kind": "PAR_TOP", "links": [{"a": 2, "b": 8, "is_marked": False}]},
            {"dst": 0, "src": 1, "kind": "STATUS"},
        ],
        path=[], topology=[{"node_id": 0, "a": 0, "b": 1, "is_marked": False}],
    )  # fmt: skip
    faults._apply_routing_information(one)
    assert found(one.now("path"), "node_id target") == [(N, target) for target in (0, 1, 2, 3, 4, 5, 8)]
