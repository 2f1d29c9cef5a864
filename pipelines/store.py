"""The store: a folder of Delta tables, written with append and overwrite only, read by name and version.

Only one program writes a store (`folder.locked`), so a write makes the next version of its table (Sail makes none of no
rows): a later one shows that somebody else writes, e.g. an engine that outlives its program.
"""

from __future__ import annotations

import json
import shutil
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, types as T
from pyspark.sql.pandas.types import to_arrow_schema

from pipelines.at_once import at_once
from pipelines.engine.inline import without_rows
from pipelines.errors import StoreError
from pipelines.folder import to_go_on
from pipelines.session import Session
from pipelines.tables import ROUND_COMMIT, Table

_PROPERTIES = {
    # Sail cannot read a version that lies before a log checkpoint, and Delta refuses versions past the retention.
    "delta.checkpointInterval": "1000",
    "delta.deletedFileRetentionDuration": "interval 36500 days",
    "delta.logRetentionDuration": "interval 36500 days",
}
_STATE_PROPERTIES = {"delta.dataSkippingNumIndexedCols": "0"}
_LOG = "_delta_log"


class Store:
    """The Delta tables of one experiment."""

    def __init__(self, root: Path, session: Session) -> None:
        """Points at a store.

        Args:
            root: Folder of the store; each table is a folder below it.
            session: The engine that reads and writes.
        """
        self.root = root
        self.session = session
        self._versions: dict[str, int] = {}

    def create(self, tables: Iterable[Table], *, is_state: bool = False) -> None:
        """Creates empty tables with their comments; what was there under their names goes."""
        for table in tables:
            self._create(table, is_state)

    def _create(self, table: Table, is_state: bool) -> None:
        self._versions.pop(table.name, None)
        if self.path(table.name).exists():
            shutil.rmtree(self.path(table.name))
        self._commit(table.name, 0, _creation(table, is_state))

    def load(self, name: str, rows: pa.Table) -> None:
        """Adds rows that the program holds to a table, in one commit; an engine takes seconds for its first one."""
        file, version = f"part-{uuid.uuid4()}.parquet", self.version(name) + 1
        wanted = to_arrow_schema(self._created_columns(name))
        if len(rows):
            pq.write_table(rows.select(wanted.names).cast(wanted), self.path(name) / file)
            self._commit(name, version, _addition(file, (self.path(name) / file).stat().st_size, len(rows)))

    def _commit(self, name: str, version: int, actions: Sequence[Mapping[str, object]]) -> None:
        """Writes a commit of a table's log, all of it or nothing."""
        place = _commit_file(self.path(name), version)
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f".{place.name}.tmp")
        draft.write_text("".join(f"{json.dumps(action)}\n" for action in actions), encoding="utf-8")
        draft.rename(place)

    def path(self, name: str) -> Path:
        """Gives the folder of a table."""
        return self.root / name

    def append(self, name: str, rows: DataFrame) -> None:
        """Adds rows to a table, in one commit."""
        self._write(name, self._one_file(rows), "append")

    def overwrite(self, name: str, rows: DataFrame) -> None:
        """Replaces the rows of a table, in one commit; the old version stays readable."""
        self._write(name, self._one_file(rows), "overwrite")

    def rewind(self, versions: Mapping[str, int]) -> None:
        """Gives tables the rows that they had at earlier versions, in a new commit where there were later ones."""

        def restore(name: str) -> None:
            if self.version(name) > versions[name]:
                self._write(name, self.read(name, versions[name]), "overwrite")

        at_once(partial(restore, name) for name in versions)

    def _write(self, name: str, rows: DataFrame, mode: Literal["append", "overwrite"]) -> None:
        before = self._versions[name] if name in self._versions else self.version(name)
        rows.write.format("delta").mode(mode).save(str(self.path(name)))
        if self.version(name) > before + 1:
            raise StoreError(
                f"another program wrote table {name!r} of the store {str(self.root)!r} at the same time; end it; "
                f"{to_go_on(self.root)}"
            )

    def _one_file(self, rows: DataFrame) -> DataFrame:
        return rows if self.session.engine == "sail" else rows.coalesce(1)

    def read(self, name: str, version: int | None = None) -> DataFrame:
        """Reads a table.

        Args:
            name: The table.
            version: Delta version; None for the newest.

        Raises:
            StoreError: The store has no such table.
        """
        if not (self.path(name) / _LOG).is_dir():
            raise StoreError(f"{self.root} has no table {name!r}; it has: {', '.join(self.tables()) or 'none'}")
        if (self.version(name) if version is None else version) == 0:
            return without_rows(self.session.spark, self._created_columns(name))
        reader = self.session.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(str(self.path(name)))

    def _created_columns(self, name: str) -> T.StructType:
        """Gives the columns of a table as `create` noted them; nothing is asked of the engine for an empty table."""
        actions = map(json.loads, _commit_file(self.path(name), 0).read_text(encoding="utf-8").splitlines())
        schema = next(action["metaData"]["schemaString"] for action in actions if "metaData" in action)
        return T.StructType(
            [T.StructField(field.name, field.dataType) for field in T.StructType.fromJson(json.loads(schema))]
        )

    def n_bytes(self) -> int:
        """Gives how much room the tables take."""
        return sum(file.stat().st_size for file in self.root.glob("*/*.parquet"))

    def version(self, name: str) -> int:
        """Gives the newest version of a table; -1 where there is no such table."""
        log = self.path(name) / _LOG
        newest = self._versions.get(name)
        if newest is None:
            newest = max((int(commit.stem) for commit in log.glob("*.json") if commit.stem.isdigit()), default=-1)
        while _commit_file(self.path(name), newest + 1).exists():
            newest += 1
        self._versions[name] = newest
        return newest

    def versions(self) -> dict[str, int]:
        """Gives the newest version of every table but the ledger."""
        return {name: self.version(name) for name in self.tables() if name != ROUND_COMMIT.name}

    def is_committed(self) -> bool:
        """Tells whether the ledger has a row: a round that is complete."""
        return self.version(ROUND_COMMIT.name) > 0

    def tables(self) -> list[str]:
        """Gives the names of the tables that are there."""
        return sorted(path.parent.name for path in self.root.glob(f"*/{_LOG}"))


