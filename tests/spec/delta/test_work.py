"""What a round of `delta` may still have to do, and the relations that its steps change.

Where one of these says no, steps are left out of the plan; where it says yes for nothing, rounds take longer.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import DataFrame
from support.delta.rounds import Keep, due, with_faults, work
from support.frames import found, frame, way

from pipelines.contract.round import RunSet, RunTables, Start
from pipelines.engines.session import Session
from pipelines.protocols.delta import DeltaSettings, dataflow
from pipelines.protocols.delta.phases import forward, updates
from pipelines.protocols.delta.steps import connections, copies
from pipelines.protocols.delta.tables import (
    DELIVERED,
    JOIN,
    OWN_SUBSCRIPTION,
    PATH,
    PEER,
    ROUTING_ENTRY,
    STATUS,
    WAITING,
    to_send,
)

COPY = [*copies.COPY, "sender_hop", "msg_id"]


DOWN = {"down": "somebody"}
CASES: dict[str, dict[bool, list[Any]]] = {
    "is_disturbed": {
        True: [due("", DOWN), due("", {"recovered": 1}), due("DETECT"), due(peers=1), due(returned=1)],
        False: [due("PUB CONF STATUS", recovering=1, joiners=1)],
    },
    "is_recovering": {
        True: [due(recovering=1), due(synchs=1), due(syn_requests=1), due("", {"recovered": 1}), due("SYN_REQUEST")],
        False: [due("DETECT CON_REQUEST", DOWN, peers=1, returned=1)],
    },
    "may_fail": {
        True: [due("DETECT"), due("JOIN_REQUEST", DOWN, joiners=1), due("STATUS", DOWN, joiners=1)],
        False: [due("JOIN_REQUEST", joiners=1), due("JOIN_REQUEST", DOWN), due("PUB", DOWN, joiners=1)],
    },
    "may_finish_joins": {
        True: [due("J"), due("CONF", joining=1), due("DETECT", joining=1)],
        False: [due("CONF"), due("DETECT"), due("PUB", joining=1)],
    },
    "may_release_calls": {
        True: [due("J", calls=1), due("", DOWN, calls=1), due("CONF", joining=1, calls=1)],
        False: [due("J"), due("", DOWN), due("CONF", calls=1)],
    },
    "may_change_entries": {
        True: [
            due("SUB"), due("unsubscribe"), due("PAR_SUB"), due("J", calls=1), due("CONF", routing=1), due("", DOWN),
        ],
        False: [due("CONF"), due("PUB", routing=1), due("J")],
    },
    "may_end_subscriptions": {
        True: [due("UNSUB"), due("unsubscribe"), due("CONF", ending=1), due("J", calls=1), due("", DOWN)],
        False: [due("SUB CONF J PAR_SUB subscribe", routing=1, joining=1)],
    },
    "may_send_subscriptions": {
        True: [due("UNSUB"), due("subscribe"), due("JOIN_REQUEST"), due("J", calls=1), due("", DOWN)],
        False: [due("PUB CONF J PAR_SUB")],
    },
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_round_knows_what_it_may_have_to_do(name: str) -> None:
    for expected, rounds in CASES[name].items():
        for number, one in enumerate(rounds):
            assert getattr(work(one), name) == expected, (expected, number)


def entry(node: int, number: int) -> dict[str, int]:
    return {"node_id": node, "subscription_id": number}


def test_steps_see_what_earlier_steps_of_the_round_have_changed(sail: Session) -> None:
    entries = frame(sail, ROUTING_ENTRY.columns, *(entry(node, 1) for node in (1, 2, 3)))
    one = work(routing_entry=entries)
    assert found(one.now("routing_entry"), "node_id") == [(1,), (2,), (3,)]
    one.change("routing_entry", frame(sail, ROUTING_ENTRY.columns, entry(1, 7)))
    assert found(one.now("routing_entry"), "node_id subscription_id") == [(1, 7)]
    assert set(one.result.state) == {"routing_entry"}
    assert found(one.round.state["routing_entry"], "node_id") == [(1,), (2,), (3,)]


def test_added_rows_are_kept_apart_until_a_step_replaces_their_relation(sail: Session) -> None:
    one = work(routing_entry=frame(sail, ROUTING_ENTRY.columns, entry(1, 1)))
    for number in (2, 3):
        one.add("routing_entry", frame(sail, ROUTING_ENTRY.columns, entry(1, number)))
    assert found(one.result.added["routing_entry"], "subscription_id") == [(2,), (3,)]
    assert found(one.now("routing_entry"), "subscription_id") == [(1,), (2,), (3,)]
    one.change("routing_entry", one.now("routing_entry"))
    one.add("routing_entry", frame(sail, ROUTING_ENTRY.columns, entry(1, 4)))
    assert one.result.added == {}
    assert found(one.result.state["routing_entry"], "subscription_id") == [(1,), (2,), (3,), (4,)]


def test_what_is_noted_for_a_crash_is_noted_in_its_runs_alone(sail: Session) -> None:
    rows = frame(sail, "run_id node_id", {"run_id": 0}, {"run_id": 1}, {"run_id": 2})
    one, runs = work(), frame(sail, "run_id", {"run_id": 1})
    assert found(one.round.faults.crashing.of(rows), "run_id") == [(0,), (1,), (2,)]
    some = RunSet(is_all=False, run=runs)
    one = work(with_faults(due(), crashing=some, disturbed=some))
    assert found(one.round.faults.crashing.of(rows), "run_id") == [(1,)]
    assert found(one.round.faults.disturbed.of(rows), "run_id") == [(1,)]


def test_messages_lack_what_they_do_not_say(sail: Session) -> None:
    row = frame(sail, "node_id round hops kind", {"node_id": 1, "round": 4, "hops": 3, "kind": "PUB"})
    sent = to_send(row, kind="kind", hops="hops")
    assert found(sent, "src kind hops origin") == [(1, "PUB", 3, None)]


def test_connections_are_fresh_to_new_peers_and_to_new_incarnations(sail: Session) -> None:
    """2 has answered, 3 is the same, 4 is asked, 5 failed, 6 came back."""

    def peers(rows: dict[int, tuple[str, int | None]]) -> DataFrame:
        return frame(sail, PEER.columns, *(
            {"node_id": 1, "peer": p, "status": s, "incarnation": k} for p, (s, k) in rows.items()
        ))  # fmt: skip

    before = peers({2: ("WAITING", None), 3: ("OPERATIONAL", 1), 6: ("FAILED", 0)})
    after = {2: ("OPERATIONAL", 1), 3: ("OPERATIONAL", 1), 4: ("WAITING", None), 5: ("FAILED", 1), 6: ("RECOVERING", 1)}
    assert found(connections.fresh_peers(before, peers(after)), "peer incarnation") == [(2, 1), (4, None), (6, 1)]


def test_nodes_that_join_or_recover_accept_no_calls(sail: Session) -> None:
    join = frame(sail, JOIN.columns, {"node_id": 1, "status": "ATTACHED"}, {"node_id": 2, "status": "VALID_JOINED"})
    states = {3: "RECOVERING", 4: "REJOINING", 5: "OPERATIONAL"}
    status = frame(sail, STATUS.columns, *({"node_id": n, "status": s} for n, s in states.items()))
    assert found(updates.blocked_nodes(work(join=join, status=status)), "node_id") == [(1,)]
    recovering = work(due(recovering=1), join=join, status=status)
    assert found(updates.blocked_nodes(recovering), "node_id") == [(1,), (3,), (4,)]


def test_nothing_is_delivered_twice(sail: Session) -> None:
    """5 is the last that 1 has delivered of 9; of 8 it has none. Without failures nothing comes twice."""
    columns = "subscriber source source_seq round latency_rounds hops"
    delivery = frame(sail, columns, *(
        {"subscriber": 1, "source": s, "source_seq": k} for s, k in ((9, 4), (9, 5), (9, 6), (8, 1))
    ))  # fmt: skip
    delivered = frame(sail, DELIVERED.columns, *({"node_id": 1, "source": 9, "last_seq": k} for k in (3, 5)))
    one = work(due("DETECT"), delivered=delivered)
    forward.deliver(one, delivery)
    assert found(one.result.delivery, "source source_seq") == [(8, 1), (9, 6)]  # type: ignore[arg-type]
    assert found(one.result.added["delivered"], "node_id source last_seq") == [(1, 8, 1), (1, 9, 6)]
    calm = work(delivered=delivered)
    forward.deliver(calm, delivery)
    assert found(calm.result.delivery, "source source_seq") == found(delivery, "source source_seq")  # type: ignore[arg-type]
    safe = with_faults(due(), crashing=RunSet(is_all=False))
    unnoted = work(safe, delivered=delivered)
    forward.deliver(unnoted, delivery)
    assert (unnoted.result.state, unnoted.result.added) == ({}, {})


def test_a_subscriber_stores_what_it_has_confirmed_itself(sail: Session) -> None:
    """1 subscribes to 5 and ends 6; 7 is another node's; 8 was there; PUB changes nothing."""
    own = frame(sail, OWN_SUBSCRIPTION.columns, entry(1, 6), entry(1, 8))
    ends = [(5, "SUB", 1), (6, "UNSUB", 1), (7, "SUB", 2), (8, "SUB", 1), (9, "PUB", 1)]
    finished = frame(sail, "node_id source subscription_id kind", *(
        {"node_id": 1, "source": source, "subscription_id": s, "kind": kind} for s, kind, source in ends
    ))  # fmt: skip
    one = work(own_subscription=own)
    updates._store_own_subscriptions(one, finished)
    assert found(one.now("own_subscription"), "subscription_id") == [(5,), (8,)]


