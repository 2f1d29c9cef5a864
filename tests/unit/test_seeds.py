"""Seeds that draw nothing are told, and only these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.experiment.plan import notes
from pipelines.experiment.prepared import prepare

LISTED: dict[str, Any] = {
    "name": "seeds",
    "protocol": {"name": "forwarding"},
    "overlay": {"links": [["A", "B"], ["B", "C"], ["C", "D"]]},
    "workload": {
        "subscriptions": [{"at": "D", "topic": "a"}],
        "publications": [{"at": "A", "round": 20, "topic": "a"}, {"at": "B", "round": 21, "topic": "a"}],
    },
    "time": {"rounds": 80},
    "runs": {"seeds": [0, 1, 2]},
}
CRASH = {"kind": "crash", "node": "B", "round": 30, "until": 40}
CLIENTS = {
    "links": LISTED["overlay"]["links"],
    "clients": [{"name": "P", "at": "A"}, {"name": "S", "at": "D"}],
}
CALLS = {
    "subscriptions": [{"at": "S", "topic": "a"}, {"at": "P", "topic": "a"}],
    "publications": [{"at": "P", "round": 40, "topic": "a"}, {"at": "P", "round": 41, "topic": "a"}],
}


def told(**parts: Any) -> list[str]:
    return [note for part, note in notes(prepare({**LISTED, **parts})) if part == "runs"]


def test_seeds_of_a_scenario_without_chance_are_told() -> None:
    [note] = told()
    assert "the 3 seeds draw nothing" in note
    assert told(protocol={"name": "delta"}, faults=[CRASH]) == [note]
    assert told(faults=[{"kind": "break", "links": [["A", "B"]], "round": 30, "until": 40}]) == [note]


@pytest.mark.parametrize(
    "parts",
    [
        {"runs": {"seeds": [0]}},
        {"protocol": {"name": "epidemic"}},
        {"overlay": {**LISTED["overlay"], "latency": {"uniform": [1, 9]}}},
        {"faults": [{"kind": "loss", "rate": 0.1}]},
        {"faults": [{"kind": "delay", "rounds": [1, 9]}]},
        {"faults": [{"generate": {"kind": "crash", "count": 1, "rounds": [25, 60], "down": [5, 9]}}]},
        {"workload": {**LISTED["workload"], "publications": {"generate": {"kind": "topics", "rounds": [1, 40]}}}},
    ],
)
def test_seeds_that_draw_something_are_not_told(parts: dict[str, Any]) -> None:
    assert told(**parts) == []


def test_the_grid_says_where_seeds_draw_nothing() -> None:
    runs = {"seeds": [0, 1], "grid": {"faults.0.rate": [0.0, 0.2]}}
    [note] = told(faults=[{"kind": "loss", "rate": 0.5}], runs=runs)
    assert note.startswith("with faults.0.rate = 0.0: the 2 seeds draw nothing")


@pytest.mark.parametrize(
    "parts",
    [
        {"faults": [CRASH]},
        {"protocol": {"name": "delta"}, "faults": [CRASH]},
        {
            "protocol": {"name": "ginger"},
            "overlay": CLIENTS,
            "workload": {**CALLS, "publications": [{**one, "guarantee": "total"} for one in CALLS["publications"]]},
        },
        {
            "protocol": {"name": "repository"},
            "overlay": {**CLIENTS, "servers": [{"name": "R", "at": "B"}, {"name": "Q", "at": "C"}]},
            "workload": CALLS,
        },
    ],
    ids=["forwarding", "delta", "ginger", "repository"],
)
def test_runs_of_protocols_that_do_not_draw_are_equal(parts: dict[str, Any], tmp_path: Path, sail: Session) -> None:
    assert len(told(**parts)) == 1
    result = rt.run({**LISTED, **parts}, sail.spark, tmp_path / "store")
    for table in ("message", "delivery", "node_status", "publication"):
        rows: list[set[tuple[Any, ...]]] = [set(), set(), set()]
        for row in result.table(table).drop("message_id").toArrow().to_pylist():
            rows[row.pop("run_id")].add(tuple(str(value) for value in row.values()))
        assert rows[0] == rows[1] == rows[2], table
    assert result.table("delivery").count() >= 6
