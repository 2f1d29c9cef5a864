"""The node program of `forwarding` leaves the rows of its dataflow form: messages with ids, deliveries, tables.

``--schedules 200`` plays so many random runs, too; `tests/perf/forms.py` plays the shipped scenarios, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.forms import differences
from support.link_faults import random_scenario

from pipelines.engines.session import Session
from pipelines.errors import FormError
from pipelines.testing import run_all, run_configs

CHAIN = {
    "protocol": {"name": "forwarding"},
    "overlay": {"links": [["A", "B"], ["B", "C"], ["C", "D"]]},
    "time": {"rounds": 100},
}
WORKLOAD = {
    "subscriptions": [{"at": "A", "round": 1, "topic": "t", "until": 12}, {"at": "D", "topic": "t"}],
    "publications": [{"at": at, "round": round_, "topic": "t"} for at in "AC" for round_ in (2, 4, 9)],
}
CRASH = {"kind": "crash", "node": "B", "round": 4, "until": 8}


def test_runs_with_crashes_have_equal_rows(sail: Session, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Random ones, cut down to the faults that dataflow plays, behind ``--schedules``."""
    parts: list[dict[str, Any]] = [
        {**CHAIN, "name": name, "workload": WORKLOAD, "faults": faults}
        for name, faults in (("quiet", []), ("crash", [CRASH]))
    ]
    for seed in range(150, 150 + (pytestconfig.getoption("schedules") or 0)):
        given = random_scenario(seed, {"name": "forwarding"})
        faults = [fault for fault in given.get("faults", []) if fault.get("kind") == "crash"]
        parts.append({**given, "faults": faults})
    runs = run_configs(parts, list(range(len(parts))))
    assert differences("forwarding", runs, sail, tmp_path, commit_every=20) == []


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ({"kind": "duplicate", "rate": 1.0, "after": [2, 2]}, "link faults"),
        ({"kind": "partition", "groups": [["A", "B"]], "round": 3, "until": 5}, "link faults"),
        ({"kind": "pause", "node": "C", "round": 3, "until": 20}, "pauses"),
    ],
)
def test_other_faults_are_refused_by_name(sail: Session, tmp_path: Path, fault: dict[str, Any], named: str) -> None:
    runs = run_configs([{**CHAIN, "name": "faulty", "workload": WORKLOAD, "faults": [fault]}])
    with pytest.raises(FormError, match=f"for these runs, which have {named}; .*: take --form program"):
        run_all(runs, sail, tmp_path / "store", form="dataflow")
    assert not (tmp_path / "store" / "run").exists()
