"""Phases 4 and 5 of a round of `delta` as a whole: what a node does with the copies of a round, and what they change.

0 - 1 - 2 - 3 - 5        N is node 1, δ is 2
    |
    4
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame
from support.delta.rounds import both, due, network, sent, with_faults
from support.frames import found, frame

from pipelines.contract.round import RunSet
from pipelines.engines.session import Session
from pipelines.protocols.delta import DeltaSettings
from pipelines.protocols.delta.phases import forward, updates
from pipelines.protocols.delta.steps import confirmations, copies
from pipelines.protocols.delta.tables import ROUTING_ENTRY

N, SOURCE = 1, 9
HERE = {"node_id": N}
COPY = {**HERE, "source": SOURCE, "sender": 0, "round": 20, "hops": 2, "issued_round": 16}
LISTED = {
    **COPY, "source_seq": 1, "kind": "SUB", "round": 7, "trigger": 40, "subscription_id": 7, "origin": 0,
    "is_confirmed": False, "is_reopened": False,
}  # fmt: skip
ENTRIES = [
    {**HERE, "subscription_id": 7, "origin": 4, "distance": 1, "first_hop": 4, "responsible": 4},
    {**HERE, "subscription_id": 8, "origin": N, "distance": 0, "first_hop": N, "responsible": N},
    {**HERE, "subscription_id": 9, "origin": 3, "distance": 2, "first_hop": 2, "responsible": None},
]
NEVER = RunSet(is_all=False)


def copied(sail: Session, *rows: dict[str, Any]) -> DataFrame:
    """Copies at N, from 0 where nothing else is said."""
    return frame(sail, copies.COPY, *({**COPY, "trigger": 50 + k, **row} for k, row in enumerate(rows)))


def ends(sail: Session, *rows: dict[str, Any]) -> DataFrame:
    """Messages that are finished at N."""
    usual = {**HERE, "source": SOURCE, "source_seq": 1, "sender": 0, "trigger": 60, "round": 20}
    return frame(sail, confirmations.FINISHED, *({**usual, **row} for row in rows))


def test_a_publication_is_delivered_sent_on_and_remembered(sail: Session) -> None:
    """1 goes on to 4; 2 is for N alone, 3 for nobody: they are finished at once. Nothing comes twice."""
    one = network(sail, with_faults(due("PUB"), crashing=NEVER), N, routing_entry=ENTRIES)
    matches = [[7, 8], [8], [99]]
    one.copies.append(copied(sail, *({"kind": "PUB", "source_seq": k, "matches": m} for k, m in enumerate(matches, 1))))
    forward.forward_copies(one)
    assert found(one.result.delivery, "subscriber source_seq round") == [(N, 1, 20), (N, 2, 20)]  # type: ignore[arg-type]
    assert sent(one, "kind src dst source_seq hops matches visited") == [("PUB", N, 4, 1, 3, [7, 8], None)]
    assert found(one.now("processing"), "source_seq recipient responsible matches") == [(1, 4, 4, None)]
    assert found(one.now("detector"), "source last_seq") == [(SOURCE, k) for k in (1, 2, 3)]
    assert both(one.finished, "source_seq") == [(2,), (3,)]
    assert ({*one.result.added}, one.result.state) == ({"processing", "detector"}, {})
    assert one.fates == []


def test_by_visited_lists_a_node_notes_whom_a_message_passed(sail: Session) -> None:
    """It came by way of 0, and leaves with the number that N has given it: the first one of round 20."""
    of = due("PUB")
    of.settings = [DeltaSettings(name="delta", delta=2, detector="visited")]
    one = network(sail, of, N, routing_entry=ENTRIES, detector=[{**HERE, "source": 0, "last_seq": 30}])
    pub = {"kind": "PUB", "matches": [7]}
    one.copies.append(copied(sail, *(
        {**pub, "source_seq": k, "visited": [{"node": 0, "msg_id": 29 + k}]} for k in (1, 2)
    )))  # fmt: skip
    forward.forward_copies(one)
    number = 20 * 2**20 + 1
    assert sent(one, "kind source_seq visited") == [("CONF", 1, None), ("PUB", 2, [(0, 31), (N, number)])]
    assert found(one.result.added["detector"], "source last_seq") == [(0, 31)]
    assert found(one.now("processing"), "source_seq msg_id") == [(2, number)]


def test_where_nodes_fail_only_what_somebody_has_to_confirm_is_remembered(sail: Session) -> None:
    """Nobody is left on the way to 3: message 2 is finished; the application has had message 3."""
    one = network(
        sail, due("PUB", peers=1), N, routing_entry=ENTRIES, peer=[{**HERE, "peer": 2, "status": "FAILED"}],
        delivered=[{**HERE, "source": SOURCE, "last_seq": 3}],
    )  # fmt: skip
    matches = {1: [7], 2: [9], 3: [7, 8], 4: [8, 9]}
    one.copies.append(copied(sail, *({"kind": "PUB", "source_seq": k, "matches": m} for k, m in matches.items())))
    forward.forward_copies(one)
    assert found(one.now("processing"), "source_seq recipient matches") == [(1, 4, [7]), (3, 4, [7, 8])]
    assert both(one.finished, "source_seq") == [(2,), (4,)]
    assert found(one.result.delivery, "source_seq") == [(4,)]  # type: ignore[arg-type]


def test_nothing_goes_back_past_a_node_that_failed(sail: Session) -> None:
    """3 sent the SUB past 2; the UNSUB is N's own, and goes everywhere."""
    one = network(sail, due("SUB unsubscribe", peers=1), N, peer=[{**HERE, "peer": 5, "status": "WAITING"}])
    one.copies.append(
        copied(
            sail,
            {"kind": "SUB", "source_seq": 1, "sender": 3, "subscription_id": 5, "origin": 3},
            {"kind": "UNSUB", "source": N, "source_seq": 2, "sender": None, "subscription_id": 6, "origin": N},
        )
    )
    forward.forward_copies(one)
    assert found(one.now("processing").where("kind = 'SUB'"), "recipient") == [(0,), (4,)]
    assert found(one.now("processing").where("kind = 'UNSUB'"), "recipient") == [(0,), (2,), (3,), (4,), (5,)]
    assert sent(one, "kind dst") == [("SUB", 0), ("SUB", 4), ("UNSUB", 0), ("UNSUB", 2), ("UNSUB", 4)]
    assert both(one.finished, "kind") == []


