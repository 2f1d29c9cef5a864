"""Runs one scenario with several protocols and settings, and ranks the protocols by the user's criteria.

A criterion is the name of a guarantee, or a measure with a limit: ``exactly_once, per_source_order, p95 < 500 ms``.
Each criterion is evaluated for each run. A measure is a numeric column of view `comparison`, or a short name in
`_TIMES` or `_MEASURES`. The limit of a short name in `_TIMES` is a duration and needs a unit.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from pyspark.sql import SparkSession

from pipelines.api import observer, run_prepared
from pipelines.contract.audit import result_columns
from pipelines.engines.names import AskedEngine
from pipelines.errors import QueryError, ScenarioError, checked, nearest
from pipelines.experiment.plan import check
from pipelines.experiment.prepared import Prepared, expand_runs, prepare
from pipelines.protocols import PROTOCOLS
from pipelines.rounds.progress import Progress
from pipelines.scenario.load import RunConfig, read_scenario
from pipelines.sql.views import view_sources
from pipelines.store.roots import Root, Schema, place_of

WANTED = "exactly_once, per_source_order"
MINIMISED = "messages"
_VIEW = "comparison"
_PROTOCOL = "protocol"
_RELATIONS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq}
_CONDITION = re.compile(r"(\w+)\s*(<=|>=|<|>|=)\s*(\d+(?:\.\d+)?)\s*(%|[a-z]+)?")
_TIMES = {
    "median": "latency_{}_median", "p50": "latency_{}_median", "p95": "latency_{}_p95", "p99": "latency_{}_p99",
    "max": "latency_{}_max", "settling": "settling_{}",
}  # fmt: skip
_MEASURES = {
    "delivered": "wanted_ratio", "duplicates": "n_duplicates", "messages": "messages_per_delivery",
    "bytes": "bytes_per_delivery", "state": "held_rows_per_node", "storage": "durable_bytes_per_node",
}  # fmt: skip
_OTHERS = {"run_id", "protocol", "seed", "parameters", "verdict", "within_bound"}
"""The columns of view `comparison` that are no measures."""
_UNITS = {"rounds": ("rounds", 1.0), "ms": ("ms", 1.0), "s": ("ms", 1000.0)}


@dataclass(frozen=True)
class Ranked:
    """A candidate, which is a protocol with settings, and the results of its runs.

    ``n_as_wanted`` runs satisfy all criteria. The faults of ``n_beyond`` runs exceed the protocol's fault model.
    ``broken`` maps each violated criterion to the number of runs that violate it. ``measure`` is the mean of the
    measure to minimise, or None if no run has a value.
    """

    protocol: str
    settings: Mapping[str, Any]
    n_runs: int
    n_as_wanted: int
    n_beyond: int
    broken: Mapping[str, int]
    measure: float | None

    @property
    def keeps_all(self) -> bool:
        """Whether all runs satisfy all criteria."""
        return self.n_as_wanted == self.n_runs


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison: the candidates, best first, and the path of the store with all runs.

    ``measure`` is the column that ranks candidates with equal numbers of violated criteria. ``refused`` maps each
    protocol that cannot run the scenario to the reason.
    """

    ranked: Sequence[Ranked]
    measure: str
    refused: Mapping[str, str]
    store: Root


