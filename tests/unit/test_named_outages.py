"""Outages of named nodes from tables and from state profiles of SimGrid; lifetimes by Pareto's distribution."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.real_data import shared_case

from pipelines.errors import ScenarioError
from pipelines.experiment.build import build_run
from pipelines.experiment.plan import check, notes
from pipelines.experiment.prepared import prepare
from pipelines.inputs.faults.timeline import renewal_times
from pipelines.scenario.faults import Pareto

Outages = list[tuple[str, int, int | None]]


def given(path: Path, time: dict[str, Any] | None = None, nodes: Any = "all", **trace: Any) -> dict[str, Any]:
    return {
        "name": "t",
        "protocol": {"name": "forwarding"},
        "overlay": {"links": [["b1", "b2"], ["b2", "b3"]]},
        "faults": [{"generate": {"kind": "crash", "nodes": nodes, "trace": {"path": str(path), **trace}}}],
        "time": {"rounds": 100, "round_ms": 10, **(time or {})},
    }


def outages(scenario: dict[str, Any]) -> Outages:
    overlay, _, faults, _ = build_run(prepare(scenario).runs[0], None)
    return [(overlay.names[row["node_id"]], row["round"], row["end_round"]) for row in faults.crash.to_pylist()]


def refused(scenario: dict[str, Any]) -> str:
    with pytest.raises(ScenarioError) as caught:
        check(prepare(scenario))
    (problem,) = caught.value.problems
    return problem


def test_a_table_names_nodes_and_rounds(tmp_path: Path) -> None:
    path = tmp_path / "down.csv"
    path.write_text("node,down,up\nb2,10,12\nb3,20,21\nb2,40,\nb1,99,150\n")
    wanted: Outages = [("b2", 10, 12), ("b3", 20, 21), ("b2", 40, None), ("b1", 99, None)]
    assert outages(given(path)) == wanted
    assert outages(given(path, nodes=["b3"])) == [("b3", 20, 21)]
    frame = pd.read_csv(path)
    frame.to_parquet(tmp_path / "down.parquet")
    assert outages(given(tmp_path / "down.parquet")) == wanted
    (tmp_path / "semi.txt").write_text("# outages\nHost;Start;End\nb2;10;12\n")
    assert outages(given(tmp_path / "semi.txt")) == [("b2", 10, 12)]
    (tmp_path / "index.csv").write_text(",node,down,up\n0,b2,10,12\n")  # as pandas writes a table with its index
    assert outages(given(tmp_path / "index.csv")) == [("b2", 10, 12)]


@pytest.mark.parametrize(
    ("rows", "trace", "time"),
    [
        ("b2,0.1,0.12\nb3,0.2,0.2004\n", {"unit": "s"}, {}),
        ("b2,100,120\nb3,200,200.4\n", {"unit": "ms"}, {}),
        ("b2,200,240\nb3,400,400.8\n", {"unit": "ms"}, {"speed": 2}),
        ("b2,1,1.2\nb3,2,2.01\n", {"unit": "min"}, {"round_ms": 6000}),
        ("b2,2024-03-01T10:00:01Z,2024-03-01T10:00:01.2Z\nb3,2024-03-01T10:00:02Z,2024-03-01T10:00:02.01Z\n",
         {"unit": "h"}, {"round_ms": 100, "origin": "2024-03-01T10:00:00Z"}),
        ("b2,2024-03-01T10:00:00.1Z,2024-03-01T10:00:00.12Z\nb3,2024-03-01T10:00:00.2Z,2024-03-01T10:00:00.2004Z\n",
         {}, {"origin": "2024-03-01T10:00:00Z"}),
        ("b2,1709287200.1,1709287200.12\nb3,1709287200.2,1709287200.2004\n", {}, {"origin": "2024-03-01T10:00:00Z"}),
    ],
)  # fmt: skip
def test_outages_have_units_and_timestamps(
    tmp_path: Path, rows: str, trace: dict[str, Any], time: dict[str, Any]
) -> None:
    path = tmp_path / "down.csv"
    path.write_text("node,down,up\n" + rows)
    scenario = given(path, time, **trace)
    assert outages(scenario) == [("b2", 10, 12), ("b3", 20, 21)]
    told = [note for part, note in notes(prepare(scenario)) if part == "faults"]
    assert [note.split(" holds ")[0] for note in told] == ["column down of down.csv", "column up of down.csv"]


def test_without_an_origin_the_first_outage_begins_round_0(tmp_path: Path) -> None:
    path = tmp_path / "down.csv"
    path.write_text("node,down,up\nb3,2024-03-01T10:00:01Z,\nb2,2024-03-01T10:00:00Z,2024-03-01T10:00:00.5Z\n")
    assert outages(given(path)) == [("b2", 0, 50), ("b3", 100, None)]


@pytest.mark.parametrize(
    ("text", "trace", "words"),
    [
        (
            "node,down,up\nb2,10,12\nb9,1,2\n",
            {},
            "1 rows are of no node of the overlay, line 3: 'b9'; allowed: nodes of the",
        ),
        ("node,down,up\nb2,12,10\n", {}, "line 2: up is not after down"),
        (
            "node,down,up\nb2,1.5,3\n",
            {},
            "line 2: down is '1.5', which is not a round; rounds are whole numbers, and unit:",
        ),
        ("node,down,up\nb2,soon,3\n", {}, "down is 'soon', which is no"),
        ("node,down\nb2,1\n", {}, "no column 'up', which format named needs; its columns: 'node', 'down'"),
        ("node,down,up\nb2,1\n", {}, "line 2: 2 cells, and the first line has 3"),
        ("a,b\n1,2\n", {}, "give a table with the columns node, down and up (named)"),
        ("node,down,up\nb2,1,2\n", {"format": "named", "shuffled": True}, "shuffled belongs to fta and lanl"),
        ("node,down,up\nb2,1,2\n", {"format": "fta", "unit": "s"}, "unit belongs to named and simgrid"),
        ("PERIODICITY 1\n0 1\n2 0\n", {}, "repeats after 1 s, before its last time"),
        ("PERIODICITY inf\n0 1\n2 0\n", {}, "repeats after inf s, before its last time or never"),
        ("PERIODICITY 5\nnan 1\n", {}, "line 2: 'nan 1' is not a line of a state profile"),
        ("node,down,up\n", {}, "has no rows"),
        ("node,down,down,up\nb2,5,6,9\n", {}, "has 2 columns called 'down'; rename all but one"),
        ("node,down,up\nb2,2024-01-01,5\n", {}, "has timestamps in one of its columns down and up only"),
        ("node,down,up\nb2,5,\nb2,7,9\n", {}, "line 3: 'b2' is down for good from line 2 on"),
        ("node,down,up\nb2,2024-01-01,9999-12-31\n", {}, "up is '9999-12-31', which is not a time"),
        ("PERIODICITY 5\n0 up\n", {}, "line 2: '0 up' is not a line of a state profile"),
    ],
)
def test_outages_that_cannot_be_used_are_refused(tmp_path: Path, text: str, trace: dict[str, Any], words: str) -> None:
    path = tmp_path / "down.csv"
    path.write_text(text)
    assert words in refused(given(path, **trace))


@pytest.mark.parametrize(
    ("down", "up", "words"),
    [
        (pa.array([[1]]), pa.array([[2]]), "int64> for node, down or up; give names as strings"),
        (pa.array([1], pa.time64("us")), pa.array([2], pa.time64("us")), "has a column of type time64[us]"),
        (pa.array([0], pa.timestamp("us")), pa.array([datetime(2600, 1, 1)]), "up is '2600-01-01 00:00:00.000000'"),
    ],
)
def test_columns_of_parquet_without_times_are_refused(tmp_path: Path, down: pa.Array, up: pa.Array, words: str) -> None:
    path = tmp_path / "down.parquet"
    pq.write_table(pa.table({"node": ["b2"], "down": down, "up": up}), path)
    assert words in refused(given(path))


@pytest.mark.parametrize(
    ("loop", "period"), [("LOOPAFTER 0.8", 1.0), ("PERIODICITY 0.8  # s", 0.8), ("PERIODICITY 0.2", 0.2)]
)
def test_a_profile_repeats_as_simgrid_defines(tmp_path: Path, loop: str, period: float) -> None:
    path = tmp_path / "host.trace"
    path.write_text(f"% off at 0.1 s\n0.1 0\n0.15 1\n0.2 1\n0.2 1\n{loop}\n")
    starts = [round(100 * (0.1 + n * period)) for n in range(10)]
    assert [start for _, start, _ in outages(given(path, nodes=["b1"]))] == [one for one in starts if one <= 100]


def test_a_profile_of_simgrid_repeats_for_each_node(tmp_path: Path) -> None:
    path = tmp_path / "host.trace"
    path.write_text("PERIODICITY 0.4\n# time state\n0.0 1\n0.1 0\n0.25 1\n")
    wanted = [(name, start, start + 15) for start in (10, 50, 90) for name in ("b1", "b2")]
    found = outages(given(path, nodes=["b1", "b2"]))
    assert found == [(name, start, end if end <= 100 else None) for name, start, end in wanted]
    path.write_text("5 0\n")
    assert outages(given(path, nodes=["b3"], format="simgrid", unit="round")) == [("b3", 5, None)]


def test_an_outage_without_a_stop_lasts_until_the_next_event_of_its_node() -> None:
    path = shared_case("files", "t", "nullstop.tab")
    scenario = given(path, {"rounds": 200})
    found = outages(scenario)
    assert sorted(end - start for _, start, end in found if end is not None) == [1, 2]  # 1,800 s and 2 h


def test_pareto_times_have_their_distribution() -> None:
    times = renewal_times(Pareto(kind="pareto", shape=1.5, scale=40.0), 3, "t", np.arange(20_000))
    assert times.min() == 40
    for factor in (2, 4, 10):
        assert (times > 40 * factor).mean() == pytest.approx(factor**-1.5, rel=0.1)
