"""The study of ginger's bank on a small grid: reconfiguration times computed by hand, and the pictures."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.notebooks import ginger_study as study

GENERATE = "workload.publications.generate"
SMALL = (
    f"{GENERATE}.operations=4",
    "faults.0.generate.nodes=[B1]",
    "faults.0.generate.rounds=[46, 46]",
    "runs.seeds=[1]",
    f"runs.grid={{{GENERATE}.accounts: [1, 1000], faults.0.generate.count: [0, 1]}}",
)


@pytest.fixture(scope="module")
def result(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> rt.Result:
    return rt.run(study.SCENARIO, store=tmp_path_factory.mktemp("study") / "store", overrides=SMALL, spark=sail.spark)


@pytest.fixture(scope="module")
def found(result: rt.Result) -> dict[str, pd.DataFrame]:
    return study.measures(result)


def test_all_runs_are_valid_within_their_bound(result: rt.Result) -> None:
    assert result.verdict == "valid"
    assert [run.within_bound for run in result.runs] == [True] * 4


def test_reconfigurations_take_what_their_messages_take(result: rt.Result) -> None:
    """B4 and B5 notice 2 + 5 rounds after the crash and ask B0, 7 rounds away, which has one connection left for B4.

    Request, answer, LostMessageRequest and LostMessages take 4 · 7 rounds. B5 then asks B4 (2 · 4), which is an orphan
    itself, and B2, which takes it in: 2 · 7 + 2 · 4 + 4 · 9 rounds.
    """
    text = "select name, role, n_requests, n_declined, parent, reconfiguration_rounds from reconfiguration"
    for run in (1, 3):
        rows = [tuple(row) for row in result.sql(f"{text} where run_id = {run} order by name").collect()]
        assert rows == [("B4", "broker", 1, 0, 0, 28), ("B5", "broker", 3, 2, 2, 58)]


def test_measures_are_those_of_the_thesis_in_milliseconds(found: dict[str, pd.DataFrame]) -> None:
    numbers = study.tables(found)
    asked = numbers["reconfiguration"].set_index(["n_requests", "n_expired"])["mean"]
    assert asked.to_dict() == {(1, 0): 28 * 25, (3, 0): 58 * 25}
    latency = numbers["latency"].set_index(["accounts", "faults"])
    assert (latency.loc[1000].total > latency.loc[1000].eventual).all()
    assert (latency.loc[1] > latency.loc[1000]).all(axis=None)
    assert (latency.xs(1, level="faults").total > latency.xs(0, level="faults").total).all()


def test_the_study_draws_its_figures(found: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    written = study.write(study.pictures(found), tmp_path / "pictures")
    assert {path.stem for path in written} == {"reconfiguration", "latency_by_faults", "latency_by_keys"}
    for path, shown in zip(written, ("all answered", "guarantee: total", "failed brokers: 1"), strict=True):
        assert shown in path.read_text("utf-8"), path
