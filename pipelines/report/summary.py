"""Computes the verdicts, losses and parameters of the runs of a store, and selects the runs to replay."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import Row

from pipelines.audits.run import audits_of, beyond_runs, store_verdict
from pipelines.contract.audit import Audit
from pipelines.errors import check_run_id, plural
from pipelines.experiment.prepared import labelled
from pipelines.protocols import protocol_named
from pipelines.report.measures import DELIVERED_AND_LOST, Rows, by_interval
from pipelines.sql.query import StoreReader
from pipelines.why import Story, stories
from pipelines.why.overview import LATE, MISSING, TWICE, gone_wrong, grouped, why_options

MOST_RUNS = 20_000
"""The maximum number of runs in the table of runs of a report; view ``run_summary`` has all runs."""
_MOST_BROKEN = 200
_SHOWN = (
    "run_id", "seed", "verdict", "within_bound", "n_publications", "n_deliveries", "n_wanted", "n_wanted_delivered",
    "n_messages", "latency_rounds_median", "latency_ms_median", "latency_rounds_max", "latency_ms_max",
)  # fmt: skip
_BROKEN = """
select guarantee, run_id, count_if(not excused) as n_broken, count_if(excused) as n_excused
from violation group by guarantee, run_id
"""
MOST_FULLY_REPLAYED = 3
"""The report replays all runs of a store with at most this number of runs."""
MOST_COMBINATIONS = 1_000
"""The maximum number of parameter combinations in a report; view ``result_summary`` has all combinations."""
_SUMMARY = """
select run_id, measure, mean, ci_low, ci_high from result_summary where mean is not null order by run_id, measure
"""
MOST_EXPLAINED = 1_000
"""The maximum number of deliveries of a run and a category for which a report computes the cause."""
MOST_STORIES = 60
"""The number of stories of a run and a category after which a report shows only the first story of each cause."""
MOST_OVERLAID = 60
"""The maximum number of runs in a chart of several runs; `roundtable plot` draws all runs."""
_MOST_STEPS = 120
_QUANTILES = """
select run_id, quantile as x, latency_rounds as y from latency_quantile where run_id in ({runs}) order by run_id, x
"""
_SENT = """
select run_id, 'messages sent' as what, greatest(sent_round, 0) as round, count(1) as n from sent_message
where run_id in ({runs}) and src <> dst group by run_id, greatest(sent_round, 0)
"""
_SERIES = f"{DELIVERED_AND_LOST} union all {_SENT}"


def run_rows(reader: StoreReader) -> list[dict[str, Any]]:
    """Returns the rows of view ``run_summary``, ordered by run id.

    Column ``parameters`` is a dict from the display name (`labelled`) of a parameter to its value.
    """
    rows: list[dict[str, Any]] = reader.sql("select * from run_summary order by run_id").toArrow().to_pylist()
    shown = labelled([json.loads(row["parameters"]) for row in rows])
    return [row | {"parameters": parameters} for row, parameters in zip(rows, shown, strict=True)]


def summary(reader: StoreReader, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the outcome of the runs as a JSON-serialisable dict; ``rows`` is the result of `run_rows`.

    Returns:
        ``verdict, sentence``; ``runs``: the first `MOST_RUNS` runs, with ``parameters``: the values of ``varied``, and
        ``beyond``: the round and the reason if the run exceeds its protocol's fault bound, else None; ``n_runs``: the
        number of all runs; ``n_beyond``: the number of runs that exceed the bound; ``varied``: the parameters that
        differ between runs; ``common``: the parameters that all runs have, with one value; ``guarantees``: ``name,
        summary, n_broken, n_excused, is_checked`` and ``runs``: the ids of the first runs with violations.
    """
    broken = reader.sql(_BROKEN).collect()
    protocols = {name: protocol_named(name) for name in reader.protocols}
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
    runs = []
    for row in rows[:MOST_RUNS]:
        parameters = {name: row["parameters"].get(name) for name in differ}
        of_run = {"parameters": parameters, "beyond": beyond.get(row["run_id"])}
        runs.append({name: row[name] for name in _SHOWN} | of_run)
    shared = set[str].intersection(*({*row["parameters"]} for row in rows)) - {*differ}
    return {
        "verdict": verdict, "sentence": _sentence(verdict, rows), "runs": runs, "n_runs": len(rows),
        "n_beyond": len(beyond), "varied": differ, "guarantees": guarantees,
        "common": {name: value for name, value in rows[0]["parameters"].items() if name in shared},
    }  # fmt: skip


