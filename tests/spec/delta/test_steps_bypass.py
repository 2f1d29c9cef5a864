"""Failure detection, bypass and connections (Algorithms 3 and 4), each step of `delta` on small frames.

0 - 1 - 2 - 3 - 5        N is node 1
    |
    4
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame
from support.frames import found, frame, way

from pipelines.engines.session import Session
from pipelines.protocols.delta.steps import connections, copies
from pipelines.protocols.delta.tables import INBOX, JOIN, PATH, PEER, PROCESSING, STATUS, TOPOLOGY

N, SOURCE = 1, 9
HERE = {"node_id": N}
FIRST = -(2**62)
"""The trigger of what comes before all else of a round."""
CONNECTION = "node_id peer incarnation latency_rounds"
FAILURE = "node_id peer round incarnation"
ANSWER = [*PEER.columns, "kind", "trigger", "round", "is_new"]


def peer_rows(sail: Session, *rows: tuple[int, str, int | None, int | None]) -> DataFrame:
    """Peer, status, incarnation, latency."""
    names = ("peer", "status", "incarnation", "latency_rounds")
    return frame(sail, PEER.columns, *({**HERE, **dict(zip(names, row, strict=True))} for row in rows))


def failed(sail: Session, *nodes: int) -> DataFrame:
    return frame(sail, FAILURE, *({**HERE, "peer": node, "round": 20, "incarnation": 1} for node in nodes))


def processing(sail: Session, *rows: dict[str, Any]) -> DataFrame:
    usual = {**HERE, "source": SOURCE, "source_seq": 1, "kind": "PUB", "is_confirmed": False, "is_reopened": False}
    return frame(sail, [*PROCESSING.columns, "now_round"], *({**usual, **row} for row in rows))


def listed(rows: DataFrame) -> DataFrame:
    return rows.select(PROCESSING.columns)


def test_what_was_meant_for_an_earlier_incarnation_is_dropped_but_for_requests(sail: Session) -> None:
    """N is in its incarnation 2; node 4 never failed, and nobody says more of it."""
    to = [
        (N, "PUB", 2),
        (N, "PUB", 1),
        (N, "PUB", None),
        (N, "CON_REQUEST", 1),
        (4, "PUB", None),
        (4, "PUB", 0),
        (4, "PUB", 1),
    ]
    inbox = frame(sail, INBOX, *(
        {"message_id": k, "dst": dst, "kind": kind, "for_incarnation": meant} for k, (dst, kind, meant) in enumerate(to)
    ))  # fmt: skip
    kept = connections.for_this_incarnation(inbox, frame(sail, STATUS.columns, {**HERE, "incarnation": 2}))
    assert found(kept, "message_id") == [(0,), (3,), (4,), (5,)]
    assert found(connections.dropped(inbox, kept), "message_id fate") == [(k, "lost_crash") for k in (1, 2, 6)]


def test_a_node_is_connected_to_neighbours_that_never_failed_and_to_peers_that_are_not_held_for_failed(
    sail: Session,
) -> None:
    path = frame(sail, PATH.columns, way(1), way(1, 0), way(1, 2), way(1, 4), way(1, 2, 3))
    peer = peer_rows(sail, (2, "FAILED", 1, None), (3, "OPERATIONAL", 1, 6), (4, "WAITING", None, 2))
    link = frame(sail, "src dst latency_rounds", *({"src": N, "dst": d, "latency_rounds": 3} for d in (0, 2, 3, 4)))
    expected = [(0, 0, 3), (3, 1, 6), (4, None, 2)]
    assert found(connections.connected(path, peer, link), "peer incarnation latency_rounds") == expected


def test_a_node_connected_to_an_ended_incarnation_is_told(sail: Session) -> None:
    """2 crashed in its incarnation 1; node 5 is connected to a later one, node 4 does not know.

    If 2 is back already, a connection that does not know leads to the one that is up.
    """
    told = [(1, 2, 0, 3), (6, 2, 1, 3), (4, 2, None, 9), (5, 2, 2, 3), (7, 3, 0, 3)]
    connection = frame(sail, CONNECTION, *(dict(zip(CONNECTION.split(), row, strict=True)) for row in told))
    over = {"node_id": 2, "incarnation": 1, "round": 20}
    path, link = frame(sail, PATH.columns), frame(sail, "src dst latency_rounds")
    broken = "node_id peer ended latency_rounds round"
    for is_down, nodes in ((True, [(1, 2, 1, 3, 20), (4, 2, 1, 9, 20), (6, 2, 1, 3, 20)]), (False, [1, 6])):
        crashed = frame(sail, "node_id incarnation round is_down", {**over, "is_down": is_down})
        rows = found(connections.broken_connections(connection, crashed, path, link), broken)
        assert (rows if is_down else [row[0] for row in rows]) == nodes


def test_messages_from_a_crashed_peer_count_with_the_latency_of_their_direction(sail: Session) -> None:
    """The link from 2 takes 8 rounds. 3 is behind 2: its messages take 4 + 8 rounds. The way to 4 takes longest."""
    told = [(N, 2, 0, 3), (N, 3, 1, 5), (N, 4, 0, 9)]
    connection = frame(sail, CONNECTION, *(dict(zip(CONNECTION.split(), row, strict=True)) for row in told))
    crashed = frame(
        sail, "node_id incarnation round is_down",
        *({"node_id": node, "incarnation": 1, "round": 20, "is_down": True} for node in (2, 3, 4)),
    )  # fmt: skip
    path = frame(sail, PATH.columns, way(N, 2), way(N, 2, 3), way(N, 4))
    links = {(2, N): 8, (N, 2): 3, (3, 2): 4, (2, 3): 2, (4, N): 1, (N, 4): 9}
    link = frame(
        sail, "src dst latency_rounds", *({"src": a, "dst": b, "latency_rounds": n} for (a, b), n in links.items())
    )
    rows = found(connections.broken_connections(connection, crashed, path, link), "peer latency_rounds")
    assert rows == [(2, 8), (3, 12), (4, 9)]


def test_a_crash_is_reported_once_a_round_and_after_the_last_words(sail: Session) -> None:
    """Detection takes 5 rounds; 4 is connected over 9, and twice: it accepted the connection in this very round."""
    told = [(1, 2, 1, 3, 20), (4, 2, 0, 9, 20), (4, 2, 1, 9, 20)]
    columns = "node_id peer ended latency_rounds round"
    broken = frame(sail, columns, *(dict(zip(columns.split(), row, strict=True)) for row in told))
    status = frame(sail, STATUS.columns, {"node_id": 4, "incarnation": 3})
    sent = connections.crash_reports(broken, status, frame(sail, "detection_rounds", {"detection_rounds": 5}))
    assert found(sent, "src dst trigger rank kind sent_round peer incarnation for_incarnation latency_rounds") == [
        (1, 1, FIRST, 2, "DETECT", 20, 2, 1, None, 5),
        (4, 4, FIRST, 2, "DETECT", 20, 2, 1, 3, 9),
    ]


def test_a_report_counts_for_the_incarnation_that_the_node_is_connected_to(sail: Session) -> None:
    """Of 2 there are two reports, 3 was not told its incarnation, 4 is back in a later one, 5 in the very same."""
    reports = [(2, 0), (2, 1), (3, 1), (4, 1), (5, 1)]
    detect = ({"dst": N, "kind": "DETECT", "peer": p, "incarnation": k, "due_round": 20} for p, k in reports)
    inbox = frame(sail, INBOX, *detect, {"dst": N, "kind": "STATUS", "peer": 6, "incarnation": 9, "due_round": 20})
    known = [(2, 0), (3, None), (4, 2), (5, 1), (6, 0)]
    connection = frame(sail, CONNECTION, *({**HERE, "peer": p, "incarnation": k} for p, k in known))
    failures = found(connections.failures(inbox, connection), "peer round incarnation")
    assert failures == [(2, 20, 1), (3, 20, 1), (5, 20, 1)]


def test_a_failed_peer_is_held_for_failed_unless_somebody_in_between_is_up(sail: Session) -> None:
    """2 and 3 fail at once; 5 lies behind 4, which is up, and is forgotten; 6 is another peer."""
    path = frame(sail, PATH.columns, way(1, 2), way(1, 2, 3), way(1, 4, 5))
    before = peer_rows(sail, (2, "WAITING", None, 3), (5, "OPERATIONAL", 1, 4), (6, "OPERATIONAL", 1, 4))
    after = connections.with_failures(before, failed(sail, 2, 3, 5), path)
    assert found(after, "peer status incarnation latency_rounds") == [
        (2, "FAILED", 1, None), (3, "FAILED", 1, None), (6, "OPERATIONAL", 1, 4),
    ]  # fmt: skip


BEHIND_2 = [way(1, 2), way(1, 2, 3), way(1, 2, 3, 5), way(1, 2, 8), way(1, 4), way(1, 4, 6)]


def test_the_frontier_are_the_first_nodes_behind_those_that_failed(sail: Session) -> None:
    path = frame(sail, PATH.columns, way(1), *BEHIND_2)
    peer = peer_rows(sail, (2, "FAILED", 1, None))
    assert found(connections.frontier(path, failed(sail, 2), peer), "peer path round") == [
        (3, [1, 2, 3], 20),
        (8, [1, 2, 8], 20),
    ]
    peer = peer_rows(sail, (2, "FAILED", 1, None), (3, "FAILED", 1, None))
    assert found(connections.frontier(path, failed(sail, 2, 3), peer), "peer") == [(5,), (8,)]
    assert found(connections.frontier(path, failed(sail, 3), peer), "peer") == [(5,)]


def test_the_closest_node_left_stands_in_for_a_partner_that_failed(sail: Session) -> None:
    """3 was asked past 2, which is back: 2 stands in for it; without 2, whoever is behind both."""
    path = frame(sail, PATH.columns, way(1), *BEHIND_2)
    nearer = connections.stand_ins(path, failed(sail, 3), peer_rows(sail, (3, "FAILED", 1, None)))
    assert found(nearer, "peer path round") == [(2, [1, 2], 20)]
    both = peer_rows(sail, (2, "FAILED", 1, None), (3, "FAILED", 1, None))
    assert found(connections.stand_ins(path, failed(sail, 3), both), "peer") == [(5,)]


def test_messages_take_as_long_past_a_node_as_over_its_links(sail: Session) -> None:
    hops = {(1, 2): 2, (2, 3): 3, (3, 5): 4, (2, 1): 7, (3, 2): 7}
    link = frame(
        sail, "src dst latency_rounds", *({"src": a, "dst": b, "latency_rounds": k} for (a, b), k in hops.items())
    )
    row = frame(sail, "node_id peer path", *({**HERE, "peer": p[-1], "path": p} for p in ([1, 2, 3], [1, 2, 3, 5])))
    assert found(connections.path_latencies(row, link), "node_id peer latency_rounds") == [(1, 3, 5), (1, 5, 9)]


def test_new_peers_are_waited_for_and_asked_once_with_the_topology(sail: Session) -> None:
    """N asks 3 twice over; node 6 came back once, and knows no links; 4 is a peer of N already."""
    pairs = [(N, 3), (N, 3), (6, 3), (N, 4)]
    asked = frame(sail, "node_id peer round", *({"node_id": n, "peer": p, "round": 20} for n, p in pairs))
    latency = frame(sail, "node_id peer latency_rounds", *(
        {"node_id": n, "peer": p, "latency_rounds": 7} for n, p in {*pairs}
    ))  # fmt: skip
    peer = peer_rows(sail, (4, "OPERATIONAL", 1, 2))
    fresh = connections.new_peers(asked.distinct(), peer, latency)
    assert found(fresh, "node_id peer status incarnation latency_rounds") == [
        (N, 3, "WAITING", None, 7), (6, 3, "WAITING", None, 7),
    ]  # fmt: skip
    ends = [(N, 1, 2, False), (N, 0, 1, True), (8, 8, 9, False)]
    topology = frame(sail, TOPOLOGY.columns, *(dict(zip(TOPOLOGY.columns, (0, *row), strict=True)) for row in ends))
    status = frame(sail, STATUS.columns, {"node_id": 6, "incarnation": 2})
    sent = connections.send_requests(asked.where("peer = 3"), "CON_REQUEST", latency, topology, status)
    assert found(sent, "src dst trigger rank kind sent_round incarnation links latency_rounds") == [
        (N, 3, FIRST, 1, "CON_REQUEST", 20, 0, [(0, 1, True), (1, 2, False)], 7),
        (6, 3, FIRST, 1, "CON_REQUEST", 20, 2, None, 7),
    ]


def test_orphans_go_to_the_closest_node_left(sail: Session) -> None:
    """2 failed, and N has asked 3: it takes 3 and 5; nobody is on the way to 6, which a Guided message told, or 8."""
    rows = processing(
        sail, {"recipient": 3, "responsible": 2}, {"recipient": 2, "responsible": 2, "is_confirmed": True},
        {"recipient": 4, "responsible": 4}, {"recipient": 5, "responsible": 2},
        {"recipient": 6, "responsible": 2, "path": [1, 2, 7, 6]}, {"recipient": 8, "responsible": 2},
    )  # fmt: skip
    orphan = connections.orphans(listed(rows), failed(sail, 2))
    assert found(orphan, "recipient now_round") == [(3, 20), (5, 20), (6, 20), (8, 20)]
    path = frame(sail, PATH.columns, *BEHIND_2)
    taken = connections.rerouted(orphan, path, peer_rows(sail, (2, "FAILED", 1, None), (3, "WAITING", None, 5)))
    expected = [(3, 3, None), (5, 3, None), (6, None, [1, 2, 7, 6]), (8, None, None)]
    assert found(taken, "recipient responsible path") == expected
    after = copies.with_rows(listed(rows), taken)
    assert found(after, "recipient responsible is_confirmed") == [
        (2, 2, True), (3, 3, False), (4, 4, False), (5, 3, False), (6, None, False), (8, None, False),
    ]  # fmt: skip


def test_what_is_sent_again_goes_once_to_each_receiver_in_the_order_of_first_copies(sail: Session) -> None:
    """Far before what the round sends, and a hop farther."""
    usual = {"now_round": 20, "round": 7, "trigger": 40, "hops": 2}
    pairs = [{"node": 0, "msg_id": 5}]
    rows = processing(
        sail, {**usual, "recipient": 3, "responsible": 3, "visited": pairs, "msg_id": 6}, {**usual, "recipient": 6},
        {**usual, "recipient": 5, "responsible": 3, "visited": pairs, "msg_id": 6},
        {**usual, "recipient": 4, "responsible": 4},
    )  # fmt: skip
    sent = copies.resent_copies(rows)
    assert found(sent, "src dst trigger rank sent_round hops visited") == [
        (N, 3, 7 - 2**40, 40, 20, 3, [(0, 5), (1, 6)]), (N, 4, 7 - 2**40, 40, 20, 3, None),
    ]  # fmt: skip


SAID: dict[int, tuple[str, int, dict[str, Any]]] = {
    0: ("CON_REQUEST", 0, {}), 2: ("CON_REQUEST", 1, {}), 3: ("STATUS", 1, {"status": "OPERATIONAL"}),
    4: ("STATUS", 1, {"status": "DETACHED"}), 5: ("STATUS", 1, {"status": "RECOVERING"}),
    6: ("STATUS", 2, {"status": "RECOVERING"}), 7: ("STATUS", 1, {"status": "OPERATIONAL"}),
    8: ("PAR_TOP", 2, {"source_seq": 1}), 10: ("PAR_TOP", 2, {}), 11: ("SYN_REQUEST", 1, {}),
    12: ("PUB", 0, {"source_seq": 1}), 13: ("STATUS", 0, {"status": "OPERATIONAL"}), 15: ("CON_REQUEST", 1, {}),
}  # fmt: skip
"""What the peers of N say: kind, incarnation, and more."""


def test_what_peers_say_of_themselves_counts_where_there_is_a_connection(sail: Session) -> None:
    """5 is suspected, and 7 known in a later incarnation: their STATUS says nothing. 4 is no peer, 10 hands over.

    New are those that N waits for, and those in a later incarnation than N knew, be it the first.
    """
    usual = {"dst": N, "sent_round": 16, "due_round": 20}
    inbox = frame(sail, INBOX, *(
        {**usual, "src": src, "kind": kind, "incarnation": k, "message_id": src, **more}
        for src, (kind, k, more) in SAID.items()
    ))  # fmt: skip
    known = [(3, "WAITING", None), (5, "FAILED", 0), (6, "OPERATIONAL", 2), (7, "OPERATIONAL", 2), (8, "FAILED", 1)]
    known += [(11, "FAILED", 0), (15, "OPERATIONAL", None)]
    answer = connections.answered_peers(inbox, peer_rows(sail, *((*row, 4) for row in known)))
    assert found(answer, "peer status incarnation latency_rounds trigger round is_new") == [
        (0, "OPERATIONAL", 0, 4, 0, 20, False), (11, "RECOVERING", 1, 4, 11, 20, True),
        (13, "OPERATIONAL", 0, 4, 13, 20, False), (15, "OPERATIONAL", 1, 4, 15, 20, False),
        (2, "OPERATIONAL", 1, 4, 2, 20, True), (3, "OPERATIONAL", 1, 4, 3, 20, True),
        (6, "RECOVERING", 2, 4, 6, 20, False), (8, "OPERATIONAL", 2, 4, 8, 20, True),
    ]  # fmt: skip
    answered = [(1, "WAITING"), (1, "FAILED"), (0, "OPERATIONAL"), (1, "OPERATIONAL")]
    detached = [
        found(connections.detached_peers(inbox, peer_rows(sail, (4, status, k, 4))), "node_id peer round incarnation")
        for k, status in answered
    ]
    assert detached == [[(N, 4, 20, 1)]] * 3 + [[]], "N has answered the JOIN_REQUEST of 4"
    asking = connections.asking_peers(inbox)
    assert found(asking, "peer for_incarnation latency_rounds") == [(0, 0, 4), (11, 1, 4), (15, 1, 4), (2, 1, 4)]


def test_the_last_that_a_peer_says_counts(sail: Session) -> None:
    told = {"dst": N, "src": 2, "incarnation": 1, "sent_round": 16, "due_round": 20}
    inbox = frame(
        sail, INBOX, {**told, "kind": "STATUS", "status": "RECOVERING", "message_id": 40},
        {**told, "kind": "CON_REQUEST", "message_id": 41},
    )  # fmt: skip
    answer = connections.answered_peers(inbox, peer_rows(sail))
    assert found(answer, "kind status trigger") == [("CON_REQUEST", "OPERATIONAL", 41)]


@pytest.mark.parametrize("incarnation", [1, 2])
def test_a_later_status_does_not_replace_a_request_of_its_incarnation(sail: Session, incarnation: int) -> None:
    told = {"dst": N, "src": 2, "sent_round": 16, "due_round": 20}
    inbox = frame(
        sail, INBOX, {**told, "kind": "SYN_REQUEST", "incarnation": 1, "message_id": 40},
        {**told, "kind": "STATUS", "status": "OPERATIONAL", "incarnation": incarnation, "message_id": 41},
    )  # fmt: skip
    answer = connections.answered_peers(inbox, peer_rows(sail))
    expected = ("SYN_REQUEST", "RECOVERING", 1, 40) if incarnation == 1 else ("STATUS", "OPERATIONAL", 2, 41)
    assert found(answer, "kind status incarnation trigger") == [expected]


@pytest.mark.parametrize(("kind", "left"), [("SYN_REQUEST", [2, 6, 7]), ("STATUS", [2, 3, 6, 7])])
def test_nodes_behind_a_recovered_node_count_as_up_again(sail: Session, kind: str, left: list[int]) -> None:
    """2 is back: 3 behind it is not suspected any more, 7 behind 4 is; a STATUS says nothing of that."""
    peer = peer_rows(
        sail, (2, "FAILED", 0, None), (3, "FAILED", 0, None), (6, "OPERATIONAL", 1, 4), (7, "FAILED", 0, None)
    )
    path = frame(sail, PATH.columns, way(1, 2), way(1, 2, 3), way(1, 2, 6), way(1, 4, 7))
    row = {**HERE, "peer": 2, "status": "RECOVERING", "incarnation": 1, "latency_rounds": 3, "kind": kind}
    after = connections.with_answers(peer, frame(sail, ANSWER, row), path)
    assert [node for node, _ in found(after, "peer status")] == left
    assert found(after.where("peer = 2"), "status incarnation latency_rounds") == [("RECOVERING", 1, 3)]


def test_status_tells_whether_a_node_recovers_or_is_detached(sail: Session) -> None:
    """4 is OPERATIONAL*, 5 never failed, 6 joins again, 7 has joined again."""
    to = frame(sail, f"{CONNECTION} for_incarnation round", *(
        {"node_id": node, "peer": 0, "round": 20, "latency_rounds": 3, "for_incarnation": 8} for node in (N, 4, 5, 6, 7)
    ))  # fmt: skip
    states = {N: ("RECOVERING", 2), 4: ("REJOINING", 1), 6: ("OPERATIONAL", 1), 7: ("OPERATIONAL", 1)}
    status = frame(
        sail, STATUS.columns, *({"node_id": n, "status": s, "incarnation": k} for n, (s, k) in states.items())
    )
    join = frame(sail, JOIN.columns, {"node_id": 6, "status": "DETACHED"}, {"node_id": 7, "status": "ATTACHED"})
    sent = connections.send_statuses(to, status, join, is_answer=True)
    assert found(sent, "src trigger rank kind status incarnation for_incarnation latency_rounds sent_round") == [
        (1, FIRST, 0, "STATUS", "RECOVERING", 2, 8, 3, 20), (4, FIRST, 0, "STATUS", "OPERATIONAL", 1, 8, 3, 20),
        (5, FIRST, 0, "STATUS", "OPERATIONAL", 0, 8, 3, 20), (6, FIRST, 0, "STATUS", "DETACHED", 1, 8, 3, 20),
        (7, FIRST, 0, "STATUS", "OPERATIONAL", 1, 8, 3, 20),
    ]  # fmt: skip
    told = connections.send_statuses(to, status, join, is_answer=False)
    assert set(found(told, "rank")) == {(2,)}, "behind answers and requests of the round"


def test_what_waited_for_a_peer_leaves_with_its_first_answer(sail: Session) -> None:
    """3 answers, 4 had answered before, 6 asks for all that it lacks; what 3 has confirmed stays."""
    rows = processing(
        sail, {"recipient": 3, "responsible": 3}, {"recipient": 5, "responsible": 3, "is_confirmed": True},
        {"recipient": 4, "responsible": 4}, {"recipient": 6, "responsible": 6},
    )  # fmt: skip
    said = [(3, "STATUS", True), (4, "STATUS", False), (6, "SYN_REQUEST", True)]
    answer = frame(sail, ANSWER, *({**HERE, "peer": p, "kind": k, "is_new": new, "round": 20} for p, k, new in said))
    assert found(copies.held_back(listed(rows), answer), "recipient responsible now_round") == [(3, 3, 20)]
