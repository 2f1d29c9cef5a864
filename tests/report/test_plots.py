"""Plots of columns: the means and intervals of the views, one legend, in each format."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from itertools import accumulate
from operator import sub
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from support.commands import cli

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.errors import QueryError
from pipelines.report.page import gather
from pipelines.result import Result

STUDY: dict[str, Any] = {
    "name": "study",
    "protocol": {"name": "forwarding"},
    "overlay": {"links": [["A", "B"], ["B", "C"], ["C", "D"]]},
    "workload": {
        "subscriptions": [{"at": "D", "topic": "t"}, {"at": "B", "topic": "t"}],
        "publications": [{"at": "A", "round": at, "topic": "t", "keys": ["k"]} for at in (10, 20, 30)],
    },
    "faults": [{"kind": "loss", "rate": 0.3, "round": 5}],
    "time": {"rounds": 60, "round_ms": 10},
    "runs": {"seeds": [1, 2, 3], "grid": {"faults.0.rate": [0.0, 0.3]}},
}


@pytest.fixture(scope="module")
def study(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Result]:
    with rt.run(STUDY, spark=sail.spark, store=tmp_path_factory.mktemp("plots") / "store") as result:
        yield result


@pytest.mark.parametrize("measure", ["wanted_ratio", "n_messages", "latency_rounds_max"])
def test_points_are_the_means_and_intervals_of_the_summary(study: Result, measure: str) -> None:
    shown = study.plot(x="faults_0_rate", y=measure).rows
    assert [row["faults_0_rate"] for row in shown] == [0.0, 0.3]
    assert [row["n"] for row in shown] == [3, 3]
    expected = study.sql(
        "select mean, ci_low, ci_high, lowest, highest from result_summary "
        f"where measure = '{measure}' order by faults_0_rate"
    ).collect()
    for row, told in zip(shown, expected, strict=True):
        assert (row[measure], row["ci_low"], row["ci_high"]) == pytest.approx((told.mean, told.ci_low, told.ci_high))
        assert (row["lowest"], row["highest"]) == (told.lowest, told.highest)


def test_intervals_do_not_cover_the_axis(study: Result) -> None:
    svg = study.plot(x="faults_0_rate", y="wanted_ratio").svg
    at = [float(x) for x in re.findall(r'aria-roledescription="rule mark" transform="translate\(([\d.]+),', svg)]
    assert at == pytest.approx([12, 608])


def test_quantiles_of_latency_are_those_of_the_sorted_deliveries(study: Result) -> None:
    for run in study.runs:
        latencies = sorted(
            row.latency_rounds
            for row in study.sql(f"select latency_rounds from delivery where run_id = {run.run_id}").collect()
        )
        rows = study.sql(f"select * from latency_quantile where run_id = {run.run_id} order by quantile").collect()
        assert [round(100 * row.quantile) for row in rows] == [*range(0, 100, 5), 99, 100]
        for row in rows:
            n_below = -(-round(100 * row.quantile) * len(latencies) // 100)
            assert row.latency_rounds == latencies[max(n_below, 1) - 1]
            assert row.latency_ms == 10 * row.latency_rounds


def test_runs_are_overlaid_and_told_apart_in_the_file(study: Result, tmp_path: Path) -> None:
    shown = study.plot(x="round", y="n_deliveries", colour="run_id", where="run_id in (0, 4)")
    rows = study.sql("select run_id, round, n_deliveries from round_summary where run_id in (0, 4)").collect()
    assert {(row["run_id"], row["round"], row["n_deliveries"]) for row in shown.rows} == {tuple(row) for row in rows}
    text = shown.save(tmp_path / "runs.svg").read_text("utf-8")
    legend = [
        one
        for one in ElementTree.fromstring(text).iter()  # noqa: S314 - made here
        if "role-legend-symbol" in one.get("class", "").split()
    ]
    strokes = {path.get("stroke-dasharray") for group in legend for path in group.iter() if path.get("stroke")}
    assert len(strokes) == 2, "lines differ in their dashes, not in colour alone"
    with shown.save(tmp_path / "runs.csv").open(newline="") as file:
        assert [row["run_id"] for row in csv.DictReader(file)] == [str(row["run_id"]) for row in shown.rows]
    assert shown.save(tmp_path / "runs.png").read_bytes().startswith(b"\x89PNG")
    assert shown.save(tmp_path / "runs.pdf").read_bytes().startswith(b"%PDF")


def test_messages_under_way_at_the_start_are_counted_in_round_0(sail: Session, tmp_path: Path) -> None:
    """The meshes of gossipsub begin with GRAFTs of round -1."""
    changed = (
        "runs.seeds=[0, 1]",
        "time.rounds=60",
        "overlay.generate={kind: watts_strogatz, nodes: 14, neighbours: 10, probability: 0.5}",
        "faults=[]",
        "workload.publications.generate.rounds=[20, 40]",
    )
    with rt.run("gossipsub", spark=sail.spark, store=tmp_path / "store", overrides=changed) as result:
        data = gather(result.reader, result.store)
        for run in data["replays"]:
            counts = run["counts"]
            assert counts["round"][0] == 0
            flying = accumulate(map(sub, counts["n_sent"], counts["n_ended"]))
            assert min(flying) >= 0
            sent = [row for row in data["overlaid"]["series"] if row["what"] == "messages sent"]
            own = [row["y"] for row in sent if row["run_id"] == run["run"]["run_id"]]
            assert sum(own) == sum(counts["n_sent"]) == sum(row["n"] for row in run["measures"]["kinds"])


@pytest.mark.parametrize("name", ["n", "ci_low", "ci_high", "lowest", "highest"])
def test_columns_with_the_name_of_a_statistic_keep_their_values(study: Result, name: str) -> None:
    """Each value is one row of the view, so the mean is that value and the interval is missing."""
    where = "measure = 'n_messages' and faults_0_rate = 0.3"
    query = f"select {name}, mean from result_summary where {where}"
    [(value, mean)] = study.sql(query).collect()
    for columns in ({"x": name, "y": "mean"}, {"x": "measure", "y": "mean", "colour": name}, {"x": "mean", "y": name}):
        [row] = study.plot(**columns, where=where, relation="result_summary").rows
        assert (row[name], row["mean"]) == (value, mean)
        assert {"n", "ci_low", "ci_high", "lowest", "highest"} <= row.keys()


def test_what_cannot_be_plotted_is_refused_with_the_cure(study: Result, tmp_path: Path) -> None:
    for asked, said in (
        ({"x": "rond", "y": "n_lost"}, "did you mean 'round'"),
        ({"x": "round", "y": "wanted_ratio"}, "name the relation that has"),
        ({"x": "run_id", "y": "verdict"}, "holds no numbers"),
        ({"x": "run_id", "y": "n_messages", "where": "run_id >"}, "the condition is 'run_id >'"),
        ({"x": "run_id", "y": "n_messages", "where": "run_id > 99"}, "nothing to plot"),
        ({"name": "latency", "x": "run_id", "y": "n_messages"}, "takes no x, y"),
        ({"x": "run_id"}, "name one of both"),
        ({"x": "run_id", "y": "n_messages", "run_id": 3}, "write the condition run_id = 3"),
        ({"name": "latency", "x": "round"}, "measure 'latency' takes no x"),
        ({"name": "latency", "where": "run_id = 3"}, "measure 'latency' takes no where"),
        ({"x": "keys", "y": "issued_round", "relation": "publication"}, "column 'keys' holds lists"),
        (
            {"x": "run_id", "y": "issued_round", "colour": "keys", "relation": "publication"},
            "column 'keys' holds lists",
        ),
    ):
        with pytest.raises(QueryError, match=said):
            study.plot(**asked)
    with pytest.raises(QueryError, match=r"\.svg, \.png, \.pdf, \.csv"):
        study.plot("latency").save(tmp_path / "a.gif")


def test_the_command_writes_a_picture_or_prints_its_data(study: Result, tmp_path: Path) -> None:
    columns = ("--x", "quantile", "--y", "latency_ms", "--colour", "faults_0_rate", "--engine", "local")
    told = cli("plot", study.store, *columns, "-o", tmp_path / "latency.svg")
    assert told.exit_code == 0, told.output
    assert "faults_0_rate" in (tmp_path / "latency.svg").read_text("utf-8")
    printed = cli("plot", study.store, "--measure", "latency", "--run", "0", "--engine", "local").stdout
    assert printed.splitlines()[0].split() == ["latency", "n"]