@pytest.mark.parametrize("kinds", ["SUB", "J"])
def test_what_has_nobody_to_go_to_is_finished_at_once(sail: Session, kinds: str) -> None:
    """0 is all that N sees, and sent it; a publication in the same round ends once, and an entry comes once."""
    one = network(
        sail, due(f"{kinds} PUB"), path=[
            {**HERE, "target": t, "distance": int(t == 0), "path": [N, 0][: 1 + (t == 0)], "responsible": t}
            for t in (N, 0)
        ],
    )  # fmt: skip
    one.copies.append(
        copied(
            sail, {"kind": kinds, "source_seq": 1, "subscription_id": 5, "origin": 0, "join_point": 0},
            {"kind": "PUB", "source_seq": 2, "matches": [5]},
        )
    )  # fmt: skip
    forward.forward_copies(one)
    assert both(one.finished, "kind source_seq") == sorted([("PUB", 2), (kinds, 1)])
    assert sent(one, "kind") == []
    forward.close(one)
    assert found(one.now("routing_entry"), "subscription_id origin") == ([(5, 0)] if kinds == "SUB" else [])
    assert found(one.result.outbox, "kind dst source_seq") == [("CONF", 0, 1), ("CONF", 0, 2)]  # type: ignore[arg-type]


@pytest.mark.parametrize(("kinds", "facts"), [("J", {}), ("PAR_SUB", {"recovering": 1}), ("PAR_TOP", {})])
def test_j_and_rejoin_go_on_to_their_scope(sail: Session, kinds: str, facts: dict[str, int]) -> None:
    """REJOIN may start in a round that has no message of the kind; and a J in one with PAR_TOP."""
    kind = "REJOIN" if facts else "J"
    one = network(sail, due(kinds, **facts), N)
    one.copies.append(copied(sail, {"kind": kind, "source_seq": -1, "sender": None, "join_point": N}))
    forward.forward_copies(one)
    assert sent(one, "kind dst") == [(kind, dst) for dst in (0, 2, 4)]


