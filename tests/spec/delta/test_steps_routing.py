"""Routing information, the ways that messages take, and duplicate detection of `delta`, each step on small frames.

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
from pipelines.protocols.delta.steps import confirmations, copies, routing
from pipelines.protocols.delta.tables import (
    DETECTOR,
    PATH,
    PEER,
    PROCESSING,
    ROUTING_ENTRY,
    SENT_AS,
    TOMBSTONE,
    TOPOLOGY,
)

N, OTHER = 1, 9
LINKS = [(0, 1), (1, 2), (1, 4), (2, 3), (3, 5)]
HERE = {"node_id": N}
COPY = [*copies.COPY, "msg_id"]


def as_is(name: str, rows: DataFrame) -> DataFrame:
    """Materialises nothing."""
    return rows


def links(sail: Session, *rows: tuple[int, int, bool]) -> DataFrame:
    return frame(sail, TOPOLOGY.columns, *({**HERE, "a": a, "b": b, "is_marked": marked} for a, b, marked in rows))


def peers(sail: Session, **status: str) -> DataFrame:
    """Peers of N by their status: n2="FAILED"."""
    rows = ({**HERE, "peer": int(name[1:]), "status": state} for name, state in status.items())
    return frame(sail, PEER.columns, *rows)


def entries(sail: Session, *rows: tuple[int, int, int, int]) -> DataFrame:
    """Subscription, origin, distance, first hop at N, and one entry of another node."""
    own = [
        {**HERE, "subscription_id": s, "origin": o, "distance": d, "first_hop": h, "responsible": h}
        for s, o, d, h in rows
    ]
    other = {"node_id": OTHER, "subscription_id": 1, "origin": 3, "distance": 1, "first_hop": 3, "responsible": 3}
    return frame(sail, ROUTING_ENTRY.columns, *own, other)


def test_a_finished_sub_is_an_entry_with_the_way_to_its_from(sail: Session) -> None:
    """1: by the view; 2: N's own; 3: told by a Guided message, out of view; 4 is an UNSUB."""
    path = frame(sail, PATH.columns, way(1), way(1, 2, 3))
    sub = {**HERE, "kind": "SUB", "trigger": 70}
    finished = frame(
        sail, confirmations.FINISHED,
        {**sub, "subscription_id": 1, "origin": 3},
        {**sub, "subscription_id": 2, "origin": N},
        {**sub, "subscription_id": 3, "origin": 8, "origin_distance": 4, "origin_hop": 0},
        {**sub, "subscription_id": 4, "origin": 3, "kind": "UNSUB"},
    )  # fmt: skip
    added = routing.added_entries(finished, path)
    assert found(added, "subscription_id origin distance first_hop responsible trigger") == [
        (1, 3, 2, 2, 2, 70), (2, N, 0, N, N, 70), (3, 8, 4, 0, None, 70),
    ]  # fmt: skip
    assert found(routing.removed_entries(finished), "subscription_id removed_trigger") == [(4, 70)]
    ended = frame(sail, TOMBSTONE.columns, {**HERE, "subscription_id": 2})
    assert found(routing.unknown_entries(added, entries(sail, (1, 3, 2, 2)), ended), "subscription_id") == [(3,)]


@pytest.mark.parametrize("is_marked", [True, False])
def test_j_marks_its_link_until_it_is_finished(sail: Session, is_marked: bool) -> None:
    ends = [("J", 7, 2), ("J", 2, 8), ("SUB", 5, 6)]
    rows = ({**HERE, "kind": kind, "source": source, "join_point": m} for kind, source, m in ends)
    found_links = routing.joined_links(frame(sail, COPY, *rows), is_marked=is_marked)
    assert found(found_links, "a b is_marked") == [(2, 7, is_marked), (2, 8, is_marked)]


def test_a_link_that_is_there_unmarked_stays_so(sail: Session) -> None:
    topology = links(sail, (0, 1, False), (1, 2, True), (3, 5, True))
    told = links(sail, (0, 1, True), (1, 2, False), (2, 3, True), (3, 5, True))
    assert found(routing.merge_links(topology, told), "a b is_marked") == [
        (0, 1, False), (1, 2, False), (2, 3, True), (3, 5, True),
    ]  # fmt: skip
    assert found(routing.unknown_links(told, topology), "a b is_marked") == [(1, 2, False), (2, 3, True)]


