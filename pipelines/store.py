"""The store: a folder of Delta tables, written with append and overwrite only, read by name and version."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from pyspark.sql import DataFrame, types as T

from pipelines.errors import StoreError
from pipelines.session import Session
from pipelines.tables import Table

_PROPERTIES = {
    # Sail cannot read a version that lies before a log checkpoint, and Delta refuses versions past the retention.
    "delta.checkpointInterval": "1000",
    "delta.deletedFileRetentionDuration": "interval 36500 days",
    "delta.logRetentionDuration": "interval 36500 days",
}
_STATE_PROPERTIES = {"delta.dataSkippingNumIndexedCols": "0"}


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

    def create(self, tables: Iterable[Table], *, is_state: bool = False) -> None:
        """Creates empty tables with their comments."""
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda table: self._create(table, is_state), tables))

    def _create(self, table: Table, is_state: bool) -> None:
        properties = _PROPERTIES | (_STATE_PROPERTIES if is_state else {})
        columns = ", ".join(f"{f.name} {f.dataType.simpleString()} comment {_text(_comment(f))}" for f in table.schema)
        options = ", ".join(f"{_text(key)} = {_text(value)}" for key, value in properties.items())
        comment = f"one row per {table.grain}; key {', '.join(table.key)}"
        alias = f"roundtable_{abs(hash(str(self.root)))}_{table.name}"
        sql = self.session.spark.sql
        sql(
            f"create table {alias} ({columns}) using delta comment {_text(comment)} "
            f"location {_text(str(self.path(table.name)))} tblproperties ({options})"
        ).collect()
        sql(f"drop table {alias}").collect()

    def path(self, name: str) -> Path:
        """Gives the folder of a table."""
        return self.root / name

    def append(self, name: str, rows: DataFrame) -> None:
        """Adds rows to a table, in one commit."""
        self._one_file(rows).write.format("delta").mode("append").save(str(self.path(name)))

    def overwrite(self, name: str, rows: DataFrame) -> None:
        """Replaces the rows of a table, in one commit; the old version stays readable."""
        self._one_file(rows).write.format("delta").mode("overwrite").save(str(self.path(name)))

    def _one_file(self, rows: DataFrame) -> DataFrame:
        return rows.coalesce(1) if self.session.is_classic else rows

    def read(self, name: str, version: int | None = None) -> DataFrame:
        """Reads a table.

        Args:
            name: The table.
            version: Delta version; None for the newest.

        Raises:
            StoreError: The store has no such table.
        """
        if not (self.path(name) / "_delta_log").is_dir():
            raise StoreError(f"{self.root} has no table {name!r}; it has: {', '.join(self.tables()) or 'none'}")
        reader = self.session.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(str(self.path(name)))

    def version(self, name: str) -> int:
        """Gives the newest version of a table."""
        commits = (self.path(name) / "_delta_log").glob("*.json")
        return max(int(commit.stem) for commit in commits if commit.stem.isdigit())

    def tables(self) -> list[str]:
        """Gives the names of the tables that are there."""
        return sorted(path.parent.name for path in self.root.glob("*/_delta_log"))


def _comment(field: T.StructField) -> str:
    return str((field.metadata or {}).get("comment", ""))


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