def test_a_call_that_waited_goes_on_in_a_round_without_such_messages(sail: Session) -> None:
    one = network(sail, due("CONF", calls=1, joining=1), N)
    one.copies.append(copied(sail, {"kind": "SUB", "source_seq": 1, "sender": None, "subscription_id": 5, "origin": N}))
    forward.forward_copies(one)
    assert sent(one, "kind dst") == [("SUB", dst) for dst in (0, 2, 4)]


def test_duplicates_are_refused_and_their_senders_answered(sail: Session) -> None:
    """N has handled 5. 6 comes twice over, and is under way: its second sender waits."""
    one = network(sail, due("SUB"), N, detector=[{**HERE, "source": SOURCE, "last_seq": 5}])
    told = [(5, 0), (6, 0), (6, 2)]
    one.copies.append(copied(sail, *(
        {"kind": "SUB", "source_seq": k, "sender": s, "subscription_id": k, "origin": 0} for k, s in told
    )))  # fmt: skip
    forward.forward_copies(one)
    assert sent(one, "kind dst source_seq") == [("CONF", 0, 5), ("SUB", 2, 6), ("SUB", 4, 6)]
    assert found(one.now("waiting"), "source_seq sender") == [(6, 2)]
    assert both(one.fates, "message_id fate") == [(50, "duplicate"), (52, "duplicate")]
    assert both(one.finished, "source_seq") == []
    assert found(one.result.added["detector"], "source last_seq") == [(SOURCE, 6)]


def test_without_first_copies_the_round_goes_on(sail: Session) -> None:
    """All are duplicates; a subscription that has ended changes entries."""
    one = network(
        sail, due("SUB CONF", routing=1), N,
        detector=[{**HERE, "source": SOURCE, "last_seq": 5}],
    )  # fmt: skip
    one.copies.append(copied(sail, {"kind": "SUB", "source_seq": 5, "subscription_id": 5, "origin": 0}))
    one.finished.append(ends(sail, {"kind": "SUB", "source_seq": 7, "subscription_id": 6, "origin": 4}))
    forward.forward_copies(one)
    assert sent(one, "kind dst source_seq") == [("CONF", 0, 5)]
    assert found(one.now("routing_entry"), "subscription_id first_hop") == [(6, 4)]
    assert "detector" not in {**one.result.state, **one.result.added}


def guide(*paths: list[int]) -> list[dict[str, Any]]:
    return [{"path": path, "is_done": False} for path in paths]


def test_a_recovering_node_does_what_guided_messages_say(sail: Session) -> None:
    """N recovers: 1 names 4, and 0 is in its view; 2 is plain, and lost; 3 names itself alone.

    At 2, which is up, message 1 goes by the view.
    """
    one = network(
        sail, due("SUB PUB", recovering=1, returned=1), 1, 2,
        status=[{**HERE, "status": "RECOVERING", "incarnation": 1}],
        own_subscription=[{**HERE, "subscription_id": 8}],
    )  # fmt: skip
    sub = {"kind": "SUB", "source_seq": 1, "sender": 2, "subscription_id": 5, "origin": 2, "origin_path": [1, 2]}
    one.copies.append(
        copied(
            sail, {**sub, "guide": guide([1, 4], [1])}, {**sub, "source_seq": 2},
            {"kind": "PUB", "source_seq": 3, "matches": [8], "guide": guide([1])},
            {**sub, "node_id": 2, "sender": 3, "origin_path": None},
        )
    )  # fmt: skip
    forward.forward_copies(one)
    assert both(one.fates, "message_id fate") == [(51, "lost_crash")]
    assert found(one.now("processing"), "node_id source_seq recipient responsible path") == [
        (1, 1, 0, 0, None), (1, 1, 4, 4, [1, 4]), (2, 1, 0, 1, None), (2, 1, 1, 1, None), (2, 1, 4, 1, None),
    ]  # fmt: skip
    assert sent(one, "src dst source_seq") == [(1, 0, 1), (1, 4, 1), (2, 1, 1)]
    assert found(one.result.delivery, "subscriber source_seq") == [(N, 3)]  # type: ignore[arg-type]
    assert both(one.finished, "node_id source_seq") == [(N, 3)]


