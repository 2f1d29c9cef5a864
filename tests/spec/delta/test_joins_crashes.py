"""Joins at nodes that are down: who waits for one that comes back joins; who waits for one that does not gives up.

P - A - B - J        J joins at B and then subscribes; B is down when J asks it, or crashes behind J's J.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.one_job import Stores

from pipelines.audits.run import AuditReport
from pipelines.scenario.expand import RunConfig
from pipelines.store.store import Store
from pipelines.testing import audited, rows, run_configs, scenario

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


def delta_runs() -> dict[str, list[RunConfig]]:
    runs = [
        joined(("B", 4, 12)),
        joined(("B", 4, None)),
        joined(("B", 4, None), ("J", 10, 13)),
        joined(("J", 8, 11), ("B", 10, 13)),
    ]
    return {"joins": run_configs(runs)}


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
