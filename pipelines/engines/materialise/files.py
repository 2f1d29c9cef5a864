"""Relations as rows in this process, and as Parquet files in the session's scratch folder (Sail)."""

from __future__ import annotations

import gc
import itertools
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, cast

import pyarrow as pa
from pyspark.sql import DataFrame, types as T

from pipelines.engines.inline import later
from pipelines.engines.materialise.base import Cached, Facts, Relation, TrackingMaterialiser, asked_facts
from pipelines.engines.materialise.made import Made, write
from pipelines.engines.rows.evaluate import Held, evaluated
from pipelines.engines.rows.kinds import UnfinishedError, UnknownPlanError, kinds_of, type_of
from pipelines.engines.rows.operators import MOST_ROWS, Rows
from pipelines.engines.session import Session
from pipelines.engines.workers import stop_workers
from udfs.nodes import interruption

_N_WRITERS = 3
_GARBAGE = 200_000, 20, 50
"""When to look for circles of objects (`gc`): rows have none, and going through them takes a tenth of the time."""


@dataclass(kw_only=True)
class _Kept(Cached):
    """A relation that is made now, or there already."""

    made: Future[Made]


class FileMaterialiser(TrackingMaterialiser):
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
        interruption.proceed()
        self._thresholds = gc.get_threshold()
        gc.set_threshold(*_GARBAGE)

    def _path(self, name: str) -> Path:
        return self._folder / f"{next(self._number)}_{name}"

    def interrupt(self) -> None:
        """Ends the node programs that are played: Sail, which runs them in this process, waits for them otherwise."""
        interruption.interrupt()
        stop_workers()

    def close(self) -> None:
        """Removes all relations that are left."""
        gc.set_threshold(*self._thresholds)
        self._writers.shutdown(cancel_futures=True)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _relation(self, path: Path, schema: T.StructType, made: Future[Made]) -> Relation:
        frame = later(self.session.spark, made)
        relation = Relation(frame, lambda: self._release(id(frame), path), lambda: made.result().content)
        self._cached[id(frame)] = _Kept(relation, schema, made=made)
        return relation

    def discard(self) -> None:
        """Waits for what is being written, and forgets it, failed or not."""
        wait(self._pending)
        self._pending.clear()

    def _release(self, key: int, path: Path) -> None:
        cached = self._cached[key]
        cached.n_holders -= 1
        if not cached.n_holders:
            shutil.rmtree(path, ignore_errors=True)
            del self._cached[key]

    def _checkpointed(self, name: str, frame: DataFrame) -> Relation:
        """Returns the relation that the frame reads if it does nothing else: it has one more holder then."""
        known = self._known(frame, self._schema(name, frame))
        if known is None:
            return self.cache(name, frame)
        known.n_holders += 1
        return known.relation

    def load(self, name: str, rows: pa.Table, schema: T.StructType) -> Relation:
        """Writes the rows without the engine's help."""
        path = self._path(name)
        write(rows, path)
        return self._relation(path, schema, self._writers.submit(self._made, path, schema))

    def _made(self, path: Path, schema: T.StructType, rows: Rows | None = None) -> Made:
        return Made(self.session.spark, path, schema, rows)

    def cache(self, name: str, frame: DataFrame) -> Relation:
        """Works the rows out here, if what they are made of is there and not much; otherwise has them written."""
        path, may_be_here = self._path(name), True
        try:
            here = self._worked_out(name, path, evaluated(frame, may_wait=False))
        except UnfinishedError:
            here = None
        except UnknownPlanError:
            here, may_be_here = None, False
        if here is not None:
            return self._relation(path, self._schemas[name], _done(here))
        schema = self._schema(name, frame)
        made = self._writers.submit(self._write, name, path, frame, may_be_here=may_be_here)
        self._pending.append(made)
        return self._relation(path, schema, made)

    def settled(self, frames: Mapping[str, DataFrame]) -> dict[str, Relation] | None:
        """Works out all of them here, or none."""
        made = {}
        try:
            for name, frame in frames.items():
                path = self._path(name)
                made[name] = path, self._worked_out(name, path, evaluated(frame, may_wait=True))
        except UnknownPlanError:
            return None
        return {name: self._relation(path, self._schemas[name], _done(one)) for name, (path, one) in made.items()}

    def _write(self, name: str, path: Path, frame: DataFrame, *, may_be_here: bool) -> Made:
        with suppress(UnknownPlanError):
            if may_be_here:
                return self._worked_out(name, path, evaluated(frame, may_wait=True))
        frame.write.options(**self._OPTIONS).parquet(str(path))
        return self._made(path, self._schemas[name])

    def _worked_out(self, name: str, path: Path, held: Held) -> Made:
        """Returns rows as a relation with the columns that a name stands for.

        Raises:
            UnknownPlanError: A column is not there, or has no type.
        """
        schema = self._schemas.get(name)
        if schema is None:
            schema = self._schemas[name] = T.StructType([*map(T.StructField, held.names, map(type_of, held.kinds))])
        return self._made(path, schema, held.picked(schema.names, kinds_of(schema)))

    def _union(self, name: str, parts: Sequence[Relation]) -> DataFrame:
        """Puts rows together; reads all files in one scan, as planning a union of scans takes long."""
        made, schema = [self._kept(part).made for part in parts], self._schemas[name]
        path, there = self._path(name), [one.result() for one in made]
        with suppress(UnknownPlanError):
            rows = [row for one in there for row in one.held.rows.rows]
            if len(rows) <= MOST_ROWS:
                return later(self.session.spark, _done(self._made(path, schema, Rows(rows))))
        return self.session.spark.read.schema(schema).parquet(*(str(one.written) for one in there))

    def _kept(self, relation: Relation) -> _Kept:
        return cast(_Kept, self._cached[id(relation.frame)])

    def checkpoint(
        self, frames: Mapping[str, DataFrame], facts: Mapping[str, Facts]
    ) -> tuple[dict[str, Relation], dict[str, int | None]]:
        """Writes each relation that is not written yet, then asks for all facts in one query.

        Whatever is still being written comes to its end: it may read relations that end with the round.
        """
        relations = {name: self._checkpointed(name, frame) for name, frame in frames.items()}
        for written in self._pending:
            written.result()
        self._pending.clear()
        known, rest = self._known_facts(relations, facts)
        return relations, {**known, **asked_facts(relations, rest)}

    def _known_facts(
        self, relations: Mapping[str, Relation], facts: Mapping[str, Facts]
    ) -> tuple[dict[str, int | None], dict[str, Facts]]:
        """Returns the facts of relations whose rows are here, and those to ask for."""
        known: dict[str, int | None] = {}
        rest: dict[str, Facts] = {}
        for name, of in facts.items():
            if not of or name not in relations:
                continue
            asked = relations[name].frame.selectExpr(*(f"{sql} as `{fact}`" for fact, sql in of.items()))
            try:
                held = evaluated(asked, may_wait=True)
            except UnknownPlanError:
                rest[name] = of
            else:
                known |= dict(zip(held.names, held.rows.rows[0], strict=True))
        return known, rest


def _done(made: Made) -> Future[Made]:
    found: Future[Made] = Future()
    found.set_result(made)
    return found
