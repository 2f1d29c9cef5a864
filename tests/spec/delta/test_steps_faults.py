"""Phase 1 of a round of `delta`: whom faults concern, and who is suspected, on small frames."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame
from support.delta.rounds import due, work
from support.frames import found, frame, way

from pipelines.engines.session import Session
from pipelines.protocols.delta.phases import faults, joins, updates
from pipelines.protocols.delta.tables import (
    INBOX,
    JOIN,
    PATH,
    PEER,
    PROCESSING,
    ROUTING_ENTRY,
    STATUS,
    SYNCH,
    TOPOLOGY,
)

FAILURE = "node_id peer round incarnation"


def join_rows(sail: Session, **status: str) -> DataFrame:
    rows = (
        {"node_id": int(name[1:]), "join_point": 1, "source_seq": 1, "status": now, "is_asked": True}
        for name, now in status.items()
    )
    return frame(sail, JOIN.columns, *rows)


def statuses(sail: Session, **status: str) -> DataFrame:
    rows = ({"node_id": int(name[1:]), "status": now, "incarnation": 1} for name, now in status.items())
    return frame(sail, STATUS.columns, *rows)


def failed(sail: Session, *pairs: tuple[int, int]) -> DataFrame:
    return frame(sail, FAILURE, *({"node_id": n, "peer": p, "round": 20, "incarnation": 0} for n, p in pairs))


def test_who_comes_back_gets_nothing_that_was_meant_for_its_earlier_life(sail: Session) -> None:
    """1 comes back in its incarnation 2 just now, 4 is in its incarnation 1."""
    to = [(1, 1), (1, 2), (4, 1), (4, None)]
    inbox = frame(sail, INBOX, *(
        {"message_id": k, "dst": d, "kind": "PUB", "for_incarnation": meant} for k, (d, meant) in enumerate(to)
    ))  # fmt: skip
    back = frame(sail, "node_id incarnation round", {"node_id": 1, "incarnation": 2, "round": 20})
    for recovered, kept in ((back, [1, 2]), (None, [2])):
        one = work(due("PUB", {"recovered": recovered}, returned=1), status=statuses(sail, n4="OPERATIONAL"))
        one.inbox = inbox
        faults._drop_old(one)
        assert found(one.inbox, "message_id") == [(k,) for k in kept]
        assert found(one.fates[0], "message_id fate") == [(k, "lost_crash") for k in range(4) if k not in kept]


SYNCHING = {"node_id": 1, "peer": 2, "is_answered": False}


def test_partners_without_an_answer_are_lost_and_all_partners_of_a_joining_node(sail: Session) -> None:
    """1 waits for 2, and has the answer of 3; 4 joins at the moment, 5 has joined, 6 has no answer of M yet."""
    synch = frame(sail, SYNCH.columns, SYNCHING, {"node_id": 1, "peer": 3, "is_answered": True})
    join = join_rows(sail, n4="ATTACHED", n5="VALID_JOINED", n6="DETACHED", n7="CONFIRMED")
    failure = failed(sail, (1, 2), (1, 3), (4, 2), (5, 2), (6, 2), (7, 2))
    calm = work(due("DETECT"), synch=synch, join=join)
    assert found(faults._lost_partners(calm, failure), "node_id peer") == [(1, 2)]
    joining = work(due("DETECT", detached=1), synch=synch, join=join)
    assert found(faults._lost_partners(joining, failure), "node_id peer") == [(1, 2), (4, 2), (7, 2)]


def test_who_recovers_or_joins_gathers_routing_information(sail: Session) -> None:
    status = statuses(sail, n1="RECOVERING", n2="REJOINING")
    join = join_rows(sail, n4="ATTACHED", n5="VALID_JOINED", n6="DETACHED", n7="CONFIRMED")
    assert found(updates.synchronising(work(status=status, join=join)), "node_id") == [(1,)]
    joining = work(due(detached=1), status=status, join=join)
    assert found(updates.synchronising(joining), "node_id") == [(1,), (4,), (7,)]


def test_reports_new_joins_and_who_is_detached_tell_of_failures(sail: Session) -> None:
    """2 has failed by a report, 3 asks to join again in its incarnation 2, and 4 says that it is DETACHED."""
    inbox = frame(
        sail, INBOX,
        {"dst": 1, "kind": "DETECT", "peer": 2, "incarnation": 0, "due_round": 20},
        {"dst": 1, "kind": "JOIN_REQUEST", "src": 3, "incarnation": 2, "due_round": 20},
        {"dst": 1, "kind": "STATUS", "src": 4, "status": "DETACHED", "incarnation": 1, "due_round": 20},
    )  # fmt: skip
    path = frame(sail, PATH.columns, way(1), way(1, 2), way(1, 3), way(1, 4))
    link = frame(sail, "src dst latency_rounds", *({"src": 1, "dst": d, "latency_rounds": 1} for d in (2, 3, 4)))

    def told(**facts: int) -> list[tuple[Any, ...]]:
        of = due("DETECT JOIN_REQUEST STATUS", **facts)
        of.run.link = link
        one = work(of, path=path, peer=frame(sail, PEER.columns), join=join_rows(sail, n8="VALID_JOINED"))
        one.inbox = inbox
        return found(faults._failures(one), "node_id peer round incarnation")

    assert told() == [(1, 2, 20, 0)]
    assert told(joiners=1) == [(1, 2, 20, 0), (1, 3, 20, 1), (1, 4, 20, 1)]


@pytest.mark.parametrize(("end_round", "asks"), [(30, [(7, 1)]), (None, [])])
def test_a_detached_node_asks_its_join_point_again_unless_that_is_down_for_good(
    sail: Session, end_round: int | None, asks: list[tuple[int, int]]
) -> None:
    """7 waits for 1, which has failed; what 4 has detected is dealt with as ever."""
    of = due(
        "DETECT",
        {
            "down": frame(
                sail, "node_id incarnation end_round", {"node_id": 1, "incarnation": 0, "end_round": end_round}
            )
        },
    )
    of.run.link = frame(sail, "src dst latency_rounds", {"src": 7, "dst": 1, "latency_rounds": 3})
    joins = join_rows(sail, n7="DETACHED", n4="VALID_JOINED")
    one = work(of, join=joins, status=statuses(sail), path=frame(sail, PATH.columns))
    left = faults._retry_joins(one, failed(sail, (7, 1), (4, 1)))
    assert found(left, "node_id peer") == [(4, 1)]
    [requests] = (found(sent, "kind src dst") for sent in one.outbox)
    assert requests == [("JOIN_REQUEST", node, to) for node, to in asks]
    assert [pair for rows in one.broken for pair in found(rows, "node_id peer")] == asks


@pytest.mark.parametrize(("joiners", "links"), [(0, [(1, 2)]), (1, [(1, 2), (2, 3)])])
def test_only_where_nodes_join_there_are_links_to_learn(
    sail: Session, joiners: int, links: list[tuple[int, int]]
) -> None:
    """δ is 1: 2 - 3 has its farther end two hops from node 1, and 3 - 4 three."""
    told = frame(sail, TOPOLOGY.columns, *({"node_id": 1, "a": a, "b": a + 1, "is_marked": False} for a in (1, 2, 3)))
    topology = frame(sail, TOPOLOGY.columns, {"node_id": 1, "a": 1, "b": 2, "is_marked": False})
    of = due("PAR_TOP", joiners=joiners)
    of.run.setting = frame(sail, "delta", {"delta": 1})
    one = work(of, topology=topology)
    one.radius = 3
    updates.add_received_links(one, told)
    assert found(one.now("topology"), "a b") == links


def test_nobody_is_told_by_a_node_that_is_detached(sail: Session) -> None:
    """6 has no answer of its join point yet: a STATUS says nothing to it, PAR_TOP does; 1 hears everybody."""
    told = [(6, "STATUS", None), (6, "PAR_TOP", 1), (1, "STATUS", None)]
    inbox = frame(sail, INBOX, *(
        {"dst": d, "src": 2 + k, "kind": kind, "source_seq": q, "status": "OPERATIONAL", "incarnation": 0,
         "sent_round": 18, "due_round": 20, "message_id": k}
        for k, (d, kind, q) in enumerate(told)
    ))  # fmt: skip
    one = work(
        due("STATUS PAR_TOP"), peer=frame(sail, PEER.columns), join=join_rows(sail, n6="DETACHED"),
        status=statuses(sail), path=frame(sail, PATH.columns, way(1), way(6)),
        routing_entry=frame(sail, ROUTING_ENTRY.columns), processing=frame(sail, PROCESSING.columns),
    )  # fmt: skip
    one.inbox = inbox
    faults._connect(one)
    assert found(one.now("peer"), "node_id peer status") == [(1, 4, "OPERATIONAL"), (6, 3, "OPERATIONAL")]


def test_a_node_that_waits_for_its_join_point_is_connected_to_it(sail: Session) -> None:
    """1 has its neighbour 2; 7 waits for 1, where nodes join at all."""
    link = frame(
        sail, "src dst latency_rounds", *({"src": a, "dst": b, "latency_rounds": 3} for a, b in ((1, 2), (7, 1)))
    )
    known = {"path": frame(sail, PATH.columns, way(1), way(1, 2)), "peer": frame(sail, PEER.columns)}
    for detached, expected in ((0, [(1, 2, 0)]), (1, [(1, 2, 0), (7, 1, None)])):
        of = due(detached=detached)
        of.run.link = link
        connected = updates.connections_of(work(of, join=join_rows(sail, n7="DETACHED"), **known))
        assert found(connected, "node_id peer incarnation") == expected


def test_who_comes_back_before_its_join_ended_joins_again_and_does_not_recover(sail: Session) -> None:
    """7 had asked its join point, 8 had not asked yet; 4 had joined, and recovers."""
    join = join_rows(sail, n7="ATTACHED", n8="DETACHED", n4="VALID_JOINED").selectExpr(
        "run_id", "node_id", "join_point", "source_seq", "node_id <> 8 as is_asked", "status"
    )
    links = ({"node_id": n, "a": 1, "b": 7, "is_marked": True} for n in (4, 7))
    one = work(
        due("", {"down": None}, detached=1), join=join, topology=frame(sail, TOPOLOGY.columns, *links),
        status=statuses(sail, n4="RECOVERING", n7="RECOVERING", n8="RECOVERING"),
    )  # fmt: skip
    one.round.run.link = frame(sail, "src dst latency_rounds")
    back = frame(sail, "node_id round incarnation", *({"node_id": n, "round": 20, "incarnation": 1} for n in (4, 7, 8)))
    assert found(faults._join_again(one, back), "node_id") == [(4,)]
    assert found(one.now("join"), "node_id status") == [(4, "VALID_JOINED"), (7, "DETACHED"), (8, "DETACHED")]
    assert found(one.now("topology"), "node_id") == [(4,)]
    assert found(one.now("status"), "node_id status") == [(4, "RECOVERING"), (7, "OPERATIONAL"), (8, "OPERATIONAL")]
    assert found(one.statuses[0], "node_id round status") == [(7, 20, "RECOVERING"), (8, 20, "DETACHED")]
    assert [found(sent, "kind src dst incarnation") for sent in one.outbox] == [[("JOIN_REQUEST", 7, 1, 1)]]


def test_an_entry_that_named_a_node_out_of_view_has_a_way_when_a_join_brings_it_into_view(sail: Session) -> None:
    """J of 7, which joins at 2, comes to 1; PAR_SUB has told 1 before of a subscription of 7."""
    told = {"dst": 1, "src": 2, "kind": "J", "source": 7, "join_point": 2, "message_id": 50, "due_round": 20}
    one = work(
        due("J", {"down": frame(sail, "node_id", {"node_id": 9})}),
        topology=frame(sail, TOPOLOGY.columns, {"node_id": 1, "a": 1, "b": 2, "is_marked": False}),
        path=frame(sail, PATH.columns, way(1), way(1, 2)), peer=frame(sail, PEER.columns, {"node_id": 3, "peer": 9}),
        routing_entry=frame(
            sail, ROUTING_ENTRY.columns, {"node_id": 1, "subscription_id": 5, "origin": 7, "distance": 2}
        ),
    )  # fmt: skip
    one.inbox = frame(sail, INBOX, told)
    assert joins.handle_joins(one) is None
    assert found(one.now("topology"), "a b is_marked") == [(1, 2, False), (2, 7, True)]
    assert found(one.now("path"), "target path") == [(1, [1]), (2, [1, 2]), (7, [1, 2, 7])]
    assert found(one.now("routing_entry"), "origin distance first_hop responsible") == [(7, 2, 2, 2)]
