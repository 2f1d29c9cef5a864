"""Roundtable from Python: run a scenario, resume one, open a store, ask it in SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

from pyspark.sql import SparkSession

from pipelines.engines.session import Engine, Session, open_session
from pipelines.errors import plural
from pipelines.experiment.batches import Batch, fitting_inputs
from pipelines.experiment.inputs import Inputs
from pipelines.experiment.manifest import Manifest, manifest_files, versions
from pipelines.experiment.plan import build
from pipelines.experiment.prepared import Prepared, prepare
from pipelines.files import remembered
from pipelines.result import Result
from pipelines.rounds.execute import Experiment, execute
from pipelines.rounds.progress import Progress
from pipelines.store.folder import LATEST, check_empty, check_store, link_latest, locked, new_store, resume_hint
from pipelines.store.ledger import Commit, Ledger
from pipelines.store.store import Store


def run(
    path: str | Path, spark: SparkSession | None = None, store: str | Path | None = None,
    engine: Engine | None = None, overrides: Sequence[str] = (), commit_every: int | None = None,
    batch_runs: int | None = None, rounds_per_job: int | None = None,
    observe: Callable[[Progress], None] = lambda _: None,
) -> Result:  # fmt: skip
    """Runs a scenario and audits it.

    Args:
        path: The scenario file.
        spark: A session to use as it is; None starts the engine.
        store: Folder for the store, new or empty; None for ``runs/<scenario>/<UTC time>``.
        engine: ``spark``, ``connect`` or ``sail``; None for the scenario's.
        overrides: Values set from outside, each ``path=value``.
        commit_every: Rounds between commits; None for 20, or 200 where several rounds are one job.
        batch_runs: Runs that go through the rounds together, a batch after the other; None for as many as fit.
        rounds_per_job: Rounds of a job, 1 for round by round; None for those up to a commit where the protocol is a
            node program and its runs are small enough to be played by one core each. The rows are the same.
        observe: Is told of each round.

    Returns:
        The store, open.

    Raises:
        ScenarioError: The scenario or a file that it names is wrong; nothing was written.
        StoreError: The folder is not empty, or cannot be written.
        EngineError: The engine cannot be started.
    """
    prepared = prepare(Path(path), overrides)
    root = None if store is None else Path(store)
    with ExitStack() as closing:
        result = closing.enter_context(
            run_prepared(
                prepared,
                spark=spark,
                store=root,
                engine=engine,
                commit_every=commit_every,
                batch_runs=batch_runs,
                rounds_per_job=rounds_per_job,
                observe=observe,
            )
        )
        result.audit()
        closing.pop_all()
    return result


def run_prepared(
    prepared: Prepared, *, spark: SparkSession | None = None, store: Path | None = None, engine: Engine | None = None,
    commit_every: int | None = None, batch_runs: int | None = None, rounds_per_job: int | None = None,
    observe: Callable[[Progress], None] = lambda _: None, say: Callable[[str], None] = lambda _: None,
) -> Result:  # fmt: skip
    """Runs a scenario that was read already, without an audit.

    Args:
        prepared: The scenario.
        spark: As in `run`, like the others that are not named here.
        store: As in `run`.
        engine: As in `run`.
        commit_every: As in `run`.
        batch_runs: As in `run`.
        rounds_per_job: As in `run`.
        observe: As in `run`.
        say: Told, in one line each, what happens before the rounds.
    """
    if store is not None:
        check_empty(store)
    files: dict[str, Path] = {}
    inputs = _build(prepared, files, say)
    chosen: Engine = engine or prepared.scenario.engine
    with ExitStack() as closing:
        session = closing.enter_context(open_session(chosen, spark, say))
        with new_store(store, prepared.scenario.name) as root:
            manifest = Manifest(
                scenario=str(prepared.loaded.path.absolute()),
                text=prepared.loaded.text,
                overrides=prepared.loaded.overrides,
                engine=session.engine,
                commit_every=commit_every,
                rounds_per_job=rounds_per_job,
                batch_runs=batch_runs or fitting_inputs(inputs, len(prepared.runs)),
                horizon=prepared.horizon,
                latest=str(root.resolve().parent / LATEST) if store is None else None,
                versions=versions(prepared.protocol),
                files=manifest_files(files),
            )
            manifest.write(root)
            _execute(prepared, manifest, inputs, Store(root.absolute(), session), observe, say)
        result = _closed(root, manifest, session)
        closing.pop_all()
    return result


def resume(
    path: str | Path, spark: SparkSession | None = None, observe: Callable[[Progress], None] = lambda _: None
) -> Result:
    """Resumes a run that was interrupted, after its last complete round, and audits it.

    It ends with the rows of a run without an interruption. A store that is finished and audited is only opened.

    Args:
        path: Folder of the store.
        spark: A session to use as it is, of the engine that the run began with; None starts that engine.
        observe: Is told of each round.

    Returns:
        The store, open.

    Raises:
        StoreError: There is no such store, another program writes it, or it cannot be resumed: the program, the
            scenario or a file that it names is another one now.
        EngineError: The engine cannot be started.
    """
    with ExitStack() as closing:
        result = closing.enter_context(resume_store(Path(path), spark=spark, observe=observe))
        if not result.is_audited:
            result.audit()
        closing.pop_all()
    return result


def resume_store(
    root: Path, *, spark: SparkSession | None = None, observe: Callable[[Progress], None] = lambda _: None,
    say: Callable[[str], None] = lambda _: None,
) -> Result:  # fmt: skip
    """Resumes a run that was interrupted, without an audit; `Result.is_audited` says whether one is due.

    Args:
        root: Folder of the store.
        spark: As in `resume`, like the others that are not named here.
        observe: As in `resume`.
        say: Told, in one line each, what happens before the rounds.
    """
    manifest = Manifest.read(root)
    with ExitStack() as closing:
        with locked(root):
            session = closing.enter_context(open_session(manifest.engine, spark, say))
            store = Store(root.absolute(), session)
            if not (store.is_committed() and Ledger.read(store).is_finished):
                manifest.check_same(root, session.engine)
                _resume(root, manifest, store, observe, say)
        result = _closed(root, manifest, session)
        closing.pop_all()
    return result


def _resume(
    root: Path, manifest: Manifest, store: Store, observe: Callable[[Progress], None], say: Callable[[str], None]
) -> None:
    prepared = manifest.prepared()
    inputs = _build(prepared, manifest.found(), say)
    say(f"resuming {_done(Ledger.read(store).last) if store.is_committed() else 'from the beginning'}")
    try:
        _execute(prepared, manifest, inputs, store, observe, say)
    except BaseException as error:
        error.add_note(resume_hint(root))
        raise


def _done(last: Commit) -> str:
    ended = f"run {last.last_run:,}" if last.is_final else f"round {last.last_round:,}"
    return f"after {ended}"


def _build(prepared: Prepared, files: dict[str, Path], say: Callable[[str], None]) -> Inputs:
    say(f"building {plural(len(prepared.runs), 'run')}")
    with remembered(files):
        return build(prepared)


def _execute(
    prepared: Prepared, manifest: Manifest, inputs: Inputs, store: Store, observe: Callable[[Progress], None],
    say: Callable[[str], None],
) -> None:  # fmt: skip
    say(f"protocol {prepared.protocol} on {manifest.engine}, for at most {prepared.horizon:,} rounds")

    def start(batch: Batch) -> None:
        if batch.n_batches > 1:
            runs = f"runs {batch.first_run:,} to {batch.last_run:,}"
            say(f"batch {batch.number + 1:,} of {batch.n_batches:,}: {runs}, at most {batch.horizon:,} rounds")

    experiment = Experiment(
        prepared.runs, inputs, manifest.commit_every, manifest.batch_runs, manifest.rounds_per_job
    )  # fmt: skip
    execute(experiment, store.session, store, observe, start)


def _closed(root: Path, manifest: Manifest, session: Session) -> Result:
    """Opens a store whose runs are finished."""
    if manifest.latest == str(root.resolve().parent / LATEST):
        link_latest(root.resolve())
    return Result(root, session)


def open_store(path: str | Path, spark: SparkSession | None = None, engine: Engine | None = None) -> Result:
    """Opens a store that exists.

    Args:
        path: Its folder.
        spark: A session to use as it is; None starts the engine.
        engine: ``spark``, ``connect`` or ``sail``; None for the fastest that is installed.

    Raises:
        StoreError: The folder is no store.
        EngineError: The engine cannot be started.
    """
    root = Path(path)
    check_store(root)
    with ExitStack() as closing:
        session = closing.enter_context(open_session(engine or fastest_engine(), spark))
        result = Result(root, session)
        closing.pop_all()
    return result


def fastest_engine() -> Engine:
    """Returns the engine that answers queries fastest among those that are installed."""
    return "sail" if find_spec("pysail") is not None else "spark"
