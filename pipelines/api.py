"""Roundtable from Python: run a scenario, go on with one, open a store, ask it in SQL."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.audits.run import AuditReport, Verdict, audit_store, record
from pipelines.batches import Batch, fitting_inputs
from pipelines.comparison import compare_node
from pipelines.data import remembered
from pipelines.errors import StoreError
from pipelines.execute import Experiment, execute, protocol_module
from pipelines.folder import LATEST, check_empty, check_store, link_latest, locked, new_store, to_go_on
from pipelines.inputs import Inputs
from pipelines.ledger import Commit, Ledger
from pipelines.plan import Prepared, build, counted, prepare
from pipelines.query import StoreReader
from pipelines.record import Record, recorded_files, versions
from pipelines.rounds import Progress
from pipelines.session import Engine, Session, open_session
from pipelines.store import Store
from pipelines.why import Story, story

COMMIT_EVERY = 20


@dataclass(frozen=True)
class RunRow:
    """How one run ended: a row of table ``run``.

    Attributes:
        run_id: Its id in all tables.
        seed: What its random draws started from.
        parameters: Settings of the protocol and values of the grid, path to value.
        verdict: ``valid``, ``invalid`` or ``unknown``.
        within_bound: Whether the faults stayed within what the protocol promises to bear; None: not audited.
        rounds: The last round in which anything happened; None: not audited.
    """

    run_id: int
    seed: int
    parameters: Mapping[str, Any]
    verdict: Verdict
    within_bound: bool | None
    rounds: int | None


class Result:
    """A store that is open. A context manager: leaving it stops the engine, unless it is the caller's.

    Attributes:
        store: Folder of the store.
        session: The engine that answers.
        reader: The store's tables and views.
        runs: How the runs ended, by id.
    """

    def __init__(self, store: Path, session: Session) -> None:
        """Reads how the runs ended.

        Args:
            store: Folder of the store.
            session: The engine that answers; closed with the result.
        """
        self.store = store
        self.session = session
        self.reader = StoreReader(session, store.absolute())
        self.runs = _runs(self.reader)

    @property
    def verdict(self) -> Verdict:
        """``invalid`` if a guarantee is broken in any run, else ``unknown`` if any is not decided, else ``valid``."""
        found = {run.verdict for run in self.runs}
        if "invalid" in found:
            return "invalid"
        return "valid" if found == {"valid"} else "unknown"

    @property
    def is_audited(self) -> bool:
        """Whether the guarantees of all runs were checked."""
        return all(run.rounds is not None for run in self.runs)

    @property
    def violations(self) -> DataFrame:
        """Table ``violation``: one row a broken guarantee."""
        return self.table("violation")

    def table(self, name: str, as_of_round: int | None = None) -> DataFrame:
        """Gives a table of the store, or a view.

        Args:
            name: Its bare name.
            as_of_round: Only what was so at the end of this round; None for all.

        Raises:
            QueryError: There is no such table.
        """
        return self.reader.table(name, as_of_round)

    def sql(self, text: str, as_of_round: int | None = None) -> DataFrame:
        """Answers a SQL query over the tables and the views, by their bare names.

        Args:
            text: One SELECT.
            as_of_round: Only what was so at the end of this round; None for all.

        Raises:
            QueryError: The query cannot be answered.
        """
        return self.reader.sql(text, as_of_round)

    def compare_node(self, run_id: int, node: str) -> DataFrame:
        """Compares the state tables of a node before each of its crashes, after the recovery, and at the end.

        Args:
            run_id: The run.
            node: The node's name.

        Returns:
            One row per crash and state table: how many rows of the node it held, at the commits nearest to these
            moments; columns `comparison.COMPARED`. Rounds and durations of crashes are in view ``node_recovery``.

        Raises:
            QueryError: There is no such run, or no such node in it.
        """
        rows = compare_node(self.reader, run_id, node)
        return self.session.spark.createDataFrame(rows, from_arrow_schema(rows.schema))

    def why(self, run: int, subscriber: str, source: str, seq: int) -> Story:
        """Tells the story of one publication for one subscriber: each hop, and what ended it; ``print`` shows it.

        Args:
            run: Id of the run.
            subscriber: Name of the node that got it, or should have.
            source: Name of the publisher.
            seq: Number of the publication, ``source_seq`` in the tables.

        Raises:
            QueryError: There is no such run, node or publication.
        """
        return story(self.reader, run, subscriber, source, seq)

    def audit(self) -> AuditReport:
        """Checks every guarantee again, from the history alone, and writes the verdicts into the store.

        Returns:
            What each audit found; `runs` and `verdict` follow it.

        Raises:
            StoreError: The runs are not finished, or another program writes the store.
        """
        if not self.reader.is_finished():
            raise StoreError(
                f"the runs in {str(self.store)!r} are not finished: the last round is {self.reader.last_round()}, and "
                f"more were to come; {to_go_on(self.store)}"
            )
        with locked(self.store):
            return self._audit()

    def _audit(self) -> AuditReport:
        [row] = self.reader.sql("select distinct protocol from run").collect()
        report = audit_store(self.reader, self.session, protocol_module(row.protocol))
        record(report, Store(self.store.absolute(), self.session))
        report.release()
        self.runs = _runs(self.reader)
        return report

    def close(self) -> None:
        """Stops the engine, unless it is the caller's."""
        self.session.close()

    def __enter__(self) -> Self:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes it."""
        self.close()


def run(
    path: str | Path, spark: SparkSession | None = None, store: str | Path | None = None,
    engine: Engine | None = None, overrides: Sequence[str] = (), commit_every: int = COMMIT_EVERY,
    batch_runs: int | None = None, observe: Callable[[Progress], None] = lambda _: None,
) -> Result:  # fmt: skip
    """Runs a scenario and audits it.

    Args:
        path: The scenario file.
        spark: A session to use as it is; None starts the engine.
        store: Folder for the store, new or empty; None for ``runs/<scenario>/<UTC time>``.
        engine: ``spark``, ``connect`` or ``sail``; None for the scenario's.
        overrides: Values set from outside, each ``path=value``.
        commit_every: Rounds between commits.
        batch_runs: Runs that go through the rounds together, a batch after the other; None for as many as fit.
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
                observe=observe,
            )
        )
        result.audit()
        closing.pop_all()
    return result


