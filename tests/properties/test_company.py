"""The rows of a run do not depend on the other runs of its job: alone and in company all tables are equal.

``--schedules 200`` plays so many runs of each protocol.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support.company import GENERATORS, cases
from support.replicas import by_run, differing

from pipelines.contract.forms import AskedForm
from pipelines.contract.round import IN_FLIGHT
from pipelines.engines.session import Session
from pipelines.testing import rows, run_all, run_configs, scenario

FEW = 3
"""Runs of each protocol, unless ``--schedules`` asks for more."""
JOINED = scenario(
    protocol={"name": "delta", "delta": 2},
    overlay={"links": [["A", "B", 3], ["B", "C", 3], ["C", "J0"], ["J0", "J1"]]},
    workload={
        "subscriptions": [{"at": "J1", "round": 14, "topic": "t"}],
        "publications": [{"at": "A", "round": 60, "topic": "t"}],
        "joins": [{"node": "J0", "to": "C", "round": 10}, {"node": "J1", "to": "J0", "round": 14}],
    },
)
"""J1 asks J0 to let it in before J0 itself has joined."""
CRASHED = {**JOINED, "faults": [{"kind": "crash", "node": "A", "round": 5, "until": 7}]}


@pytest.mark.parametrize("protocol", GENERATORS)
def test_a_run_has_the_same_rows_alone_and_in_company(
    protocol: str, sail: Session, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    drawn = cases(protocol, pytestconfig.getoption("schedules") or FEW)
    runs = run_configs([*drawn, *([JOINED, CRASHED] if protocol == "delta" else ())])
    together = by_run(run_all(runs, sail, tmp_path, commit_every=100))
    differ = {}
    for run in runs:
        (alone,) = by_run(run_all([run], sail, tmp_path, commit_every=100)).values()
        assert alone["message"]
        if names := list(differing(alone, together[run.run_id])):
            differ[run.run_id] = names
    assert differ == {}


@pytest.mark.parametrize("form", ["program", "dataflow"])
def test_messages_in_flight_at_the_end_wait_from_the_horizon_on(form: AskedForm, sail: Session, tmp_path: Path) -> None:
    runs = run_configs([
        scenario(
            protocol={"name": "forwarding"},
            overlay={"links": [["A", "B", latency]]},
            workload={"publications": [{"at": "A", "round": 25, "topic": "t"}],
                      "subscriptions": [{"at": "B", "round": 5, "topic": "t"}]},
            time={"rounds": 30},
        )
        for latency in (50, 1)
    ])  # fmt: skip
    for some in (runs[:1], runs):
        store = run_all(some, sail, tmp_path, form=form)
        assert rows(store, IN_FLIGHT, "run_id", "due_round", "remaining_rounds") == [(0, 55, 25)]
