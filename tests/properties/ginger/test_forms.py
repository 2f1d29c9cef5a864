"""Ginger without faults leaves equal rows as a node program and as dataflow steps, state and ids included."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.commands import cli
from support.forms import cut, differences, numbered
from support.ginger.random_scenario import ended_early, random_scenario

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.errors import FormError, InputError, ScenarioError
from pipelines.experiment.build import build_inputs
from pipelines.experiment.prepared import prepare
from pipelines.testing import run_configs, scenario

SCENARIOS = Path(__file__).parents[3] / "conf" / "scenarios"


@pytest.mark.parametrize("name", ["total_order", "bank"])
def test_scenarios_have_equal_rows(sail: Session, tmp_path: Path, name: str, pytestconfig: pytest.Config) -> None:
    if name == "bank" and not pytestconfig.getoption("schedules"):
        pytest.skip("takes long: with --schedules only")
    runs = numbered(list(prepare(SCENARIOS / f"{name}.yaml").runs))
    if not pytestconfig.getoption("schedules"):
        runs = [cut(run, 60) for run in runs[:1]]
    assert differences("ginger", runs, sail, tmp_path) == []


@pytest.mark.parametrize("is_ended_early", [False, True])
def test_random_runs_have_equal_rows(
    sail: Session, tmp_path: Path, pytestconfig: pytest.Config, is_ended_early: bool
) -> None:
    """Runs that end early end while messages wait and key items are locked."""
    number = pytestconfig.getoption("schedules")
    if not number:
        pytest.skip("--schedules N plays N random runs")
    seeds = list(range(number // 2, number) if is_ended_early else range(number // 2))
    runs = run_configs([random_scenario(seed) for seed in seeds], seeds)
    assert differences("ginger", ended_early(runs) if is_ended_early else runs, sail, tmp_path) == []


SMALL: dict[str, Any] = {
    "name": "refused",
    "protocol": {"name": "ginger"},
    "overlay": {
        "links": [["B0", "B1", 3], ["B0", "B2", 5], ["B1", "B3", 2], ["B1", "B4", 2]],
        "clients": [{"name": "CA", "at": "B3"}, {"name": "CB", "at": "B2"}],
    },
    "workload": {
        "subscriptions": [{"at": "CA", "topic": "t"}, {"at": "CB", "topic": "t"}],
        "publications": [{"at": "CA", "round": 100, "topic": "t", "guarantee": "total", "keys": ["x"]}],
    },
    "time": {"rounds": 500},
}
FAULTS = {
    "crashes": {"kind": "crash", "node": "B0", "round": 200},
    "link faults": {"kind": "loss", "rate": 0.1},
    "pauses": {"kind": "pause", "node": "B0", "round": 40, "until": 50},
}
LINK_FAULTS = [
    {"kind": "delay", "rate": 0.3, "rounds": [1, 2]}, {"kind": "duplicate", "rate": 0.3},
    {"kind": "break", "links": [["B0", "B1"]], "round": 150, "until": 160},
    {"kind": "partition", "groups": [["B1", "B3", "B4", "CA"]], "round": 150, "until": 160},
]  # fmt: skip


def refused(parts: Mapping[str, Any], sail: Session, tmp_path: Path, error: type[Exception] = FormError) -> str:
    """Returns the message that refuses a run as dataflow, before anything is written; the program plays it."""
    sail.activate()
    with pytest.raises(error) as raised:
        rt.run(parts, spark=sail.spark, store=tmp_path / "store", form="dataflow")
    assert not (tmp_path / "store").exists()
    return str(raised.value)


@pytest.mark.parametrize(("kind", "fault"), [*FAULTS.items(), *(("link faults", fault) for fault in LINK_FAULTS)])
def test_faults_are_refused_by_name(sail: Session, tmp_path: Path, kind: str, fault: dict[str, Any]) -> None:
    message = refused(SMALL | {"faults": [fault]}, sail, tmp_path)
    assert f"no form dataflow for these runs, which have {kind}; it has program" in message
    assert message.endswith("take --form program or --form auto")


def test_joins_are_refused_by_name(sail: Session, tmp_path: Path) -> None:
    joins = {"joins": [{"node": "B4", "to": "B1", "round": 200}]}
    parts = SMALL | {"workload": SMALL["workload"] | joins, "faults": [FAULTS["crashes"]]}
    assert "which have crashes and joins; it has program: take --form program" in refused(parts, sail, tmp_path)


def test_a_plan_refuses_them_too(tmp_path: Path) -> None:
    path = tmp_path / "scenario.yaml"
    path.write_text(json.dumps(SMALL | {"faults": [FAULTS["pauses"]]}), "utf-8")
    asked = cli("plan", path, "--engine", "local", "--form", "dataflow")
    assert asked.exit_code != 0
    assert "which have link faults or pauses; it has program: take --form program" in asked.output
    assert cli("plan", path, "--engine", "local").exit_code == 0


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        ({"subscriptions": [{"at": "CA", "topic": "t", "until": 300}]}, "has no unsubscription; leave until: out"),
        ({"calls": [{"kind": "leave", "at": "CA", "round": 200}]}, "does not support call leave"),
        (
            {"subscriptions": [{"at": "CA", "topic": "t"}, {"at": "CB", "topic": "t", "round": 90}]},
            "round 100 is before the subscriptions of 't' are confirmed; allowed: round 112 or later",
        ),
    ],
    ids=["unsubscribe", "leave", "subscribe after the first publication"],
)
def test_what_no_form_plays_is_refused_by_name(
    sail: Session, tmp_path: Path, workload: dict[str, Any], message: str
) -> None:
    parts = SMALL | {"workload": SMALL["workload"] | workload}
    assert message in refused(parts, sail, tmp_path, ScenarioError)


def test_a_broker_that_crashes_before_its_join_is_refused() -> None:
    """It would recover as a broker of the tree, and its join would never end."""
    joining = scenario(
        protocol={"name": "ginger", "timer_rounds": 60}, overlay={"links": [["B0", "B1"], ["B1", "B2"], ["B1", "B3"]]},
        workload={"joins": [{"node": "B3", "to": "B1", "round": 900}]},
        faults=[{"kind": "crash", "node": "B3", "round": 300, "until": 340}],
    )  # fmt: skip
    with pytest.raises(InputError, match="'B3' crashes in round 300; allowed: a round before it, or a later crash"):
        build_inputs(run_configs([joining]), None)
    later = [{"kind": "crash", "node": "B3", "round": 950, "until": 990}]
    build_inputs(run_configs([joining | {"faults": later}]), None)
