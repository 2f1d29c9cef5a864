"""How an engine keeps a round's relations: the one place where a plan is cut.

- Where a plan reads few rows, they are worked out in this process (`engines.rows`), on Sail and on classic Spark.
- Else engines without a usable cache (Sail) write each relation to a file of the session's scratch folder and read it
  back; the rows of a small one go into the plans themselves. They are written in the background, as an engine plans in
  one thread: who reads a relation, or asks whether it is empty, waits for it.
- Where there are few rows and many steps, as when nodes crash, classic Spark fetches each relation that it makes: what
  is known to be empty needs no plan.
- Otherwise Spark keeps relations in memory, behind Spark Connect too; the JVM frees them when nobody refers to them any
  more. ``localCheckpoint()`` cuts the plan, but keeps size estimates that multiply through joins until planning takes
  minutes; classic Spark is given the checkpoint without them (`memory`). Behind Spark Connect a ``cache()`` in between,
  which alone does not cut the plan, does that, for a fifth of the time more.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, types as T

from pipelines.engines.planner import collected
from pipelines.engines.session import Session

Facts = Mapping[str, str]


def nothing() -> None:
    """Frees nothing."""


@dataclass(frozen=True)
class Content:
    """What an engine knows of a relation's rows.

    Attributes:
        is_empty: Whether it is known to have none; not every engine knows.
        rows: Returns them, where the driver holds them.
        n_bytes: How much room they take.
    """

    is_empty: bool = False
    rows: Callable[[], pa.Table] | None = None
    n_bytes: int = 0


@dataclass(frozen=True)
class Relation:
    """A materialised relation.

    Attributes:
        frame: Reads it.
        release: Frees its memory; the frame must not be used afterwards.
        content: Returns what is known of its rows, once they are there.
    """

    frame: DataFrame
    release: Callable[[], None] = nothing
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
        """Declares the columns of relations by name, for engines that have to ask otherwise."""

    @abstractmethod
    def load(self, name: str, rows: pa.Table, schema: T.StructType) -> Relation:
        """Makes a relation of rows that the driver holds."""

    @abstractmethod
    def cache(self, name: str, frame: DataFrame) -> Relation:
        """Materialises what several steps of one round read."""

    def append(self, name: str, frame: DataFrame) -> Relation:
        """Materialises an increment, for `union`; where that takes a job, the frame is made when it is read."""
        return Relation(frame)

    def union(self, name: str, parts: Sequence[Relation]) -> DataFrame:
        """Returns a relation that lies in parts: the first is a checkpoint, the others were appended."""
        return reduce(DataFrame.unionByName, (part.frame for part in parts))

    @abstractmethod
    def checkpoint(
        self, frames: Mapping[str, DataFrame], facts: Mapping[str, Facts]
    ) -> tuple[dict[str, Relation], dict[str, int | None]]:
        """Materialises what outlives a round, with its plan cut.

        Args:
            frames: The relations by name.
            facts: For some of the relations: name of a fact to its SQL aggregate (a whole number or null).

        Returns:
            The relations, and all facts by name.
        """

    def settled(self, frames: Mapping[str, DataFrame]) -> dict[str, Relation] | None:
        """Returns relations of what is read later, if they can be worked out now and here; None: the frames stay."""
        return None

    def discard(self) -> None:  # noqa: B027 - most engines have nothing under way
        """Forgets what is being written for a round that has failed; relations of earlier rounds stay."""

    def repartition(self, frame: DataFrame) -> DataFrame:
        """Returns rows that come from elsewhere placed like those of relations."""
        return frame

    def close(self) -> None:  # noqa: B027 - most engines have nothing to give back
        """Releases what is left, when the runs are over; no relation may be used afterwards."""

    def empty(self, schema: T.StructType) -> DataFrame:
        """Returns a frame without rows; its numbers count as never null, as in relations with rows."""
        columns = [f"{_placeholder(field.dataType)} as {field.name}" for field in schema]
        return self.session.spark.range(1).where("id > 1").selectExpr(*columns)


def _placeholder(kind: T.DataType) -> str:
    return "id" if isinstance(kind, T.LongType) else f"cast(null as {kind.simpleString()})"


@dataclass
class Cached:
    """A relation, its columns, and how many need it: its round's plans, and the state."""

    relation: Relation
    schema: T.StructType
    n_holders: int = 1


class TrackingMaterialiser(Materialiser):
    """Knows its relations by their frames, and the columns that each name stands for."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._schemas: dict[str, T.StructType] = {}
        self._cached: dict[int, Cached] = {}

    def declare(self, schemas: Mapping[str, T.StructType]) -> None:
        """Remembers the columns, so that they are not asked for."""
        self._schemas |= {name: nullable(schema) for name, schema in schemas.items()}

    def union(self, name: str, parts: Sequence[Relation]) -> DataFrame:
        """Returns a relation that lies in parts, without those that have no rows."""
        full = [part for part in parts if not part.is_empty]
        return self._union(name, full) if len(full) > 1 else (full or parts)[0].frame

    @abstractmethod
    def _union(self, name: str, parts: Sequence[Relation]) -> DataFrame:
        """Returns a relation that lies in two parts or more, all with rows."""

    def _schema(self, name: str, frame: DataFrame) -> T.StructType:
        """Returns the columns that a name stands for; they are asked for once."""
        if name not in self._schemas:
            self._schemas[name] = nullable(frame.schema)
        return self._schemas[name]

    def _known(self, frame: DataFrame, schema: T.StructType) -> Cached | None:
        """Returns the relation that a frame reads, if it does nothing else and the columns are the same."""
        cached = self._cached.get(id(frame))
        return cached if cached is not None and cached.schema == schema else None


def asked_facts(relations: Mapping[str, Relation], facts: Mapping[str, Facts]) -> dict[str, int | None]:
    """Asks for the facts of relations in one query."""
    frames = [asked(relations[name].frame, of) for name, of in facts.items() if of and name in relations]
    return collected(reduce(DataFrame.crossJoin, frames))[0].asDict() if frames else {}


def asked(frame: DataFrame, facts: Facts) -> DataFrame:
    """Returns facts of a relation as a row."""
    return frame.selectExpr(*(f"{sql} as `{fact}`" for fact, sql in facts.items()))


def nullable(kind: T.DataType) -> Any:  # noqa: ANN401 - the type that comes in goes out
    """Returns the type with nulls allowed everywhere: the same relation may be without them in one round only."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(field.name, nullable(field.dataType), True) for field in kind])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(nullable(kind.elementType), True)
    return kind
