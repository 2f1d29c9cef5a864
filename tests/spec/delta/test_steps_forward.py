"""Steps of Algorithm 1 on single frames: Γ and Out of first copies, ProcessingList, CONF.

0 - 1 - 2 - 3 - 5        N is node 1, δ is 2, so its view has all of them
    |
    4
"""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from support.frames import found, frame, way

from pipelines.engines.session import Session
from pipelines.protocols.delta.steps import confirmations, copies, routing
from pipelines.protocols.delta.tables import INBOX, PATH, PROCESSING, ROUTING_ENTRY, WAITING

VIEW = [way(1), way(1, 0), way(1, 2), way(1, 4), way(1, 2, 3), way(1, 2, 3, 5)]
COPY = [*copies.COPY, "sender_hop", "msg_id"]
N, SOURCE = 1, 9
PUB, SUB = {"node_id": N, "source": SOURCE, "kind": "PUB"}, {"node_id": N, "source": SOURCE, "kind": "SUB"}
HERE = {"node_id": N, "source": SOURCE}
RECIPIENT = "node_id source source_seq recipient responsible path is_confirmed"


@pytest.fixture(scope="module")
def path(sail: Session) -> DataFrame:
    return frame(sail, PATH.columns, *VIEW)


def by_message(rows: DataFrame) -> dict[int, list[int]]:
    """The recipients of each message."""
    pairs = found(rows, "source_seq recipient")
    return {seq: sorted(recipient for of, recipient in pairs if of == seq) for seq, _ in pairs}


def test_calls_are_issued_as_copies_of_no_hops_and_joins_are_not(sail: Session) -> None:
    columns = "node_id source_seq round kind subscription_id matches"
    call = frame(
        sail, columns,
        {"node_id": 4, "source_seq": 1, "round": 7, "kind": "join"},
        {"node_id": 4, "source_seq": 2, "round": 7, "kind": "subscribe", "subscription_id": 3},
        {"node_id": 4, "source_seq": 3, "round": 7, "kind": "publish", "matches": [3]},
    )  # fmt: skip
    issued = copies.issued_copies(call)
    assert found(issued, "source source_seq kind sender hops issued_round origin matches") == [
        (4, 2, "SUB", None, 0, 7, 4, None),
        (4, 3, "PUB", None, 0, 7, None, [3]),
    ]


def test_the_sender_hop_is_the_neighbour_on_the_way_to_the_sender(sail: Session, path: DataFrame) -> None:
    """3 sent past 2, which has failed; 8 is not in the view; a node's own message has no sender."""
    copy = frame(sail, COPY[:-2], *({**PUB, "source_seq": k, "sender": s} for k, s in enumerate([0, 3, 8, None])))
    assert found(copies.sender_hops(copy, path), "sender sender_hop") == [(0, 0), (3, 2), (8, 8), (None, None)]
    assert found(copies.sender_hops(copy, None), "sender sender_hop") == [(0, 0), (3, 3), (8, 8), (None, None)]


def test_later_copies_are_those_that_are_not_first(sail: Session) -> None:
    copy = frame(sail, COPY, {**PUB, "trigger": 1}, {**PUB, "trigger": 2})
    assert found(copies.later_copies(copy, frame(sail, COPY, {**PUB, "trigger": 1})), "trigger") == [(2,)]


def test_a_publication_goes_to_matching_entries_but_not_back(sail: Session) -> None:
    """Entry 7 lies behind 2, entry 8 behind 0, entry 6 is N's own, entry 5 does not match."""
    ways = [(5, 4, 4), (6, 1, 1), (7, 3, 2), (8, 0, 0)]
    entries = frame(
        sail, ROUTING_ENTRY.columns,
        *({"node_id": N, "subscription_id": s, "origin": o, "first_hop": h, "responsible": h} for s, o, h in ways),
    )  # fmt: skip
    first = frame(
        sail, COPY,
        {**PUB, "source_seq": 1, "sender_hop": 0, "matches": [6, 7, 8], "round": 30, "issued_round": 26, "hops": 3},
        {**PUB, "source_seq": 2, "sender_hop": None, "matches": [6, 7, 8]},
    )  # fmt: skip
    matched = routing.publication_recipients(first, entries)
    assert by_message(matched) == {1: [1, 3], 2: [0, 1, 3]}
    assert found(matched.where("source_seq = 1"), "recipient responsible") == [(1, 1), (3, 2)]
    here = copies.matched_deliveries(matched.where("source_seq = 1"))
    assert found(here, "subscriber source source_seq round latency_rounds hops") == [(N, SOURCE, 1, 30, 4, 3)]