def test_a_recovering_node_takes_what_it_refuses_and_widens_what_it_has(sail: Session) -> None:
    """Message 1 is under way, and comes again for 4; of 2, an older one, N may lack the entry; 3 is a PUB."""
    one = network(
        sail, due("SUB PUB", recovering=1, returned=1), N,
        status=[{**HERE, "status": "RECOVERING", "incarnation": 1}],
        detector=[{**HERE, "source": SOURCE, "last_seq": 5}],
        processing=[{**LISTED, "recipient": 0, "responsible": 0, "path": [1, 0]}],
    )  # fmt: skip
    sub = {"kind": "SUB", "sender": 2, "origin": 2}
    one.copies.append(
        copied(
            sail, {**sub, "source_seq": 1, "subscription_id": 7, "guide": guide([1, 4], [1, 0])},
            {**sub, "source_seq": 2, "subscription_id": 6, "origin_path": [1, 2], "guide": guide([1])},
            {"kind": "PUB", "source_seq": 3, "sender": 2, "matches": [7], "guide": guide([1])},
        )
    )  # fmt: skip
    forward.forward_copies(one)
    assert found(one.now("processing"), "source_seq recipient responsible") == [(1, 0, 0), (1, 4, 4)]
    assert both(one.resent, "source_seq recipient now_round") == [(1, 4, 20)]
    assert both(one.finished, "source_seq") == [(2,)]
    assert found(one.now("routing_entry"), "subscription_id origin first_hop") == [(6, 2, 2)]
    assert sent(one, "kind dst source_seq") == [("CONF", 2, 2), ("CONF", 2, 3)]


def test_what_a_node_accepted_as_guided_goes_to_whom_it_knows_of_by_now(sail: Session) -> None:
    """N is OPERATIONAL*: 0 has the publication already, 4 and N itself have not."""
    listed = {**LISTED, "kind": "PUB", "subscription_id": None, "origin": None, "matches": [6, 7, 8], "sender": 2}
    behind_0 = {**HERE, "subscription_id": 6, "origin": 0, "distance": 1, "first_hop": 0, "responsible": 0}
    one = network(
        sail, due("PAR_SUB", recovering=1), N, routing_entry=[*ENTRIES, behind_0],
        status=[{**HERE, "status": "REJOINING", "incarnation": 1}],
        processing=[{**listed, "recipient": 0, "responsible": 0}],
    )  # fmt: skip
    one.copies.append(copied(sail))
    again = frame(sail, [*copies.COPY, "msg_id", "now_round"], {
        **COPY, "source_seq": 1, "kind": "PUB", "sender": 2, "round": 7, "trigger": 40, "matches": [6, 7, 8],
        "now_round": 20,
    })  # fmt: skip
    one.again.append(again)
    forward.forward_copies(one)
    assert found(one.now("processing"), "recipient responsible") == [(0, 0), (4, 4)]
    assert both(one.resent, "recipient responsible now_round") == [(4, 4, 20)]
    assert found(one.result.delivery, "subscriber source_seq round") == [(N, 1, 20)]  # type: ignore[arg-type]


SUB = {"kind": "SUB", "subscription_id": 5, "origin": 4}
UNSUB = {"kind": "UNSUB", "subscription_id": 7, "origin": 4, "source_seq": 2}


@pytest.mark.parametrize("peers", [0, 1])
def test_finished_messages_change_entries(sail: Session, peers: int) -> None:
    """SUB 5 comes, and with PAR_SUB 6 and, once more, 5; 7 goes, which a crash must not bring back."""
    told = frame(sail, [*ROUTING_ENTRY.columns, "trigger"], *(
        {**HERE, "subscription_id": s, "origin": 0, "distance": 1, "first_hop": 0, "responsible": 0, "trigger": 55}
        for s in ((5, 6) if peers else (6,))
    ))  # fmt: skip
    one = network(sail, due("SUB PAR_SUB", peers=peers, ending=1), N, routing_entry=ENTRIES)
    own = {"source": N, "sender": None}
    one.finished += [ends(sail, {**SUB, **own}, {**UNSUB, **own}), ends(sail, {"kind": "PUB", "source_seq": 3})]
    one.added.append(told)
    before, changes = updates.change_entries(one)
    assert found(before, "subscription_id") == [(7,), (8,), (9,)]
    assert changes is not None
    assert found(changes.added, "subscription_id") == [(5,), (6,)]
    assert found(one.now("routing_entry"), "subscription_id") == [(5,), (6,), (8,), (9,)]
    assert found(one.now("tombstone"), "subscription_id") == ([(7,)] if peers else [])
    assert found(one.now("own_subscription"), "subscription_id") == [(5,)]


