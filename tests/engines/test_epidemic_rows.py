"""Protocol ``epidemic`` gives the same rows on every engine, however often it commits, and beside any other runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.engines import history, spread

from pipelines.engines.session import Session
from pipelines.scenario.load import RunConfig
from pipelines.testing import run_all, run_configs, scenario


def _scenario(*faults: dict[str, Any], **settings: Any) -> dict[str, Any]:
    """A star of four dispatchers for a dozen rounds: subscriptions come and go, events are lost, one node crashes."""
    subscriptions = [{"at": name, "where": "x > 1"} for name in "ACD"]
    later = [{"at": "D", "where": "x > 3", "until": 7}, {"at": "B", "round": 6, "where": "x > 1"}]
    return scenario(
        protocol={"name": "epidemic", "gossip_rounds": 2, "push_rounds": 5, "lost_rounds": 6, **settings},
        overlay={"links": [["A", "B"], ["B", "C"], ["B", "D"]]},
        workload={
            "subscriptions": [*subscriptions, *later],
            "publications": [{"at": "A", "round": round_, "content": {"x": round_}} for round_ in (4, 5, 6)],
        },
        faults=[
            {"kind": "loss", "rate": 0.4, "kinds": ["EVENT"]},
            {"kind": "crash", "node": "C", "round": 5, "until": 7},
            *faults,
        ],
        time={"rounds": 12},
    )  # fmt: skip


SCENARIOS = (
    _scenario(recovery="push_pull", buffer=2, eviction="random", out_of_band_loss=0.2),
    _scenario(
        {"kind": "replace", "link": ["B", "D"], "by": ["A", "D"], "round": 6, "after": 1},
        recovery="combined_pull",
        adaptive=True,
        broken_route="unicast",
    ),
    _scenario(recovery="push"),
)


@pytest.fixture(scope="module")
def on_sail(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    return history(run_all(run_configs(SCENARIOS), sail, tmp_path_factory.mktemp("local")))


def test_spark_and_sail_run_epidemic_alike(
    spark: Session, on_sail: dict[str, list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    with spread(spark, 3) as session:
        assert history(run_all(run_configs(SCENARIOS), session, tmp_path)) == on_sail
    assert {"SUB", "EVENT", "GOSSIP", "REQUEST", "REPLY"} <= {row[2] for row in on_sail["message"]}


def test_other_runs_and_more_commits_change_nothing(
    sail: Session, on_sail: dict[str, list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    """Other runs make rounds in which this one has nothing to do."""
    [parts] = run_configs(SCENARIOS[1:2], seeds=[1])
    alone = RunConfig(1, 1, parts.scenario, {})
    found = history(run_all([alone], sail, tmp_path, commit_every=2))
    for name, of_run in found.items():
        assert of_run == [row for row in on_sail[name] if row[0] == 1], name
