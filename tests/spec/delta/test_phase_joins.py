"""Phase 3 of a round of `delta` as a whole: joins, and the calls that wait, at single nodes.

0 - 1 - 2 - 3 - 5        7 joins at 1, 8 at 2; δ is 2
   / \\
  4   7
"""

from __future__ import annotations

from typing import Any

import pytest
from support.delta.rounds import both, due, network, sent, with_faults
from support.frames import found, frame

from pipelines.contract.round import RunSet
from pipelines.engines.session import Session
from pipelines.protocols.delta.phases import joins
from pipelines.protocols.delta.steps import confirmations

M, JOINER, SOURCE = 1, 7, 9
AT_M = {"node_id": M}
JOINING = {"node_id": JOINER, "join_point": M, "source_seq": 1, "is_asked": True}
REQUEST = {"dst": M, "src": JOINER, "kind": "JOIN_REQUEST", "source": JOINER, "source_seq": 1, "incarnation": 0}
WAITS = {**AT_M, "joiner": JOINER, "source_seq": 1, "incarnation": 0}
LISTED = {
    **AT_M, "source": SOURCE, "source_seq": 1, "kind": "SUB", "sender": 0, "hops": 1, "round": 7, "trigger": 40,
    "subscription_id": 6, "origin": 0, "recipient": 2, "responsible": 2, "is_confirmed": False, "is_reopened": False,
}  # fmt: skip
ENDED = {"trigger": 60, "round": 20}


def finished(sail: Session, **row: Any) -> Any:
    return frame(sail, confirmations.FINISHED, {**ENDED, **row})


@pytest.mark.parametrize(
    ("facts", "rows", "waiting"),
    [
        ({}, {}, []),
        ({"recovering": 1}, {"status": [{"node_id": 2, "status": "RECOVERING", "incarnation": 1}]}, [2]),
        ({"detached": 1}, {"join": [{**JOINING, "status": "DETACHED"}]}, [JOINER]),
    ],
)
def test_calls_wait_for_nodes_that_recover_or_join(
    sail: Session, facts: dict[str, int], rows: dict[str, Any], waiting: list[int]
) -> None:
    """Where no node does, nobody looks for calls that wait."""
    calls = [{"node_id": n, "source_seq": 1, "kind": "publish"} for n in (M, 2, JOINER)]
    one = network(sail, due("publish", **facts), M, calls=calls, **rows)
    joins.collect_copies(one)
    issued = [(n,) for n in (M, 2, JOINER) if n not in waiting]
    assert both(one.copies, "node_id") == issued
    steps = [(n, "held" if n in waiting else "issued") for n in (M, 2, JOINER)]
    assert both(one.events, "source event") == steps
    assert ("call" in one.result.state) == bool(waiting)
    assert found(one.now("call"), "node_id") == [(n,) for n in waiting]
    assert one.statuses == []


def test_a_call_that_waited_is_issued_once_its_node_has_joined(sail: Session) -> None:
    """The J of 7 is confirmed; nobody calls in this round. Without faults it has no peers to tell."""
    one = network(
        sail, due("CONF", detached=1, joiners=1, joining=1, calls=1), M, join=[{**JOINING, "status": "ATTACHED"}],
        call=[{"node_id": JOINER, "source_seq": 2, "kind": "publish"}],
    )  # fmt: skip
    one.finished.append(finished(sail, node_id=JOINER, source=JOINER, source_seq=1, kind="J"))
    joins.collect_copies(one)
    assert found(one.now("join"), "node_id status") == [(JOINER, "VALID_JOINED")]
    assert both(one.statuses, "node_id status") == [(JOINER, "VALID_JOINED")]
    assert both(one.copies, "node_id kind source_seq") == [(JOINER, "PUB", 2)]
    assert found(one.now("call"), "node_id") == []
    assert sent(one, "kind") == []
    assert "status" not in one.result.state


@pytest.mark.parametrize(("is_answered", "status"), [(False, "CONFIRMED"), (True, "VALID_JOINED")])
def test_who_joined_among_failures_tells_its_peers_when_all_it_asked_have_answered(
    sail: Session, is_answered: bool, status: str
) -> None:
    """1 has joined at 0, and has asked 3 past 2."""
    one = network(
        sail, due("CONF", detached=1, joiners=1, joining=1, peers=1), M,
        join=[{**JOINING, "node_id": M, "join_point": 0, "status": "ATTACHED"}],
        synch=[{**AT_M, "peer": 3, "is_answered": is_answered}],
        peer=[{**AT_M, "peer": 2, "status": "FAILED"}],
    )  # fmt: skip
    one.finished.append(finished(sail, **AT_M, source=M, source_seq=1, kind="J"))
    joins.collect_copies(one)
    assert found(one.now("join"), "node_id status") == [(M, status)]
    told = [("STATUS", 2, M, p, "OPERATIONAL") for p in (0, 4)] if is_answered else []
    assert sent(one, "kind rank src dst status") == told


