"""How an engine keeps a round's relations: the one place where a plan is cut.

- Engines without a usable cache (Sail) write each relation to a file of the session's scratch folder and read it back;
  the rows of a small one go into the plans themselves. They are written in the background, as an engine plans in one
  thread: who reads a relation, or asks whether it is empty, waits for it.
- Where there are few rows and many steps, as when nodes crash, classic Spark fetches each relation, and its rows go
  into the plans: what is known to be empty needs no plan.
- Otherwise Spark keeps relations in memory, behind Spark Connect too; the JVM frees them when nobody refers to them any
  more. ``cache()`` alone does not cut the plan, and ``localCheckpoint()`` alone keeps size estimates that multiply
  through joins until planning takes minutes; the two together do both. Within a round, where plans are shallow, the
  checkpoint serves.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, functions as F, types as T
from pyspark.sql.observation import Observation
from pyspark.sql.pandas.types import to_arrow_schema

from pipelines.at_once import at_once
from pipelines.engine.inline import inlined, later
from pipelines.session import Session

Facts = Mapping[str, str]
_FEW_BYTES = 128 * 1024
_N_WRITERS = 3


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class Content:
    """What an engine tells of a relation's rows.

    Attributes:
        is_empty: Whether it is known to have none; not every engine tells.
        rows: What they are, if they are few.
        n_bytes: How much room they take.
    """

    is_empty: bool = False
    rows: pa.Table | None = None
    n_bytes: int = 0


@dataclass(frozen=True)
class Relation:
    """A materialised relation.

    Attributes:
        frame: Reads it.
        release: Gives its room back; the frame must not be used afterwards.
        place: Where it is written, if it is in a file.
        content: Tells of its rows, once they are there.
    """

    frame: DataFrame
    release: Callable[[], None] = _nothing
    place: Path | None = None
    content: Callable[[], Content] = Content

    @property
    def is_empty(self) -> bool:
        """Whether it is known to have no rows."""
        return self.content().is_empty


class Materialiser(ABC):
    """Keeps relations in the way that suits the engine."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def declare(self, schemas: Mapping[str, T.StructType]) -> None:  # noqa: B027 - most engines need not be told
        """Tells the columns of relations by name, for engines that have to ask otherwise."""

    @abstractmethod
    def load(self, name: str, rows: pa.Table, schema: T.StructType) -> Relation:
        """Makes a relation of rows that the driver holds."""

    @abstractmethod
    def keep(self, name: str, frame: DataFrame) -> Relation:
        """Materialises what several steps of one round read."""

    def add(self, name: str, frame: DataFrame) -> Relation:
        """Materialises an increment, for `together`; where that takes a job, the frame is made when it is read."""
        return Relation(frame)

    def together(self, name: str, parts: Sequence[Relation]) -> DataFrame:
        """Gives a relation that lies in parts: the first was settled, the others were added."""
        return reduce(DataFrame.unionByName, (part.frame for part in parts))

    @abstractmethod
    def settle(
        self, frames: Mapping[str, DataFrame], facts: Mapping[str, Facts]
    ) -> tuple[dict[str, Relation], dict[str, int | None]]:
        """Materialises what outlives a round, with its plan cut.

        Args:
            frames: The relations by name.
            facts: For some of the relations: name of a fact to its SQL aggregate (a whole number or null).

        Returns:
            The relations, and all facts by name.
        """

    def spread(self, frame: DataFrame) -> DataFrame:
        """Gives rows that come from elsewhere placed like those of relations."""
        return frame

    def close(self) -> None:  # noqa: B027 - most engines have nothing to give back
        """Gives back what is left, when the runs are over; no relation may be used afterwards."""

    def empty(self, schema: T.StructType) -> DataFrame:
        """Gives a frame without rows; its numbers count as never null, as in relations with rows."""
        columns = [f"{_placeholder(field.dataType)} as {field.name}" for field in schema]
        return self.session.spark.range(1).where("id > 1").selectExpr(*columns)


def _placeholder(kind: T.DataType) -> str:
    return "id" if isinstance(kind, T.LongType) else f"cast(null as {kind.simpleString()})"


