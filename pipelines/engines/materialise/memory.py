"""Relations in the executors' memory, partitioned by run (classic Spark and Spark Connect).

Where there are fewer runs than partitions, they are partitioned by run and node, so that all executors work. Joins of a
node's rows need no exchange then; those of messages with the rows of their receiver do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Self, cast

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame, types as T
from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.observation import Observation

from pipelines.engines.concurrently import concurrently
from pipelines.engines.materialise.base import Facts, Materialiser, Relation, asked_facts
from pipelines.engines.session import Session

_NODE: Final = ("node_id", "dst", "subscriber", "source", "src")
"""The columns that may name the node by which rows are partitioned; the first that a relation has."""
_LEVEL: Final = StorageLevel.MEMORY_AND_DISK
"""Rows are kept as bytes: of millions of them as objects, the garbage collector takes as long as all tasks."""
_ATTRIBUTE: Final = "AttributeReference"
"""The JVM's class of a column in a plan."""


class _Observation(Observation):
    """One of classic Spark, whatever PySpark's functions build meanwhile."""

    def __new__(cls) -> Self:
        """Returns it, where PySpark's class would return one of Spark Connect."""
        return object.__new__(cls)


class MemoryMaterialiser(Materialiser):
    """Keeps relations in the executors' memory, partitioned by run (classic engine)."""

    # Without it only what a job ends in forgets how it was made. Relations kept within a round would drag their plans
    # along, in every task of a commit of many rounds: minutes, and gigabytes of heap.
    _CUT_ALL: ClassVar = "spark.checkpoint.checkpointAllMarkedAncestors"
    _knows_plans = True

    def __init__(self, session: Session, *, is_by_node: bool = False) -> None:
        """Has Spark cut off how relations were made.

        Args:
            session: The engine.
            is_by_node: Whether relations are partitioned by run and node.
        """
        super().__init__(session)
        self._is_by_node = is_by_node
        self._was_cut_all = session.spark.conf.get(self._CUT_ALL, None)
        session.spark.conf.set(self._CUT_ALL, "true")

    def close(self) -> None:
        """Leaves the session's settings as they were; the JVM frees the relations."""
        if self._was_cut_all is None:
            self.session.spark.conf.unset(self._CUT_ALL)
        else:
            self.session.spark.conf.set(self._CUT_ALL, self._was_cut_all)

    def load(self, name: str, rows: pa.Table, schema: T.StructType) -> Relation:
        """Distributes the rows, so that later joins and windows need no exchange."""
        frame = self.session.spark.createDataFrame(rows, schema=schema)
        return self.checkpoint({name: self.repartition(frame)}, {})[0][name]

    def empty(self, schema: T.StructType) -> DataFrame:
        """Returns a frame without rows, partitioned like those with rows, and not known to be empty when planned."""
        return self.repartition(super().empty(schema))

    def placed_by(self, columns: Sequence[str]) -> list[str]:
        """Returns the columns by which a relation with these columns is partitioned."""
        node = [name for name in _NODE if name in columns][:1] if self._is_by_node else []
        return ["run_id", *node]

    def repartition(self, frame: DataFrame) -> DataFrame:
        """Returns the rows partitioned by run, and by node where there are few runs."""
        return frame.repartition(self.session.partitions, *self.placed_by(frame.columns))

    def cache(self, name: str, frame: DataFrame) -> Relation:
        """Marks the frame: the first job that needs a part of it keeps it for the others.

        A lazy checkpoint rather than ``cache()``: the planner compares every plan with every cached one.
        """
        return Relation(self._cut_off(frame, is_eager=False))

    def checkpoint(
        self, frames: Mapping[str, DataFrame], facts: Mapping[str, Facts]
    ) -> tuple[dict[str, Relation], dict[str, int | None]]:
        """Runs one job a relation, all at once; the facts are observed on the way."""
        jobs = [partial(self.checkpointed, frame, facts.get(name) or {}) for name, frame in frames.items()]
        relations, found = {}, dict[str, int | None]()
        for name, (relation, of) in zip(frames, concurrently(jobs), strict=True):
            relations[name] = relation
            found |= of
        return relations, found

    def checkpointed(self, frame: DataFrame, facts: Facts) -> tuple[Relation, dict[str, int | None]]:
        """Runs the job of a relation; see `checkpoint`."""
        observation = _Observation() if facts else None
        if observation is not None:
            frame = frame.observe(observation, *(self._aggregate(fact, sql) for fact, sql in facts.items()))
        relation = Relation(self._cut_off(frame))
        return relation, {} if observation is None else observation.get

    def _cut_off(self, frame: DataFrame, *, is_eager: bool = True) -> DataFrame:
        """Returns the rows, in memory and without how they were made."""
        if self._knows_plans:
            try:
                return self._checkpoint_without_sizes(frame, is_eager)
            except Py4JJavaError:  # the job has failed
                raise
            except (Py4JError, TypeError):  # plans are made otherwise: another version of Spark
                self._knows_plans = False
        if not is_eager:
            return frame.localCheckpoint(eager=False)  # within a round plans are shallow
        cached = frame.cache()
        cut_off = cached.localCheckpoint()
        cached.unpersist()
        return cut_off

    def _checkpoint_without_sizes(self, frame: DataFrame, is_eager: bool) -> DataFrame:
        """Returns a checkpoint of which the planner knows how it is partitioned, but not how large it may be.

        Estimates of one checkpoint after the other, made of each other, would multiply until planning takes minutes.

        Raises:
            Py4JError: The JVM has other plans.
        """
        spark = cast(Any, self.session.spark)
        java, none = spark._jvm.org.apache.spark.sql, spark._jvm.scala.Option.empty()
        made = cast(ClassicFrame, frame)._jdf.queryExecution().executedPlan()
        plan = cast(ClassicFrame, frame.localCheckpoint(is_eager, _LEVEL))._jdf.queryExecution().analyzed()
        columns = frame.columns
        by, n_parts = _best(made, self.placed_by(columns)), made.outputPartitioning().numPartitions()
        if by:
            # Spark goes by the checkpoint's own columns, and tells columns apart by whether they may be null, too.
            own = spark._jvm.PythonUtils.toSeq([plan.output().apply(columns.index(name)) for name in by])
            how = java.catalyst.plans.physical.HashPartitioning(own, n_parts)
        else:
            how = java.catalyst.plans.physical.UnknownPartitioning(n_parts)
        cut_off = plan.copy(
            plan.output(), plan.rdd(), how, plan.outputOrdering(), False, none, spark._jsparkSession, none, none
        )  # fmt: skip
        return ClassicFrame(java.classic.Dataset.ofRows(spark._jsparkSession, cut_off), spark)

    def _aggregate(self, fact: str, sql: str) -> Column:
        """Returns a column of classic Spark: rounds may have PySpark's functions build others, see `planner`."""
        java = cast(Any, self.session.spark)._jvm.org.apache.spark.sql.functions
        return ClassicColumn(java.expr(f"cast({sql} as bigint)")).alias(fact)


