"""Relations as rows in the driver, parts of the plans that read them (classic Spark, few rows and many steps)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, types as T
from pyspark.sql.pandas.types import to_arrow_schema

from pipelines.engines.materialise.base import Content, Facts, Kept, Materialiser, Relation, asked_facts, nullable
from pipelines.engines.session import Session


class RowsMaterialiser(Materialiser):
    """Keeps few rows in the driver, as parts of the plans that read them (classic engine).

    Every relation takes a job, but then it is known whether it is empty: whole steps are left out, and most of those
    of a round with faults have nothing to do.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._schemas: dict[str, T.StructType] = {}
        self._kept: dict[int, Kept] = {}

    def declare(self, schemas: Mapping[str, T.StructType]) -> None:
        """Remembers the columns, so that they are not asked for."""
        self._schemas |= {name: nullable(schema) for name, schema in schemas.items()}

    def _frame(self, rows: pa.Table, schema: T.StructType) -> DataFrame:
        # In one partition, joins and windows need no exchange.
        return self.session.spark.createDataFrame(rows, schema=schema).coalesce(1)

    def _relation(self, rows: pa.Table, schema: T.StructType) -> Relation:
        frame = self._frame(rows, schema)
        content = Content(not rows.num_rows, rows)
        relation = Relation(frame, lambda: self._release(id(frame)), content=lambda: content)
        self._kept[id(frame)] = Kept(relation, schema)
        return relation

    def _release(self, key: int) -> None:
        self._kept.pop(key, None)

    def load(self, name: str, rows: pa.Table, schema: T.StructType) -> Relation:
        """Takes the rows as they are."""
        return self._relation(rows, nullable(schema))

    def empty(self, schema: T.StructType) -> DataFrame:
        """Returns a frame that the planner knows to have no rows."""
        return self._frame(to_arrow_schema(schema).empty_table(), nullable(schema))

    def spread(self, frame: DataFrame) -> DataFrame:
        """Returns the rows in one partition."""
        return frame.coalesce(1)

    def keep(self, name: str, frame: DataFrame) -> Relation:
        """Fetches the rows, unless the frame reads a relation and does nothing else."""
        if name not in self._schemas:
            self._schemas[name] = nullable(frame.schema)
        schema, kept = self._schemas[name], self._kept.get(id(frame))
        if kept is not None and kept.schema == schema:
            return kept.relation
        return self._relation(frame.toArrow().select(schema.names), schema)

    def add(self, name: str, frame: DataFrame) -> Relation:
        """Fetches an increment."""
        return self.keep(name, frame)

    def together(self, name: str, parts: Sequence[Relation]) -> DataFrame:
        """Puts the rows of all parts into one frame."""
        full = [part for part in parts if not part.is_empty]
        if len(full) <= 1:
            return (full or parts)[0].frame
        rows = [rows for part in full if (rows := part.content().rows) is not None]
        return self._frame(pa.concat_tables(rows), self._schemas[name])

    def settle(
        self, frames: Mapping[str, DataFrame], facts: Mapping[str, Facts]
    ) -> tuple[dict[str, Relation], dict[str, int | None]]:
        """Fetches each relation, then asks for the facts of those with rows in one query."""
        relations = {name: self.keep(name, frame) for name, frame in frames.items()}
        nothing = {fact: None for name, one in relations.items() if one.is_empty for fact in facts.get(name) or ()}
        full = {name: one for name, one in relations.items() if not one.is_empty}
        return relations, {**nothing, **asked_facts(full, facts)}