def test_a_subscription_goes_to_all_of_the_view_but_not_back(sail: Session, path: DataFrame) -> None:
    first = frame(
        sail, COPY,
        {**SUB, "source_seq": 1, "sender_hop": 2},
        {**SUB, "source_seq": 2},
        {**SUB, "source_seq": 3, "sender_hop": 0, "kind": "UNSUB"},
    )  # fmt: skip
    assert by_message(routing.subscription_recipients(first, path)) == {
        1: [0, 4],
        2: [0, 2, 3, 4, 5],
        3: [2, 3, 4, 5],
    }


def test_a_join_goes_to_delta_hops_around_its_join_point_and_a_rejoin_a_hop_farther(
    sail: Session, path: DataFrame
) -> None:
    """Message 1: J with M = 0; 2: J of node 8 at N itself; 3: N's own J, by way of 0; 4: REJOIN of 0."""
    setting = frame(sail, "delta", {"delta": 2})
    messages = {1: ("J", 0, 0), 2: ("J", N, 8), 3: ("J", 0, None), 4: ("REJOIN", 0, 0)}
    first = frame(
        sail, COPY,
        *({**HERE, "source_seq": k, "kind": kind, "join_point": m, "sender_hop": hop}
          for k, (kind, m, hop) in messages.items()),
    )  # fmt: skip
    reached = {1: [2, 4], 2: [0, 2, 3, 4], 3: [0, 2, 3, 4, 5], 4: [2, 3, 4]}
    assert by_message(routing.join_recipients(first, path, setting)) == reached


def test_processing_list_has_every_recipient_but_the_node_itself(sail: Session) -> None:
    first = frame(sail, COPY, {**PUB, "source_seq": 1, "sender": 0, "hops": 2})
    recipient = frame(sail, RECIPIENT, *(
        {**HERE, "source_seq": 1, "recipient": r, "responsible": r, "is_confirmed": r == 4} for r in (N, 3, 4)
    ))  # fmt: skip
    rows = copies.processing_rows(first, recipient)
    assert found(rows, "recipient responsible sender hops is_confirmed is_reopened") == [
        (3, 3, 0, 2, False, False), (4, 4, 0, 2, True, False),
    ]  # fmt: skip


def test_one_copy_goes_to_each_member_of_out_with_the_msg_ids_of_the_way(sail: Session) -> None:
    """Message 1 comes with visited lists, 2 starts here with one, 3 is told by identifiers."""
    said = [(1, [{"node": 0, "msg_id": 77}], 55), (2, None, 56), (3, None, None)]
    first = frame(sail, COPY, *(
        {**PUB, "source_seq": k, "trigger": 40 + k, "round": 30, "hops": 2, "visited": v, "msg_id": m}
        for k, v, m in said
    ))  # fmt: skip
    recipient = frame(sail, RECIPIENT, *(
        {**HERE, "source_seq": k, "recipient": r, "responsible": responsible}
        for k in (1, 2, 3) for r, responsible in ((N, N), (3, 2), (5, 2), (4, None))
    ))  # fmt: skip
    assert found(copies.copies_to_send(first, recipient), "trigger rank src dst sent_round hops visited") == [
        (41, 2, N, 2, 30, 3, [(0, 77), (N, 55)]),
        (42, 2, N, 2, 30, 3, [(N, 56)]),
        (43, 2, N, 2, 30, 3, None),
    ]


def processing(sail: Session, *rows: tuple[int, int, int | None, bool]) -> DataFrame:
    """Message, recipient, responsible, whether that has confirmed."""
    usual = {**HERE, "kind": "SUB", "origin_path": [1, 2, 3]}
    return frame(sail, PROCESSING.columns, *(
        {**usual, "source_seq": k, "recipient": r, "responsible": responsible, "is_confirmed": done}
        for k, r, responsible, done in rows
    ))  # fmt: skip


@pytest.fixture(scope="module")
def listed(sail: Session) -> DataFrame:
    """Of 1 one member of Out confirms, of 2 the only one, of 3 the last one, of 4 a stranger, of 5 nobody."""
    return processing(
        sail, (1, 2, 2, False), (1, 3, 2, False), (1, 4, 4, False), (2, 2, 2, False), (2, 3, None, False),
        (3, 2, 2, True), (3, 4, 4, False), (4, 2, 2, False), (5, 2, 2, True), (5, 4, 4, False),
    )  # fmt: skip


