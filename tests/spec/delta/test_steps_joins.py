"""The join operation (Algorithm 2), each step of `delta` on small frames.

0 - 1 - 2 - 3        the join point M is node 1; node 7 joins
    |
    4
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame
from support.frames import found, frame, way

from pipelines.engines.session import Session
from pipelines.protocols.delta.steps import confirmations, join
from pipelines.protocols.delta.tables import (
    CALL,
    INBOX,
    JOIN,
    JOIN_REQUEST,
    PATH,
    PROCESSING,
    ROUTING_ENTRY,
    STATUS,
    TOPOLOGY,
    with_value,
)

M, JOINER, SOURCE = 1, 7, 9
AT_M = {"node_id": M}
VIEW = [way(1), way(1, 0), way(1, 2), way(1, 4), way(1, 2, 3)]
LAST = 2**62
"""The trigger of calls, after every message of the round."""
ACCEPTED = [*JOIN_REQUEST.columns, "trigger", "round"]
ASKED = "node_id join_point source_seq trigger round"
PRESENT = "cast(20 as bigint) as round"


def joins(sail: Session, *rows: tuple[int, str, bool]) -> DataFrame:
    """Node, status, whether it has asked."""
    return frame(sail, JOIN.columns, *(
        {"node_id": node, "join_point": M, "source_seq": 1, "status": status, "is_asked": asked}
        for node, status, asked in rows
    ))  # fmt: skip


def nodes(sail: Session, *ids: int) -> DataFrame:
    return frame(sail, "node_id", *({"node_id": node} for node in ids))


@pytest.fixture(scope="module")
def accepted(sail: Session) -> DataFrame:
    request = {**AT_M, "joiner": JOINER, "source_seq": 3, "incarnation": 0, "trigger": 50, "round": 20}
    return frame(sail, ACCEPTED, request, {**request, "node_id": 5, "joiner": 2})


def test_a_join_call_sends_a_request_with_the_incarnation(sail: Session) -> None:
    """7 joins, 8 joins again after it came back twice; 6 publishes."""
    kinds = {6: "publish", 7: "join", 8: "join"}
    call = frame(sail, "node_id kind join_point source_seq round", *(
        {"node_id": n, "kind": kind, "join_point": M, "source_seq": 1, "round": 20} for n, kind in kinds.items()
    ))  # fmt: skip
    asked = join.asked_now(call)
    status = frame(sail, STATUS.columns, {"node_id": 8, "incarnation": 2})
    sent = join.send_join_requests(asked, status)
    assert found(sent, "src dst trigger rank kind sent_round source source_seq incarnation") == [
        (7, M, LAST + 1, 0, "JOIN_REQUEST", 20, 7, 1, 0), (8, M, LAST + 1, 0, "JOIN_REQUEST", 20, 8, 1, 2),
    ]  # fmt: skip
    before = joins(sail, (7, "DETACHED", False), (4, "DETACHED", True), (5, "DETACHED", False))
    noted = with_value(before, asked, "is_asked", "true")
    assert found(noted, "node_id is_asked") == [(4, True), (5, False), (7, True)]


def test_a_detached_node_that_has_asked_watches_its_join_point(sail: Session) -> None:
    link = frame(sail, "src dst latency_rounds", *({"src": n, "dst": M, "latency_rounds": 3} for n in (4, 5, 6)))
    waiting = joins(sail, (4, "DETACHED", True), (5, "DETACHED", False), (6, "ATTACHED", True))
    watched = join.waiting_connections(waiting, link)
    assert found(watched, "node_id peer incarnation latency_rounds") == [(4, M, None, 3)]


def test_only_the_source_of_a_j_has_joined_with_it(sail: Session) -> None:
    ends = [("J", 7, 7), ("J", 7, 1), ("SUB", 4, 4)]
    finished = frame(sail, "kind source node_id trigger round", *(
        {"kind": k, "source": s, "node_id": n, "trigger": 70, "round": 20} for k, s, n in ends
    ))  # fmt: skip
    assert found(confirmations.confirmed_nodes(finished, "J"), "node_id trigger round") == [(7, 70, 20)]


BEFORE = ("DETACHED", "DETACHED", "ATTACHED", "ATTACHED", "CONFIRMED", "CONFIRMED", "ATTACHED", "VALID_JOINED")
AFTER = ("ATTACHED", "DETACHED", "VALID_JOINED", "CONFIRMED", "VALID_JOINED", "CONFIRMED", "ATTACHED", "VALID_JOINED")
"""Status of the nodes from 1 on."""


def test_a_node_is_attached_then_confirmed_then_valid_joined(sail: Session) -> None:
    """PAR_TOP comes to 1 and once more to 7, to 2 comes what is handed over; J of 3 and 4 is confirmed; 4, 6 wait."""
    told = [(1, "PAR_TOP", 1), (2, "PAR_TOP", None), (2, "PAR_SUB", 1), (7, "PAR_TOP", 1)]
    inbox = frame(sail, INBOX, *({"dst": d, "kind": k, "source_seq": q} for d, k, q in told))
    before = joins(sail, *((node, status, True) for node, status in enumerate(BEFORE, 1)))
    after = join.next_join(before, inbox, nodes(sail, 3, 3, 4), nodes(sail, 4, 4, 6))
    assert found(after, "node_id status") == list(enumerate(AFTER, 1))
    changes = join.status_changes(before, after, PRESENT)
    assert found(changes, "node_id round status") == [
        (1, 20, "ATTACHED"),
        (3, 20, "VALID_JOINED"),
        (5, 20, "VALID_JOINED"),
    ]


def test_a_node_that_comes_back_before_its_join_ended_starts_again(sail: Session) -> None:
    before = joins(sail, (4, "ATTACHED", True), (5, "VALID_JOINED", True), (6, "ATTACHED", True))
    back = frame(sail, "node_id round", *({"node_id": n, "round": 20} for n in (4, 5)))
    again = join.started_again(before, back)
    assert found(again, "node_id join_point source_seq is_asked round") == [(4, M, 1, True, 20)]
    after = with_value(before, again, "status", "'DETACHED'")
    assert found(after, "node_id status") == [(4, "DETACHED"), (5, "VALID_JOINED"), (6, "ATTACHED")]


def test_a_request_of_a_neighbour_says_that_its_earlier_incarnation_is_gone(sail: Session) -> None:
    """2 is a neighbour, 3 is farther, and so is 8, but node 5, which it asks, cannot answer yet."""
    asks = [(2, M, "JOIN_REQUEST"), (3, M, "JOIN_REQUEST"), (8, 5, "JOIN_REQUEST"), (4, M, "STATUS")]
    inbox = frame(sail, INBOX, *(
        {"src": s, "dst": d, "kind": k, "incarnation": 3, "due_round": 20} for s, d, k in asks
    ))  # fmt: skip
    gone = join.gone_joiners(inbox, frame(sail, PATH.columns, *VIEW), nodes(sail, 5))
    assert found(gone, "node_id peer round incarnation") == [(M, 2, 20, 2), (5, 8, 20, 2)]


def test_requests_are_taken_or_wait_for_their_join_point(sail: Session) -> None:
    """7 asks again, in a later incarnation; 4 waited, and M is ready now; nothing concerns 5, which waits at node 2."""
    to_m = {"dst": M, "source_seq": 1, "due_round": 20}
    inbox = frame(
        sail, INBOX,
        {**to_m, "src": 7, "kind": "JOIN_REQUEST", "incarnation": 2, "message_id": 60},
        {**to_m, "src": 6, "kind": "STATUS", "incarnation": 2, "message_id": 61},
    )  # fmt: skip
    waiting = frame(sail, JOIN_REQUEST.columns, *(
        {"node_id": n, "joiner": j, "source_seq": 1, "incarnation": 0} for n, j in ((M, 7), (M, 4), (2, 5))
    ))  # fmt: skip
    now = frame(sail, "node_id trigger round", {**AT_M, "trigger": 50, "round": 20})
    opened = join.open_requests(inbox, waiting, now)
    assert found(opened, "node_id joiner incarnation trigger round") == [
        (1, 4, 0, 50, 20), (1, 7, 2, 60, 20), (2, 5, 0, None, None),
    ]  # fmt: skip


def test_the_link_of_a_join_is_marked_lower_end_first(accepted: DataFrame) -> None:
    """7 joins at 1, and 2 joins at 5."""
    assert found(join.requested_links(accepted), "node_id a b is_marked") == [(1, 1, 7, True), (5, 2, 5, True)]


@pytest.mark.parametrize(("delta", "links"), [(1, [(0, 1), (1, 2)]), (2, [(0, 1), (1, 2), (2, 3)])])
def test_par_top_has_the_links_within_delta_of_the_join_point(
    sail: Session, accepted: DataFrame, delta: int, links: list[tuple[int, int]]
) -> None:
    """Without marks. Node 5 knows no links; M came back twice."""
    ends = [(0, 1), (1, 2), (2, 3)]
    topology = frame(sail, TOPOLOGY.columns, *({**AT_M, "a": a, "b": b, "is_marked": True} for a, b in ends))
    status = frame(sail, STATUS.columns, {**AT_M, "incarnation": 2})
    path, setting = frame(sail, PATH.columns, *VIEW, way(5)), frame(sail, "delta", {"delta": delta})
    sent = join.send_topology(accepted, topology, path, status, setting)
    assert found(sent, "src dst trigger rank kind sent_round source source_seq links incarnation") == [
        (1, 7, 50, 0, "PAR_TOP", 20, 7, 3, [(a, b, False) for a, b in links], 2),
        (5, 2, 50, 0, "PAR_TOP", 20, 2, 3, None, 0),
    ]


def test_par_sub_has_the_entries_as_a_sub_would_name_them(sail: Session, accepted: DataFrame) -> None:
    """δ is 1: 3 is two hops from M and three from the joiner, so entry 6 names 2. Node 4 takes in nobody."""
    origins = [(M, 5, 1), (M, 6, 3), (M, 7, 2), (4, 8, 4), (5, 9, 5)]
    entries = frame(sail, ROUTING_ENTRY.columns, *(
        {"node_id": n, "subscription_id": s, "origin": o} for n, s, o in origins
    ))  # fmt: skip
    path = frame(sail, PATH.columns, *VIEW, way(4), way(5))
    sent = join.send_entries(accepted, entries, path, frame(sail, "delta", {"delta": 1}))
    assert found(sent, "src dst trigger rank kind sent_round source source_seq entries") == [
        (1, 7, 50, 1, "PAR_SUB", 20, 7, 3, [(5, 1, 1), (6, 2, 2), (7, 2, 2)]),
        (5, 2, 50, 1, "PAR_SUB", 20, 2, 3, [(9, 5, 1)]),
    ]


def test_what_the_join_point_processes_goes_to_the_joiner_too(sail: Session, accepted: DataFrame) -> None:
    """δ is 2. SUB 1 and J 2, of a join one hop from M, do; PUB 3, J 4, of one two hops away, and its own J 5 do not."""
    messages: list[tuple[int, str, int, int | None, int]] = [
        (1, "SUB", SOURCE, None, 41), (2, "J", 8, 2, 40), (3, "PUB", SOURCE, None, 39), (4, "J", 8, 3, 38),
        (5, "J", JOINER, 2, 37), (6, "J", 8, 99, 36),
    ]  # fmt: skip
    processing = frame(sail, PROCESSING.columns, *(
        {**AT_M, "source_seq": k, "kind": kind, "source": s, "join_point": m, "trigger": t, "round": 12, "hops": 4,
         "recipient": r, "responsible": r, "is_confirmed": True, "is_reopened": True}
        for k, kind, s, m, t in messages for r in (0, 2)
    ))  # fmt: skip
    path, setting = frame(sail, PATH.columns, *VIEW), frame(sail, "delta", {"delta": 2})
    added = join.processing_for_joiner(accepted, processing, path, setting)
    assert found(added, "source_seq recipient responsible path is_confirmed is_reopened new_trigger new_round") == [
        (1, 7, 7, None, False, False, 50, 20), (2, 7, 7, None, False, False, 50, 20),
    ]  # fmt: skip
    sent = join.copies_for_joiner(added)
    assert found(sent, "source_seq trigger rank src dst sent_round hops") == [
        (1, 50, 3, 1, 7, 20, 5),
        (2, 50, 2, 1, 7, 20, 5),
    ]


def test_the_joiner_takes_what_par_top_and_par_sub_bring_and_issues_j(sail: Session) -> None:
    """Those with the number of its call; what a synchronisation point hands over has none."""
    bring: dict[str, Any] = {
        "due_round": 21, "links": [{"a": 0, "b": 1, "is_marked": True}],
        "entries": [{"subscription_id": 5, "origin": 2, "distance": 2}],
    }  # fmt: skip
    told = [("PAR_TOP", M, 3), ("PAR_SUB", M, 3), ("PAR_TOP", 8, None), ("PAR_SUB", 8, None), ("STATUS", 2, 3)]
    inbox = frame(sail, INBOX, *(
        {**bring, "dst": JOINER, "src": s, "kind": kind, "source": JOINER, "source_seq": q, "message_id": 60 + k}
        for k, (kind, s, q) in enumerate(told)
    ))  # fmt: skip
    assert found(join.received_links(inbox), "node_id a b is_marked") == [(7, 0, 1, False), (7, 1, 7, True)]
    entries = join.received_entries(inbox)
    assert found(entries, "node_id subscription_id origin distance first_hop responsible trigger") == [
        (7, 5, 2, 2, M, M, 61)
    ]
    issued = [
        found(join.issued_joins(inbox, frame(sail, JOIN.columns, {"node_id": JOINER, "status": status})),
              "node_id source source_seq kind trigger sender round hops issued_round join_point")
        for status in ("DETACHED", "ATTACHED", "VALID_JOINED")
    ]  # fmt: skip
    assert issued == [[(7, 7, 3, "J", 60, None, 21, 0, 21, M)], [], []], "a second answer issues no J"


def test_the_lower_end_of_a_joiners_own_link_may_be_its_own(sail: Session) -> None:
    told = {"dst": 2, "src": 5, "kind": "PAR_TOP", "source": 2, "source_seq": 3, "links": []}
    assert found(join.received_links(frame(sail, INBOX, told)), "a b is_marked") == [(2, 5, True)]


def test_calls_wait_for_their_node(sail: Session) -> None:
    """4 and 7 have calls in this round, 5 waited until now, and joins are no calls that wait."""
    waiting = frame(sail, CALL.columns, {"node_id": 5, "source_seq": 1, "kind": "publish"})
    due = [(7, "publish"), (4, "subscribe"), (7, "join")]
    call = frame(
        sail, [*CALL.columns, "round"], *({"node_id": n, "kind": k, "source_seq": 2, "round": 20} for n, k in due)
    )
    opened = join.open_calls(call, waiting, PRESENT)
    assert found(opened, "node_id kind round") == [(4, "subscribe", 20), (5, "publish", 20), (7, "publish", 20)]
    assert found(join.open_calls(None, waiting, PRESENT), "node_id round") == [(5, 20)]