@pytest.mark.parametrize("crashing", [True, False])
def test_a_join_call_asks_the_join_point_and_that_is_noted_for_a_crash(sail: Session, crashing: bool) -> None:
    """M is down; 2 publishes in the same round."""
    down = frame(sail, "node_id incarnation", {**AT_M, "incarnation": 0})
    of = with_faults(due("join publish", {"down": down}, detached=1, joiners=1), crashing=RunSet(is_all=crashing))
    calls = [{"node_id": JOINER, "kind": "join", "join_point": M}, {"node_id": 2, "kind": "publish"}]
    one = network(
        sail, of, 2, calls=[{"source_seq": 1, **call} for call in calls],
        join=[{**JOINING, "status": "DETACHED", "is_asked": False}],
    )  # fmt: skip
    joins.collect_copies(one)
    assert sent(one, "kind src dst source_seq") == [("JOIN_REQUEST", JOINER, M, 1)]
    assert both(one.events, "source event") == [(2, "issued"), (JOINER, "issued")]
    assert found(one.now("join"), "node_id is_asked") == [(JOINER, crashing)]
    assert both(one.broken, "node_id peer") == ([(JOINER, M)] if crashing else [])


@pytest.mark.parametrize("detached", [1, 0])
def test_a_join_point_answers_and_hands_on_what_it_processes(sail: Session, detached: int) -> None:
    """SUB 5 has ended in this very round, so PAR_SUB has it; SUB 6 is under way. Nothing is noted for faults."""
    entry = {**AT_M, "subscription_id": 4, "origin": 0, "distance": 1, "first_hop": 0, "responsible": 0}
    one = network(
        sail, due("JOIN_REQUEST CONF", detached=detached, joiners=1, routing=1), M, inbox=[REQUEST],
        join=[{**JOINING, "status": "DETACHED"}] if detached else [], processing=[LISTED], routing_entry=[entry],
    )  # fmt: skip
    one.finished.append(finished(sail, **AT_M, source=2, source_seq=3, kind="SUB", subscription_id=5, origin=2))
    joins.collect_copies(one)
    links = [(0, 1, False), (1, 2, False), (1, 4, False), (2, 3, False)]
    assert sent(one, "kind rank src dst links entries subscription_id") == [
        ("PAR_SUB", 1, M, JOINER, None, [(4, 0, 2), (5, 2, 2)], None), ("PAR_TOP", 0, M, JOINER, links, None, None),
        ("SUB", 2, M, JOINER, None, None, 6),
    ]  # fmt: skip
    assert found(one.now("topology").where("is_marked"), "node_id a b") == [(M, M, JOINER)]
    assert found(one.now("path").where("target = 7"), "node_id path responsible") == [(M, [M, JOINER], JOINER)]
    assert found(one.now("processing"), "recipient responsible") == [(2, 2), (JOINER, JOINER)]
    assert {"peer", "join"}.isdisjoint(one.result.state)


def test_a_join_point_is_connected_to_whom_it_answers_among_failures(sail: Session) -> None:
    """Nothing is under way. 3 has failed, and so 7 has the entry of 0 alone."""
    entry = {**AT_M, "subscription_id": 4, "origin": 0, "distance": 1, "first_hop": 0, "responsible": 0}
    one = network(
        sail, due("JOIN_REQUEST", joiners=1, detached=1, peers=1), M, inbox=[{**REQUEST, "incarnation": 1}],
        join=[{**JOINING, "status": "DETACHED"}], routing_entry=[entry],
        peer=[{**AT_M, "peer": 3, "status": "FAILED"}], processing=[{**LISTED, "kind": "PUB"}],
    )  # fmt: skip
    joins.collect_copies(one)
    assert found(one.now("peer"), "peer status incarnation latency_rounds") == [
        (3, "FAILED", None, None), (JOINER, "OPERATIONAL", 1, 3),
    ]  # fmt: skip
    assert sent(one, "kind dst entries") == [("PAR_SUB", JOINER, [(4, 0, 2)]), ("PAR_TOP", JOINER, None)]
    assert "processing" not in {**one.result.state, **one.result.added}


def test_a_request_waits_until_its_join_point_has_joined_itself(sail: Session) -> None:
    """1 has joined at 0 when its J is confirmed, without any failure; before it, the request stays."""
    rows = {
        "join": [{**JOINING, "node_id": M, "join_point": 0, "status": "ATTACHED"}, {**JOINING, "status": "DETACHED"}],
        "join_request": [WAITS],
    }
    facts = {"detached": 2, "joiners": 2, "joining": 1, "requests": 1}
    early = network(sail, due("PUB", **facts), M, **rows)
    joins.collect_copies(early)
    assert {"join_request", "join", "topology"}.isdisjoint(early.result.state)
    one = network(sail, due("CONF", **facts), M, **rows)
    one.finished.append(finished(sail, **AT_M, source=M, source_seq=1, kind="J"))
    joins.collect_copies(one)
    assert sent(one, "kind src dst trigger sent_round") == [("PAR_TOP", M, JOINER, -1, 20)]
    assert found(one.now("join_request"), "joiner") == []
    assert found(one.now("topology").where("is_marked"), "a b") == [(M, JOINER)]