@checked
def compare(
    scenario: str | Path | Mapping[str, Any] | Prepared, want: str = WANTED, minimise: str = MINIMISED,
    spark: SparkSession | None = None, store: str | Root | Schema | None = None, engine: AskedEngine | None = None,
    overrides: str | Sequence[str] = (), observe: Callable[[Progress], None] | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Comparison:  # fmt: skip
    """Compares protocols and settings on the overlays, workloads and faults of a scenario.

    `api.run` documents the parameters ``scenario``, ``spark``, ``store``, ``engine``, ``overrides`` and ``observe``;
    ``scenario`` can also be a result of `prepare` with its own overrides, and ``store`` a schema without tables.
    ``want`` lists the criteria, separated by commas: names of guarantees, and limits of measures (`parse_wants`).
    ``minimise`` is the measure that ranks candidates with equally many violated criteria: a numeric column of view
    ``comparison``, or a short name in `_TIMES` or `_MEASURES`. ``say`` receives messages for the user, as in
    `api.run_prepared`.

    Returns:
        The ranking, and the path of the store that contains the runs. The store is closed.

    Raises:
        QueryError: A criterion or the measure is invalid.
        ScenarioError: The scenario is invalid.
    """
    prepared = scenario if isinstance(scenario, Prepared) else prepare(scenario, overrides)
    place = place_of(store) if isinstance(store, str) else store
    wants, measure = parse_wants(want), measure_of(minimise)
    candidates, refused = with_candidates(prepared)
    with (
        observer(observe, prepared.horizon) as told,
        run_prepared(candidates, spark=spark, store=place, engine=engine, observe=told, say=say) as result,
    ):
        result.audit()
        rows = result.table(_VIEW).toArrow().to_pylist()
        settings = {run.run_id: settings_of(run) for run in candidates.runs}
        return Comparison(ranked(rows, settings, wants, measure), measure, refused, result.store)


def settings_of(run: RunConfig) -> dict[str, Any]:
    """Returns the protocol settings that a run sets explicitly, including ``name``; defaults are not included."""
    return dict(run.scenario.protocol.model_dump(mode="json", exclude_unset=True))


def with_candidates(prepared: Prepared) -> tuple[Prepared, dict[str, str]]:
    """Returns the scenario with a grid that lists the candidates, and the refused protocols.

    The second result maps each protocol without a candidate to the reason why it cannot run the scenario.

    If the grid already lists protocols (``runs.grid.protocol``), the scenario is unchanged. Otherwise the candidates
    are the protocol settings in the scenario, and the variants of each protocol (`Protocol.variants`). A variant that
    does not support the overlay, workload or faults of the scenario is omitted.

    Raises:
        ScenarioError: The scenario is invalid before candidates are added.
    """
    check(prepared)
    if _PROTOCOL in prepared.scenario.runs.grid:
        return prepared, {}
    own = [*{json.dumps(one, sort_keys=True): one for one in map(settings_of, prepared.combinations())}.values()]
    chosen, refused = list(own), dict[str, str]()
    for name, spec in PROTOCOLS.items():
        base = next((one for one in own if one["name"] == name), {"name": name})
        variants = [one for one in ({**base, **variant} for variant in spec.variants) if one not in own]
        why = _refusal(prepared, [*own, *variants])
        taken = variants if why is None else [one for one in variants if _refusal(prepared, [*own, one]) is None]
        chosen += taken
        if why is not None and not taken:
            refused[name] = why
    return _with_grid(prepared, chosen), refused


def _refusal(prepared: Prepared, candidates: Sequence[Mapping[str, Any]]) -> str | None:
    try:
        check(_with_grid(prepared, candidates))
    except ScenarioError as error:
        return error.problems[0]
    return None


def _with_grid(prepared: Prepared, candidates: Sequence[Mapping[str, Any]]) -> Prepared:
    loaded = prepared.loaded
    grid = loaded.scenario.runs.model_dump(mode="json", exclude_unset=True).get("grid", {})
    kept = {path: values for path, values in grid.items() if path.split(".")[0] != _PROTOCOL}
    override = f"runs.grid={json.dumps({**kept, _PROTOCOL: list(candidates)}, ensure_ascii=False)}"
    return expand_runs(read_scenario(loaded.path, loaded.text, [*loaded.overrides, override]))


@dataclass(frozen=True)
class Condition:
    """A limit for column ``measure`` of view `comparison`, in the unit of this column."""

    measure: str
    relation: str
    limit: float

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Returns whether ``row``, a row of view `comparison`, satisfies the limit.

        If the measure is null in ``row``, returns whether all wanted deliveries of the run happened (view
        `wanted_delivery`). For example, latencies are null in a run without deliveries.
        """
        value = row[self.measure]
        if value is None:
            return bool(row["n_wanted_delivered"] == row["n_wanted"])
        return bool(_RELATIONS[self.relation](value, self.limit))


_ONCE = Condition("n_duplicates", "=", 0)
_ALL = Condition("wanted_ratio", "=", 1)
_NAMED = {
    "at_most_once": (_ONCE,),
    "at_least_once": (_ALL,),
    "exactly_once": (_ONCE, _ALL),
    "per_source_order": (Condition("n_source_order_broken", "=", 0),),
    "causal_order": (Condition("n_causal_order_broken", "=", 0),),
    "total_order": (Condition("n_total_order_broken", "=", 0),),
    "asked_order": (Condition("n_asked_causal_broken", "=", 0), Condition("n_asked_total_broken", "=", 0)),
}


def measures() -> list[str]:
    """Returns the numeric columns of view `comparison`, without ``run_id`` and ``seed``."""
    return [name for name in result_columns(view_sources()[_VIEW]) if name not in _OTHERS]


def parse_wants(text: str) -> dict[str, tuple[Condition, ...]]:
    """Parses criteria, separated by commas, and returns the conditions of each criterion.

    A run satisfies a criterion if all its conditions hold.

    Raises:
        QueryError: A criterion is invalid, or its measure is unknown.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise QueryError(f"an item of the wants {text!r} is empty; write e.g. 'exactly_once, p95 < 500 ms'")
    return {part: _conditions(part) for part in parts}


def _conditions(part: str) -> tuple[Condition, ...]:
    if part in _NAMED:
        return _NAMED[part]
    found = _CONDITION.fullmatch(part)
    if found is None:
        hint = nearest(part, list(_NAMED))
        allowed = f"a guarantee ({', '.join(_NAMED)}) nor a limit such as 'p95 < 500 ms'"
        raise QueryError(f"the want {part!r} is neither {allowed}{hint and ';' + hint}")
    name, relation, number, unit = found.groups()
    if name in _TIMES:
        if unit not in _UNITS:
            raise QueryError(f"the want {part!r} is a time without a unit; write {', '.join(_UNITS)}")
        of, factor = _UNITS[unit]
        return (Condition(_TIMES[name].format(of), relation, float(number) * factor),)
    measure, limit = measure_of(name), float(number) / (100 if unit == "%" else 1)
    if unit is not None and (unit != "%" or measure != "wanted_ratio"):
        raise QueryError(f"the want {part!r} has the unit {unit!r}, but {name} has no unit; leave it out")
    if measure == "wanted_ratio" and limit > 1:
        raise QueryError(f"the want {part!r} has a limit above 1; allowed: 0 to 1, or 0 % to 100 %, e.g. {name} > 90 %")
    return (Condition(measure, relation, limit),)


def measure_of(name: str) -> str:
    """Returns the column of view `comparison` for a measure; durations are in ms.

    ``name`` is the column itself, or a short name in `_TIMES` or `_MEASURES`.

    Raises:
        QueryError: The measure is unknown.
    """
    columns = measures()
    if name in columns:
        return name
    if name in _TIMES or name in _MEASURES:
        return (_TIMES | _MEASURES)[name].format("ms")
    short = [*_TIMES, *_MEASURES]
    hint = nearest(name, [*short, *columns])
    raise QueryError(f"{name!r} is not a measure;{hint} known are {', '.join(short)} and the columns of view {_VIEW}")


def ranked(
    rows: Iterable[Mapping[str, Any]], settings: Mapping[int, Mapping[str, Any]],
    wants: Mapping[str, Sequence[Condition]], measure: str,
) -> list[Ranked]:  # fmt: skip
    """Ranks candidates by the mean number of violated criteria per run; the lowest mean comes first.

    Candidates with equal means are ordered by the mean of ``measure``. ``rows`` contains the rows of view `comparison`.
    ``settings`` maps each run id to the result of `settings_of`. ``wants`` is the result of `parse_wants`.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(json.dumps(settings[row["run_id"]], sort_keys=True), []).append(row)
    return sorted((_ranked(json.loads(key), rows, wants, measure) for key, rows in groups.items()), key=_order)


def _ranked(
    settings: dict[str, Any], rows: Sequence[Mapping[str, Any]], wants: Mapping[str, Sequence[Condition]], measure: str
) -> Ranked:
    name = settings.pop("name")
    held = [{text: all(one.holds(row) for one in conditions) for text, conditions in wants.items()} for row in rows]
    broken = {text: number for text in wants if (number := sum(not of_run[text] for of_run in held))}
    values = [row[measure] for row in rows if row[measure] is not None]
    n_as_wanted = sum(all(of_run.values()) for of_run in held)
    n_beyond = sum(row["within_bound"] is False for row in rows)
    return Ranked(name, settings, len(rows), n_as_wanted, n_beyond, broken, fmean(values) if values else None)


def _order(one: Ranked) -> tuple[Any, ...]:
    size = float("inf") if one.measure is None else one.measure
    return sum(one.broken.values()) / one.n_runs, size, one.protocol, json.dumps(one.settings, sort_keys=True)