@pytest.mark.parametrize(("radius", "targets"), [(1, [0, 1, 2, 4]), (2, [0, 1, 2, 3, 4]), (3, [0, 1, 2, 3, 4, 5])])
def test_the_view_has_all_nodes_within_its_radius(sail: Session, radius: int, targets: list[int]) -> None:
    topology = links(sail, *((a, b, False) for a, b in LINKS))
    paths = routing.view_paths(topology, radius, None, as_is)
    assert [target for (target,) in found(paths, "target")] == targets
    known = {0: (1, [1, 0], 0), 1: (0, [1], 1), 2: (1, [1, 2], 2), 3: (2, [1, 2, 3], 2)}
    known |= {4: (1, [1, 4], 4), 5: (3, [1, 2, 3, 5], 2)}
    rows = {row[0]: row[1:] for row in found(paths, "target distance path responsible")}
    assert rows == {target: known[target] for target in targets}


def test_the_closest_connected_node_is_responsible_where_the_neighbour_failed(sail: Session) -> None:
    """2 failed; then 3 has been asked, too. 3 alone failed: 2 looks after what is behind it."""
    path = frame(sail, PATH.columns, way(1), way(1, 4), way(1, 2), way(1, 2, 3), way(1, 2, 3, 5), way(9, 3))

    def ways(**status: str) -> dict[tuple[int, int], int | None]:
        rows = found(routing.responsible_peers(path, peers(sail, **status)), "node_id target responsible")
        return {(node, target): responsible for node, target, responsible in rows}

    others = {(1, 1): 1, (1, 4): 4, (9, 3): 3}
    assert ways(n2="FAILED") == {**others, (1, 2): None, (1, 3): None, (1, 5): None}
    assert ways(n2="FAILED", n3="WAITING") == {**others, (1, 2): None, (1, 3): 3, (1, 5): 3}
    assert ways(n2="FAILED", n5="OPERATIONAL") == {**others, (1, 2): None, (1, 3): None, (1, 5): 5}
    assert ways(n3="FAILED") == {**others, (1, 2): 2, (1, 3): 2, (1, 5): 2}
    assert ways(n4="OPERATIONAL") == {**others, (1, 2): 2, (1, 3): 2, (1, 5): 2}


def test_views_change_at_changed_nodes_alone(sail: Session) -> None:
    """N has a new link to 2; both nodes had 7 in their views, which N does not see any more."""
    path = frame(sail, PATH.columns, way(1), way(1, 7), way(9), way(9, 7))
    changed, topology = frame(sail, "node_id", HERE, HERE), links(sail, (1, 2, False))
    anew = routing.next_paths(path, topology, changed, 2, None, as_is)
    assert found(anew, "node_id target") == [(1, 1), (1, 2), (9, 7), (9, 9)]
    other = routing.next_responsible(path, frame(sail, "node_id", HERE), peers(sail, n7="FAILED"))
    assert found(other, "node_id target responsible") == [(1, 1, 1), (1, 7, None), (9, 7, 7), (9, 9, 9)]


def test_entries_follow_the_paths_of_changed_nodes(sail: Session) -> None:
    """1: 3 is reached by way of 4 now; 2: 8 is out of view, and nobody is responsible; 3 is N's own."""
    before = entries(sail, (1, 3, 3, 2), (2, 8, 4, 0), (3, N, 0, N))
    path = frame(sail, PATH.columns, way(1), way(1, 4, 3, responsible=3))
    now = routing.rerouted_entries(before, path, frame(sail, "node_id", HERE, HERE))
    assert found(now, "node_id subscription_id distance first_hop responsible") == [
        (N, 1, 2, 4, 3), (N, 2, 4, 0, None), (N, 3, 0, N, N), (OTHER, 1, 1, 3, 3),
    ]  # fmt: skip


def sent(sail: Session, *rows: dict[str, Any]) -> DataFrame:
    return frame(sail, [*SENT_AS], *({"src": N, "rank": place, **row} for place, row in enumerate(rows)))


def test_a_sub_names_a_node_within_reach_of_its_receiver(sail: Session) -> None:
    """δ is 2: the receiver sees three hops, one of them to N, so a from three hops from N is one too far."""
    path = frame(sail, PATH.columns, way(1, 0), way(1, 2, 3), way(1, 2, 3, 5))
    outbox = sent(sail, *({"kind": "SUB", "dst": 0, "origin": origin} for origin in (5, 3, 8, None)))
    told = copies.rewrite_origins(outbox, path, frame(sail, "delta", {"delta": 2}), is_disturbed=False)
    assert found(told, "rank origin origin_path") == [(0, 3, None), (1, 3, None), (2, 8, None), (3, None, None)]