def test_a_request_waits_until_its_join_point_has_recovered(sail: Session) -> None:
    """The REJOIN of 1 is confirmed."""
    one = network(
        sail, due("CONF", detached=1, joiners=1, requests=1, recovering=1, returned=1), M,
        join=[{**JOINING, "status": "DETACHED"}], join_request=[WAITS],
        status=[{**AT_M, "status": "REJOINING", "incarnation": 1}],
    )  # fmt: skip
    one.finished.append(finished(sail, **AT_M, source=M, source_seq=-1, kind="REJOIN"))
    joins.collect_copies(one)
    assert found(one.now("status"), "node_id status") == [(M, "OPERATIONAL")]
    assert both(one.statuses, "node_id round status") == [(M, 20, "OPERATIONAL")]
    assert sent(one, "kind src dst trigger incarnation") == [("PAR_TOP", M, JOINER, 60, 1)]
    assert found(one.now("join_request"), "joiner") == []


def test_a_node_with_an_answer_is_attached_and_issues_j(sail: Session) -> None:
    """PAR_SUB comes with PAR_TOP, on the same link."""
    reply = {"dst": JOINER, "src": M, "source": JOINER, "source_seq": 1, "incarnation": 0}
    one = network(
        sail, due("PAR_TOP PAR_SUB", detached=1, joiners=1), M, join=[{**JOINING, "status": "DETACHED"}],
        inbox=[
            {**reply, "kind": "PAR_TOP", "links": [{"a": 0, "b": 1, "is_marked": False}]},
            {**reply, "kind": "PAR_SUB", "entries": [{"subscription_id": 4, "origin": 0, "distance": 2}]},
        ],
    )  # fmt: skip
    joins.collect_copies(one)
    assert found(one.now("join"), "node_id status") == [(JOINER, "ATTACHED")]
    assert found(one.now("topology").where("node_id = 7"), "a b is_marked") == [(0, 1, False), (1, 7, True)]
    assert found(one.now("path").where("node_id = 7"), "target path") == [(0, [7, 1, 0]), (1, [7, 1]), (7, [7])]
    assert both(one.copies, "node_id kind source_seq join_point") == [(JOINER, "J", 1, M)]
    assert both(one.added, "node_id subscription_id") == [(JOINER, 4)]


@pytest.mark.parametrize(
    ("kinds", "facts", "goes_on"),
    [
        ("PAR_TOP", {"detached": 1}, True), ("PAR_SUB", {"detached": 1}, True), ("DETECT", {"detached": 1}, True),
        ("J", {"detached": 1}, True), ("CONF", {"detached": 1, "joining": 1}, True), ("CONF", {"detached": 1}, False),
        ("PAR_SUB", {"recovering": 1}, False), ("DETECT", {"recovering": 1}, False),
    ],
)  # fmt: skip
def test_joins_go_on_where_something_may_have_come_for_them(
    sail: Session, kinds: str, facts: dict[str, int], goes_on: bool
) -> None:
    """Otherwise their relation stays as it is."""
    one = network(sail, due(kinds, joiners=1, **facts), join=[{**JOINING, "status": "ATTACHED"}])
    joins.collect_copies(one)
    assert ("join" in one.result.state) == goes_on
    assert found(one.now("join"), "node_id status") == [(JOINER, "ATTACHED")]


@pytest.mark.parametrize(("peers", "responsible"), [(0, 2), (1, None)])
def test_a_j_brings_its_source_into_view(sail: Session, peers: int, responsible: int | None) -> None:
    """8 joins at 2, which 1 suspects, where anybody has failed at all; the J goes on."""
    one = network(
        sail, due("J", peers=peers, joiners=1), M, peer=[{**AT_M, "peer": 2, "status": "FAILED"}] if peers else [],
        inbox=[{"dst": M, "src": 3, "kind": "J", "source": 8, "source_seq": 1, "join_point": 2}],
    )  # fmt: skip
    joins.collect_copies(one)
    assert found(one.now("topology").where("b = 8"), "a b is_marked") == [(2, 8, True)]
    assert found(one.now("path").where("target = 8"), "path responsible") == [([1, 2, 8], responsible)]
    assert both(one.copies, "node_id source kind") == [(M, 8, "J")]


def test_what_is_no_multicast_message_is_not_forwarded(sail: Session) -> None:
    one = network(sail, due("CONF"), M, inbox=[{"dst": M, "kind": "CONF"}])
    joins.collect_copies(one)
    assert (one.copies, one.result.state, one.result.added) == ([], {}, {})


def test_where_nobody_entered_not_even_the_first_node_did(sail: Session) -> None:
    one = network(sail, due(), join=[{**JOINING, "node_id": n, "status": "ATTACHED"} for n in (0, 1)])
    assert found(joins._nobody(one), "node_id") == []
