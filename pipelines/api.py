"""The Python API: runs a scenario, resumes an interrupted run, opens a store."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from pipelines.contract.forms import AskedForm
from pipelines.contract.run_inputs import Inputs
from pipelines.engines.classic import running_session
from pipelines.engines.names import AskedEngine, asked_engine, chosen_engine
from pipelines.engines.session import engine_of_program, open_session
from pipelines.errors import ScenarioError, checked, plural
from pipelines.experiment.jobs import FEW_ROWS, Batch, by_protocol, forms_of, has_small_load, runs_per_batch
from pipelines.experiment.manifest import Manifest, manifest_files, versions
from pipelines.experiment.plan import build, mappings, notes
from pipelines.experiment.prepared import Prepared, prepare
from pipelines.files import remembered
from pipelines.result import Result
from pipelines.rounds.blocks import players
from pipelines.rounds.execute import Experiment, execute_and_survive, last_commit, resume_point
from pipelines.rounds.progress import NotebookReporter, Progress, is_notebook
from pipelines.store.catalog import located, new_place, register
from pipelines.store.damage import named_damage
from pipelines.store.folder import check_empty, check_store, locked, resume_hint
from pipelines.store.ledger import Ledger
from pipelines.store.roots import Root, Schema, place_of, scheme_of
from pipelines.store.store import Store

_SAY_SECONDS = 5.0
_LOG = logging.getLogger("roundtable")
"""The log of progress messages (INFO), jobs (DEBUG) and invalid verdicts (WARNING)."""


@checked
def run(
    scenario: str | Path | Mapping[str, Any], spark: SparkSession | None = None, store: str | Root | None = None,
    engine: AskedEngine | None = None, overrides: str | Sequence[str] = (), commit_every: int | None = None,
    batch_runs: int | None = None, rounds_per_job: int | None = None, form: AskedForm | None = None,
    observe: Callable[[Progress], None] | None = None,
) -> Result:  # fmt: skip
    """Runs a scenario and audits the result.

    Args:
        scenario: A scenario file, the name of an installed scenario, a YAML string, or a dict of the scenario's keys.
        spark: An existing Spark session. None starts the engine.
        store: The location of the store: a new or empty folder, an address in a bucket (``s3a://bucket/folder``) or in
            HDFS (``hdfs://host:port/folder``), or a schema (``catalog.schema``). None stands for ``runs/<scenario>/<UTC
            time>``.
        engine: ``auto``, ``spark``, ``connect`` or ``local``. None stands for the value of ROUNDTABLE_ENGINE, or else
            the engine in the scenario. ``auto`` selects the engine of the active session, else ``connect`` if
            SPARK_REMOTE is set, else ``spark`` if package delta-spark and Java are found, else ``local``.
        overrides: One string or several strings ``path=value``, which replace values of the scenario.
        commit_every: The number of rounds between commits. None stands for 20 in form ``dataflow``. In form
            ``program``, None stands for 200, or for 500 if a batch has 16 or more runs.
        batch_runs: The number of runs that one job executes concurrently. Batches of this size are executed one after
            another. None stands for the number of runs that fits into memory.
        rounds_per_job: The number of rounds that one job of form ``program`` executes, at least 1. None stands for all
            rounds up to the next commit. A job of form ``dataflow`` always executes one round. The rows do not depend
            on this number.
        form: ``program`` executes each run as node programs, many rounds a job. ``dataflow`` executes each round of all
            runs as a few Spark jobs. ``auto`` selects ``dataflow`` for runs of more than 20,000 nodes if the protocol
            has this form, else ``program``. None stands for the value of ROUNDTABLE_FORM, or else the form in the
            scenario. Both forms write equal rows.
        observe: A function that receives the progress after each job. None shows a progress bar in a notebook, and logs
            the progress elsewhere.

    Returns:
        The opened store with its audit results.

    Raises:
        ScenarioError: The scenario, or a file that it names, is invalid; nothing was written.
        StoreError: The folder of the store is not empty, or cannot be written.
        EngineError: The engine cannot be started.
    """
    prepared = prepare(scenario, overrides)
    place = None if store is None else place_of(store)
    with observer(observe, prepared.horizon) as told:
        return _audited(run_prepared(
            prepared, say=_LOG.info, spark=spark, store=place, engine=engine, commit_every=commit_every,
            batch_runs=batch_runs, rounds_per_job=rounds_per_job, form=form, observe=told,
        ))  # fmt: skip


def _audited(result: Result) -> Result:
    """Audits a result and returns it; closes the result if the audit fails."""
    with ExitStack() as closing:
        closing.enter_context(result).audit()
        _LOG.log(logging.INFO if result.verdict == "valid" else logging.WARNING, "%r", result)
        closing.pop_all()
    return result


def run_prepared(
    prepared: Prepared, *, spark: SparkSession | None = None, store: Root | Schema | None = None,
    engine: AskedEngine | None = None, commit_every: int | None = None, batch_runs: int | None = None,
    rounds_per_job: int | None = None, form: AskedForm | None = None,
    observe: Callable[[Progress], None] = lambda _: None, say: Callable[[str], None] = lambda _: None,
) -> Result:  # fmt: skip
    """Runs a scenario without an audit; `run` documents the parameters.

    ``say`` receives messages for the user, for example the name of the engine and the start of each batch of runs.
    """
    numbers = {"commit_every": commit_every, "batch_runs": batch_runs, "rounds_per_job": rounds_per_job}
    for name, number in numbers.items():
        if number is not None and number < 1:
            raise ScenarioError([f"{name} is {number!r}; allowed: a whole number, 1 or more, or None"])
    wanted = asked_engine(engine, prepared.scenario.engine)
    chosen, reason = chosen_engine(wanted, engine_of_program(spark))
    asked = prepared.form(form)
    schema = store if isinstance(store, Schema) else None
    root = None if isinstance(store, Schema) else store
    if schema is not None and spark is None:
        schema.check_engine(chosen)
    if root is not None:
        with named_damage(root):
            check_empty(root)
    files: dict[str, Path] = {}
    with players(prepared.runs, chosen, asked):
        inputs = _build(prepared, files, say)
    chosen_forms = forms_of(prepared.protocols, asked, inputs.most_nodes, inputs.faults)
    if wanted == "auto":
        say(f"engine {chosen}: {reason}")
    with ExitStack() as closing:
        small = inputs.n_state_rows <= FEW_ROWS
        if chosen == "spark" and spark is None and running_session() is None and small:
            say("starting Spark; a job of this size takes seconds with --engine local")
        light = has_small_load((form for form, _ in chosen_forms.values()), is_small=small)
        session = closing.enter_context(open_session(chosen, spark, say, scheme_of(root), is_small=light))
        with new_place(store, session, prepared.scenario.name, say) as (root, check_locked):
            manifest = Manifest(
                scenario=str(prepared.loaded.path.absolute()), text=prepared.loaded.text,
                overrides=prepared.loaded.overrides, engine=session.engine, commit_every=commit_every,
                rounds_per_job=rounds_per_job, form=asked, horizon=prepared.horizon,
                batch_runs=batch_runs
                or runs_per_batch(inputs.n_runs, inputs.n_state_rows, [form for form, _ in chosen_forms.values()]),
                versions=versions(prepared.protocols), files=manifest_files(files),
                schema=None if schema is None else str(schema),
            )  # fmt: skip
            manifest.write(root)
            _execute(prepared, manifest, inputs, Store(root.absolute(), session, check_locked), observe, say)
        result = Result(root, session)
        closing.pop_all()
    return result


@checked
def resume(
    path: str | Root, spark: SparkSession | None = None, observe: Callable[[Progress], None] | None = None
) -> Result:
    """Resumes an interrupted run after its last complete round, and audits the result.

    The rows are equal to those of an uninterrupted run. A finished and audited store is only opened.

    Args:
        path: The folder or address of the store, or ``catalog.schema``.
        spark: An existing session of the engine that began the run. None starts this engine.
        observe: As in `run`.

    Returns:
        The opened store with its audit results.

    Raises:
        StoreError: The store does not exist, another program writes it, or the program, the scenario or an input file
            has changed.
        EngineError: The engine cannot be started.
    """
    root = located(path, spark)
    with observer(observe, Manifest.read(root).horizon) as told:
        result = resume_store(root, spark=spark, observe=told, say=_LOG.info)
        return result if result.is_audited else _audited(result)


def resume_store(
    root: Root, *, spark: SparkSession | None = None, observe: Callable[[Progress], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> Result:  # fmt: skip
    """Resumes an interrupted run without an audit; only opens a finished store.

    ``observe`` receives the progress after each job, and ``say`` receives messages for the user.
    """
    manifest = Manifest.read(root)
    with ExitStack() as closing:
        with locked(root, say) as check_locked:
            session = closing.enter_context(open_session(manifest.engine, spark, say, scheme_of(root)))
            store = Store(root.absolute(), session, check_locked)
            if not (store.is_committed() and Ledger.read(store).is_finished):
                manifest.check_same(root, session.engine)
                _resume(root, manifest, store, observe, say)
            elif manifest.schema is not None:
                register(manifest.schema, store, say)
        result = Result(root, session)
        closing.pop_all()
    return result


def observer(
    observe: Callable[[Progress], None] | None, horizon: int
) -> AbstractContextManager[Callable[[Progress], None]]:
    """Returns a context for ``observe``; None shows a progress bar in a notebook, and logs progress elsewhere."""
    if observe is not None or not is_notebook():
        return nullcontext(observe or _log_progress)
    return NotebookReporter(horizon)


def _log_progress(progress: Progress) -> None:
    _LOG.debug("round %d: %d messages in flight", progress.round, progress.n_in_flight)


def _resume(
    root: Root, manifest: Manifest, store: Store, observe: Callable[[Progress], None], say: Callable[[str], None]
) -> None:
    prepared = manifest.prepared()
    with players(prepared.runs, manifest.engine, manifest.form):
        inputs = _build(prepared, manifest.found(), say)
    say(f"resuming {resume_point(last_commit(store))}")
    try:
        _execute(prepared, manifest, inputs, store, observe, say)
    except BaseException as error:
        error.add_note(resume_hint(root))
        raise


def _build(prepared: Prepared, files: dict[str, Path], say: Callable[[str], None]) -> Inputs:
    say(f"building {plural(len(prepared.runs), 'run')}")
    with remembered(files):
        inputs = build(prepared, _built(len(prepared.runs), say))
        for part, note in notes(prepared):
            say(f"{part}: {note}")
        for mapping in mappings(prepared):
            say(f"mapping: {mapping}")
    return inputs


def _built(n_runs: int, say: Callable[[str], None]) -> Callable[[int], None]:
    """Returns a callback that passes the number of built runs to ``say``, at most once every `_SAY_SECONDS`."""
    due = time.monotonic() + _SAY_SECONDS

    def built(number: int) -> None:
        nonlocal due
        if time.monotonic() >= due:
            due = time.monotonic() + _SAY_SECONDS
            say(f"built {number:,} of {n_runs:,} runs")

    return built


def _execute(
    prepared: Prepared, manifest: Manifest, inputs: Inputs, store: Store, observe: Callable[[Progress], None],
    say: Callable[[str], None],
) -> None:  # fmt: skip
    names = prepared.protocols
    experiment = Experiment(
        prepared.runs, inputs, manifest.commit_every, manifest.batch_runs, manifest.rounds_per_job, manifest.form
    )  # fmt: skip
    told = by_protocol({name: f"{form}, {reason}" for name, (form, reason) in experiment.forms.items()}, is_named=True)
    say(f"{'; '.join(told)}; at most {prepared.horizon:,} rounds on {manifest.engine}")

    def start(batch: Batch) -> None:
        if batch.n_batches > 1:
            runs = f"runs {batch.first_run:,} to {batch.last_run:,}{f' of {batch.protocol}' if len(names) > 1 else ''}"
            say(f"batch {batch.number + 1:,} of {batch.n_batches:,}: {runs}, at most {batch.horizon:,} rounds")

    with named_damage(store.root):
        execute_and_survive(experiment, store.session, store.reopened, observe, start, say)
    if manifest.schema is not None:
        register(manifest.schema, store, say)


@checked
def open_store(path: str | Root, spark: SparkSession | None = None, engine: AskedEngine | None = None) -> Result:
    """Opens an existing store.

    Args:
        path: The folder or address of the store, or ``catalog.schema``. Spark looks up the location of a schema, even
            if ``engine`` is ``local``.
        spark: An existing session. None starts the engine.
        engine: ``auto``, ``spark``, ``connect`` or ``local``. None stands for ``local``, which starts without a JVM.

    Raises:
        StoreError: The location is not a store.
        EngineError: The engine cannot be started.
    """
    chosen = asked_engine(engine, "local") if engine else "local"
    root = located(path, spark, None if chosen == "auto" else chosen)
    check_store(root)
    with ExitStack() as closing, named_damage(root):
        session = closing.enter_context(open_session(chosen, spark, scheme=scheme_of(root)))
        result = Result(root, session)
        closing.pop_all()
    return result
