"""Relations as rows in this process, or in the executors' memory (classic Spark with a planner)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial, reduce
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, types as T
from pyspark.sql.pandas.types import to_arrow_schema

from pipelines.engines.concurrently import concurrently
from pipelines.engines.inline import inlined, later
from pipelines.engines.materialise.base import Content, Facts, Relation, nothing, nullable
from pipelines.engines.materialise.here import HereMaterialiser, Made, done, n_bytes_of
from pipelines.engines.materialise.memory import MemoryMaterialiser
from pipelines.engines.planner import Planner
from pipelines.engines.rows.evaluate import evaluated, is_here
from pipelines.engines.rows.held import Held
from pipelines.engines.rows.kinds import UnknownPlanError, kinds_of, rows_of, table_of
from pipelines.engines.rows.operators import Rows, most_rows
from pipelines.engines.session import Session

_N_ROWS: Final = "n_rows"
_FETCHED_ROWS: Final = 2000
"""Of a relation that Spark has made, where nodes crash: few enough that steps over it are worked out here."""


@dataclass
class _Few:
    """A relation whose rows are in this process, and Spark's too when it reads them.

    Attributes:
        schema: Its columns.
        rows: Its rows.
        spread: Has Spark read rows.
    """

    schema: T.StructType
    rows: Rows
    spread: Callable[[pa.Table, T.StructType], DataFrame] = field(repr=False)

    @property
    def content(self) -> Content:
        """What is known of its rows."""
        return Content(is_empty=not self.rows.rows, rows=self.table, n_bytes=n_bytes_of(self.rows, self.schema))

    @cached_property
    def held(self) -> Held:
        """Its rows with their columns."""
        return Held(self.schema.names, kinds_of(self.schema), self.rows)

    @cached_property
    def frame(self) -> DataFrame:
        """Reads it."""
        return self.spread(self.table(), self.schema)

    def table(self) -> pa.Table:
        """Returns its rows as a table."""
        return table_of(self.rows.rows, to_arrow_schema(self.schema))


@dataclass(frozen=True)
class _Many:
    """A relation that Spark has.

    Attributes:
        frame: Reads it.
    """

    frame: DataFrame
    content: Content = field(default_factory=Content)

    @property
    def held(self) -> Held:
        """Raises an error.

        Raises:
            UnknownPlanError: Its rows are not in this process.
        """
        raise UnknownPlanError("rows of an engine")


class PlannedMaterialiser(HereMaterialiser[Made]):
    """Keeps few rows in this process, and many in the executors' memory."""

    def __init__(
        self, session: Session, planner: Planner, *, is_small: bool, is_eventful: bool, is_by_node: bool
    ) -> None:  # fmt: skip
        """Starts without relations.

        Args:
            session: The engine.
            planner: Its planner.
            is_small: Whether all relations have few rows.
            is_eventful: Whether rounds have many steps over few rows, as when nodes crash: each relation is made at
                once then, and fetched if it has few rows. That costs less than the steps that are left out where a
                relation has none, and jobs over relations that are to be made by other jobs.
            is_by_node: Whether the relations of Spark are partitioned by run and node, see `MemoryMaterialiser`.
        """
        super().__init__(session)
        self._planner, self._is_eventful = planner, is_eventful
        self._is_fetched = is_small and is_eventful
        self._memory = MemoryMaterialiser(session.over(planner.classic), is_by_node=is_by_node)
        self._empty: dict[str, DataFrame] = {}

    def close(self) -> None:
        """Leaves the session's settings as they were; the JVM frees the relations."""
        super().close()
        self._memory.close()

    def load(self, name: str, rows: pa.Table, schema: T.StructType) -> Relation:
        """Takes few rows as they are, and distributes many by run."""
        columns = nullable(schema)
        if len(rows) > most_rows():
            return self._many(columns, self._memory.load(name, rows, schema).frame)
        return self._of_table(name, rows, columns)

    def empty(self, schema: T.StructType) -> DataFrame:
        """Returns a frame that is known to have no rows."""
        columns = nullable(schema)
        return later(self.session.spark, done(self._held("", columns, Rows([]))[0]), columns)

    def repartition(self, frame: DataFrame) -> DataFrame:
        """Returns rows of a store as they are if they are few, otherwise partitioned as relations are."""
        return frame if is_here(frame) else self._planner.frame_of(self._spread(self._planner.carried_out(frame)))

    def _spread(self, classic: DataFrame) -> DataFrame:
        """Returns rows partitioned as relations are; few rows in one partition, which suits all joins and windows."""
        return classic.coalesce(1) if self._is_fetched else self._memory.repartition(classic)

    def cache(self, name: str, frame: DataFrame) -> Relation:
        """Works the rows out here if they are made of few; otherwise marks the frame, see `MemoryMaterialiser`."""
        try:
            return self._here(name, evaluated(frame, may_wait=True))
        except UnknownPlanError:
            classic = self._planner.carried_out(frame)
            columns = self._schema(name, classic)
            if self._is_fetched:
                return self._fetched(name, columns, classic)
            if self._is_eventful:
                return self._counted(name, columns, *self._memory.checkpointed(classic, {_N_ROWS: "count(1)"}))
            return self._many(columns, self._memory.cache(name, classic).frame)

    def _fetched(self, name: str, columns: T.StructType, classic: DataFrame) -> Relation:
        return self._of_table(name, classic.select(columns.names).toArrow(), columns)

    def _of_table(self, name: str, rows: pa.Table, columns: T.StructType) -> Relation:
        return self._of_rows(name, columns, Rows(rows_of(rows, kinds_of(columns))))

    def _counted(self, name: str, columns: T.StructType, relation: Relation, facts: dict[str, int | None]) -> Relation:
        """Returns a relation that Spark has made; takes the number of its rows out of the facts about it."""
        n_rows = facts.pop(_N_ROWS) or 0
        if n_rows == 0:
            return self._of_rows(name, columns, Rows([]))
        if self._is_eventful and n_rows <= _FETCHED_ROWS:
            return self._fetched(name, columns, relation.frame)
        return self._many(columns, relation.frame)

    def checkpoint(
        self, frames: Mapping[str, DataFrame], facts: Mapping[str, Facts]
    ) -> tuple[dict[str, Relation], dict[str, int | None]]:
        """Works out here what it can, and has Spark run one job for each other relation, all at once."""
        if self._is_fetched:
            relations = {name: self._again(name, frame) or self.cache(name, frame) for name, frame in frames.items()}
            return relations, self._facts(relations, facts)
        relations, rest = dict[str, Relation](), dict[str, DataFrame]()
        for name, frame in frames.items():
            try:
                relations[name] = self._again(name, frame) or self._here(name, evaluated(frame, may_wait=True))
            except UnknownPlanError:
                rest[name] = self._planner.carried_out(frame)
        found: dict[str, int | None] = {}
        jobs = [
            partial(self._memory.checkpointed, frame, {**facts.get(name, {}), _N_ROWS: "count(1)"})
            for name, frame in rest.items()
        ]
        for (name, frame), (relation, of) in zip(rest.items(), concurrently(jobs), strict=True):
            relations[name] = self._counted(name, self._schema(name, frame), relation, of)
            found |= of
        here = {name: relation for name, relation in relations.items() if name not in rest}
        return relations, {**found, **self._facts(here, facts)}

    def _held(self, name: str, schema: T.StructType, rows: Rows) -> tuple[Made, Callable[[], None]]:
        return _Few(schema, rows, self._distributed), nothing

    def _many(self, schema: T.StructType, classic: DataFrame) -> Relation:
        """Returns what Spark has as a relation."""
        return self._relation(schema, done(_Many(self._planner.frame_of(classic))), nothing)

    def _distributed(self, rows: pa.Table, schema: T.StructType) -> DataFrame:
        """Has Spark read rows, partitioned as relations are, so that joins and windows need no exchange.

        That there are none Spark is not told where there may be many: it would leave a part out of a union, and forget
        how the rest lies.
        """
        columns = _never_null(schema, self._memory.placed_by(schema.names))
        if not len(rows) and not self._is_fetched:
            kind = schema.simpleString()
            if kind not in self._empty:
                self._empty[kind] = self._placed(self._memory.empty(schema))
            return self._empty[kind]
        frame = inlined(self._planner.session, rows.cast(to_arrow_schema(columns)), columns)
        if not len(rows):
            return frame
        spread = self._spread(self._planner.carried_out(frame))
        return self._planner.frame_of(spread) if self._is_fetched else self._placed(spread)

    def _placed(self, classic: DataFrame) -> DataFrame:
        return self._planner.frame_of(self._memory.cache("", classic).frame)

    def _joined(self, schema: T.StructType, parts: Sequence[Made]) -> DataFrame:
        return reduce(DataFrame.unionByName, (one.frame for one in parts))


def _never_null(schema: T.StructType, names: Sequence[str]) -> T.StructType:
    """Returns columns of which some are never null: Spark forgets partitions by what may be, and is not, in a plan."""
    return T.StructType([T.StructField(one.name, one.dataType, one.name not in names) for one in schema])
