"""Ginger without faults leaves equal rows as a node program and as dataflow steps, state and ids included."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.forms import cut, differences, numbered
from support.ginger.random_scenario import random_scenario

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.errors import FormError
from pipelines.experiment.prepared import prepare
from pipelines.testing import run_configs

SCENARIOS = Path(__file__).parents[3] / "conf" / "scenarios"


@pytest.mark.parametrize("name", ["total_order", "bank"])
def test_scenarios_have_equal_rows(sail: Session, tmp_path: Path, name: str) -> None:
    runs = numbered(list(prepare(SCENARIOS / f"{name}.yaml").runs))
    assert differences("ginger", runs, sail, tmp_path) == []


@pytest.mark.parametrize("horizon", [None, 1530])
def test_random_runs_have_equal_rows(sail: Session, tmp_path: Path, horizon: int | None) -> None:
    """With a horizon runs end while messages wait and key items are locked."""
    seeds = list(range(6))
    runs = run_configs([random_scenario(seed) for seed in seeds], seeds)
    taken = runs if horizon is None else [cut(run, horizon) for run in runs]
    assert differences("ginger", taken, sail, tmp_path) == []


def test_crashes_are_refused_by_name(sail: Session, tmp_path: Path) -> None:
    sail.activate()
    with pytest.raises(FormError, match="no form dataflow for these runs"):
        rt.run(SCENARIOS / "root_fails.yaml", spark=sail.spark, store=tmp_path / "store", form="dataflow")
    assert not (tmp_path / "store").exists()
