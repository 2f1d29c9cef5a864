"""What the classic engine executes in a round: no exchange, and no plan that grows with the rounds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame
from support import run_all, run_configs, scenario

from pipelines.materialise import MemoryMaterialiser
from pipelines.session import Session

_ROUND = {"processing", "in_flight"}


def plan(frame: DataFrame) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())  # the tests' own look inside; not the program's


def tree(**workload: Any) -> dict[str, Any]:
    overlay = {"generate": {"kind": "random_tree", "nodes": 5}}
    return scenario(protocol={"name": "delta", "delta": 1}, overlay=overlay, workload=workload)


@pytest.fixture
def plans(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Collects the executed plans of every round, in order."""
    seen: list[dict[str, str]] = []
    settle, keep = MemoryMaterialiser.settle, MemoryMaterialiser.keep
    kept: dict[str, str] = {}

    def watched_keep(self: MemoryMaterialiser, name: str, frame: DataFrame) -> Any:
        kept[name] = plan(frame)
        return keep(self, name, frame)

    def watched(self: MemoryMaterialiser, frames: Mapping[str, DataFrame], facts: Any) -> Any:
        if frames.keys() >= _ROUND:
            seen.append({name: plan(frame) for name, frame in frames.items()} | kept)
            kept.clear()
        return settle(self, frames, facts)

    monkeypatch.setattr(MemoryMaterialiser, "settle", watched)
    monkeypatch.setattr(MemoryMaterialiser, "keep", watched_keep)
    return seen


def test_no_exchange_in_a_round(spark: Session, tmp_path: Path, plans: list[dict[str, str]]) -> None:
    """Runs are partitioned by run_id: joins and windows stay within a partition (SUB, UNSUB, PUB and CONF rounds)."""
    subscriptions = [{"at": f"N{place}", "topic": "t", "until": 20} for place in (1, 4)]
    publications = [{"at": "N2", "round": 16, "topic": "t"}]
    run_all(run_configs([tree(subscriptions=subscriptions, publications=publications)] * 3), spark, tmp_path)
    assert len(plans) > 12
    for place, frames in enumerate(plans):
        exchanges = {name: text for name, text in frames.items() if "Exchange" in text}
        assert not exchanges, f"round {place}: {next(iter(exchanges.values()))}"


def test_plans_do_not_grow(spark: Session, tmp_path: Path, plans: list[dict[str, str]]) -> None:
    """A late round is planned like an early one: same kinds of messages, same text length up to the digits of ids."""
    publications = [{"at": "N2", "round": 10 + place, "topic": "t"} for place in range(40)]
    run_all(run_configs([tree(subscriptions=[{"at": "N5", "topic": "t"}], publications=publications)]), spark, tmp_path)
    early, late = plans[20], plans[40]
    assert early.keys() == late.keys()
    for name, text in late.items():
        assert text.count("\n") == early[name].count("\n")
