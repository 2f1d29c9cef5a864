"""Helpers for tests of protocols: execute runs, read tables as tuples, and plant violations in copies of a store."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from pipelines.audits.run import AuditReport, audit_store, found_by
from pipelines.contract.forms import AskedForm
from pipelines.engines.session import Session
from pipelines.experiment.build import build_inputs
from pipelines.protocols import protocol_named
from pipelines.rounds.blocks import players
from pipelines.rounds.execute import Experiment, execute
from pipelines.scenario.load import RunConfig
from pipelines.scenario.model import Scenario
from pipelines.sql.query import StoreReader, suited_to
from pipelines.sql.snapshot import StoredRuns, StoreSnapshot
from pipelines.store.ledger import Ledger
from pipelines.store.store import Store

Change = Callable[[DataFrame], DataFrame]
_NUMBER = itertools.count()


def scenario(**parts: Any) -> dict[str, Any]:  # noqa: ANN401 - as YAML has them
    """Returns a scenario named ``test`` with a horizon of 5,000 rounds; ``parts`` adds or replaces keys."""
    return {"name": "test", "time": {"rounds": 5000}, **parts}


def run_configs(scenarios: Sequence[Mapping[str, Any]], seeds: Sequence[int] | None = None) -> list[RunConfig]:
    """Returns one run for each scenario; without ``seeds``, the seed of a run is the index of its scenario."""
    chosen = seeds if seeds is not None else range(len(scenarios))
    return [
        RunConfig(run_id=index, seed=seed, scenario=Scenario.model_validate(parts), parameters={})
        for index, (parts, seed) in enumerate(zip(scenarios, chosen, strict=True))
    ]


def run_all(
    runs: Sequence[RunConfig], session: Session, root: Path, commit_every: int = 200, rounds_per_job: int | None = None,
    form: AskedForm = "auto",
) -> Store:  # fmt: skip
    """Executes ``runs``, writes their history into a new store below ``root``, and returns the store.

    ``commit_every`` is the number of rounds between commits. Each commit writes a version of every changed table.
    """
    session.activate()
    folder = root / f"store{next(_NUMBER)}"
    folder.mkdir(parents=True)
    store = Store(folder, session)
    with players(runs, session.engine, form):
        inputs = build_inputs(runs, None)
    experiment = Experiment(runs, inputs, commit_every, rounds_per_job=rounds_per_job, form=form)
    execute(experiment, session, store, lambda progress: None)
    return store


def audited(store: Store, protocol: str = "delta") -> AuditReport:
    """Runs the audits of ``protocol`` on a store and returns the report."""
    with _reader(store) as reader:
        return audit_store(reader, protocol_named(protocol))


@contextmanager
def _reader(store: Store) -> Iterator[StoreReader]:
    reader = StoreReader(store.session, store.root)
    with suited_to(reader):
        yield reader


def broken(report: AuditReport) -> dict[str, object]:
    """Returns the guarantees that are broken or whose audit failed.

    Maps the name of a broken guarantee to the violations in the report, and the name of a failed audit to its error.
    """
    return {found.name: found.error or found.shown for found in report.findings if found.error or found.n_violations}


def rows(store: Store, table: str, *columns: str) -> list[tuple[Any, ...]]:
    """Returns the sorted rows of a table as tuples of ``columns``; without ``columns``, of all columns."""
    frame = store.read(table)
    found = (frame.select(*columns) if columns else frame).toArrow().to_pylist()
    return sorted((tuple(_plain(value) for value in row.values()) for row in found), key=repr)


def _plain(value: Any) -> Any:  # noqa: ANN401 - any value of a column
    return tuple(map(_plain, value)) if isinstance(value, list) else value


def planted(clean: Store, root: Path, **changes: Change) -> Store:
    """Copies store ``clean`` into a folder below ``root``, applies ``changes`` to its tables, and returns the copy.

    ``changes`` maps names of tables to changes. A change of a state table receives the rows at the end of all runs.
    """
    folder = root / f"planted{next(_NUMBER)}"
    shutil.copytree(str(clean.root), folder)
    store = Store(folder, clean.session)
    ledger = Ledger.read(clean)
    at_the_end = StoreSnapshot(clean, StoredRuns(clean), ledger, None)
    written = {}
    for table, change in changes.items():
        store.overwrite(table, change(at_the_end.frame(table)))
        written[table] = store.version(table)
    last_rounds = {commit.first_run: commit.last_round for commit in ledger.state_commits(None)}
    commits = [row.asDict() for row in clean.read("round_commit").collect()]
    for row in commits:
        if row["last_round"] == last_rounds[row["first_run"]]:
            row["versions"] = json.dumps(json.loads(row["versions"]) | written)
    columns = clean.read("round_commit").schema
    store.overwrite("round_commit", store.session.spark.createDataFrame(commits, columns))
    return store


def replaced(where: str, **values: str) -> Change:
    """Returns a change that sets columns to SQL expressions in the rows matching ``where``.

    The change raises `ValueError` if no row matches.
    """

    def change(frame: DataFrame) -> DataFrame:
        _some(frame, where)
        columns = [
            f"case when {where} then cast({values[name]} as {kind}) else {name} end as {name}"
            if name in values
            else name
            for name, kind in frame.dtypes
        ]
        return frame.selectExpr(*columns)

    return change


def removed(where: str) -> Change:
    """Returns a change that removes the rows matching ``where``; the change raises `ValueError` if no row matches."""

    def change(frame: DataFrame) -> DataFrame:
        _some(frame, where)
        return frame.where(f"not ({where})")

    return change


def copied(where: str, **values: str) -> Change:
    """Returns a change that copies the rows matching ``where``, sets columns of the copies, and appends the copies.

    ``values`` are SQL expressions by column. The change raises `ValueError` if no row matches.
    """

    def change(frame: DataFrame) -> DataFrame:
        _some(frame, where)
        columns = [f"cast({values.get(name, name)} as {kind}) as {name}" for name, kind in frame.dtypes]
        return frame.unionByName(frame.where(where).selectExpr(*columns))

    return change


def added(**values: Any) -> Change:  # noqa: ANN401 - any value of a column
    """Returns a change that appends a row; columns without a value are null."""

    def change(frame: DataFrame) -> DataFrame:
        row = {name: values.get(name) for name in frame.columns}
        return frame.unionByName(frame.sparkSession.createDataFrame([row], frame.schema))

    return change


def _some(frame: DataFrame, where: str) -> None:
    if not frame.where(where).limit(1).count():
        raise ValueError(f"no row to change: {where}")


def found(store: Store, name: str, protocol: str = "delta") -> list[tuple[Any, ...]]:
    """Returns the violations that the audit of guarantee ``name`` finds in a store.

    Sorted tuples of run id, node name, source name, ``source_seq`` and detail.
    """
    with _reader(store) as reader:
        rows = found_by(name, reader, protocol_named(protocol))
    names = {(row.run_id, row.node_id): row.name for row in store.read("node").collect()}
    told = [
        (row.run_id, names[row.run_id, row.node_id], names.get((row.run_id, row.source)), row.source_seq, row.detail)
        for row in rows
    ]
    return sorted(told, key=lambda row: [(value is not None, value) for value in row])
