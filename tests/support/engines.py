"""Scenarios for comparing engines, and one job of protocol delta on classic Spark with its plans."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

from pipelines.engines.materialise.planned import PlannedMaterialiser
from pipelines.engines.session import Session
from pipelines.scenario.expand import RunConfig
from pipelines.store.store import Store
from pipelines.testing import rows, run_all, run_configs, scenario

_ROUND = {"processing", "in_flight"}
_PARTITIONS = 3
_TABLES = ("subscription", "publication", "message", "delivery", "fault_event", "node_status", "round_metric")
_LAST_PUBLICATION = 32


@dataclass(frozen=True)
class OnSpark:
    """A job on classic Spark, over another number of partitions than usual.

    Attributes:
        runs: Its runs.
        store: What it left behind.
        plans: The executed plans of every round, by name of the relation.
    """

    runs: list[RunConfig]
    store: Store
    plans: list[dict[str, str]]


def history(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Returns the rows of the history tables and of all state tables, by name."""
    return {
        name: rows(store, name) for name in (*_TABLES, *store.tables()) if name in _TABLES or name.startswith("state_")
    }


def mixed(protocol: dict[str, Any], start: str, n_nodes: int) -> dict[str, Any]:
    """All nodes subscribe by content for a while, two publish."""
    subscriptions = {"kind": "quotes", "symbols": 3, "nodes": "all", "rounds": [0, 3], "lifetime": [9, 12]}
    publications = {"kind": "quotes", "symbols": 3, "nodes": 2, "rounds": [5, 10], "rate": 0.5}
    return scenario(
        protocol=protocol,
        overlay={
            "generate": {"kind": "random_tree", "nodes": n_nodes, "max_degree": 4},
            "latency": {"uniform": [1, 2]},
            "start": start,
        },
        workload={"subscriptions": {"generate": subscriptions}, "publications": {"generate": publications}},
    )


def steady() -> dict[str, Any]:
    """A publication in each round, long after the other runs have come to rest."""
    subscriptions = [{"at": "N5", "topic": "t"}, *({"at": f"N{place}", "topic": "t", "until": 4} for place in (1, 4))]
    publications = [{"at": "N2", "round": round_, "topic": "t"} for round_ in range(6, _LAST_PUBLICATION + 1)]
    return scenario(
        protocol={"name": "delta", "delta": 1},
        overlay={"generate": {"kind": "random_tree", "nodes": 5}},
        workload={"subscriptions": subscriptions, "publications": publications},
    )


def wave() -> dict[str, Any]:
    """Two leaves join a standing tree in the same round, within reach of each other."""
    return scenario(
        protocol={"name": "delta", "delta": 1},
        overlay={"links": [["A", "B"], ["B", "C"], ["B", "D"], ["C", "E"]]},
        workload={
            "joins": [{"node": "D", "to": "B", "round": 2}, {"node": "E", "to": "C", "round": 2}],
            "subscriptions": [{"at": "A", "topic": "t"}, {"at": "E", "round": 3, "topic": "t"}],
            "publications": [{"at": "D", "round": 14, "topic": "t"}],
        },
    )


def disturbed(detector: str, round_: int = 7) -> dict[str, Any]:
    """A crashes for two rounds while its neighbours unsubscribe, publish and take in J; P - A - B - S, B - J."""
    return scenario(
        protocol={"name": "delta", "delta": 1, "detector": detector, "detection_rounds": 2, "par_rows": 8},
        overlay={"links": [["P", "A"], ["A", "B"], ["B", "S"], ["B", "J"]]},
        workload={
            "joins": [{"node": "J", "to": "B", "round": 6}],
            "subscriptions": [
                {"at": "S", "topic": "a"},
                {"at": "A", "topic": "a", "until": 5},
                {"at": "J", "round": 6, "topic": "a"},
            ],
            "publications": [{"at": "P", "round": at, "topic": "a"} for at in (6, 7, 10)],
        },
        faults=[{"kind": "crash", "node": "A", "round": round_, "until": round_ + 2}],
    )


def run_on_spark(spark: Session, root: Path) -> OnSpark:
    """Runs that stand from the start with δ = 0 and δ = 2, one with joins, and one that goes on and on."""
    joined = [mixed({"name": "delta", "delta": delta}, "joined", 5) for delta in (0, 2)]
    runs = run_configs([*joined, wave(), steady()])
    with pytest.MonkeyPatch.context() as patch, spread(spark, _PARTITIONS) as session:
        plans = _watched(patch)
        store = run_all(runs, session, root, commit_every=15, form="dataflow")
    return OnSpark(runs, store, plans)


@contextmanager
def spread(spark: Session, partitions: int, driver_rows: int = 0) -> Iterator[Session]:
    """Returns the session with another number of partitions, and Spark at work where there are few rows, too.

    Args:
        spark: Classic Spark.
        partitions: How many.
        driver_rows: How many rows a plan may read that is worked out in the driver.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROUNDTABLE_DRIVER_ROWS", str(driver_rows))
        spark.spark.conf.set("spark.sql.shuffle.partitions", partitions)
        try:
            yield replace(spark, partitions=partitions)
        finally:
            spark.spark.conf.set("spark.sql.shuffle.partitions", spark.partitions)


def _watched(patch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    seen: list[dict[str, str]] = []
    checkpoint, cache = PlannedMaterialiser.checkpoint, PlannedMaterialiser.cache
    cached: dict[str, str] = {}

    def watched_cache(self: PlannedMaterialiser, name: str, frame: DataFrame) -> Any:
        cached[name] = executed_plan(self.session.native(frame))
        return cache(self, name, frame)

    def watched(self: PlannedMaterialiser, frames: Mapping[str, DataFrame], facts: Any) -> Any:
        if frames.keys() >= _ROUND:
            seen.append({name: executed_plan(self.session.native(frame)) for name, frame in frames.items()} | cached)
            cached.clear()
        return checkpoint(self, frames, facts)

    patch.setattr(PlannedMaterialiser, "checkpoint", watched)
    patch.setattr(PlannedMaterialiser, "cache", watched_cache)
    return seen


def executed_plan(frame: DataFrame) -> str:
    """Returns the physical plan of classic Spark for a frame."""
    return str(frame._jdf.queryExecution().executedPlan().toString())  # the tests' own look inside; not the program's
