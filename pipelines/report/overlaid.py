"""Several runs in one chart: quantiles of their latencies, and deliveries and messages round by round."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pipelines.sql.query import StoreReader

MOST_RUNS = 60
"""Runs whose lines are in a report; `roundtable plot` draws those of all."""
_MOST_STEPS = 120
_QUANTILES = """
select run_id, quantile as x, latency_rounds as y from latency_quantile where run_id in ({runs}) order by run_id, x
"""
_SERIES = """
select run_id, 'deliveries' as what, round, count(1) as n from delivery where run_id in ({runs}) group by run_id, round
union all
select run_id, 'messages sent' as what, greatest(sent_round, 0) as round, count(1) as n from sent_message
where run_id in ({runs}) and src <> dst group by run_id, greatest(sent_round, 0)
union all
select run_id, 'messages lost' as what, due_round as round, count(1) as n from sent_message
where run_id in ({runs}) and src <> dst and fate like 'lost%' group by run_id, due_round
"""
Rows = list[dict[str, Any]]


def overlaid(reader: StoreReader, first: Sequence[int], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the lines of several runs, for JSON.

    Args:
        reader: The store.
        first: Ids of runs that are in it in any case.
        rows: A row a run, as `summary.run_rows` returns them.

    Returns:
        ``run_ids``: up to `MOST_RUNS`; ``quantiles``: ``run_id``, ``x`` from 0 to 1, ``y`` in rounds; ``series``:
        ``run_id, what``, ``x`` a round, or the first of a span of rounds, and ``y`` the number in it.
    """
    others = (row["run_id"] for row in rows if row["run_id"] not in set(first))
    run_ids = [*first, *others][:MOST_RUNS]
    if len(rows) < 2:
        return {"run_ids": run_ids, "quantiles": [], "series": []}
    runs = ", ".join(map(str, run_ids))
    quantiles = reader.sql(_QUANTILES.format(runs=runs)).toArrow().to_pylist()
    counted = reader.sql(_SERIES.format(runs=runs)).toArrow().to_pylist()
    return {"run_ids": run_ids, "quantiles": quantiles, "series": _spans(counted)}


def _spans(counted: Rows) -> Rows:
    """Returns counts by round, or by span of rounds where there are many; one without any has a 0."""
    end = max((row["round"] for row in counted), default=0)
    step = -(-(end + 1) // _MOST_STEPS)
    number: Counter[tuple[int, str, int]] = Counter()
    for row in counted:
        number[row["run_id"], row["what"], row["round"] // step * step] += row["n"]
    lines = dict.fromkeys((run_id, what) for run_id, what, _ in sorted(number))
    return [
        {"run_id": run_id, "what": what, "x": at, "y": number[run_id, what, at]}
        for run_id, what in lines for at in range(0, end + 1, step)
    ]  # fmt: skip