def _guarantee(audit: Audit, protocol: str, broken: Sequence[Row], is_checked: bool) -> dict[str, Any]:
    """Returns the statement and the violations (rows ``broken`` of `_BROKEN`) of the guarantee of ``audit``."""
    found = [row for row in broken if row.guarantee == audit.name]
    return {
        "name": f"{protocol}: {audit.name}" if protocol else audit.name, "summary": audit.summary,
        "is_checked": is_checked, "n_broken": sum(row.n_broken for row in found),
        "n_excused": sum(row.n_excused for row in found),
        "runs": sorted(row.run_id for row in found)[:_MOST_BROKEN],
    }  # fmt: skip


def varied(parameters: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the names of the parameters that differ between runs."""
    seen: dict[str, set[str]] = defaultdict(set)
    for key, value in (pair for values in parameters for pair in values.items()):
        seen[key].add(json.dumps(value))
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
    told = "no run within the bound" if verdict == "valid" and not within else told
    parts = [told, *([f"{n_got:,} of {n_wanted:,} wanted deliveries happened"] if within else [])]
    return "; ".join([*parts, *([f"{plural(len(beyond), 'run')} beyond the bound, {lost}"] if beyond else [])])


def _deliveries(rows: Sequence[dict[str, Any]]) -> tuple[int, int]:
    """Returns the number of wanted deliveries, and the number of wanted deliveries that happened."""
    return sum(row["n_wanted"] for row in rows), sum(row["n_wanted_delivered"] for row in rows)


def chosen_runs(rows: Sequence[dict[str, Any]], named: Sequence[int]) -> dict[int, str]:
    """Returns the ids of the runs to replay, each with the reason for its selection.

    These are the runs in ``named``, or else all runs of a store with up to `MOST_FULLY_REPLAYED` runs, or else the
    worst run and the median run.

    Raises:
        QueryError: The store has no such run.
    """
    known = {row["run_id"] for row in rows}
    for run_id in named:
        check_run_id(run_id, known)
    if named:
        return dict.fromkeys(map(int, named), "named with --run")
    if len(rows) <= MOST_FULLY_REPLAYED:
        return {row["run_id"]: "" for row in rows}
    order = sorted(rows, key=severity)
    worst, median = order[-1]["run_id"], order[(len(order) - 1) // 2]["run_id"]
    return {worst: "the worst run", median: "the median run"} if worst != median else {worst: "the worst run"}


def severity(row: dict[str, Any]) -> tuple[float | int, ...]:
    """Returns a sort key that orders runs from best to worst.

    The key compares, in this order: verdict, number of violations, ratio of missing wanted deliveries, number of
    excused violations, largest latency, descending id.
    """
    ending = {"valid": 0, "unknown": 1, None: 1, "invalid": 2}[row["verdict"]]
    ratio = row["wanted_ratio"]
    missing = 0.0 if ratio is None else 1 - ratio
    latest = row["latency_rounds_max"] or 0
    return (ending, row["n_violations"], missing, row["n_violations_excused"], latest, -row["run_id"])


def studies(reader: StoreReader, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the mean measures of each combination of parameters, as a JSON-serialisable dict.

    ``rows`` is the result of `run_rows`.

    Returns:
        ``parameters``: the names of the parameters that differ between runs; ``measures``: the names of the measures;
        ``points``: for each combination of parameters its ``values``, ``n_runs``, ``worst``: the id of the worst run,
        and ``measures``: for each measure the mean and both ends of the 95 % confidence interval of the mean;
        ``n_left_out``: the number of omitted combinations.
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
            "worst": max(members, key=severity)["run_id"], "measures": found[members[0]["run_id"]],
        }
        for members in combinations.values()
    ]  # fmt: skip
    names = sorted({name for point in points for name in point["measures"]})
    n_left_out = max(0, len(points) - MOST_COMBINATIONS)
    shown = points[:MOST_COMBINATIONS]
    return {"parameters": differing, "measures": names, "points": shown, "n_left_out": n_left_out}


def losses(reader: StoreReader, run_ids: Sequence[int]) -> dict[int, dict[str, Any]]:
    """Returns the missing, repeated and late deliveries of some runs as JSON-serialisable dicts.

    Returns:
        A dict for each run, with these keys:

        - ``number``: the number of deliveries, by category;
        - ``n_asked``: the number of deliveries whose cause was computed, by category;
        - ``causes``: the causes, the most frequent first. Each has its category ``what``, a sentence ``text``, the
          number ``n`` of its deliveries, and the ``round`` and ``node`` of the cause of its first delivery;
        - ``stories``: the explanations of single deliveries (`Story.as_dict`). Each has its category ``what``, the
          index ``group`` of its cause in ``causes``, and the ``options`` of ``roundtable why``;
        - ``left_out``: the number of deliveries without a story, by category.
    """
    found: dict[int, dict[str, Any]] = {
        run_id: {"number": {}, "n_asked": {}, "causes": [], "stories": [], "left_out": {}} for run_id in run_ids
    }
    for what in (MISSING, TWICE, LATE):
        asked = gone_wrong(reader, what, run_ids, MOST_EXPLAINED, is_by_run=True)
        told = stories(reader, [question for question, _ in asked])
        for run_id, of_run in found.items():
            own = [story for story in told if story.run_id == run_id]
            if own:
                of_run["number"][what] = next(number for question, number in asked if question.run_id == run_id)
                of_run["n_asked"][what] = len(own)
                _add_stories(of_run, what, own)
    return found


def _add_stories(found: dict[str, Any], what: str, told: Sequence[Story]) -> None:
    """Adds the causes and stories of category ``what`` to ``found``, which contains the losses of one run."""
    groups = grouped(what, told)
    index = {id(story): n for n, group in enumerate(groups, len(found["causes"])) for story in group.stories}
    first = {id(group.first) for group in groups}
    for group in groups:
        cause = None if what == TWICE else group.first.cause
        found["causes"].append({
            "what": what, "n": group.number, "round": group.first.round if cause is None else cause.round,
            "text": group.cause, "node": None if cause is None else group.first.names[cause.node],
        })  # fmt: skip
    kept = [story for index, story in enumerate(told) if index < MOST_STORIES or id(story) in first]
    for story in kept:
        options = why_options(story.run_id, story.subscriber, story.source, story.call)
        found["stories"].append(story.as_dict() | {"what": what, "group": index[id(story)], "options": options})
    if len(kept) < found["number"][what]:
        found["left_out"][what] = found["number"][what] - len(kept)


def overlaid(reader: StoreReader, first: Sequence[int], rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Returns the rows of the charts that compare runs, as a JSON-serialisable dict.

    The charts show up to `MOST_OVERLAID` runs: first the runs ``first``, then all other runs of ``rows``.

    Returns:
        ``run_ids``: the runs; ``quantiles``: ``run_id``, quantile ``x`` from 0 to 1, and latency ``y`` in rounds;
        ``series``: ``run_id``, the event type ``what``, round ``x``, and the number ``y`` of events in round ``x``, or
        in the interval of rounds from ``x``.
    """
    others = (row["run_id"] for row in rows if row["run_id"] not in set(first))
    run_ids = [*first, *others][:MOST_OVERLAID]
    if len(rows) < 2:
        return {"run_ids": run_ids, "quantiles": [], "series": []}
    runs = ", ".join(map(str, run_ids))
    quantiles = reader.sql(_QUANTILES.format(runs=runs)).toArrow().to_pylist()
    counted = reader.sql(_SERIES.format(runs=runs)).toArrow().to_pylist()
    return {"run_ids": run_ids, "quantiles": quantiles, "series": _events_over_time(counted)}


def _events_over_time(counted: Rows) -> Rows:
    """Returns the number of events per round, including zeros; in long runs, per interval of rounds."""
    end = max((row["round"] for row in counted), default=0)
    step, number = by_interval(counted, end, _MOST_STEPS, "run_id", "what")
    lines = dict.fromkeys((run_id, what) for run_id, what, _ in sorted(number))
    return [
        {"run_id": run_id, "what": what, "x": at, "y": number[run_id, what, at]}
        for run_id, what in lines for at in range(0, end + 1, step)
    ]  # fmt: skip