def _commit_file(table: Path, version: int) -> Path:
    return table / _LOG / f"{version:020}.json"


def _creation(table: Table, is_state: bool) -> list[dict[str, object]]:
    """Gives what ``CREATE TABLE`` writes; with two dozen tables, an engine takes seconds for it."""
    now = _now()
    schema = T.StructType([T.StructField(field.name, field.dataType, True, field.metadata) for field in table.schema])
    metadata = {
        "id": str(uuid.uuid4()),
        "description": f"one row per {table.grain}; key {', '.join(table.key)}",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema.json(),
        "partitionColumns": [],
        "createdTime": now,
        "configuration": _PROPERTIES | (_STATE_PROPERTIES if is_state else {}),
    }
    return [
        {"commitInfo": {"timestamp": now, "operation": "CREATE TABLE", "operationParameters": {}}},
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata},
    ]


def _addition(file: str, n_bytes: int, n_rows: int) -> list[dict[str, object]]:
    """Gives what an append of one file writes."""
    now = _now()
    added = {
        "path": file,
        "partitionValues": {},
        "size": n_bytes,
        "modificationTime": now,
        "dataChange": True,
        "stats": json.dumps({"numRecords": n_rows}),
    }
    how = {"mode": "Append", "partitionBy": "[]"}
    return [{"commitInfo": {"timestamp": now, "operation": "WRITE", "operationParameters": how}}, {"add": added}]


def _now() -> int:
    return time.time_ns() // 1_000_000
