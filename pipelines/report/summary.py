"""How the runs of a store ended: parameters, measures, guarantees, and what went beyond the bound."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pyspark.sql import Row

from pipelines.audits.run import audits_of, beyond_runs
from pipelines.contract.audit import Audit
from pipelines.errors import plural
from pipelines.experiment.prepared import labelled
from pipelines.sql.query import StoreReader

MOST_RUNS = 20_000
"""Runs in the table of the verdict; view run_summary has all."""
_MOST_BROKEN = 200
_SHOWN = (
    "run_id", "seed", "verdict", "within_bound", "n_publications", "n_deliveries", "n_wanted", "n_wanted_delivered",
    "n_messages", "latency_rounds_median", "latency_ms_median", "latency_rounds_max", "latency_ms_max",
)  # fmt: skip
_BROKEN = """
select guarantee, run_id, count_if(not excused) as n_broken, count_if(excused) as n_excused
from violation group by guarantee, run_id
"""


def run_rows(reader: StoreReader) -> list[dict[str, Any]]:
    """Returns a row a run, as view ``run_summary`` has them, by id; ``parameters`` as pages show them (`labelled`)."""
    rows: list[dict[str, Any]] = reader.sql("select * from run_summary order by run_id").toArrow().to_pylist()
    shown = labelled([json.loads(row["parameters"]) for row in rows])
    return [row | {"parameters": parameters} for row, parameters in zip(rows, shown, strict=True)]


def summary(reader: StoreReader, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns how the runs ended, for JSON.

    Args:
        reader: The store.
        rows: See `run_rows`.

    Returns:
        ``verdict, sentence``; ``runs``: the first of them, those beyond the bound with ``beyond``; ``n_runs``,
        ``n_beyond``: how many there are; ``varied``: the parameters that tell runs apart; ``guarantees``: ``name,
        summary, n_broken, n_excused, is_checked`` and the runs that broke it.
    """
    broken = reader.sql(_BROKEN).collect()
    protocols = {name: reader.protocol(name) for name in reader.protocols}
    beyond = {
        run.run_id: {"round": run.round, "reason": run.reason}
        for name, protocol in protocols.items()
        for run in beyond_runs(reader.of_protocol(name), protocol)
    }
    is_audited = all(row["rounds"] is not None for row in rows)
    guarantees = [
        _guarantee(audit, name if len(protocols) > 1 else "", [row for row in broken if row.run_id in own], is_audited)
        for name, protocol in protocols.items()
        for own in [{row["run_id"] for row in rows if row["protocol"] == name}]
        for audit in audits_of(protocol)
    ]
    differ = varied([row["parameters"] for row in rows])
    verdict = store_verdict([row["verdict"] for row in rows])
    return {
        "verdict": verdict,
        "sentence": _sentence(verdict, rows),
        "runs": [
            {name: row[name] for name in _SHOWN}
            | {
                "parameters": {name: row["parameters"].get(name) for name in (differ if number else row["parameters"])},
                "beyond": beyond.get(row["run_id"]),
            }
            for number, row in enumerate(rows[:MOST_RUNS])
        ],
        "n_runs": len(rows),
        "n_beyond": len(beyond),
        "varied": differ,
        "guarantees": guarantees,
    }


def _guarantee(audit: Audit, protocol: str, broken: Sequence[Row], is_checked: bool) -> dict[str, Any]:
    """Returns how often a guarantee was broken.

    Args:
        audit: Its audit.
        protocol: Whose guarantee it is, where that has to be said.
        broken: Rows as `_BROKEN` returns them, of the protocol's runs.
        is_checked: Whether the runs were audited.
    """
    found = [row for row in broken if row.guarantee == audit.name]
    return {
        "name": f"{protocol}: {audit.name}" if protocol else audit.name,
        "summary": audit.summary,
        "is_checked": is_checked,
        "n_broken": sum(row.n_broken for row in found),
        "n_excused": sum(row.n_excused for row in found),
        "runs": sorted(row.run_id for row in found)[:_MOST_BROKEN],
    }


def store_verdict(verdicts: Sequence[str | None]) -> str:
    """Returns ``invalid`` if any run is, else ``unknown`` if any is not decided, else ``valid``."""
    found = set(verdicts)
    if "invalid" in found:
        return "invalid"
    return "valid" if found == {"valid"} else "unknown"


def varied(parameters: Sequence[dict[str, Any]]) -> list[str]:
    """Returns the parameters that are not the same in all runs."""
    seen: dict[str, set[str]] = {}
    for values in parameters:
        for key, value in values.items():
            seen.setdefault(key, set()).add(json.dumps(value))
    return [key for key, values in seen.items() if len(values) > 1]


def _sentence(verdict: str, rows: Sequence[dict[str, Any]]) -> str:
    number = Counter(row["verdict"] or "unknown" for row in rows)
    beyond = [row for row in rows if row["within_bound"] is False]
    within = [row for row in rows if row["within_bound"] is not False]
    told = {
        "valid": f"{plural(len(within), 'run')}{' within the bound' if beyond else ''}, all guarantees hold",
        "invalid": f"{number['invalid']:,} of {plural(len(rows), 'run')} broke a guarantee",
        "unknown": f"{number['unknown']:,} of {plural(len(rows), 'run')} not decided",
    }[verdict]
    n_wanted, n_got = _deliveries(within)
    n_beyond, n_got_beyond = _deliveries(beyond)
    lost = f"{n_beyond - n_got_beyond:,} of {n_beyond:,} wanted deliveries lost, where nothing is promised"
    parts = [told, f"{n_got:,} of {n_wanted:,} wanted deliveries happened"] if within else ["no run within the bound"]
    return "; ".join([*parts, *([f"{plural(len(beyond), 'run')} beyond the bound, {lost}"] if beyond else [])])


def _deliveries(rows: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """Returns how many deliveries were wanted in some runs, and how many of them happened."""
    return sum(row["n_wanted"] for row in rows), sum(row["n_wanted_delivered"] for row in rows)
