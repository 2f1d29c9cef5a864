"""The store: Delta tables in a local folder or at a remote path, read by name and version.

A write appends, overwrites or restores rows, and creates the next version of its table. Only one program writes a store
(`folder.locked`), so a higher version than expected reveals another writer, for example an engine that outlives its
program.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Schema, write_deltalake
from deltalake.exceptions import CommitFailedError, DeltaError
from pyspark.sql import DataFrame, types as T
from pyspark.sql.pandas.types import to_arrow_schema

from pipelines.engines.frames import arrow_of, frame_of
from pipelines.engines.session import Session, concurrently
from pipelines.errors import StoreError, VacuumedError, first_line
from pipelines.store.damage import disk_error
from pipelines.store.folder import missing_table, resume_hint
from pipelines.store.roots import Root, delta_rows, engine_path, options_of, plain, remove, size_of, sizes
from pipelines.tables import ROUND_COMMIT, Table

_PROPERTIES = {
    # Sail cannot read a version before a log checkpoint (see `Store.read`). Delta rejects versions older than the
    # retention period.
    "delta.checkpointInterval": "1000",
    "delta.deletedFileRetentionDuration": "interval 36500 days",
    "delta.logRetentionDuration": "interval 36500 days",
}
_STATE_PROPERTIES = {"delta.dataSkippingNumIndexedCols": "0"}
_LOG = "_delta_log"
_FEW_BYTES = 128 * 1024
_LARGE_BYTES = 1 << 30
"""Size in bytes from which a table is not combined into one chunk: an Arrow array holds at most 2 GiB of strings."""


@dataclass
class _OpenTable:
    """A table that the Delta library has opened for writes; it stays open, because opening many versions takes long.

    Attributes:
        table: The table at the version that this program last wrote or read.
        columns: Schema of the table.
        digest: Digest of all rows if a single overwrite wrote them; None if the digest is unknown.
    """

    table: DeltaTable
    columns: pa.Schema
    digest: bytes | None = None

    def of(self, rows: pa.Table) -> pa.Table:
        return rows.select(self.columns.names).cast(self.columns)


class Store:
    """The Delta tables of one experiment.

    Attributes:
        is_small: Whether tables have few rows. The store then reads and writes tables without the engine.
    """

    def __init__(self, root: Root, session: Session, check_locked: Callable[[], None] = lambda: None) -> None:
        """Opens a store; reads nothing.

        Args:
            root: Location of the store; each table is a folder below it.
            session: The engine that reads and writes.
            check_locked: Raises `StoreError` if another program has taken the lock, see `folder.locked`.
        """
        self.root = root
        self._check_locked = check_locked
        self._options = options_of(root)
        self.session = session
        self.is_small = False
        self._versions: dict[str, int] = {}
        self._open: dict[str, _OpenTable] = {}

    def reopened(self) -> Store:
        """Returns a new `Store` object for this store. The object has no cached table versions."""
        return Store(self.root, self.session, self._check_locked)

    def create(self, tables: Iterable[Table], *, is_state: bool = False) -> None:
        """Creates empty tables with their column comments; replaces existing tables of the same names."""
        concurrently(partial(self._create, table, is_state) for table in tables)

    def _create(self, table: Table, is_state: bool) -> None:
        self._versions.pop(table.name, None)
        self._open.pop(table.name, None)
        remove(self.path(table.name))
        fields = (T.StructField(field.name, field.dataType, True, field.metadata) for field in table.schema)
        DeltaTable.create(
            str(self.path(table.name)),
            Schema.from_json(T.StructType([*fields]).json()),
            description=f"a row is {table.grain}; key {', '.join(table.key)}",
            configuration=_PROPERTIES | (_STATE_PROPERTIES if is_state else {}),
            storage_options=self._options,
        )
        self._versions[table.name] = 0

    def path(self, name: str) -> Root:
        """Returns the folder of a table."""
        return self.root / name

    def _engine_path(self, name: str) -> str:
        if self.session.engine == "local":
            return str(plain(self.root, self.session.scratch) / name)
        return engine_path(self.path(name))

    def overwrite(self, name: str, rows: DataFrame | pa.Table) -> None:
        """Replaces the rows of a table in one commit; the old version stays readable.

        The engine writes the rows of a DataFrame, unless it is Sail or the tables have few rows; `load` writes all
        other rows.
        """
        # The Delta library commits faster than Sail, whose rows are in this process, and faster than Spark if there are
        # few rows.
        if not isinstance(rows, pa.Table) and (self.session.engine == "local" or self.is_small):
            rows = arrow_of(rows)
        if isinstance(rows, pa.Table):
            self.load(name, rows, "overwrite")
            return
        # optimizeWrite lets all cores compute the rows and still writes one file for few rows.
        writer = rows.write.format("delta").mode("overwrite").option("optimizeWrite", "true")
        self._write(name, lambda: writer.save(self._engine_path(name)))

    def load(self, name: str, rows: pa.Table, mode: Literal["append", "overwrite"] = "append") -> None:
        """Writes Arrow rows to a table in one commit of the Delta library, which is faster than an engine.

        An append without rows writes nothing. An overwrite writes nothing if the table is known to contain exactly
        ``rows``.
        """
        if not len(rows) and mode == "append":
            return
        known = self._opened(name)
        whole = known.of(rows)
        digest = _digest(whole) if mode == "overwrite" else None
        if digest is not None and digest == known.digest:
            return
        known.digest = None
        self._write(name, lambda: write_deltalake(known.table, whole, mode=mode, storage_options=self._options))
        known.digest = digest

    def _opened(self, name: str) -> _OpenTable:
        """Returns table ``name``, opened by the Delta library at the version that this program last wrote or read."""
        known, version = self._open.get(name), self.known_version(name)
        if known is None or known.table.version() != version:
            table = self._opened_at(name, max(version, 0))
            known = self._open[name] = _OpenTable(table, to_arrow_schema(_columns(table)))
        return known

    def commit(self, row: pa.Table) -> None:
        """Appends a row to the ledger as its next version; raises `StoreError` if that version exists."""
        self._check_locked()
        name = ROUND_COMMIT.name
        ledger, known = self._opened(name), self.known_version(name)
        # A local commit is an unconditional rename, which would replace the row of another program.
        if isinstance(self.root, Path) and self.version(name) > known:
            raise self._written_by_others(name)
        once = CommitProperties(max_commit_retries=0)
        self._write(name, lambda: write_deltalake(ledger.table, ledger.of(row), mode="append", commit_properties=once))

    def rewind(self, versions: Mapping[str, int]) -> None:
        """Restores each table that has a later version to its version in ``versions``, without reading its rows.

        The restored rows become the newest version; all versions stay readable.

        Raises:
            VacuumedError: Files of an old version were removed.
            StoreError: A table does not exist.
        """
        concurrently(partial(self._check_exists, name) for name in versions)

        def restore(name: str) -> None:
            if (newest := self.version(name)) > versions[name]:
                table = self._opened_at(name, None)
                try:
                    self._write(name, lambda: table.restore(versions[name]))
                except DeltaError:
                    self._check_files(name, self._opened_at(name, versions[name]), newest)
                    raise

        concurrently(partial(restore, name) for name in versions)

    def _write(self, name: str, write: Callable[[], object]) -> None:
        before = self.known_version(name)
        try:
            write()
        except CommitFailedError as error:
            raise self._written_by_others(name) from error
        except DeltaError:
            self._check_exists(name)
            raise
        if self.version(name) > before + 1:
            raise self._written_by_others(name)

    def known_version(self, name: str) -> int:
        """Returns the version of a table that this program last wrote or read; else the newest version."""
        return self._versions[name] if name in self._versions else self.version(name)

    def _written_by_others(self, name: str) -> StoreError:
        return StoreError(
            f"another program wrote table {name!r} of the store {str(self.root)!r} at the same time; end it; "
            f"{resume_hint(self.root)}"
        )

    def read(self, name: str, version: int | None = None) -> DataFrame:
        """Reads a table at the Delta version ``version``; None selects the newest version.

        Raises:
            VacuumedError: Files of an old version were removed.
            StoreError: The table does not exist, or it is damaged.
        """
        self._check_exists(name)
        limit = _FEW_BYTES if self._is_slow or self.is_small else 0
        table = None
        if version is not None and version < (newest := self.version(name)):
            table = self._opened_at(name, version)
            self._check_files(name, table, newest)
            limit = sys.maxsize if self._precedes_checkpoint(name, version) else limit
        if limit and (rows := self._few_rows(name, table or self._opened_at(name, version), limit)) is not None:
            return frame_of(self.session.spark, rows)
        reader = self.session.spark.read.format("delta")
        if version is not None:
            reader = reader.option("versionAsOf", version)
        return reader.load(self._engine_path(name))

    def _precedes_checkpoint(self, name: str, version: int) -> bool:
        """Returns whether Sail cannot read ``version``, because it precedes the last checkpoint of a table's log."""
        last = self.path(name) / _LOG / "_last_checkpoint"
        return (
            self.session.engine == "local"
            and last.is_file()
            and version < json.loads(last.read_text("utf-8"))["version"]
        )

    def _check_exists(self, name: str) -> None:
        if not (self.path(name) / _LOG).is_dir():
            raise missing_table(self.root, name)

    def _opened_at(self, name: str, version: int | None) -> DeltaTable:
        """Returns a table, opened by the Delta library at ``version``; None selects the newest version."""
        with self._named(name):
            return DeltaTable(str(self.path(name)), version, storage_options=self._options)

    def _check_files(self, name: str, table: DeltaTable, newest: int) -> None:
        """Raises `VacuumedError` if a file of an old version is missing; engines detect this only on reading."""
        with self._named(name):
            files = pa.table(table.get_add_actions())["path"].to_pylist()
        if not all((self.path(name) / unquote(file)).is_file() for file in files):
            raise VacuumedError(self.root, name, table.version(), newest)

    def rows(self, name: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Returns the rows of a table as dicts; raises `StoreError` if the table does not exist or is damaged."""
        self._check_exists(name)
        with self._named(name):
            found: list[dict[str, Any]] = delta_rows(self._opened_at(name, None), columns).to_pylist()
        return found

    @property
    def _is_slow(self) -> bool:
        """Whether the engine takes much longer than the Delta library to read a small table.

        Spark lists the files of a table in a job. Sail reads the log of a remote table again for each query.
        """
        return self.session.engine != "local" or not isinstance(self.root, Path)

    def _few_rows(self, name: str, table: DeltaTable, limit: int) -> pa.Table | None:
        """Returns the rows of a table of at most `limit` bytes; None for a larger table."""
        with self._named(name):
            if (pc.sum(pa.table(table.get_add_actions())["size_bytes"]).as_py() or 0) > limit:
                return None
            given = delta_rows(table, [field.name for field in table.schema().fields])
        return given.cast(to_arrow_schema(_columns(table)))

    @contextmanager
    def _named(self, name: str) -> Iterator[None]:
        """Converts an error of the Delta library to a `StoreError` that names the table."""
        try:
            yield
        except (DeltaError, pa.ArrowException, OSError) as error:
            cause = first_line(error).split(" 0: <")[0]
            raise disk_error(error, self.root) or self._damaged(name, cause) from error

    def n_bytes(self) -> int:
        """Returns the total size of the Parquet files in bytes."""
        return sum(size for file, size in sizes(self.root).items() if file.endswith(".parquet"))

    def version(self, name: str) -> int:
        """Returns the newest version of a table; -1 if the table does not exist."""
        log = self.path(name) / _LOG
        newest = self._versions.get(name)
        if newest is None:
            commits = [path.name.removesuffix(".json") for path in log.iterdir()] if log.is_dir() else []
            newest = max((int(commit) for commit in commits if commit.isdigit()), default=-1)
        while (log / f"{newest + 1:020}.json").is_file():
            newest += 1
        self._versions[name] = newest
        return newest

    def written_versions(self) -> dict[str, int]:
        """Returns the versions of the tables, except the ledger, that this program has created, written or read.

        The method sends no request to a remote store.
        """
        return {name: version for name, version in self._versions.items() if name != ROUND_COMMIT.name and version >= 0}

    def check_versions(self, versions: Mapping[str, int]) -> None:
        """Checks that the logs of a local folder contain the given versions of tables, and the last row of the ledger.

        A copy of the folder during the run, or a power failure, can cut the end of a log. A query would then silently
        omit the last rows.

        Raises:
            StoreError: A table does not exist, or its log does not contain the version.
        """
        if not isinstance(self.root, Path):
            return
        for name, version in {ROUND_COMMIT.name: self.version(ROUND_COMMIT.name), **versions}.items():
            self._check_exists(name)
            newest, file = self.version(name), self.path(name) / _LOG / f"{version:020}.json"
            if newest < version or (file.is_file() and not size_of(file)):
                lost = "the folder was copied during the run, or a file was lost"
                raise self._damaged(name, f"its log lacks version {version}, which a commit has written ({lost})")

    def _damaged(self, name: str, cause: str) -> StoreError:
        return StoreError(
            f"table {name!r} of the store {str(self.root)!r} is damaged: {cause}; put its files back, or run the "
            "scenario again, with a new --store"
        )

    def is_committed(self) -> bool:
        """Returns whether the ledger has a row, so that at least one round is complete."""
        return self.version(ROUND_COMMIT.name) > 0

    def tables(self) -> list[str]:
        """Returns the names of the existing tables, sorted."""
        return sorted(path.name for path in self.root.iterdir() if (path / _LOG).is_dir())


def _digest(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_table(rows.combine_chunks() if rows.nbytes < _LARGE_BYTES else rows)
    return blake2b(sink.getvalue()).digest()


def _columns(table: DeltaTable) -> T.StructType:
    """Returns the columns of a table without their comments: Sail fails to plan some unions of commented columns."""
    schema = T.StructType.fromJson(json.loads(table.schema().to_json()))
    return T.StructType([T.StructField(field.name, field.dataType) for field in schema])
