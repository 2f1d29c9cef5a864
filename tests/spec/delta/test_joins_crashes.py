"""Joins at nodes that are down: who waits for one that comes back joins; who waits for one that does not gives up.

P - A - B - J        J joins at B and then subscribes; B is down when J asks it, or crashes behind J's J.

Z - A - B - J        J crashes during its join at B, and is DETACHED while B recovers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.one_job import Stores

from pipelines.audits.run import AuditReport
from pipelines.engines.session import Session
from pipelines.scenario.load import RunConfig
from pipelines.store.store import Store
from pipelines.testing import audited, broken, planted, removed, replaced, rows, run_all, run_configs, scenario

BACK, FOR_GOOD, CRASHES_TOO, ASKED = range(4)


def joined(*crashes: tuple[str, int, int | None]) -> dict[str, Any]:
    faults = [{"kind": "crash", "node": node, "round": round_, "until": until} for node, round_, until in crashes]
    return scenario(
        protocol={"name": "delta", "delta": 2, "detection_rounds": 2},
        overlay={"links": [["P", "A"], ["A", "B"], ["B", "J"]]},
        workload={
            "joins": [{"node": "J", "to": "B", "round": 5}],
            "subscriptions": [{"at": "A", "topic": "t"}, {"at": "J", "round": 6, "topic": "t"}],
            "publications": [{"at": "P", "round": 8, "topic": "t"}],
        },
        faults=[{name: value for name, value in fault.items() if value is not None} for fault in faults],
        time={"rounds": 400},
    )


def joined_at_a_short_crash(calls: dict[str, Any], detector: str) -> dict[str, Any]:
    """M recovers 2 rounds after its crash: N gets the SYN_REQUEST of M before its failure report, S after it.

    S - M - N        N joins at M; M crashes when J of N arrives. S does not know N when S finishes its SUB or UNSUB.
    """
    return scenario(
        protocol={"name": "delta", "delta": 1, "detection_rounds": 4, "detector": detector},
        overlay={"links": [["S", "M", 3], ["M", "N", 1]]},
        workload={
            "joins": [{"node": "N", "to": "M", "round": 10}],
            "subscriptions": [{"at": "S", "topic": "t", **calls}, {"at": "M", "topic": "u"}],
            "publications": [{"at": "N", "round": 100, "topic": topic} for topic in ("t", "u")],
        },
        faults=[{"kind": "crash", "node": "M", "round": 13, "until": 15}],
        time={"rounds": 400},
    )


def detached(links: list[int], detection_rounds: int, **crashes: tuple[int, int]) -> dict[str, Any]:
    """J joins at B in round 42. ``links`` are the latencies of J-B, B-A and, if there are three, A-Z."""
    return scenario(
        protocol={"name": "delta", "delta": 3, "detection_rounds": detection_rounds, "detector": "visited"},
        overlay={"links": [[a, b, rounds] for a, b, rounds in zip("JBA", "BAZ", links, strict=False)]},
        workload={
            "joins": [{"node": "J", "to": "B", "round": 42}],
            "subscriptions": [{"at": "J", "round": 200, "topic": "t"}],
            "publications": [{"at": "A", "round": 300, "topic": "t"}],
        },
        faults=[{"kind": "crash", "node": node, "round": at, "until": up} for node, (at, up) in crashes.items()],
        time={"rounds": 500},
    )


DETACHED = {
    "J answers B and sends JOIN_REQUEST before B is OPERATIONAL": detached([2, 4, 5], 4, B=(57, 60), J=(65, 66)),
    "J answers DETACHED before B answers A": detached([1, 3], 6, J=(51, 60), B=(54, 68), A=(63, 69)),
    "J sends JOIN_REQUEST before B answers A": detached([3, 2, 4], 4, B=(63, 91), J=(65, 90), A=(86, 92)),
    "J's JOIN_REQUEST arrives when B recovers": detached([3, 2, 4], 4, B=(63, 91), J=(65, 88), A=(86, 92)),
}


def delta_runs() -> dict[str, list[RunConfig]]:
    short = [
        joined_at_a_short_crash(calls, detector)
        for calls in ({"round": 11}, {"until": 11})
        for detector in ("identifier", "visited")
    ]
    runs = [
        joined(("B", 4, 12)),
        joined(("B", 4, None)),
        joined(("B", 4, None), ("J", 10, 13)),
        joined(("J", 8, 11), ("B", 10, 13)),
    ]
    return {"joins": run_configs(runs), "short": run_configs(short), "detached": run_configs([*DETACHED.values()])}


@pytest.fixture(scope="module")
def store(stores: Stores) -> Store:
    return stores("joins")


@pytest.fixture(scope="module")
def report(store: Store) -> AuditReport:
    return audited(store)


def test_every_run_comes_to_an_end(report: AuditReport) -> None:
    assert [(f.name, f.shown, f.error) for f in report.findings if f.n_violations != 0] == []
    assert [(run.verdict, run.within_bound) for run in report.runs] == [("valid", True)] * 4
    assert max(run.rounds for run in report.runs) < 40


def test_who_waits_for_a_node_that_comes_back_joins(store: Store) -> None:
    joiner = next(node for node, name in rows(store, "node", "node_id", "name") if name == "J")
    status = rows(store, "node_status", "run_id", "node_id", "status")
    assert {run for run, node, what in status if node == joiner and what == "VALID_JOINED"} == {BACK, ASKED}
    asked = rows(store, "message", "run_id", "kind", "fate")
    assert {run for run, kind, fate in asked if kind == "JOIN_REQUEST" and fate == "lost_crash"} == {0, 1, 2, 3}
    assert {run for run, kind, fate in asked if kind == "JOIN_REQUEST" and fate == "delivered"} == {BACK, ASKED}


def test_a_node_that_joins_again_answers_nodes_that_bypass_its_join_point(store: Store) -> None:
    """A turns to J, two hops away, while J is DETACHED and has no connection."""
    named = dict(rows(store, "node", "node_id", "name"))
    told = rows(store, "message", "run_id", "kind", "src", "dst", "sent_round", "due_round", "body")
    answers = [row[2:6] for row in told if row[:2] == (ASKED, "STATUS") and "DETACHED" in row[-1]]
    assert ("J", "A", 2) in {(named[src], named[dst], due - sent) for src, dst, sent, due in answers}


def test_calls_wait_with_it(store: Store) -> None:
    assert {row[0] for row in rows(store, "state_call", "run_id", "kind")} == {FOR_GOOD}


def test_a_joining_node_synchronises_again_with_a_recovered_join_point(stores: Stores) -> None:
    """Rule R28: else N lacks the entry of a confirmed SUB (runs 0, 1) or keeps the entry of an UNSUB (runs 2, 3)."""
    store = stores("short")
    found = audited(store)
    assert [(f.name, f.shown, f.error) for f in found.findings if f.n_violations != 0] == []
    assert [(run.verdict, run.within_bound) for run in found.runs] == [("valid", True)] * 4
    name = {(run, node): name for run, node, name in rows(store, "node", "run_id", "node_id", "name")}
    delivered = rows(store, "delivery", "run_id", "subscriber")
    assert sorted((run, name[run, node]) for run, node in delivered) == [
        (0, "M"), (0, "S"), (1, "M"), (1, "S"), (2, "M"), (3, "M"),
    ]  # fmt: skip
    entries = rows(store, "state_routing_entry", "run_id", "node_id", "origin")
    assert sorted((run, name[run, origin]) for run, node, origin in entries if name[run, node] == "N") == [
        (0, "M"), (0, "S"), (1, "M"), (1, "S"), (2, "M"), (3, "M"),
    ]  # fmt: skip
    asked = rows(store, "message", "run_id", "kind", "src", "dst")
    assert {
        run for run, kind, src, dst in asked
        if kind == "SYN_REQUEST" and (name[run, src], name[run, dst]) == ("N", "M")
    } == {0, 1, 2, 3}  # fmt: skip


def test_a_recovering_node_does_not_wait_for_a_node_that_joins_again(stores: Stores) -> None:
    """A node that is DETACHED is no synchronisation point, and has no connection."""
    store = stores("detached")
    report = audited(store)
    assert [(f.name, f.shown, f.error) for f in report.findings if f.n_violations != 0] == []
    assert [(run.verdict, run.within_bound) for run in report.runs] == [("valid", True)] * len(DETACHED)
    nodes = {name: node for node, name in rows(store, "node", "node_id", "name")}
    joiner, join_point = nodes["J"], nodes["B"]
    up = {run: round_ for run, node, round_, kind in rows(store, "fault_event", "run_id", "node_id", "round", "kind")
          if kind == "recovery" and node == join_point}  # fmt: skip
    told = rows(store, "message", "run_id", "kind", "src", "sent_round", "due_round", "body")
    rejoined = {row[0]: row[3] for row in told if row[1] == "REJOIN" and row[2] == join_point and row[3] < 200}
    learned = {row[0] for row in told if row[2] == joiner and up[row[0]] <= row[4] <= rejoined[row[0]]
               and (row[1] == "JOIN_REQUEST" or (row[1] == "STATUS" and "DETACHED" in row[5]))}  # fmt: skip
    assert learned == {*range(len(DETACHED))}
    assert [subscriber for _, subscriber in rows(store, "delivery", "run_id", "subscriber")] == [joiner] * len(DETACHED)


def test_a_node_that_is_down_in_the_round_of_its_join_call_never_joins(sail: Session, tmp_path: Path) -> None:
    """The call of J in round 5 is lost, as every call at a node that is down. J sends no JOIN_REQUEST."""
    store = run_all(run_configs([joined(("J", 5, 7))]), sail, tmp_path)
    kinds = rows(store, "message", "kind")
    assert kinds
    assert ("JOIN_REQUEST",) not in kinds
    assert broken(audited(store)) == {}


def test_a_node_that_crashes_and_never_sends_its_join_request_is_found(sail: Session, tmp_path: Path) -> None:
    clean = run_all(run_configs([joined(("J", 7, 9))]), sail, tmp_path)
    assert broken(audited(clean)) == {}
    lost = planted(
        clean, tmp_path, message=removed("kind = 'JOIN_REQUEST'"), state_join=replaced("true", status="'DETACHED'")
    )
    [shown] = broken(audited(lost))["nothing_pending"]  # type: ignore[misc]
    assert shown.detail == "joins at B and is still DETACHED"
