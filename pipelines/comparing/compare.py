"""Runs a scenario with several protocols and settings, and ranks them by what the user wants."""

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
    """Protocols and settings in the order in which they do what is wanted.

    Attributes:
        ranked: The candidates, the best one first.
        measure: The column of view `comparison` that decides where wants do not.
        refused: Why a protocol could not run the scenario, by its name.
        store: The store with all runs.
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

    Args:
        scenario: As in `api.run`, like the others that are not named here.
        want: What is wanted: guarantees by name and limits of measures, separated by commas (`wants.parse_wants`).
        minimise: The measure that decides between candidates that do as well: a column, or a short name.
        spark: As in `api.run`.
        store: As in `api.run`.
        engine: As in `api.run`.
        overrides: As in `api.run`.
        observe: As in `api.run`.

    Returns:
        The candidates in their order; the store is closed.

    Raises:
        QueryError: The wants or the measure cannot be read.
        ScenarioError: The scenario itself is wrong.
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
    """Compares protocols and settings on a scenario that was read already; arguments as in `compare`.

    Args:
        prepared: The scenario; its grid may name the protocols (`candidates.with_candidates`).
        want: What is wanted.
        minimise: The measure that is to be small.
        spark: A session to use as it is.
        store: An empty place, or a schema without tables.
        engine: The engine.
        observe: Is told of each round.
        say: Told, in one line each, what happens before the rounds.
    """
    columns = list(view_head(_VIEW).columns)
    has_ms = prepared.scenario.time.round_ms is not None
    wants, measure = parse_wants(want, columns, has_ms=has_ms), measure_named(minimise, columns, has_ms=has_ms)
    compared = with_candidates(prepared)
    with run_prepared(compared.prepared, spark=spark, store=store, engine=engine, observe=observe, say=say) as result:
        result.audit()
        rows = result.table(_VIEW).toArrow().to_pylist()
        settings = {run.run_id: settings_of(run) for run in compared.prepared.runs}
        return Comparison(
            ranked=ranked(rows, settings, wants, measure),
            measure=measure,
            refused=compared.refused,
            store=result.store,
        )