@pytest.fixture(scope="module")
def moved(sail: Session, listed: DataFrame) -> DataFrame:
    said = [(1, 2, 100, 8), (2, 2, 101, 8), (2, 2, 104, 9), (3, 4, 102, 8), (4, 7, 103, 8)]
    usual = {"dst": N, "source": SOURCE, "kind": "CONF"}
    conf = frame(
        sail, INBOX,
        *({**usual, "source_seq": k, "src": src, "message_id": t, "due_round": r} for k, src, t, r in said),
        {**usual, "source_seq": 5, "src": 4, "message_id": 1, "due_round": 8, "kind": "PUB"},
    )  # fmt: skip
    return confirmations.progress(listed, confirmations.received_confirmations(conf))


def test_a_message_is_finished_when_all_of_out_has_confirmed(moved: DataFrame) -> None:
    """Where nobody is left on the way nobody has to confirm; the last CONF ends it; m.from of a Guided one is told."""
    assert found(moved, "source_seq is_finished trigger round confirmed_by origin_distance origin_hop") == [
        (1, False, 100, 8, [2, 2], 2, 2),
        (2, True, 104, 9, [2], 2, 2),
        (3, True, 102, 8, [4], 2, 2),
    ]


def test_what_is_confirmed_is_noted_and_what_is_finished_goes(listed: DataFrame, moved: DataFrame) -> None:
    assert found(confirmations.after_confirmations(listed, moved), "source_seq recipient is_confirmed") == [
        (1, 2, True), (1, 3, True), (1, 4, False), (4, 2, False), (5, 2, True), (5, 4, False),
    ]  # fmt: skip
    finished = moved.where("is_finished")
    kept = confirmations.without_finished(listed, finished)
    assert sorted({seq for (seq,) in found(kept, "source_seq")}) == [1, 4, 5]


def test_only_messages_that_changed_can_be_finished(sail: Session, listed: DataFrame) -> None:
    row = listed.where("source_seq in (3, 5)").selectExpr("*", "3 as now_round")
    assert found(confirmations.abandoned_messages(listed, row), "source_seq") == []
    done = processing(sail, (1, 2, 2, True), (1, 3, None, False), (2, 2, 2, True))
    row = done.where("source_seq = 1").selectExpr("*", "3 as now_round")
    assert found(confirmations.abandoned_messages(done, row), "source_seq trigger round") == [(1, -1, 3)]


def test_a_copy_that_goes_nowhere_is_finished_at_once(sail: Session) -> None:
    """1 has a member of Out; 2 only the node itself, 3 somebody that nobody leads to, 4 no recipient."""
    first = frame(sail, COPY, *({**SUB, "source_seq": k, "trigger": k} for k in (1, 2, 3, 4)))
    out = {1: 2, 2: N, 3: None}
    recipient = frame(
        sail, RECIPIENT, *({**HERE, "source_seq": k, "responsible": responsible} for k, responsible in out.items())
    )
    assert found(confirmations.finished_at_once(first, recipient), "source_seq") == [(2,), (3,), (4,)]


def test_a_message_is_under_way_while_somebody_has_to_confirm(sail: Session) -> None:
    rows = processing(sail, (1, 2, 2, True), (1, 4, 4, False), (2, 2, 2, True), (3, 2, None, False))
    assert found(confirmations.unfinished_rows(rows), "source_seq recipient") == [(1, 2), (1, 4)]


def test_the_sender_of_a_duplicate_waits_or_is_answered_at_once(sail: Session) -> None:
    """Message 1 is in ProcessingList, 2 is finished."""
    late = frame(sail, COPY, *({**SUB, "source_seq": k, "sender": 4, "trigger": k, "round": 8} for k in (1, 2)))
    rows = processing(sail, (1, 2, 2, False), (1, 3, 3, False))
    assert found(confirmations.waiting_senders(late, rows), "source_seq sender") == [(1, 4)]
    assert found(confirmations.answered_at_once(late, rows), "source_seq sender") == [(2, 4)]
    waiting = frame(sail, WAITING.columns, *({**HERE, "source_seq": k, "sender": 4} for k in (1, 3)))
    assert found(confirmations.answered_waiting(late, waiting), "source_seq sender trigger") == [(1, 4, 1)]


def test_senders_get_conf_behind_copies_and_the_source_its_call_confirmed(sail: Session) -> None:
    finished = frame(
        sail, confirmations.FINISHED,
        {**HERE, "source_seq": 1, "sender": 4, "trigger": 50, "round": 8},
        {"node_id": N, "source": N, "source_seq": 2, "trigger": 51, "round": 8},
    )  # fmt: skip
    sent = confirmations.send_confirmations(finished)
    assert found(sent, "trigger rank kind src dst sent_round source_seq") == [(50, 3, "CONF", N, 4, 8, 1)]
    assert found(confirmations.confirmed_calls(finished), "source source_seq round event") == [(N, 2, 8, "confirmed")]
