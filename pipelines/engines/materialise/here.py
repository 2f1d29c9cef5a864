"""Relations of few rows are worked out in this process (`engines.rows`): an engine plans for longer than that takes."""

from __future__ import annotations

import gc
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar, cast

from pyspark.sql import DataFrame, types as T

from pipelines.engines.inline import Readable, later
from pipelines.engines.materialise.base import (
    Cached,
    Content,
    Facts,
    Relation,
    TrackingMaterialiser,
    asked,
    asked_facts,
)
from pipelines.engines.rows.evaluate import evaluated
from pipelines.engines.rows.held import Held
from pipelines.engines.rows.kinds import UnknownPlanError, kinds_of, type_of
from pipelines.engines.rows.operators import Rows, most_rows
from pipelines.engines.session import Session


class Made(Readable, Protocol):
    """A relation that is there."""

    @property
    def content(self) -> Content:
        """What is known of its rows."""


One = TypeVar("One", bound=Made)
_VALUE_BYTES: Final = 64
"""Of a value in a row, its place in the tuple, indexes and the copy in Arrow's form included."""
_GARBAGE: Final = 1_000_000, 20, 50
"""When to look for circles of objects (`gc`): rows have none, and going through them takes a tenth of the time."""


@dataclass(kw_only=True)
class Kept(Cached, Generic[One]):
    """A relation that is made now, or there already.

    Attributes:
        made: The relation.
        free: Frees what it takes.
    """

    made: Future[One]
    free: Callable[[], None]


class HereMaterialiser(TrackingMaterialiser, Generic[One]):
    """Works out here what reads few rows."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*_GARBAGE)

    def close(self) -> None:
        """Has Python look for circles of objects as before."""
        gc.set_threshold(*self._thresholds)

    @abstractmethod
    def _held(self, name: str, schema: T.StructType, rows: Rows) -> tuple[One, Callable[[], None]]:
        """Returns rows as a relation, and what frees it."""

    @abstractmethod
    def _joined(self, schema: T.StructType, parts: Sequence[One]) -> DataFrame:
        """Returns the rows of several relations, as an engine reads them."""

    def _here(self, name: str, held: Held) -> Relation:
        """Returns rows as the relation that a name stands for.

        Raises:
            UnknownPlanError: A column is not there, or has no type.
        """
        return self._of_rows(name, *self._picked(name, held))

    def _of_rows(self, name: str, schema: T.StructType, rows: Rows) -> Relation:
        """Returns rows of this process as a relation."""
        made, free = self._held(name, schema, rows)
        return self._relation(schema, done(made), free)

    def _picked(self, name: str, held: Held) -> tuple[T.StructType, Rows]:
        """Returns the columns that a name stands for, and the rows with them; see `_here`."""
        schema = self._schemas.get(name)
        if schema is None:
            schema = self._schemas[name] = T.StructType([*map(T.StructField, held.names, map(type_of, held.kinds))])
        return schema, held.picked(schema.names, kinds_of(schema))

    def _relation(self, schema: T.StructType, made: Future[One], free: Callable[[], None]) -> Relation:
        frame = later(self.session.spark, made, schema)
        relation = Relation(frame, lambda: self._release(id(frame)), lambda: made.result().content)
        self._cached[id(frame)] = Kept(relation, schema, made=made, free=free)
        return relation

    def _release(self, key: int) -> None:
        kept = cast(Kept[One], self._cached[key])
        kept.n_holders -= 1
        if not kept.n_holders:
            kept.free()
            del self._cached[key]

    def _again(self, name: str, frame: DataFrame) -> Relation | None:
        """Returns the relation that the frame reads if it does nothing else: it has one more holder then."""
        known = self._known(frame, self._schema(name, frame)) if id(frame) in self._cached else None
        if known is None:
            return None
        known.n_holders += 1
        return known.relation

    def append(self, name: str, frame: DataFrame) -> Relation:
        """Materialises an increment at once, unless it is a relation already."""
        return self._again(name, frame) or self.cache(name, frame)

    def settled(self, frames: Mapping[str, DataFrame]) -> dict[str, Relation] | None:
        """Works out all of them here, or none."""
        try:
            held = {name: evaluated(frame, may_wait=True) for name, frame in frames.items()}
            return {name: self._here(name, rows) for name, rows in held.items()}
        except UnknownPlanError:
            return None

    def _union(self, name: str, parts: Sequence[Relation]) -> DataFrame:
        """Puts rows together."""
        schema = self._schemas[name]
        made = [cast(Kept[One], self._cached[id(part.frame)]).made for part in parts]
        there = [one.result() for one in made]
        try:
            held = [one.held for one in there]
        except UnknownPlanError:
            return self._joined(schema, there)
        if sum(one.n_rows for one in held) > most_rows():
            return self._joined(schema, there)
        rows = [row for one in held for row in one.rows.rows]
        return later(self.session.spark, done(self._held(name, schema, Rows(rows))[0]), schema)

    def _facts(self, relations: Mapping[str, Relation], facts: Mapping[str, Facts]) -> dict[str, int | None]:
        """Returns the facts of relations: of those whose rows are here without a question."""
        known: dict[str, int | None] = {}
        rest: dict[str, Facts] = {}
        for name, of in facts.items():
            if not of or name not in relations:
                continue
            try:
                held = evaluated(asked(relations[name].frame, of), may_wait=True)
            except UnknownPlanError:
                rest[name] = of
            else:
                known |= dict(zip(held.names, held.rows.rows[0], strict=True))
        return known | asked_facts(relations, rest)


def done(made: One) -> Future[One]:
    """Returns a relation that is there already."""
    found: Future[One] = Future()
    found.set_result(made)
    return found


def n_bytes_of(rows: Rows, schema: T.StructType) -> int:
    """Returns about how much room rows take."""
    return len(rows.rows) * len(schema) * _VALUE_BYTES
