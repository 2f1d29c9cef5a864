"""Scenarios for the comparison of engines, and the rows of their stores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import rows, scenario

_TABLES = ("subscription", "publication", "message", "delivery", "fault_event", "node_status", "round_metric")


def history(store: Store) -> dict[str, list[tuple[Any, ...]]]:
    """Returns the rows of the history tables and of all state tables, by name."""
    return {
        name: rows(store, name) for name in (*_TABLES, *store.tables()) if name in _TABLES or name.startswith("state_")
    }


def mixed(protocol: dict[str, Any], start: str, n_nodes: int) -> dict[str, Any]:
    """Returns a scenario in which all nodes temporarily subscribe by content, and two nodes publish."""
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


def disturbed(detector: str, round_: int = 7) -> dict[str, Any]:
    """Returns a scenario on the links P - A, A - B, B - S and B - J, in which A is down for two rounds.

    Around these rounds, A unsubscribes, P publishes, and J joins at B and subscribes.
    """
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


@contextmanager
def spread(spark: Session, partitions: int) -> Iterator[Session]:
    """Sets the number of shuffle partitions of a session inside the ``with`` block, and yields the session.

    Args:
        spark: A session of classic Spark.
        partitions: The number of partitions.
    """
    spark.spark.conf.set("spark.sql.shuffle.partitions", partitions)
    try:
        yield replace(spark, partitions=partitions)
    finally:
        spark.spark.conf.set("spark.sql.shuffle.partitions", spark.partitions)
