"""Which runs of a store are replayed: those that are named; else all of a few, the worst and the median of many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.errors import QueryError

FEW = 3
"""So many runs are all replayed."""


def chosen_runs(rows: Sequence[dict[str, Any]], named: Sequence[int]) -> dict[int, str]:
    """Returns the ids of the runs to replay, each with why.

    Args:
        rows: A row a run, as view ``run_summary`` has them.
        named: Ids of runs that the user asks for; none: the program chooses.

    Raises:
        QueryError: There is no such run.
    """
    known = {row["run_id"] for row in rows}
    for run_id in named:
        if run_id not in known:
            raise QueryError(f"there is no run {run_id}; the runs are {min(known)} to {max(known)}")
    if named:
        return dict.fromkeys(named, "named with --run")
    if len(rows) <= FEW:
        return {row["run_id"]: "" for row in rows}
    order = sorted(rows, key=badness)
    worst, median = order[-1]["run_id"], order[(len(order) - 1) // 2]["run_id"]
    return {worst: "the worst run", median: "the median run"} if worst != median else {worst: "the worst run"}


def badness(row: dict[str, Any]) -> tuple[float | int, ...]:
    """Returns a key that sorts runs from the best to the worst; of equals the first run is the worst.

    A run is worse that broke a guarantee, then one that is not decided, then one with a larger share of wanted
    deliveries missing, more excused violations, and later deliveries.
    """
    ending = {"valid": 0, "unknown": 1, None: 1, "invalid": 2}[row["verdict"]]
    ratio = row["wanted_ratio"]
    missing = 0.0 if ratio is None else 1 - ratio
    latest = row["latency_rounds_max"] or 0
    return (ending, row["n_violations"], missing, row["n_violations_excused"], latest, -row["run_id"])
