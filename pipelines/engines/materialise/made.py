"""A relation that is there: as rows in this process, in files, or as both."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession, types as T
from pyspark.sql.pandas.types import to_arrow_schema

from pipelines.engines.inline import inlined
from pipelines.engines.materialise.base import Content
from pipelines.engines.materialise.here import n_bytes_of
from pipelines.engines.rows.held import Held, Unread
from pipelines.engines.rows.kinds import UnknownPlanError, kinds_of, rows_of, table_of
from pipelines.engines.rows.operators import Rows, most_rows

_FEW_BYTES: Final = 128 * 1024
"""Of rows that are a part of the plans that an engine makes."""
_SOME_BYTES: Final = 4 * 1024**2
"""Of files whose rows may be few enough to be held here."""


class Made:
    """A relation that is there.

    Attributes:
        content: What is known of its rows.
    """

    def __init__(self, session: SparkSession, path: Path, schema: T.StructType, rows: Rows | None) -> None:
        """Takes rows, or what an engine has written: no file where there are no rows.

        Args:
            session: Reads it.
            path: Where it is written, or will be if an engine has to read many rows.
            schema: Its columns.
            rows: Its rows; None if they are written.
        """
        self._session, self._path, self._schema, self._rows = session, path, schema, rows
        self._files = [*path.glob("*.parquet")] if rows is None else []
        n_bytes = sum(file.stat().st_size for file in self._files)
        if rows is not None:
            n_bytes = n_bytes_of(rows, schema)
        held = None if rows is None else lambda: self.table
        self.content = Content(is_empty=not (self._files or (rows and rows.rows)), rows=held, n_bytes=n_bytes)

    @cached_property
    def table(self) -> pa.Table:
        """Its rows as a table."""
        wanted = to_arrow_schema(self._schema)
        if self._rows is not None and not self._files:
            return table_of(self._rows.rows, wanted)
        parts = (pq.ParquetFile(file).read(use_threads=False) for file in self._files)
        return pa.concat_tables([wanted.empty_table(), *(part.select(wanted.names).cast(wanted) for part in parts)])

    @cached_property
    def held(self) -> Held:
        """Its rows with their columns; those that an engine has written are read when they are asked for.

        Raises:
            UnknownPlanError: They are many.
        """
        kinds = kinds_of(self._schema)
        rows: Rows | Unread | None = self._rows
        if rows is None:
            if self.content.n_bytes > _SOME_BYTES or self._n_written > most_rows():
                raise UnknownPlanError("many rows")
            rows = Unread(self._n_written, lambda: Rows(rows_of(self.table, kinds)))
        return Held(self._schema.names, kinds, rows)

    @cached_property
    def _n_written(self) -> int:
        return sum(pq.read_metadata(file).num_rows for file in self._files)

    @cached_property
    def is_small(self) -> bool:
        """Whether its rows are a part of plans that read them."""
        if self._files:
            return self.content.n_bytes <= _FEW_BYTES
        return self.content.n_bytes <= _SOME_BYTES and self.table.nbytes <= _FEW_BYTES

    @cached_property
    def frame(self) -> DataFrame:
        """Reads it."""
        if self.is_small:
            return inlined(self._session, self.table, self._schema)
        return self._session.read.schema(self._schema).parquet(str(self.written))

    @cached_property
    def written(self) -> Path:
        """The folder with its files."""
        if not self._files and not self.content.is_empty:
            write(self.table, self._path)
        return self._path


def write(rows: pa.Table, path: Path) -> None:
    """Writes rows as an engine would, in a few groups of them."""
    path.mkdir()
    if len(rows):
        # The size of the file tells whether the rows go into plans.
        size = max(1, len(rows) // 4)
        pq.write_table(rows, path / "part.parquet", size, compression="none", use_dictionary=False)
