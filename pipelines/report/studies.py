"""What the runs of a study gave, by combination of parameters: means over seeds with their intervals, worst runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from pipelines.report.choice import badness
from pipelines.report.summary import varied
from pipelines.sql.query import StoreReader

MOST_COMBINATIONS = 1_000
"""Combinations of a study page; view result_summary has all."""
_SUMMARY = """
select run_id, measure, mean, ci_low, ci_high from result_summary where mean is not null order by run_id, measure
"""


def studies(reader: StoreReader, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns what a study gave, for JSON.

    Args:
        reader: The store.
        rows: A row a run, as `summary.run_rows` returns them.

    Returns:
        ``parameters``: those that differ between runs; ``measures``; ``points``, one a combination: ``values`` by
        parameter, ``n_runs, worst`` (a run) and ``measures``: mean and both ends of the 95 % confidence interval, by
        name; ``n_left_out``: combinations that are not there.
    """
    differing = varied([row["parameters"] for row in rows])
    combinations: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        combinations[json.dumps(row["parameters"], sort_keys=True)].append(row)
    found: dict[int, dict[str, list[float | None]]] = defaultdict(dict)
    if len(rows) > 1:
        for one in reader.sql(_SUMMARY).collect():
            found[one.run_id][one.measure] = [one.mean, one.ci_low, one.ci_high]
    points = [
        {
            "values": {name: members[0]["parameters"].get(name) for name in differing}, "n_runs": len(members),
            "worst": max(members, key=badness)["run_id"], "measures": found[members[0]["run_id"]],
        }
        for members in combinations.values()
    ]  # fmt: skip
    return {
        "parameters": differing,
        "measures": sorted({name for point in points for name in point["measures"]}),
        "points": points[:MOST_COMBINATIONS],
        "n_left_out": max(0, len(points) - MOST_COMBINATIONS),
    }
