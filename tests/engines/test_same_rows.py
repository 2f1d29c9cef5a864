"""The same scenario and seed give the same rows: on every engine, for any partitioning, beside any other runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import rows, run_all, run_configs, scenario

from pipelines.scenario.expand import RunConfig
from pipelines.session import Session
from pipelines.store import Store

TABLES = ("node", "link", "subscription", "publication", "message", "delivery", "node_status", "round_metric")
WORKLOAD = {
    "subscriptions": {
        "generate": {"kind": "quotes", "symbols": 3, "nodes": "all", "rounds": [0, 3], "lifetime": [25, 30]}
    },
    "publications": {"generate": {"kind": "quotes", "symbols": 3, "nodes": 2, "rounds": [12, 20], "rate": 0.4}},
}  # fmt: skip


def mixed(protocol: dict[str, Any], start: str, n_nodes: int) -> dict[str, Any]:
    overlay = {
        "generate": {"kind": "random_tree", "nodes": n_nodes, "max_degree": 4},
        "latency": {"uniform": [1, 2]},
        "start": start,
    }
    return scenario(protocol=protocol, overlay=overlay, workload=WORKLOAD)


DELTA = [mixed({"name": "delta", "delta": delta}, start, 5) for delta in (0, 2) for start in ("joined", "joining")]
FORWARDING = [mixed({"name": "forwarding"}, "joined", 5)]


def history(store: Store, tables: Sequence[str] = TABLES) -> dict[str, list[tuple[Any, ...]]]:
    return {name: rows(store, name) for name in tables}


def states(store: Store) -> list[str]:
    return [name for name in store.tables() if name.startswith("state_")]


@pytest.mark.parametrize("scenarios", [DELTA, FORWARDING], ids=["delta", "forwarding"])
def test_spark_and_sail(spark: Session, sail: Session, tmp_path: Path, scenarios: list[dict[str, Any]]) -> None:
    runs = run_configs(scenarios)
    by_engine = []
    for session in (sail, spark):
        store = run_all(runs, session, tmp_path / session.engine)
        by_engine.append(history(store, (*TABLES, *states(store))))
    assert by_engine[0] == by_engine[1]
    assert by_engine[0]["delivery"]


def test_partitions(spark: Session, tmp_path: Path) -> None:
    spark.activate()
    runs = run_configs([DELTA[0], DELTA[2]])
    found = []
    for partitions in (1, 2, 7):
        spark.spark.conf.set("spark.sql.shuffle.partitions", partitions)
        store = run_all(runs, replace(spark, partitions=partitions), tmp_path / str(partitions))
        found.append(history(store))
    spark.spark.conf.set("spark.sql.shuffle.partitions", spark.partitions)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("commit_every", [1, 3])
def test_commit_every(sail: Session, tmp_path: Path, commit_every: int) -> None:
    runs = run_configs(DELTA[:2])
    few, often = run_all(runs, sail, tmp_path / "few"), run_all(runs, sail, tmp_path / "often", commit_every)
    assert history(often, (*TABLES, *states(often))) == history(few, (*TABLES, *states(few)))


def test_unrelated_runs_change_nothing(sail: Session, tmp_path: Path) -> None:
    alone = run_configs(DELTA[1:2], seeds=[1])
    others = run_configs([*DELTA, *DELTA])
    other_runs = [RunConfig(run.run_id + 1, run.seed + 9, run.scenario, {}) for run in others]
    one = history(run_all(alone, sail, tmp_path / "alone"))
    many = history(run_all([*alone, *other_runs], sail, tmp_path / "many"))
    for name, found in one.items():
        assert [row for row in many[name] if row[0] == 0] == found
        assert len(many[name]) > len(found) or not found