def test_where_nodes_fail_the_receiver_is_told_its_path_to_the_from(sail: Session) -> None:
    """To 0 about 5: cut after δ+1 hops; to 3, past 2; about a from that a Guided message told; no from; no path."""
    path = frame(sail, PATH.columns, way(1, 0), way(1, 2), way(1, 4), way(1, 2, 3), way(1, 2, 3, 5))
    outbox = sent(
        sail,
        {"kind": "SUB", "dst": 0, "origin": 5},
        {"kind": "SUB", "dst": 3, "origin": 4},
        {"kind": "SUB", "dst": 0, "origin": 8, "origin_path": [1, 8]},
        {"kind": "CONF", "dst": 0},
        {"kind": "SUB", "dst": 7, "origin": 4},
    )
    told = copies.rewrite_origins(outbox, path, frame(sail, "delta", {"delta": 2}), is_disturbed=True)
    assert found(told, "rank origin origin_path") == [
        (0, 3, [0, 1, 2, 3]), (1, 4, [3, 2, 1, 4]), (2, 8, [0, 1, 8]), (3, None, None), (4, 4, None),
    ]  # fmt: skip


def test_visited_lists_have_places_for_bypassed_nodes_and_the_last_nodes_alone(sail: Session) -> None:
    path = frame(sail, PATH.columns, way(1, 0), way(1, 2, 3), way(1, 2, 3, 5))
    pairs = [{"node": node, "msg_id": 70 + node} for node in (6, 0, 1)]
    outbox = sent(
        sail,
        {"dst": 0, "visited": pairs}, {"dst": 3, "visited": pairs[2:]}, {"dst": 5, "visited": pairs[1:]},
        {"dst": 0, "visited": pairs[2:]}, {"dst": 0}, {"dst": 8, "visited": pairs[2:]},
    )  # fmt: skip
    nil, zero, one = (None, None), (0, 70), (1, 71)

    def lists(delta: int) -> list[Any]:
        rows = copies.visited_lists(outbox, path, frame(sail, "delta", {"delta": delta}))
        return [visited for _, visited in found(rows, "rank visited")]

    assert lists(1) == [[zero, one], [one, nil], [nil, nil], [one], None, [one]]
    assert lists(3) == [[(6, 76), zero, one], [one, nil], [zero, one, nil, nil], [one], None, [one]]


ADDRESSED = [name for name in SENT_AS if name != "delay_rounds"]


def test_messages_take_the_connection_that_their_sender_knows(sail: Session) -> None:
    """Multicast messages wait for whoever has not answered, requests do not; CONF to nobody is lost.

    2 is a neighbour that never failed; 3 is connected and in its second incarnation, 4 is asked, 5 failed; 8 is nobody.
    """
    peer = frame(
        sail, PEER.columns,
        {**HERE, "peer": 3, "status": "OPERATIONAL", "incarnation": 2, "latency_rounds": 5},
        {**HERE, "peer": 4, "status": "WAITING", "latency_rounds": 6},
        {**HERE, "peer": 5, "status": "FAILED", "incarnation": 1},
    )  # fmt: skip
    link = frame(sail, "src dst latency_rounds", {"src": N, "dst": 2, "latency_rounds": 1})
    kinds = [
        ("PUB", 2, {}), ("PUB", 3, {}), ("PAR_TOP", 3, {"delay_rounds": 4}), ("PUB", 4, {}), ("PUB", 5, {}),
        ("CON_REQUEST", 4, {"latency_rounds": 7, "for_incarnation": 3}), ("CONF", 4, {}), ("CONF", 2, {}),
        ("CONF", 8, {}), ("CONF", 5, {}),
    ]  # fmt: skip
    outbox = sent(sail, *({"kind": kind, "dst": dst, **more} for kind, dst, more in kinds))
    told = copies.addressed(outbox, peer, link)
    assert found(told, "rank kind for_incarnation latency_rounds peer_status") == [
        (0, "PUB", None, None, None), (1, "PUB", 2, 5, "OPERATIONAL"), (2, "PAR_TOP", 2, 9, "OPERATIONAL"),
        (5, "CON_REQUEST", 3, 7, "WAITING"), (6, "CONF", None, 6, "WAITING"), (7, "CONF", None, None, None),
    ]  # fmt: skip


def test_a_recovering_receiver_gets_the_paths_to_the_recipients_behind_it(sail: Session) -> None:
    """Of message 1 node 3 is open and 5 done behind 2, 6 is there twice over; all of message 2 is confirmed."""
    path = frame(sail, PATH.columns, way(1, 4), way(1, 2, 3), way(1, 2, 3, 5))
    listed = {**HERE, "source": OTHER, "source_seq": 1, "is_confirmed": False, "is_reopened": False}
    processing = frame(
        sail, PROCESSING.columns,
        {**listed, "recipient": 3}, {**listed, "recipient": 4}, {**listed, "recipient": 5, "is_confirmed": True},
        {**listed, "recipient": 6, "path": [1, 2, 6], "is_reopened": True},
    )  # fmt: skip
    message = {"src": N, "kind": "SUB", "source": OTHER, "origin_path": [7]}
    outbox = frame(
        sail, [*ADDRESSED, "peer_status"],
        {**message, "dst": 2, "source_seq": 1, "peer_status": "RECOVERING"},
        {**message, "dst": 2, "source_seq": 2, "peer_status": "RECOVERING"},
        {**message, "dst": 4, "source_seq": 1, "peer_status": "OPERATIONAL"},
        {**message, "dst": 0, "source_seq": 1},
        {**message, "dst": 2, "kind": "STATUS", "source_seq": 3, "peer_status": "RECOVERING"},
    )  # fmt: skip
    told = copies.guided(outbox, processing, path)
    assert found(told, "dst kind source_seq guide origin_path") == [
        (0, "SUB", 1, None, None),
        (2, "STATUS", 3, None, None),
        (2, "SUB", 1, [([2, 3], False), ([2, 3, 5], True), ([2, 6], True)], [7]),
        (4, "SUB", 1, None, None),
    ]