def run_prepared(
    prepared: Prepared, *, spark: SparkSession | None = None, store: Path | None = None, engine: Engine | None = None,
    commit_every: int = COMMIT_EVERY, batch_runs: int | None = None,
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
        observe: As in `run`.
        say: Told, in one line each, what goes on before the rounds.
    """
    if store is not None:
        check_empty(store)
    files: dict[str, Path] = {}
    inputs = _build(prepared, files, say)
    chosen: Engine = engine or prepared.scenario.engine
    with ExitStack() as closing:
        session = closing.enter_context(open_session(chosen, spark, say))
        with new_store(store, prepared.scenario.name) as root:
            record = Record(
                scenario=str(prepared.loaded.path.absolute()),
                text=prepared.loaded.text,
                overrides=prepared.loaded.overrides,
                engine=session.engine,
                commit_every=commit_every,
                batch_runs=batch_runs or fitting_inputs(inputs, len(prepared.runs)),
                horizon=prepared.horizon,
                latest=str(root.resolve().parent / LATEST) if store is None else None,
                versions=versions(),
                files=recorded_files(files),
            )
            record.write(root)
            _execute(prepared, record, inputs, Store(root.absolute(), session), observe, say)
        result = _closed(root, record, session)
        closing.pop_all()
    return result


def resume(
    path: str | Path, spark: SparkSession | None = None, observe: Callable[[Progress], None] = lambda _: None
) -> Result:
    """Goes on with a run that was interrupted, after its last complete round, and audits it.

    It ends with the rows of a run without an interruption. A store that is finished and audited is only opened.

    Args:
        path: Folder of the store.
        spark: A session to use as it is, of the engine that the run began with; None starts that engine.
        observe: Is told of each round.

    Returns:
        The store, open.

    Raises:
        StoreError: There is no such store, another program writes it, or it cannot be gone on with: the program, the
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
    """Goes on with a run that was interrupted, without an audit; `Result.is_audited` tells whether one is due.

    Args:
        root: Folder of the store.
        spark: As in `resume`, like the others that are not named here.
        observe: As in `resume`.
        say: Told, in one line each, what goes on before the rounds.
    """
    record = Record.read(root)
    with ExitStack() as closing:
        with locked(root):
            session = closing.enter_context(open_session(record.engine, spark, say))
            store = Store(root.absolute(), session)
            if not (store.is_committed() and Ledger.read(store).is_finished):
                record.check_same(root, session.engine)
                _go_on(root, record, store, observe, say)
        result = _closed(root, record, session)
        closing.pop_all()
    return result


def _go_on(
    root: Path, record: Record, store: Store, observe: Callable[[Progress], None], say: Callable[[str], None]
) -> None:
    prepared = record.prepared()
    inputs = _build(prepared, record.found(), say)
    say(f"going on {_done(Ledger.read(store).last) if store.is_committed() else 'from the beginning'}")
    try:
        _execute(prepared, record, inputs, store, observe, say)
    except BaseException as error:
        error.add_note(to_go_on(root))
        raise


def _done(last: Commit) -> str:
    ended = f"run {last.last_run:,}" if last.is_final else f"round {last.last_round:,}"
    return f"after {ended}"


def _build(prepared: Prepared, files: dict[str, Path], say: Callable[[str], None]) -> Inputs:
    say(f"building {counted(len(prepared.runs), 'run')}")
    with remembered(files):
        return build(prepared)


def _execute(
    prepared: Prepared, record: Record, inputs: Inputs, store: Store, observe: Callable[[Progress], None],
    say: Callable[[str], None],
) -> None:  # fmt: skip
    say(f"protocol {prepared.protocol} on {record.engine}, for at most {prepared.horizon:,} rounds")

    def begin(batch: Batch) -> None:
        if batch.n_batches > 1:
            runs = f"runs {batch.first_run:,} to {batch.last_run:,}"
            say(f"batch {batch.number + 1:,} of {batch.n_batches:,}: {runs}, at most {batch.horizon:,} rounds")

    experiment = Experiment(prepared.runs, inputs, record.commit_every, record.batch_runs)
    execute(experiment, store.session, store, observe, begin)


def _closed(root: Path, record: Record, session: Session) -> Result:
    """Opens a store whose runs are finished."""
    if record.latest == str(root.resolve().parent / LATEST):
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


def _runs(reader: StoreReader) -> list[RunRow]:
    columns = "run_id", "seed", "parameters", "verdict", "within_bound", "rounds"
    rows = reader.table("run").select(*columns).orderBy("run_id").collect()
    return [
        RunRow(row.run_id, row.seed, json.loads(row.parameters), row.verdict or "unknown", row.within_bound, row.rounds)
        for row in rows
    ]
