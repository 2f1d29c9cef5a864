"""Rows of a relation with their columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Row, types as T

from pipelines.engines.rows.kinds import Kind, UnknownPlanError, arrow_of, fits, kinds_of, rows_of, table_of
from pipelines.engines.rows.operators import Rows
from pipelines.engines.rows.source import picker


@dataclass(frozen=True)
class Unread:
    """Rows that an engine has written.

    Attributes:
        n_rows: How many there are.
        read: Reads them.
    """

    n_rows: int
    read: Callable[[], Rows]


class Held:
    """Rows of a relation with their columns.

    Attributes:
        names: The columns.
        kinds: What they hold.
        n_rows: How many rows there are.
    """

    def __init__(self, names: Sequence[str], kinds: Sequence[Kind], rows: Rows | Unread) -> None:
        """Takes rows that are here, or that are read when they are asked for."""
        self.names, self.kinds = tuple(names), tuple(kinds)
        self.n_rows = len(rows.rows) if isinstance(rows, Rows) else rows.n_rows
        self._rows = rows

    @classmethod
    def of(cls, table: pa.Table, schema: T.StructType) -> Held:
        """Returns the rows of a table with these columns."""
        kinds = kinds_of(schema)
        return cls(schema.names, kinds, Rows(rows_of(table, kinds)))

    @property
    def rows(self) -> Rows:
        """The rows."""
        if isinstance(self._rows, Unread):
            self._rows = self._rows.read()
        return self._rows

    @property
    def n_unread(self) -> int:
        """How many rows are still to be read."""
        return self.n_rows if isinstance(self._rows, Unread) else 0

    def picked(self, names: Sequence[str], kinds: Sequence[Kind]) -> Rows:
        """Returns the rows with some of the columns.

        Args:
            names: The columns.
            kinds: What they have to hold.

        Raises:
            UnknownPlanError: One is not there, or twice, or holds something else.
        """
        if any(self.names.count(name) != 1 for name in names):
            raise UnknownPlanError("a column that is not there, or twice")
        places = tuple(self.names.index(name) for name in names)
        if not all(fits(kind, self.kinds[place]) for kind, place in zip(kinds, places, strict=True)):
            raise UnknownPlanError("a column of another type")
        if places == (*range(len(self.names)),):
            return self.rows
        return Rows([*map(picker(places), self.rows.rows)])

    def collected(self) -> list[Row]:
        """Returns the rows as a frame's ``collect`` does."""
        make = Row(*self.names)
        return [make(*row) for row in self.rows.rows]

    def table(self) -> pa.Table:
        """Returns the rows as a table."""
        return table_of(self.rows.rows, pa.schema([*zip(self.names, map(arrow_of, self.kinds), strict=True)]))
