"""Relations as rows in this process, and as Parquet files in the session's scratch folder (Sail)."""

from __future__ import annotations

import itertools
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
from pyspark.sql import DataFrame, types as T

from pipelines.engines.materialise.base import Facts, Relation
from pipelines.engines.materialise.here import HereMaterialiser
from pipelines.engines.materialise.made import Made, write
from pipelines.engines.rows.evaluate import evaluated
from pipelines.engines.rows.kinds import UnfinishedError, UnknownPlanError, kinds_of, rows_of
from pipelines.engines.rows.operators import Rows
from pipelines.engines.session import Session

_N_WRITERS = 3
_FEW_ROWS = 5000
"""Of what the program loads: so many are held as rows."""


class FileMaterialiser(HereMaterialiser[Made]):
    """Keeps each relation in a Parquet file in the scratch folder (a RAM disk where there is one), or as rows.

    What reads few rows is worked out here (`engines.rows`): Sail plans for milliseconds what takes microseconds then.
    """

    _OPTIONS: ClassVar = {"compression": "uncompressed", "dictionary_enabled": "false", "statistics_enabled": "none"}

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._number = itertools.count()
        self._folder = Path(tempfile.mkdtemp(prefix="rounds-", dir=session.scratch))
        # A writer waits only for relations that were begun before its own, so some writer always goes on.
        self._writers = ThreadPoolExecutor(_N_WRITERS)
        self._pending: list[Future[Made]] = []
        self._ended: list[Path] = []

    def _path(self, name: str) -> Path:
        return self._folder / f"{next(self._number)}_{name}"

    def close(self) -> None:
        """Removes all relations that are left."""
        super().close()
        self._writers.shutdown(cancel_futures=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _held(self, name: str, schema: T.StructType, rows: Rows) -> tuple[Made, Callable[[], None]]:
        path = self._path(name)
        return self._made(path, schema, rows), partial(self._remove, path)

    def _remove(self, path: Path) -> None:
        """Removes the file of a relation that has ended, once what is being written no longer reads it.

        Sail reads a file that is gone as one without rows.
        """
        self._ended.append(path)
        if not self._pending:
            self._all_written()

    def _all_written(self) -> None:
        """Notes that nothing is being written any more, and removes what has ended meanwhile."""
        self._pending.clear()
        for path in self._ended:
            shutil.rmtree(path, ignore_errors=True)
        self._ended.clear()

    def discard(self) -> None:
        """Waits for what is being written, and forgets it, failed or not."""
        wait(self._pending)
        self._all_written()

    def load(self, name: str, rows: pa.Table, schema: T.StructType) -> Relation:
        """Takes few rows as they are, and writes many without the engine's help."""
        if len(rows) <= _FEW_ROWS:
            with suppress(UnknownPlanError):
                return self._of_rows(name, schema, Rows(rows_of(rows, kinds_of(schema))))
        path = self._path(name)
        write(rows, path)
        return self._relation(schema, self._writers.submit(self._made, path, schema), partial(self._remove, path))

    def _made(self, path: Path, schema: T.StructType, rows: Rows | None = None) -> Made:
        return Made(self.session.spark, path, schema, rows)

    def cache(self, name: str, frame: DataFrame) -> Relation:
        """Works the rows out here, if what they are made of is there and not much; otherwise has them written."""
        may_be_here = True
        try:
            return self._here(name, evaluated(frame, may_wait=False))
        except UnfinishedError:
            pass
        except UnknownPlanError:
            may_be_here = False
        path, schema = self._path(name), self._schema(name, frame)
        made = self._writers.submit(self._write, name, path, frame, may_be_here=may_be_here)
        self._pending.append(made)
        return self._relation(schema, made, partial(self._remove, path))

    def _write(self, name: str, path: Path, frame: DataFrame, *, may_be_here: bool) -> Made:
        with suppress(UnknownPlanError):
            if may_be_here:
                return self._made(path, *self._picked(name, evaluated(frame, may_wait=True)))
        frame.write.options(**self._OPTIONS).parquet(str(path))
        return self._made(path, self._schemas[name])

    def _joined(self, schema: T.StructType, parts: Sequence[Made]) -> DataFrame:
        """Reads all files in one scan, as planning a union of scans takes long."""
        return self.session.spark.read.schema(schema).parquet(*(str(one.written) for one in parts))

    def checkpoint(
        self, frames: Mapping[str, DataFrame], facts: Mapping[str, Facts]
    ) -> tuple[dict[str, Relation], dict[str, int | None]]:
        """Writes each relation that is not written yet, then asks for all facts in one query.

        Whatever is still being written comes to its end: it may read relations that end with the round.
        """
        relations = {name: self._again(name, frame) or self.cache(name, frame) for name, frame in frames.items()}
        for written in self._pending:
            written.result()
        self._all_written()
        return relations, self._facts(relations, facts)