@dataclass
class _Kept:
    """A relation, its columns, and how many need it: its round's plans, and the state."""

    relation: Relation
    schema: T.StructType
    n_holders: int = 1


@dataclass(frozen=True)
class _Written:
    """What reads a relation that is written, and what is known of it."""

    frame: DataFrame
    content: Content


class FileMaterialiser(Materialiser):
    """Keeps each relation in a Parquet file in the scratch folder (a RAM disk where there is one)."""

    _OPTIONS: ClassVar = {"compression": "uncompressed", "dictionary_enabled": "false", "statistics_enabled": "none"}

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._number = itertools.count()
        self._folder = Path(tempfile.mkdtemp(prefix="rounds-", dir=session.scratch))
        self._schemas: dict[str, T.StructType] = {}
        self._kept: dict[int, _Kept] = {}
        # A writer waits only for relations that were begun before its own, so some writer always goes on.
        self._writers = ThreadPoolExecutor(_N_WRITERS)
        self._pending: list[Future[_Written]] = []

    def declare(self, schemas: Mapping[str, T.StructType]) -> None:
        """Remembers the columns, so that they are not asked for."""
        self._schemas |= {name: _nullable(schema) for name, schema in schemas.items()}

    def _place(self, name: str) -> Path:
        return self._folder / f"{next(self._number)}_{name}"

    def close(self) -> None:
        """Removes all relations that are left."""
        self._writers.shutdown(cancel_futures=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _relation(self, place: Path, schema: T.StructType, written: Future[_Written]) -> Relation:
        frame = later(self.session.spark, lambda: written.result().frame)
        relation = Relation(frame, lambda: self._release(id(frame), place), place, lambda: written.result().content)
        self._kept[id(frame)] = _Kept(relation, schema)
        return relation

    def _read_back(self, place: Path, schema: T.StructType) -> _Written:
        # Nothing is written where there are no rows.
        files = [*place.glob("*.parquet")]
        n_bytes = sum(file.stat().st_size for file in files)
        rows = _rows(files, schema) if n_bytes <= _FEW_BYTES else None
        frame = self._scan([place], schema) if rows is None else inlined(self.session.spark, rows, schema)
        return _Written(frame, Content(not files, rows, n_bytes))

    def _scan(self, places: Sequence[Path], schema: T.StructType) -> DataFrame:
        return self.session.spark.read.schema(schema).parquet(*map(str, places))

    def _release(self, key: int, place: Path) -> None:
        kept = self._kept[key]
        kept.n_holders -= 1
        if not kept.n_holders:
            shutil.rmtree(place, ignore_errors=True)
            del self._kept[key]

    def _settled(self, name: str, frame: DataFrame) -> Relation:
        """Gives the relation that the frame reads if it does nothing else: it has one more holder then."""
        kept = self._kept.get(id(frame))
        if kept is None or kept.schema != self._schemas.get(name):
            return self.keep(name, frame)
        kept.n_holders += 1
        return kept.relation

    def load(self, name: str, rows: pa.Table, schema: T.StructType) -> Relation:
        """Writes the rows without the engine's help."""
        place = self._place(name)
        place.mkdir()
        if len(rows):
            # Its size tells whether the rows go into plans.
            size = max(1, len(rows) // 4)
            pq.write_table(rows, place / "part.parquet", size, compression="none", use_dictionary=False)
        return self._relation(place, schema, self._writers.submit(self._read_back, place, schema))

    def keep(self, name: str, frame: DataFrame) -> Relation:
        """Writes and reads back; a name always stands for the same columns, so its schema is asked for once."""
        if name not in self._schemas:
            self._schemas[name] = _nullable(frame.schema)
        place, schema = self._place(name), self._schemas[name]

        def write() -> _Written:
            frame.write.options(**self._OPTIONS).parquet(str(place))
            return self._read_back(place, schema)

        written = self._writers.submit(write)
        self._pending.append(written)
        return self._relation(place, schema, written)

    def add(self, name: str, frame: DataFrame) -> Relation:
        """Writes an increment."""
        return self.keep(name, frame)

    def together(self, name: str, parts: Sequence[Relation]) -> DataFrame:
        """Reads all files in one scan; planning a union of scans takes long."""
        full = [part for part in parts if not part.is_empty]
        if len(full) <= 1:
            return (full or parts)[0].frame
        rows = [rows for part in full if (rows := part.content().rows) is not None]
        if len(rows) == len(full) and sum(table.nbytes for table in rows) <= _FEW_BYTES:
            return inlined(self.session.spark, pa.concat_tables(rows), self._schemas[name])
        return self._scan([part.place for part in full if part.place is not None], self._schemas[name])

    def settle(
        self, frames: Mapping[str, DataFrame], facts: Mapping[str, Facts]
    ) -> tuple[dict[str, Relation], dict[str, int | None]]:
        """Writes each relation that is not written yet, then asks for all facts in one query.

        Whatever is still being written comes to its end: it may read relations that end with the round.
        """
        relations = {name: self._settled(name, frame) for name, frame in frames.items()}
        for written in self._pending:
            written.result()
        self._pending.clear()
        return relations, _asked(relations, facts)


def _rows(files: Sequence[Path], schema: T.StructType) -> pa.Table:
    wanted = to_arrow_schema(schema)
    parts = (pq.ParquetFile(file).read(use_threads=False) for file in files)
    return pa.concat_tables([wanted.empty_table(), *(part.select(wanted.names).cast(wanted) for part in parts)])


def _asked(relations: Mapping[str, Relation], facts: Mapping[str, Facts]) -> dict[str, int | None]:
    """Asks for the facts of relations in one query."""
    asked = [
        relations[name].frame.selectExpr(*(f"{sql} as {fact}" for fact, sql in of.items()))
        for name, of in facts.items()
        if of and name in relations
    ]
    return reduce(DataFrame.crossJoin, asked).collect()[0].asDict() if asked else {}


def _nullable(kind: T.DataType) -> Any:  # noqa: ANN401 - the type that comes in goes out
    """Gives the type with nulls allowed everywhere: the same relation may be without them in one round only."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(field.name, _nullable(field.dataType), True) for field in kind])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(_nullable(kind.elementType), True)
    return kind


class RowsMaterialiser(Materialiser):
    """Keeps few rows in the driver, as parts of the plans that read them (classic engine).

    Every relation takes a job, but then it is known whether it is empty: whole steps are left out, and most of those
    of a round with faults have nothing to do.
    """

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._schemas: dict[str, T.StructType] = {}
        self._kept: dict[int, _Kept] = {}

    def declare(self, schemas: Mapping[str, T.StructType]) -> None:
        """Remembers the columns, so that they are not asked for."""
        self._schemas |= {name: _nullable(schema) for name, schema in schemas.items()}

    def _frame(self, rows: pa.Table, schema: T.StructType) -> DataFrame:
        # In one partition, joins and windows need no exchange.
        return self.session.spark.createDataFrame(rows, schema=schema).coalesce(1)

    def _relation(self, rows: pa.Table, schema: T.StructType) -> Relation:
        frame = self._frame(rows, schema)
        content = Content(not rows.num_rows, rows)
        relation = Relation(frame, lambda: self._release(id(frame)), content=lambda: content)
        self._kept[id(frame)] = _Kept(relation, schema)
        return relation

    def _release(self, key: int) -> None:
        self._kept.pop(key, None)

    def load(self, name: str, rows: pa.Table, schema: T.StructType) -> Relation:
        """Takes the rows as they are."""
        return self._relation(rows, _nullable(schema))

    def empty(self, schema: T.StructType) -> DataFrame:
        """Gives a frame that the planner knows to have no rows."""
        return self._frame(to_arrow_schema(schema).empty_table(), _nullable(schema))

    def spread(self, frame: DataFrame) -> DataFrame:
        """Gives the rows in one partition."""
        return frame.coalesce(1)

    def keep(self, name: str, frame: DataFrame) -> Relation:
        """Fetches the rows, unless the frame reads a relation and does nothing else."""
        if name not in self._schemas:
            self._schemas[name] = _nullable(frame.schema)
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
        return relations, {**nothing, **_asked(full, facts)}


class MemoryMaterialiser(Materialiser):
    """Keeps relations in the executors' memory, partitioned by run (classic engine)."""

    # Without it only what a job ends in forgets how it was made. Relations kept within a round would drag their plans
    # along, in every task of a commit of many rounds: minutes, and gigabytes of heap.
    _CUT_ALL: ClassVar = "spark.checkpoint.checkpointAllMarkedAncestors"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._was_cut_all = session.spark.conf.get(self._CUT_ALL, None)
        session.spark.conf.set(self._CUT_ALL, "true")

    def close(self) -> None:
        """Leaves the session's settings as they were; the JVM frees the relations."""
        if self._was_cut_all is None:
            self.session.spark.conf.unset(self._CUT_ALL)
        else:
            self.session.spark.conf.set(self._CUT_ALL, self._was_cut_all)

    def load(self, name: str, rows: pa.Table, schema: T.StructType) -> Relation:
        """Distributes the rows by run, so that later joins and windows over runs need no exchange."""
        frame = self.session.spark.createDataFrame(rows, schema=schema)
        return self.settle({name: self.spread(frame)}, {})[0][name]

    def empty(self, schema: T.StructType) -> DataFrame:
        """Gives a frame without rows, partitioned like those with rows, and not known to be empty when planned."""
        return self.spread(super().empty(schema))

    def spread(self, frame: DataFrame) -> DataFrame:
        """Gives the rows partitioned by run."""
        return frame.repartition(self.session.partitions, "run_id")

    def keep(self, name: str, frame: DataFrame) -> Relation:
        """Marks the frame: the first job that needs a part of it keeps it for the others.

        A lazy checkpoint rather than ``cache()``: the planner compares every plan with every cached one.
        """
        return Relation(frame.localCheckpoint(eager=False))

    def settle(
        self, frames: Mapping[str, DataFrame], facts: Mapping[str, Facts]
    ) -> tuple[dict[str, Relation], dict[str, int | None]]:
        """Runs one job a relation, all at once; the facts are observed on the way."""
        jobs = [partial(self._settled, frame, facts.get(name) or {}) for name, frame in frames.items()]
        relations, found = {}, dict[str, int | None]()
        for name, (relation, of) in zip(frames, at_once(jobs), strict=True):
            relations[name] = relation
            found |= of
        return relations, found

    def _settled(self, frame: DataFrame, facts: Facts) -> tuple[Relation, dict[str, int | None]]:
        observation = Observation() if facts else None
        if observation is not None:
            frame = frame.observe(observation, *(_aggregate(fact, sql) for fact, sql in facts.items()))
        cached = frame.cache()
        relation = Relation(cached.localCheckpoint())
        cached.unpersist()
        return relation, {} if observation is None else observation.get


class RemoteMaterialiser(MemoryMaterialiser):
    """Keeps relations in the memory of a Spark behind Spark Connect, which does not tell what a checkpoint observes."""

    def settle(
        self, frames: Mapping[str, DataFrame], facts: Mapping[str, Facts]
    ) -> tuple[dict[str, Relation], dict[str, int | None]]:
        """Runs one job a relation, then one for all facts."""
        relations, _ = super().settle(frames, {})
        return relations, _asked(relations, facts)


def _aggregate(fact: str, sql: str) -> Column:
    return F.expr(f"cast({sql} as bigint)").alias(fact)


def materialiser_for(session: Session, *, is_eventful: bool = False) -> Materialiser:
    """Chooses how the session's engine keeps relations.

    Args:
        session: The engine.
        is_eventful: Whether rounds have many steps over few rows.

    The scratch folder is for engines in this process: nobody knows which folders a remote server sees.
    """
    match session.engine:
        case "spark":
            return RowsMaterialiser(session) if is_eventful else MemoryMaterialiser(session)
        case "connect":
            return RemoteMaterialiser(session)
        case "sail":
            return FileMaterialiser(session)
