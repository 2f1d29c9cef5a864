"""Recovery (Algorithms 5 to 7), each step of `delta` on small frames.

0 - 1 - 2 - 3 - 5        R or S is node 1
    |
    4
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame
from support.frames import found, frame, way

from pipelines.engines.session import Session
from pipelines.protocols.delta.steps import confirmations, copies, recovery, routing
from pipelines.protocols.delta.tables import (
    INBOX,
    OWN_SUBSCRIPTION,
    PATH,
    PEER,
    PROCESSING,
    ROUTING_ENTRY,
    STATUS,
    SYN_REQUEST,
    SYNCH,
    TOMBSTONE,
    TOPOLOGY,
    with_value,
)

N, SOURCE = 1, 9
HERE = {"node_id": N}
COPY = [*copies.COPY, "sender_hop", "msg_id"]
ANSWER = [*PEER.columns, "kind", "trigger", "round", "is_new"]
RECIPIENT = "node_id source source_seq recipient responsible path is_confirmed"
VIEW = [way(1), way(1, 0), way(1, 2), way(1, 4), way(1, 2, 3), way(1, 2, 3, 5)]


def processing(sail: Session, *rows: dict[str, Any]) -> DataFrame:
    usual = {**HERE, "source": SOURCE, "source_seq": 1, "kind": "SUB", "is_confirmed": False, "is_reopened": False}
    return frame(sail, PROCESSING.columns, *({**usual, **row} for row in rows))


def answers(sail: Session, *rows: tuple[int, str, bool]) -> DataFrame:
    return frame(sail, ANSWER, *({**HERE, "peer": p, "kind": k, "is_new": new, "round": 20} for p, k, new in rows))


def synch(sail: Session, **answered: bool) -> DataFrame:
    """Synch of N: n2=True has answered."""
    rows = ({**HERE, "peer": int(name[1:]), "is_answered": done} for name, done in answered.items())
    return frame(sail, SYNCH.columns, *rows)


def statuses(sail: Session, **status: str) -> DataFrame:
    rows = ({"node_id": int(name[1:]), "status": now, "incarnation": 2} for name, now in status.items())
    return frame(sail, STATUS.columns, *rows)


def test_a_node_that_is_back_has_its_own_entries_and_asks_its_neighbours(sail: Session) -> None:
    own = frame(sail, OWN_SUBSCRIPTION.columns, {**HERE, "subscription_id": 7}, {"node_id": 4, "subscription_id": 8})
    back = frame(sail, "node_id incarnation round", {**HERE, "incarnation": 2, "round": 20})
    entry = recovery.own_entries(own, back)
    assert found(entry, "node_id subscription_id origin distance first_hop responsible") == [(N, 7, N, 0, N, N)]
    asked = recovery.neighbours(frame(sail, PATH.columns, *VIEW), back)
    assert found(asked, "node_id peer path round") == [(N, 0, [1, 0], 20), (N, 2, [1, 2], 20), (N, 4, [1, 4], 20)]
    after = recovery.more_synch(synch(sail, n2=True, n5=True), asked)
    assert found(after, "peer is_answered") == [(0, False), (2, False), (4, False), (5, True)]
    assert found(recovery.returned_status(back), "node_id status incarnation") == [(N, "RECOVERING", 2)]


TOLD = [("SYN_REQUEST", None), ("CON_REQUEST", None), ("PAR_TOP", None), ("PAR_TOP", 1), ("J", None), ("PAR_SUB", 1)]


def test_links_come_with_requests_and_what_is_handed_over_but_not_with_joins(sail: Session) -> None:
    rows = (
        {"dst": N, "kind": kind, "source_seq": seq, "links": [{"a": k, "b": k + 1, "is_marked": k == 0}]}
        for k, (kind, seq) in enumerate(TOLD)
    )
    told = recovery.told_links(frame(sail, INBOX, *rows))
    assert found(told, "node_id a b is_marked") == [(N, 0, 1, True), (N, 1, 2, False), (N, 2, 3, False)]


def test_who_synchronises_gets_the_stored_links_of_a_node_that_failed(sail: Session) -> None:
    """2 failed for N, which synchronises, and for 3, which does not."""
    link = ({"node_id": node, "a": node, "b": 8, "is_marked": False} for node in (2, 4))
    failure = frame(sail, "node_id peer", {**HERE, "peer": 2}, {"node_id": 3, "peer": 2})
    learnt = recovery.stored_links(frame(sail, TOPOLOGY.columns, *link), failure, frame(sail, "node_id", HERE))
    assert found(learnt, "node_id a b") == [(N, 2, 8)]


def test_links_are_learnt_within_delta_and_one_hops(sail: Session) -> None:
    """δ is 1: 3 is two hops away, 5 three."""
    ends = [(2, 3), (3, 5), (5, 7)]
    told = frame(sail, TOPOLOGY.columns, *({**HERE, "a": a, "b": b} for a, b in ends), {"node_id": 4, "a": 0, "b": 2})
    near = recovery.within_reach(told, frame(sail, PATH.columns, *VIEW), frame(sail, "delta", {"delta": 1}))
    assert found(near, "node_id a b") == [(N, 2, 3)]


def test_routing_messages_are_under_way_once_each(sail: Session) -> None:
    rows = processing(
        sail, {"recipient": 2}, {"recipient": 3}, {"source_seq": 2, "recipient": 2, "kind": "PUB"},
        {"node_id": 4, "source_seq": 3, "recipient": 2},
    )  # fmt: skip
    message = recovery.under_way(
        rows.where("kind <> 'PUB'"), frame(sail, "node_id round", *({**HERE, "round": r} for r in (20, 20)))
    )
    assert found(message, "source_seq kind guide now_round") == [(1, "SUB", None, 20)]


def test_new_members_are_not_in_gamma_nor_behind_one_that_has_confirmed(sail: Session) -> None:
    """Of message 1 node 2 has confirmed, so 3 behind it is left out, 4 is new, and 0 is there; of 2 nobody has."""
    rows = processing(sail, {"recipient": 2, "is_confirmed": True}, {"recipient": 0}, {"source_seq": 2, "recipient": 0})
    ways = {0: [1, 0], 3: [1, 2, 3], 4: [1, 4]}
    pairs = [(1, 0), (1, 3), (1, 4), (2, 3)]
    reach = frame(sail, f"{RECIPIENT} way", *(
        {**HERE, "source": SOURCE, "source_seq": k, "recipient": r, "way": ways[r]} for k, r in pairs
    ))  # fmt: skip
    assert found(routing.new_members(reach, rows), "source_seq recipient") == [(1, 4), (2, 3)]


def test_a_recovering_node_gets_what_it_is_on_the_way_of_and_what_changes_its_own_routing(sail: Session) -> None:
    """2 asks; messages 1 and 2 are in its scope, and it has confirmed the latter; 3 is a publication.

    5 of message 1 is behind 2 by the view, 6 by what a Guided message told; 4 is not, 3 has confirmed.
    """
    rows = processing(
        sail, {"recipient": 5, "responsible": 3},
        {"recipient": 6, "responsible": 2, "path": [1, 2, 6], "is_reopened": True},
        {"recipient": 4, "responsible": 4}, {"recipient": 3, "is_confirmed": True}, {"recipient": 2, "responsible": 2},
        {"source_seq": 2, "recipient": 2, "responsible": 2, "is_confirmed": True, "hops": 3},
        {"source_seq": 3, "kind": "PUB", "recipient": 3, "responsible": 2},
    )  # fmt: skip
    in_scope = [(1, 2), (1, 4), (2, 2), (2, 5)]
    reach = frame(sail, RECIPIENT, *(
        {**HERE, "source": SOURCE, "source_seq": k, "recipient": r} for k, r in in_scope
    ))  # fmt: skip
    answer = answers(sail, (2, "SYN_REQUEST", True), (4, "CON_REQUEST", True))
    earlier = recovery.earlier_messages(rows, reach, answer, frame(sail, PATH.columns, *VIEW))
    assert found(earlier, "source_seq recipient responsible path hops is_confirmed is_reopened now_round") == [
        (1, 2, 2, None, None, False, False, 20), (1, 5, 2, None, None, False, False, 20),
        (1, 6, 2, [1, 2, 6], None, False, True, 20), (2, 2, 2, None, 3, False, True, 20),
        (3, 3, 2, None, None, False, False, 20),
    ]  # fmt: skip


def test_syn_requests_wait_and_new_incarnations_are_asked_again(sail: Session) -> None:
    """2 and 3 ask for the first time, 3 has answered before; 4 had asked before.

    Only a joining node asks 3 again, although 3 has answered.
    """
    answer = answers(
        sail, (2, "SYN_REQUEST", True), (3, "SYN_REQUEST", True), (4, "SYN_REQUEST", False), (5, "CON_REQUEST", True)
    )
    request = frame(sail, SYN_REQUEST.columns, {**HERE, "peer": 4}, {**HERE, "peer": 0})
    assert found(recovery.more_syn_requests(request, answer), "peer") == [(0,), (2,), (3,), (4,)]
    partners = synch(sail, n2=False, n3=True, n4=False, n5=False)
    again = recovery.asked_again(answer, partners, frame(sail, "node_id"))
    assert found(again, "peer round") == [(2, 20)]
    again = recovery.asked_again(answer, partners, frame(sail, "node_id", HERE))
    assert found(again, "peer round") == [(2, 20), (3, 20)]


def test_par_sub_of_a_synchronisation_point_brings_entries_and_tombstones(sail: Session) -> None:
    """The answer to a join has the number of its call, and is not for `recovery`."""
    told = [("PAR_SUB", None), ("PAR_SUB", 4), ("PAR_TOP", None)]
    inbox = frame(sail, INBOX, *(
        {"dst": N, "src": 5 + k, "kind": kind, "source_seq": seq, "tombstones": [k + 10],
         "entries": [{"subscription_id": k, "origin": 3, "distance": 2}]}
        for k, (kind, seq) in enumerate(told)
    ))  # fmt: skip
    assert found(recovery.told_entries(inbox), "node_id subscription_id origin distance") == [(N, 0, 3, 2)]
    assert found(recovery.told_tombstones(inbox), "node_id subscription_id") == [(N, 10)]


def test_of_two_entries_the_farther_from_stays_and_none_that_ended(sail: Session) -> None:
    """Of two that are as far the lower; 3 ended."""
    known = frame(
        sail, ROUTING_ENTRY.columns, {**HERE, "subscription_id": 1, "origin": 2, "distance": 1, "responsible": 2}
    )
    entries = [(1, 3, 2), (2, 5, 3), (2, 4, 3), (3, 5, 3)]
    told = frame(sail, "node_id subscription_id origin distance", *(
        {**HERE, "subscription_id": s, "origin": o, "distance": d} for s, o, d in entries
    ))  # fmt: skip
    ended = frame(sail, TOMBSTONE.columns, {**HERE, "subscription_id": 3})
    merged = recovery.merged_entries(known, told, ended)
    assert found(merged, "subscription_id origin distance responsible") == [(1, 3, 2, None), (2, 4, 3, None)]


def test_nodes_rise_that_wait_for_nobody_and_end_with_their_rejoin(sail: Session) -> None:
    """N waits for 2; 4 waits for nobody; 5 is up."""
    status = statuses(sail, n1="RECOVERING", n4="RECOVERING", n5="OPERATIONAL")
    ready = recovery.ready_nodes(status, synch(sail, n2=False, n3=True))
    assert found(ready, "node_id incarnation") == [(4, 2)]
    now = with_value(status, ready, "status", "'REJOINING'")
    assert found(now, "node_id status") == [(1, "RECOVERING"), (4, "REJOINING"), (5, "OPERATIONAL")]
    ends = [("REJOIN", 4, 4), ("REJOIN", 1, 4), ("SUB", 5, 5)]
    finished = frame(sail, "kind source node_id trigger round", *(
        {"kind": k, "source": s, "node_id": n, "trigger": 70, "round": 20} for k, s, n in ends
    ))  # fmt: skip
    assert found(confirmations.confirmed_nodes(finished, "REJOIN"), "node_id trigger round") == [(4, 70, 20)]


def test_a_node_is_alone_if_nobody_that_it_sees_is_up(sail: Session) -> None:
    path = frame(sail, PATH.columns, way(1), way(1, 2, responsible=None), way(4), way(4, 1), way(5))
    ready = frame(
        sail, "node_id incarnation round", *({"node_id": n, "incarnation": 2, "round": 20} for n in (1, 4, 5))
    )
    assert found(recovery.isolated_nodes(ready, path), "node_id") == [(1,), (5,)]
    rejoin = recovery.issued_rejoins(ready.where("node_id = 4"))
    assert found(rejoin, "node_id source source_seq kind trigger sender round hops join_point") == [
        (4, 4, -2, "REJOIN", 0, None, 20, 0, 4)
    ]


def test_publications_accepted_as_guided_are_regarded_again(sail: Session) -> None:
    kinds = [("PUB", N), ("SUB", N), ("PUB", 4)]
    rows = processing(sail, *(
        {"source_seq": k, "kind": kind, "node_id": node, "recipient": r}
        for k, (kind, node) in enumerate(kinds) for r in (2, 3)
    ))  # fmt: skip
    ready = frame(sail, "node_id round", {**HERE, "round": 20})
    assert found(recovery.under_way(rows.where("kind = 'PUB'"), ready), "source_seq kind now_round") == [(0, "PUB", 20)]


def test_guided_duplicates_widen_what_is_processed_and_lost_routing_is_taken_anyway(sail: Session) -> None:
    """N recovers and processes message 1; copies of 1 and 2 come once more, one of them plain; 4 is up."""
    guide = [{"path": [1, 2], "is_done": False}]
    told = [
        (N, 1, "SUB", guide),
        (N, 2, "SUB", guide),
        (N, 1, "SUB", None),
        (4, 3, "SUB", guide),
        (N, 5, "PUB", None),
    ]
    late = frame(sail, COPY, *(
        {"node_id": n, "source": SOURCE, "source_seq": k, "kind": kind, "guide": g, "trigger": t, "round": 20}
        for t, (n, k, kind, g) in enumerate(told)
    ))  # fmt: skip
    rows = processing(sail, {"recipient": 2}, {"recipient": 3}, {"node_id": 4, "source_seq": 3, "recipient": 2})
    again = recovery.guided_again(late, rows, statuses(sail, n1="RECOVERING", n4="OPERATIONAL"))
    assert found(again, "node_id source_seq guide now_round") == [(N, 1, [([1, 2], False)], 20)]
    refused = confirmations.refused(late, rows, frame(sail, "node_id", HERE))
    assert found(refused, "node_id source_seq kind trigger sender") == [(N, 2, "SUB", 1, None)]


def test_recipients_of_a_guided_message_are_the_ends_of_its_paths(sail: Session) -> None:
    """3 by way of 2; 5 is done; 6 behind 4, which failed and behind which 8 is connected; N if it wants it.

    N has subscription 7 of its own: publication 1 matches it, publication 2 does not, and a SUB always counts.
    """
    steps = [([1, 2, 3], False), ([1, 2, 3, 5], True), ([1, 4, 8, 6], False), ([1], False)]
    guide = [{"path": path, "is_done": done} for path, done in steps]
    kinds: dict[int, tuple[str, list[int] | None]] = {1: ("PUB", [6, 7]), 2: ("PUB", [6]), 3: ("SUB", None)}
    first = frame(sail, COPY, *(
        {**HERE, "source": SOURCE, "source_seq": k, "kind": kind, "matches": matches, "guide": guide, "round": 20,
         "issued_round": 12, "hops": 3}
        for k, (kind, matches) in kinds.items()
    ))  # fmt: skip
    own = frame(sail, OWN_SUBSCRIPTION.columns, {**HERE, "subscription_id": 7})
    peer = frame(
        sail, PEER.columns, {**HERE, "peer": 4, "status": "FAILED"}, {**HERE, "peer": 8, "status": "OPERATIONAL"}
    )
    rows = routing.guided_recipients(first, own, peer)
    others = [(3, 2, [1, 2, 3], False), (5, None, [1, 2, 3, 5], True), (6, 8, [1, 4, 8, 6], False)]
    itself = (1, 1, [1], False)
    for seq, expected in {1: [itself, *others], 2: others, 3: [itself, *others]}.items():
        assert found(rows.where(f"source_seq = {seq}"), "recipient responsible path is_confirmed") == expected, seq
    nobody = routing.guided_recipients(first.where("source_seq = 2"), own, peer.where("false"))
    assert found(nobody, "recipient responsible") == [(3, 2), (5, None), (6, 4)]
    here = copies.guided_deliveries(first, rows)
    assert found(here, "subscriber source_seq round latency_rounds hops") == [(N, 1, 20, 8, 3)]


# What S hands over to R: S is 1, R is 2, so 3 and 5 are behind R.

READY = [{**HERE, "peer": 2, "round": 20}]


def test_s_answers_unless_it_waits_for_another_side_itself(sail: Session) -> None:
    """1 recovers and waits for 4: 4 itself gets an answer, 2 has to wait; node 6 is up, 7 waits for nobody."""
    pairs = [(1, 2), (1, 4), (6, 2), (7, 2)]
    request = frame(sail, SYN_REQUEST.columns, *({"node_id": n, "peer": p} for n, p in pairs))
    path = frame(sail, PATH.columns, way(1, 2), way(1, 4), way(6, 2), way(6, 4), way(7, 2), way(7, 4))
    waits = [(1, 4, False), (1, 2, True), (6, 4, False), (7, 4, True)]
    synchs = frame(sail, SYNCH.columns, *({"node_id": n, "peer": p, "is_answered": done} for n, p, done in waits))
    status = statuses(sail, n1="RECOVERING", n6="OPERATIONAL", n7="RECOVERING")
    assert found(recovery.answerable(request, status, synchs, path), "node_id peer") == [(1, 4), (6, 2), (7, 2)]


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        (0, [(1, 2), (2, 3)]),
        (1, [(0, 1), (1, 2), (1, 4), (2, 3), (3, 5)]),
        (2, [(0, 1), (1, 2), (1, 4), (2, 3), (3, 5)]),
    ],
)
def test_r_gets_the_links_within_delta_and_one_hops_of_itself(
    sail: Session, delta: int, expected: list[tuple[int, int]]
) -> None:
    ends = [(0, 1), (1, 2), (1, 4), (2, 3), (3, 5)]
    topology = frame(sail, TOPOLOGY.columns, *({**HERE, "a": a, "b": b, "is_marked": False} for a, b in ends))
    setting = frame(sail, "delta", {"delta": delta})
    ready = frame(sail, "node_id peer round", *READY)
    (row,) = found(recovery.with_links(ready, topology, frame(sail, PATH.columns, *VIEW), setting), "peer round links")
    assert row == (2, 20, [(a, b, False) for a, b in expected])


def test_r_gets_an_answer_also_where_s_knows_no_links_within_its_reach(sail: Session) -> None:
    """R waits for it; 9 is not in the view of S."""
    topology = frame(sail, TOPOLOGY.columns, {**HERE, "a": 1, "b": 2, "is_marked": False})
    ready, setting = frame(sail, "node_id peer round", {**READY[0], "peer": 9}), frame(sail, "delta", {"delta": 1})
    rows = recovery.with_links(ready, topology, frame(sail, PATH.columns, *VIEW), setting)
    assert found(rows, "peer links") == [(9, None)]


def test_r_gets_the_entries_that_are_not_behind_it_or_name_a_subscriber_within_reach(sail: Session) -> None:
    """δ is 1, so R sees two hops. 0 and 4 are two hops from R, 6 three: entry 3 names 4 instead, which is on the way.

    Behind R, entry 5 names the subscriber 3 itself, entry 6 another one than its subscriber, entry 7 one too far away.
    What names R itself R knows: entries 8 and, rewritten, none.
    """
    view = [*VIEW, way(1, 4, 6), way(1, 2, 3, 5, 7)]
    origins = {1: 0, 2: 1, 3: 6, 5: 3, 6: 3, 7: 7, 8: 2}
    subscribers = {1: 0, 2: 8, 3: 6, 5: 3, 6: 5, 7: 7, 8: 2}
    entries = frame(sail, ROUTING_ENTRY.columns, *(
        {**HERE, "subscription_id": s, "origin": o} for s, o in origins.items()
    ))  # fmt: skip
    subscriber = frame(sail, "subscription_id subscriber", *(
        {"subscription_id": s, "subscriber": o} for s, o in subscribers.items()
    ))  # fmt: skip
    setting = frame(sail, "delta par_rows", {"delta": 1, "par_rows": 2})
    ready = frame(sail, "node_id peer round", *READY).selectExpr(
        "*", "array(named_struct('a', 0L, 'b', 1L, 'is_marked', false)) as links"
    )
    ended = frame(sail, TOMBSTONE.columns, *({**HERE, "subscription_id": s} for s in (31, 30)))
    sent = recovery.send_entries(ready, entries, frame(sail, PATH.columns, *view), ended, subscriber, setting)
    (row,) = found(sent, "src dst kind trigger rank sent_round entries tombstones delay_rounds")
    assert row == (1, 2, "PAR_SUB", -1, 1_000_001, 20, [(1, 0, 2), (2, 1, 1), (3, 4, 2), (5, 3, 1)], [30, 31], 2)


def test_what_is_handed_over_waits_by_its_size_and_par_sub_as_long_as_par_top(sail: Session) -> None:
    """Two rows a round; five links take two rounds, nothing takes none."""
    links = [{"a": a, "b": a + 1, "is_marked": False} for a in range(5)]
    setting = frame(sail, "delta par_rows", {"delta": 1, "par_rows": 2})
    ready = frame(sail, "node_id peer round links", {**READY[0], "links": links}, {**READY[0], "peer": 4})
    top = recovery.low_priority(ready, "PAR_TOP", ["links"], setting)
    assert found(top, "dst kind rank trigger delay_rounds") == [
        (2, "PAR_TOP", 1_000_000, -1, 2), (4, "PAR_TOP", 1_000_000, -1, 0),
    ]  # fmt: skip
    nothing = frame(sail, ROUTING_ENTRY.columns), frame(sail, PATH.columns, *VIEW), frame(sail, TOMBSTONE.columns)
    sub = recovery.send_entries(ready, *nothing, frame(sail, "subscription_id subscriber"), setting)
    assert found(sub, "dst kind entries tombstones delay_rounds") == [
        (2, "PAR_SUB", None, None, 2), (4, "PAR_SUB", None, None, 0),
    ]  # fmt: skip