def test_a_recovering_node_takes_guided_messages_only(sail: Session) -> None:
    """1 recovers; what it does not take is lost like what came while it was down."""
    told = [(1, None), (1, [{"path": [1], "is_done": False}]), (2, None)]
    copy = frame(sail, copies.COPY, *({"node_id": n, "guide": g, "trigger": k} for k, (n, g) in enumerate(told)))
    status = frame(
        sail, STATUS.columns, {"node_id": 1, "status": "RECOVERING"}, {"node_id": 2, "status": "OPERATIONAL"}
    )
    one = work(status=status)
    assert found(forward._accepted(one, copy), "trigger") == [(1,), (2,)]
    assert found(one.fates[0], "message_id fate") == [(0, "lost_crash")]


def test_publications_are_remembered_in_full_in_runs_with_crashes(sail: Session) -> None:
    first = frame(sail, COPY, {"run_id": 0, "matches": [5]}, {"run_id": 1, "matches": [5]})

    def matches(crashing: RunSet) -> list[Any]:
        faults = with_faults(due(), crashing=crashing).faults
        return [kept for _, kept in found(faults.null_elsewhere(first, "matches"), "run_id matches")]

    assert matches(RunSet(is_all=False)) == [None, None]
    assert matches(RunSet(is_all=True)) == [[5], [5]]
    assert matches(RunSet(is_all=False, run=frame(sail, "run_id", {"run_id": 1}))) == [None, [5]]