def test_one_change_is_enough_to_change_entries(sail: Session) -> None:
    for row, kinds, expected in ((SUB, "SUB", [5, 7, 8, 9]), (UNSUB, "UNSUB", [8, 9])):
        for peers in (0, 1):
            one = network(sail, with_faults(due(kinds, peers=peers), crashing=NEVER), N, routing_entry=ENTRIES)
            one.finished.append(ends(sail, row))
            assert updates.change_entries(one)[1] is not None
            assert found(one.now("routing_entry"), "subscription_id") == [(s,) for s in expected]
            is_added = row is SUB and not peers
            assert {*one.result.added} == ({"routing_entry"} if is_added else set())
            assert ("routing_entry" in one.result.state) != is_added
            assert "own_subscription" not in one.result.state


def test_what_par_sub_brings_is_taken_in_beside_publications_that_end(sail: Session) -> None:
    told = {**HERE, "subscription_id": 6, "origin": 0, "distance": 1, "first_hop": 0, "responsible": 0, "trigger": 55}
    one = network(sail, due("PAR_SUB", peers=1), N, routing_entry=ENTRIES)
    one.finished.append(ends(sail, {"kind": "PUB"}))
    one.added.append(frame(sail, [*ROUTING_ENTRY.columns, "trigger"], told))
    assert updates.change_entries(one)[1] is not None
    assert found(one.now("routing_entry"), "subscription_id") == [(6,), (7,), (8,), (9,)]


def test_publications_that_end_change_no_entries(sail: Session) -> None:
    """Nor does a round in which nothing ends."""
    for of, row in ((due("CONF"), {"kind": "PUB"}), (due("CONF", peers=1), {"kind": "PUB"}), (due("SUB"), None)):
        one = network(sail, of, N, routing_entry=ENTRIES)
        one.finished += [ends(sail, row)] if row else []
        before, changes = updates.change_entries(one)
        assert (found(before, "subscription_id"), changes) == ([(7,), (8,), (9,)], None)
        assert (one.result.state, one.result.added) == ({}, {})


def test_what_a_failure_ends_is_in_effect_at_once(sail: Session) -> None:
    """J 8 - 2 and SUB 5 end; N knows of 7, so SUB 7 changes nothing; UNSUB 9 leaves a tombstone."""
    marked = [{**HERE, "a": 2, "b": 8, "is_marked": True}]
    row = {"kind": "J", "source": 8, "join_point": 2}
    ended = [row, SUB, {**SUB, "subscription_id": 7}, {**UNSUB, "subscription_id": 9}]
    for joining in (0, 1):
        one = network(sail, due("DETECT", joining=joining), N, topology=marked, routing_entry=ENTRIES)
        updates.apply_finished(one, ends(sail, *ended), one.now("path"))
        assert ("topology" in one.result.state) == bool(joining)
        assert found(one.now("topology").where("b = 8"), "a is_marked") == [(2, not joining)]
        assert found(one.now("routing_entry"), "subscription_id") == [(5,), (7,), (8,)]
        assert found(one.now("tombstone"), "subscription_id") == [(9,)]


def test_a_node_asks_another_for_routing_information_once_a_round(sail: Session) -> None:
    one = network(sail, due("DETECT"), N)
    asked = frame(sail, "node_id peer path round", *({**HERE, "peer": p, "path": [1, p], "round": 20} for p in (0, 2)))
    updates.synchronise(one, asked.where("peer = 2"))
    updates.synchronise(one, asked)
    updates.synchronise(one, asked)
    assert sent(one, "kind dst") == [("SYN_REQUEST", 0), ("SYN_REQUEST", 2)]
    assert found(one.now("synch"), "peer is_answered") == [(0, False), (2, False)]
    assert found(one.now("peer"), "peer status") == [(0, "WAITING"), (2, "WAITING")]


