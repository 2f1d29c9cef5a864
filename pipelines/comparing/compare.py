"""Runs one scenario with several protocols and settings, and ranks the protocols by the user's criteria."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipelines.api import observer, run_prepared
from pipelines.comparing.candidates import settings_of, with_candidates
from pipelines.comparing.ranking import Ranked, ranked
from pipelines.comparing.wants import measure_named, parse_wants
from pipelines.engines.names import AskedEngine
from pipelines.experiment.prepared import Prepared, prepare_given
from pipelines.rounds.progress import Progress
from pipelines.sql.views import view_head
from pipelines.store.roots import Root, Schema, place_of

WANTED = "exactly_once, per_source_order"
MINIMISED = "messages"
_VIEW = "comparison"


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


def compare(
    scenario: str | Path | Mapping[str, Any], want: str = WANTED, minimise: str = MINIMISED,
    spark: SparkSession | None = None, store: str | Root | None = None, engine: AskedEngine | None = None,
    overrides: str | Sequence[str] = (), observe: Callable[[Progress], None] | None = None,
) -> Comparison:  # fmt: skip
    """Compares protocols and settings on the overlays, workloads and faults of a scenario.

    `api.run` documents the parameters ``scenario``, ``spark``, ``store``, ``engine``, ``overrides`` and ``observe``.
    ``want`` lists the criteria, separated by commas: names of guarantees, and limits of measures (`wants.parse_wants`).
    ``minimise`` is the measure that ranks candidates with equally many violated criteria: a numeric column of view
    ``comparison``, or a short name (module `wants`).

    Returns:
        The ranking, and the path of the store that contains the runs. The store is closed.

    Raises:
        QueryError: A criterion or the measure is invalid.
        ScenarioError: The scenario is invalid.
    """
    prepared = prepare_given(scenario, overrides)
    place = None if store is None else place_of(store)
    with observer(observe, prepared.horizon) as told:
        return compare_prepared(prepared, want, minimise, spark=spark, store=place, engine=engine, observe=told)


def compare_prepared(
    prepared: Prepared, want: str = WANTED, minimise: str = MINIMISED, *, spark: SparkSession | None = None,
    store: Root | Schema | None = None, engine: AskedEngine | None = None,
    observe: Callable[[Progress], None] = lambda _: None, say: Callable[[str], None] = lambda _: None,
) -> Comparison:  # fmt: skip
    """Compares protocols and settings on a scenario that was read in advance; see `compare`.

    ``store`` is an empty location, or a schema without tables. ``observe`` receives the progress after each job.
    ``say`` receives a line for each step before the first round.
    """
    columns = list(view_head(_VIEW).columns)
    has_ms = prepared.scenario.time.round_ms is not None
    wants, measure = parse_wants(want, columns, has_ms=has_ms), measure_named(minimise, columns, has_ms=has_ms)
    compared = with_candidates(prepared)
    with run_prepared(compared.prepared, spark=spark, store=store, engine=engine, observe=observe, say=say) as result:
        result.audit()
        rows = result.table(_VIEW).toArrow().to_pylist()
        settings = {run.run_id: settings_of(run) for run in compared.prepared.runs}
        return Comparison(ranked(rows, settings, wants, measure), measure, compared.refused, result.store)