def test_each_run_has_its_own_detector(sail: Session) -> None:
    copy = frame(sail, COPY, {"run_id": 0}, {"run_id": 1})
    of = due()
    of.settings = [DeltaSettings(name="delta", detector=name) for name in ("identifier", "visited")]
    of.run.setting = frame(
        sail, "run_id detector", {"run_id": 0, "detector": "visited"}, {"run_id": 1, "detector": "identifier"}
    )
    parts = forward._by_detector(work(of), copy)
    assert [(name, found(rows, "run_id")) for name, rows in parts] == [("identifier", [(1,)]), ("visited", [(0,)])]
    alone = forward._by_detector(work(), copy)
    assert [(name, found(rows, "run_id")) for name, rows in alone] == [("identifier", [(0,), (1,)])]


def test_at_the_start_joined_nodes_see_delta_and_one_hops_and_joiners_nothing(sail: Session) -> None:
    """0 - 1 - 2 - 3 with δ = 1; node 7 joins at 1."""
    asked: list[int] = []

    def paths(radius: int) -> DataFrame:
        asked.append(radius)
        ways = [way(0), way(0, 1), way(0, 1, 2), way(0, 1, 2, 3), way(1), way(1, 0), way(1, 2), way(1, 2, 3)]
        return frame(sail, PATH.columns, *ways)

    ends = [(0, 1), (1, 2), (2, 3)]
    link = frame(sail, "src dst latency_rounds", *({"src": a, "dst": b} for x, y in ends for a, b in ((x, y), (y, x))))
    node = frame(sail, "node_id", *({"node_id": n} for n in (0, 1, 7)))
    run = RunTables(node, link, frame(sail, "delta", {"delta": 1}), node)
    kinds = {7: "join", 0: "publish"}
    calls = frame(sail, "node_id kind join_point source_seq", *(
        {"node_id": n, "kind": kind, "join_point": 1, "source_seq": 1} for n, kind in kinds.items()
    ))  # fmt: skip
    settings = [DeltaSettings(name="delta", delta=1), DeltaSettings(name="delta", delta=0)]
    start = Start(run=run, calls=calls, paths=paths, settings=settings, keep=Keep())
    result = dataflow.STEPS.start(start)
    state = result.state
    assert asked == [2]
    assert found(state["path"], "node_id target") == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (1, 3)]
    assert found(state["topology"], "node_id a b is_marked") == [
        (0, 0, 1, False), (0, 1, 2, False), (1, 0, 1, False), (1, 1, 2, False), (1, 2, 3, False),
    ]  # fmt: skip
    joins = found(state["join"], "node_id join_point source_seq is_asked status")
    assert joins == [(7, 1, 1, False, "DETACHED")]
    assert found(result.node_status, "node_id round status") == [
        (0, 0, "VALID_JOINED"), (1, 0, "VALID_JOINED"), (7, 0, "DETACHED"),
    ]  # fmt: skip


def test_senders_of_duplicates_wait_for_what_is_not_finished_yet(sail: Session) -> None:
    """Message 1 is finished, and who sent it twice is answered; of 2 somebody still waits."""
    waiting = frame(sail, WAITING.columns, *({"node_id": 1, "source": 9, "source_seq": k, "sender": 4} for k in (1, 2)))
    row = {"node_id": 1, "source": 9, "source_seq": 1, "sender": 3, "trigger": 50, "round": 20}
    finished = frame(sail, "node_id source source_seq sender trigger round", row)
    one = work(due(), waiting=waiting)
    forward._answer_senders(one, finished)
    assert sorted(pair for sent in one.outbox for pair in found(sent, "dst source_seq")) == [(3, 1), (4, 1)]
    assert found(one.result.state["waiting"], "source_seq") == [(2,)]
    plain = work(with_faults(due(), crashing=RunSet(is_all=False)), waiting=waiting)
    forward._answer_senders(plain, finished)
    assert [found(sent, "dst") for sent in plain.outbox] == [[(3,)]]