def _best(plan: Any, wanted: Sequence[str]) -> list[str]:  # noqa: ANN401 - of the JVM
    """Returns the columns by whose hashes rows are partitioned: those that are wanted, if by these too; else the first.

    A join has the partitionings of both sides, some of them by columns that it does not return, of the same names even.
    """
    parts, found = [plan.outputPartitioning()], list[list[str]]()
    while parts:
        part = parts.pop(0)
        name = part.getClass().getSimpleName()
        if name == "PartitioningCollection":
            parts += _items(part.partitionings())
        elif name == "HashPartitioning" and part.references().subsetOf(plan.outputSet()):
            by = _items(part.expressions())
            if all(one.getClass().getSimpleName() == _ATTRIBUTE for one in by):
                found.append([one.name() for one in by])
    return next((by for by in found if by == [*wanted]), found[0] if found else [])


def _items(sequence: Any) -> list[Any]:  # noqa: ANN401 - of the JVM
    return [sequence.apply(place) for place in range(sequence.size())]


class RemoteMaterialiser(MemoryMaterialiser):
    """Keeps relations in the memory of a Spark behind Spark Connect, which does not tell what a checkpoint observes."""

    _knows_plans = False

    def checkpoint(
        self, frames: Mapping[str, DataFrame], facts: Mapping[str, Facts]
    ) -> tuple[dict[str, Relation], dict[str, int | None]]:
        """Runs one job a relation, then one for all facts."""
        relations, _ = super().checkpoint(frames, {})
        return relations, asked_facts(relations, facts)
