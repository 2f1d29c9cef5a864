"""Relations as Parquet files in the session's scratch folder (Sail)."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, types as T
from pyspark.sql.pandas.types import to_arrow_schema

from pipelines.engines.inline import inlined, later
from pipelines.engines.materialise.base import Cached, Content, Facts, Relation, TrackingMaterialiser, asked_facts
from pipelines.engines.session import Session
from pipelines.engines.workers import stop_workers
from udfs.nodes import interruption

_FEW_BYTES = 128 * 1024


_N_WRITERS = 3


@dataclass(frozen=True)
class _Written:
    """What reads a relation that is written, and what is known of it."""

    frame: DataFrame
    content: Content


class FileMaterialiser(TrackingMaterialiser):
    """Keeps each relation in a Parquet file in the scratch folder (a RAM disk where there is one)."""

    _OPTIONS: ClassVar = {"compression": "uncompressed", "dictionary_enabled": "false", "statistics_enabled": "none"}

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._number = itertools.count()
        self._folder = Path(tempfile.mkdtemp(prefix="rounds-", dir=session.scratch))
        # A writer waits only for relations that were begun before its own, so some writer always goes on.
        self._writers = ThreadPoolExecutor(_N_WRITERS)
        self._pending: list[Future[_Written]] = []
        interruption.proceed()

    def _path(self, name: str) -> Path:
        return self._folder / f"{next(self._number)}_{name}"

    def interrupt(self) -> None:
        """Ends the node programs that are played: Sail, which runs them in this process, waits for them otherwise."""
        interruption.interrupt()
        stop_workers()

    def close(self) -> None:
        """Removes all relations that are left."""
        self._writers.shutdown(cancel_futures=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _relation(self, path: Path, schema: T.StructType, written: Future[_Written]) -> Relation:
        frame = later(self.session.spark, lambda: written.result().frame)
        relation = Relation(frame, lambda: self._release(id(frame), path), path, lambda: written.result().content)
        self._cached[id(frame)] = Cached(relation, schema)
        return relation

    def discard(self) -> None:
        """Waits for what is being written, and forgets it, failed or not."""
        wait(self._pending)
        self._pending.clear()

    def _read_back(self, path: Path, schema: T.StructType) -> _Written:
        # Nothing is written where there are no rows.
        files = [*path.glob("*.parquet")]
        n_bytes = sum(file.stat().st_size for file in files)
        rows = _rows(files, schema) if n_bytes <= _FEW_BYTES else None
        frame = self._scan([path], schema) if rows is None else inlined(self.session.spark, rows, schema)
        return _Written(frame, Content(not files, rows, n_bytes))

    def _scan(self, paths: Sequence[Path], schema: T.StructType) -> DataFrame:
        return self.session.spark.read.schema(schema).parquet(*map(str, paths))

    def _release(self, key: int, path: Path) -> None:
        cached = self._cached[key]
        cached.n_holders -= 1
        if not cached.n_holders:
            shutil.rmtree(path, ignore_errors=True)
            del self._cached[key]

    def _checkpointed(self, name: str, frame: DataFrame) -> Relation:
        """Returns the relation that the frame reads if it does nothing else: it has one more holder then."""
        known = self._known(frame, self._schema(name, frame))
        if known is None:
            return self.cache(name, frame)
        known.n_holders += 1
        return known.relation

    def load(self, name: str, rows: pa.Table, schema: T.StructType) -> Relation:
        """Writes the rows without the engine's help."""
        path = self._path(name)
        path.mkdir()
        if len(rows):
            # Its size tells whether the rows go into plans.
            size = max(1, len(rows) // 4)
            pq.write_table(rows, path / "part.parquet", size, compression="none", use_dictionary=False)
        return self._relation(path, schema, self._writers.submit(self._read_back, path, schema))

    def cache(self, name: str, frame: DataFrame) -> Relation:
        """Writes and reads back."""
        path, schema = self._path(name), self._schema(name, frame)

        def write() -> _Written:
            frame.write.options(**self._OPTIONS).parquet(str(path))
            return self._read_back(path, schema)

        written = self._writers.submit(write)
        self._pending.append(written)
        return self._relation(path, schema, written)

    def _union(self, name: str, parts: Sequence[Relation]) -> DataFrame:
        """Reads all files in one scan; planning a union of scans takes long."""
        rows = [rows for part in parts if (rows := part.content().rows) is not None]
        if len(rows) == len(parts) and sum(table.nbytes for table in rows) <= _FEW_BYTES:
            return inlined(self.session.spark, pa.concat_tables(rows), self._schemas[name])
        return self._scan([part.path for part in parts if part.path is not None], self._schemas[name])

    def checkpoint(
        self, frames: Mapping[str, DataFrame], facts: Mapping[str, Facts]
    ) -> tuple[dict[str, Relation], dict[str, int | None]]:
        """Writes each relation that is not written yet, then asks for all facts in one query.

        Whatever is still being written comes to its end: it may read relations that end with the round.
        """
        relations = {name: self._checkpointed(name, frame) for name, frame in frames.items()}
        for written in self._pending:
            written.result()
        self._pending.clear()
        return relations, asked_facts(relations, facts)


def _rows(files: Sequence[Path], schema: T.StructType) -> pa.Table:
    wanted = to_arrow_schema(schema)
    parts = (pq.ParquetFile(file).read(use_threads=False) for file in files)
    return pa.concat_tables([wanted.empty_table(), *(part.select(wanted.names).cast(wanted) for part in parts)])