def test_a_connection_to_an_incarnation_that_is_over_is_reported(sail: Session) -> None:
    """2 is down, and 3 is back in its incarnation 2: who knows it by 1 will hear, who waits for it will be answered."""
    made = frame(sail, "node_id peer incarnation latency_rounds", *(
        {"node_id": n, "peer": p, "incarnation": k, "latency_rounds": 3}
        for n, p, k in ((0, 2, None), (1, 3, 1), (4, 3, 2), (5, 3, None))
    ))  # fmt: skip
    down = {"down": frame(sail, "node_id incarnation", {"node_id": 2, "incarnation": 0})}
    back = frame(sail, "node_id incarnation", {"node_id": 3, "incarnation": 2})
    status = [{"node_id": 3, "status": "OPERATIONAL", "incarnation": 2}]
    for of, expected in (
        (due(), []), (due("", down), [(0, 2, 0)]), (due("", returned=1), [(1, 3, 1)]),
        (due("", {"recovered": back}), [(1, 3, 1)]), (due("", down, returned=1), [(0, 2, 0), (1, 3, 1)]),
    ):  # fmt: skip
        one = network(sail, of, status=status)
        updates.watch(one, made)
        assert both(one.broken, "node_id peer ended") == expected


def test_a_round_closes_with_conf_reports_and_what_is_sent_again(sail: Session) -> None:
    """J 8 - 2 has ended, and its mark goes; a PUB of N itself is confirmed. 3 is reported."""
    broken = {**HERE, "peer": 3, "ended": 0, "latency_rounds": 6, "round": 20}
    one = network(
        sail, due("CONF", joining=1, routing=1, peers=1), N, topology=[{**HERE, "a": 2, "b": 8, "is_marked": True}],
        peer=[{**HERE, "peer": 4, "status": "WAITING", "latency_rounds": 3}],
    )  # fmt: skip
    one.finished.append(ends(sail, {"kind": "J", "source": 8, "join_point": 2}, {**SUB, "source_seq": 2}))
    one.finished.append(ends(sail, {"kind": "PUB", "source": N, "source_seq": 3, "sender": None}))
    one.broken.append(frame(sail, "node_id peer ended latency_rounds round", broken))
    again = {**LISTED, "now_round": 20}
    one.resent.append(frame(sail, [*one.now("processing").columns, "now_round"], *(
        {**again, "recipient": r, "responsible": r} for r in (2, 4)
    )))  # fmt: skip
    forward.close(one)
    assert found(one.result.outbox, "kind src dst source source_seq latency_rounds") == [  # type: ignore[arg-type]
        ("CONF", N, 0, 8, 1, None), ("CONF", N, 0, SOURCE, 2, None), ("DETECT", N, N, None, None, 6),
        ("SUB", N, 2, SOURCE, 1, None),
    ]  # fmt: skip
    assert found(one.result.call_event, "source source_seq event") == [(N, 3, "confirmed")]  # type: ignore[arg-type]
    assert (one.result.node_status, one.result.fate) == (None, None)
    assert found(one.now("topology").where("b = 8"), "a is_marked") == [(2, False)]
    assert found(one.now("routing_entry"), "subscription_id") == [(5,)]


def test_what_leaves_for_a_recovering_node_names_the_recipients_behind_it(sail: Session) -> None:
    listed = [{**LISTED, "recipient": r, "responsible": by} for r, by in ((2, 2), (3, 2), (4, 4))]
    one = network(
        sail, due("STATUS", recovering=1, peers=1), N, processing=listed,
        peer=[{**HERE, "peer": 2, "status": "RECOVERING", "incarnation": 1, "latency_rounds": 3}],
    )  # fmt: skip
    one.resent.append(frame(sail, [*one.now("processing").columns, "now_round"], *(
        {**row, "now_round": 20} for row in listed
    )))  # fmt: skip
    forward.close(one)
    assert found(one.result.outbox, "kind dst for_incarnation guide") == [  # type: ignore[arg-type]
        ("SUB", 2, 1, [([2], False), ([2, 3], False)]), ("SUB", 4, None, None),
    ]  # fmt: skip


def test_a_round_in_which_nothing_happens_leaves_nothing(sail: Session) -> None:
    one = network(sail, due(), N)
    forward.close(one)
    assert (one.result.state, one.result.added) == ({}, {})
    assert (one.result.outbox, one.result.call_event) == (None, None)
