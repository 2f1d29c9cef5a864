"""Stores with a violation planted into them, and what the audits say of them."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from pipelines.audits.run import audits_of
from pipelines.contract.audit import Audit, Evidence
from pipelines.engines.materialise.choose import materialiser_for
from pipelines.engines.session import Session
from pipelines.protocols import protocol_module
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store

Change = Callable[[DataFrame], DataFrame]
_NUMBER = itertools.count()


def planted(clean: Store, root: Path, **changes: Change) -> Store:
    """Gives a copy of a store in which tables are changed; the ledger points to what was written."""
    folder = root / f"planted{next(_NUMBER)}"
    shutil.copytree(clean.root, folder)
    store = Store(folder, clean.session)
    written = {}
    for table, change in changes.items():
        store.overwrite(table, change(clean.read(table)))
        written[table] = store.version(table)
    ledger = [row.asDict() for row in clean.read("round_commit").collect()]
    newest = max(ledger, key=lambda row: (row["last_round"], row["is_final"]))
    newest["versions"] = json.dumps(json.loads(newest["versions"]) | written)
    columns = clean.read("round_commit").schema
    store.overwrite("round_commit", store.session.spark.createDataFrame(ledger, columns))
    return store


def replaced(where: str, **values: str) -> Change:
    """Changes columns (SQL) of the rows that a condition names; there must be some."""

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
    """Removes the rows that a condition names; there must be some."""

    def change(frame: DataFrame) -> DataFrame:
        _some(frame, where)
        return frame.where(f"not ({where})")

    return change


def copied(where: str, **values: str) -> Change:
    """Adds a copy of the rows that a condition names (there must be some), with columns changed."""

    def change(frame: DataFrame) -> DataFrame:
        _some(frame, where)
        columns = [f"cast({values.get(name, name)} as {kind}) as {name}" for name, kind in frame.dtypes]
        return frame.unionByName(frame.where(where).selectExpr(*columns))

    return change


def added(**values: Any) -> Change:
    """Adds a row; columns that are not given are null."""

    def change(frame: DataFrame) -> DataFrame:
        row = {name: values.get(name) for name in frame.columns}
        return frame.unionByName(frame.sparkSession.createDataFrame([row], frame.schema))

    return change


def _some(frame: DataFrame, where: str) -> None:
    assert frame.where(where).limit(1).count() == 1, f"no row to change: {where}"


def found(store: Store, name: str, protocol: str = "delta") -> list[tuple[Any, ...]]:
    """Gives what one audit finds, sorted: run, node and source by name, source_seq, detail."""
    rows = _run(next(audit for audit in audits_of(protocol_module(protocol)) if audit.name == name), store)
    names = {(row.run_id, row.node_id): row.name for row in store.read("node").collect()}
    told = [
        (row.run_id, names[row.run_id, row.node_id], names.get((row.run_id, row.source)), row.source_seq, row.detail)
        for row in rows
    ]
    return sorted(told, key=lambda row: [(value is not None, value) for value in row])


def _run(audit: Audit, store: Store) -> list[Any]:
    session: Session = store.session
    reader = StoreReader(session, store.root)
    parameters = [json.loads(row.parameters) for row in reader.table("run").select("parameters").distinct().collect()]
    evidence = Evidence(reader, parameters, materialiser_for(session))
    rows = audit.find(evidence).collect()
    evidence.release()
    return rows