def test_by_identifiers_only_higher_numbers_are_new_and_the_first_copy_counts(sail: Session) -> None:
    """REJOIN numbers are a row of their own, which no other source's row is taken for."""
    known = [(OTHER, 5), (-1 - OTHER, 1), (OTHER - 1, 99)]
    detector = frame(sail, DETECTOR.columns, *({**HERE, "source": s, "last_seq": n} for s, n in known))
    told = [("PUB", 4, 1), ("PUB", 5, 2), ("PUB", 6, 4), ("PUB", 6, 3), ("REJOIN", -1, 5), ("REJOIN", -2, 6)]
    rows = ({**HERE, "source": OTHER, "kind": k, "source_seq": n, "trigger": t} for k, n, t in told)
    first = copies.first_copies(frame(sail, COPY, *rows), detector)
    assert found(first, "trigger kind source_seq") == [(3, "PUB", 6), (6, "REJOIN", -2)]
    learnt = copies.detector_rows(first)
    assert found(learnt, "node_id source last_seq") == [(N, -1 - OTHER, 2), (N, OTHER, 6)]


def visiting(sail: Session, copies: dict[int, list[tuple[int | None, int | None]] | None]) -> DataFrame:
    """Copies by trigger with the pairs that they come with; none: the node's own message."""
    rows = (
        {
            **HERE, "source": OTHER, "source_seq": trigger, "trigger": trigger, "round": 3, "msg_id": 70 + trigger,
            "sender": None if pairs is None else 4,
            "visited": None if pairs is None else [{"node": node, "msg_id": msg} for node, msg in pairs],
        }
        for trigger, pairs in copies.items()
    )  # fmt: skip
    return frame(sail, COPY, *rows)


def test_by_visited_lists_a_copy_is_new_if_all_its_pairs_succeed_what_was_accepted(sail: Session) -> None:
    """10 is old; 12 comes again, 16 in a pair of several; 21 is refused for 20, so it does not speak against 22."""
    visits: dict[int, Any] = {
        10: [(4, 50)], 11: [(4, 51)], 12: [(4, 51)], 13: [(4, 52)], 14: None, 15: [(6, 9), (4, 53)], 16: [(6, 9)],
        17: [(None, None), (4, 60)], 20: [(7, 5)], 21: [(7, 4), (8, 9)], 22: [(8, 9)],
    }  # fmt: skip
    detector = frame(sail, DETECTOR.columns, {**HERE, "source": 4, "last_seq": 50})
    first = copies.first_visits(visiting(sail, visits), detector, as_is)
    assert [trigger for (trigger,) in found(first, "trigger")] == [11, 13, 14, 15, 17, 20, 22]


def test_a_copy_is_refused_for_one_that_is_accepted_as_what_opposed_it_is_refused(sail: Session) -> None:
    """2 is refused for 1, so 3 is accepted, which only 2 opposes; so 4 is refused, which only 3 opposes, and so on."""
    chain = {trigger: [(trigger - 1, 4), (trigger, 9)] for trigger in range(1, 9)}
    detector = frame(sail, DETECTOR.columns, {**HERE, "source": 99, "last_seq": 50})
    first = copies.first_visits(visiting(sail, chain), detector, as_is)
    assert [trigger for (trigger,) in found(first, "trigger")] == [1, 3, 5, 7]


def test_visited_nodes_are_learnt_and_a_source_keeps_its_own_number(sail: Session) -> None:
    first = visiting(sail, {10: [(4, 50), (None, None)], 11: None})
    assert found(copies.visited_rows(first), "node_id source last_seq") == [(N, N, 81), (N, 4, 50)]


def test_msg_ids_ascend_with_the_round_and_within_it(sail: Session) -> None:
    first = visiting(sail, {12: None, 10: None}).drop("msg_id")
    round_3 = 3 * 2**20
    assert found(copies.numbered(first), "trigger msg_id") == [(10, round_3 + 1), (12, round_3 + 2)]
