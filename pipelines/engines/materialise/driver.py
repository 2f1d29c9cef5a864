"""Relations as rows in the driver, parts of the plans that read them (classic Spark, few rows and many steps)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, types as T
from pyspark.sql.pandas.types import to_arrow_schema

from pipelines.engines.materialise.base import (
    Cached,
    Content,
    Facts,
    Relation,
    TrackingMaterialiser,
    asked_facts,
    nullable,
)


class RowsMaterialiser(TrackingMaterialiser):
    """Keeps few rows in the driver, as parts of the plans that read them (classic engine).

    Every relation takes a job, but then it is known whether it is empty: whole steps are left out, and most of those
    of a round with faults have nothing to do.
    """

    def _frame(self, rows: pa.Table, schema: T.StructType) -> DataFrame:
        # In one partition, joins and windows need no exchange.
        return self.session.spark.createDataFrame(rows, schema=schema).coalesce(1)

    def _relation(self, rows: pa.Table, schema: T.StructType) -> Relation:
        frame = self._frame(rows, schema)
        content = Content(not rows.num_rows, rows)
        relation = Relation(frame, lambda: self._release(id(frame)), content=lambda: content)
        self._cached[id(frame)] = Cached(relation, schema)
        return relation

    def _release(self, key: int) -> None:
        self._cached.pop(key, None)

    def load(self, name: str, rows: pa.Table, schema: T.StructType) -> Relation:
        """Takes the rows as they are."""
        return self._relation(rows, nullable(schema))

    def empty(self, schema: T.StructType) -> DataFrame:
        """Returns a frame that the planner knows to have no rows."""
        return self._frame(to_arrow_schema(schema).empty_table(), nullable(schema))

    def repartition(self, frame: DataFrame) -> DataFrame:
        """Returns the rows in one partition."""
        return frame.coalesce(1)

    def cache(self, name: str, frame: DataFrame) -> Relation:
        """Fetches the rows, unless the frame reads a relation and does nothing else."""
        schema = self._schema(name, frame)
        known = self._known(frame, schema)
        return self._relation(frame.toArrow().select(schema.names), schema) if known is None else known.relation

    def _union(self, name: str, parts: Sequence[Relation]) -> DataFrame:
        """Puts the rows of all parts into one frame."""
        rows = [rows for part in parts if (rows := part.content().rows) is not None]
        return self._frame(pa.concat_tables(rows), self._schemas[name])

    def checkpoint(
        self, frames: Mapping[str, DataFrame], facts: Mapping[str, Facts]
    ) -> tuple[dict[str, Relation], dict[str, int | None]]:
        """Fetches each relation, then asks for the facts of those with rows in one query."""
        relations = {name: self.cache(name, frame) for name, frame in frames.items()}
        nothing = {fact: None for name, one in relations.items() if one.is_empty for fact in facts.get(name) or ()}
        full = {name: one for name, one in relations.items() if not one.is_empty}
        return relations, {**nothing, **asked_facts(full, facts)}
