"""Checkpoints of DataFrames: computes a DataFrame once, so that later plans read its rows instead of its plan.

`Checkpoints.checkpoint` ends a dataflow round. It computes the union of all frames of the round in one job.
The job also returns the counts and rows that the driver needs. Two classes store the rows:

- `SparkCheckpoints`, for Spark with many rows: in the executors' memory. The rows are partitioned by run, or by run and
  node if the number of runs is less than the number of partitions. Joins of a round need no exchange, except joins of
  sent messages with their receivers.
- `DriverCheckpoints`, for Sail, and for Spark with few rows: in this process. Later plans contain the rows inline.
  Spark prunes the parts of a plan that read empty inline frames. Pruning halves the CPU time of a round of `delta` with
  a crash. Large tables of Sail are written to files in the scratch folder, which later plans read.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, types as T
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from pipelines.engines.frames import arrow_of, frame_of, union
from pipelines.engines.session import Session
from pipelines.engines.settings import shipped_settings

_NODE: Final = ("node_id", "dst", "subscriber", "source", "src")
"""Columns that can identify the node of a row. The first of these columns that a relation has identifies its nodes."""
_FEW_BYTES: Final = 1024**2
"""Size up to which plans of Sail contain the rows of a table inline."""
_CUT_ALL: Final = "spark.checkpoint.checkpointAllMarkedAncestors"
"""The Spark setting with which a job truncates the lineage of all marked frames that it reads.

By default, a job truncates only the lineage of its result.
"""
_SHIPPED: Final = (
    "spark.sql.adaptive.enabled",
    "spark.sql.requireAllClusterKeysForCoPartition",
    "spark.sql.unionOutputPartitioning",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.optimizer.runtime.bloomFilter.enabled",
    "spark.sql.inMemoryColumnarStorage.compressed",
)
"""Settings of ``local.conf`` that a caller's session also needs. With Spark's defaults, rounds take twice the time."""
_CUT_EVERY: Final = 8
"""Number of checkpoints after which a job of its own truncates the lineage.

The job of the next round truncates the lineage only after its tasks have been built. These tasks refer to the
partitions of the round before, and thus to all earlier rounds since the last job of its own. Spark frees neither the
rows nor the shuffle files of these rounds. With this job in each round, runs of 10,000 brokers take 15 % more CPU
time.
"""
_PLAN_CACHE: Final = "spark.connect.session.planCache.enabled"
"""The setting with which a Spark Connect server keeps the plans of queries, and thus the rows of past checkpoints."""
_EXCLUDED: Final = "spark.sql.optimizer.excludedRules"
_ALIASES: Final = "org.apache.spark.sql.catalyst.optimizer.RemoveRedundantAliases"
"""An excluded rule, which replaces an alias of a column by the column.

Then a checkpoint of the plan has no known partitioning, so each join of its rows would need an exchange: a round of
`delta` would have 21 stages instead of 7.
"""


@dataclass(frozen=True)
class Part:
    """An input frame of a checkpoint.

    Attributes:
        rows: The frame.
        schema: The columns of the frame; the first column is ``run_id``.
        digest: A SQL expression that maps a row to a string. `CheckpointResult.counts` contains the number of rows for
            each string.
    """

    rows: DataFrame
    schema: T.StructType
    digest: str = "''"


@dataclass(frozen=True)
class CheckpointResult:
    """The frames, fetched rows and row counts of a checkpoint.

    Attributes:
        frames: All frames except the fetched frames, by name. The plans of these frames read the checkpoint's rows.
        tables: The rows of the fetched frames, by name.
        counts: For each frame, the number of rows for each digest.
    """

    frames: Mapping[str, DataFrame]
    tables: Mapping[str, pa.Table]
    counts: Mapping[str, Mapping[str, int]]


@dataclass(frozen=True)
class _Slots:
    """The columns that several relations share in their union.

    Plans with shared columns are analysed and optimised faster than plans with one struct column for each relation.
    """

    types: Mapping[str, str]  # the SQL type of each shared column
    of: Mapping[str, Mapping[str, str]]  # for each relation, the column of each field
    tags: Mapping[str, int]  # the number of each relation, which column ``tag`` contains


class Checkpoints(ABC):
    """Computes frames once and keeps their rows."""

    def __init__(self, session: Session) -> None:
        self.session = session

    @abstractmethod
    def load(self, rows: pa.Table, node: str | None = None) -> DataFrame:
        """Returns a frame with the rows of an Arrow table.

        Args:
            rows: The table.
            node: The column with the node by which steps join the rows. By default, `_NODE` determines the column.
        """

    @abstractmethod
    def __call__(self, name: str, frame: DataFrame) -> DataFrame:
        """Returns a frame that reads the rows of ``frame``, which are computed only once; files are named ``name``."""

    @abstractmethod
    def checkpoint(self, parts: Mapping[str, Part], fetched: Collection[str] = ()) -> CheckpointResult:
        """Computes the frames ``parts`` in one job; returns those whose names are in ``fetched`` as Arrow tables."""

    def is_empty(self, frame: DataFrame) -> bool:
        """Returns whether a materialised frame is known to be empty: not for rows in executors, which need a job."""
        return False

    def empty(self, schema: T.StructType) -> DataFrame:
        """Returns a frame without rows."""
        return frame_of(self.session.spark, to_arrow_schema(schema).empty_table())

    def end_round(self, read: Sequence[DataFrame]) -> None:  # noqa: B027 - Spark frees rows without a reference
        """Frees the frames of a round except the frames in ``read``, which later rounds use."""

    def close(self) -> None:  # noqa: B027 - an engine may have nothing to free
        """Frees all frames; no frame may be used afterwards."""


def checkpoints_for(session: Session, n_runs: int | None = None, *, is_small: bool = False) -> Checkpoints:
    """Returns the `Checkpoints` of a session for ``n_runs`` runs, if known. ``is_small``: all frames have few rows."""
    if session.engine == "local" or is_small:
        return DriverCheckpoints(session)
    return SparkCheckpoints(session, is_by_node=n_runs is not None and n_runs < session.partitions)


class SparkCheckpoints(Checkpoints):
    """Keeps rows in the executors' memory. The JVM frees the rows that no frame references."""

    def __init__(self, session: Session, *, is_by_node: bool = False) -> None:
        """Changes Spark's settings until `close`. Frames are partitioned by run; if ``is_by_node``, also by node."""
        super().__init__(session)
        self._by = ("run_id", "place") if is_by_node else ("run_id",)
        self._number = itertools.count(1)
        self._cached: DataFrame | None = None
        rules = ",".join(filter(None, (session.spark.conf.get(_EXCLUDED, None), _ALIASES)))
        shipped = {key: value for key, value in shipped_settings().items() if key in _SHIPPED}
        self._settings = ExitStack()
        wanted = {**shipped, _CUT_ALL: "true", _PLAN_CACHE: "false", _EXCLUDED: rules}
        self._settings.enter_context(session.configured(wanted))

    def close(self) -> None:
        """Frees the cached rows and restores the session's settings."""
        self._uncache(None)
        self._settings.close()

    def load(self, rows: pa.Table, node: str | None = None) -> DataFrame:
        """Returns the rows of an Arrow table as a frame, partitioned or broadcast so that joins need no exchange."""
        place, is_by_node = node or _place(rows.schema.names), "place" in self._by
        frame = frame_of(self.session.spark, rows)
        if place is None:
            loaded = frame.coalesce(1) if is_by_node else frame.repartition(self.session.partitions, *self._by)
            return loaded.localCheckpoint(eager=False).hint("broadcast" if is_by_node else "shuffle_hash")
        by = ("run_id", place) if is_by_node else self._by
        return frame.repartition(self.session.partitions, *by).localCheckpoint(eager=False)

    def __call__(self, name: str, frame: DataFrame) -> DataFrame:
        """Marks a frame for a checkpoint: the first job that reads the frame keeps the frame's rows.

        The columns of the result have new expression ids. With the ids of ``frame``, Spark 4.1 would reject a join with
        another frame that is derived from these rows: ``Failure when resolving conflicting references``.
        """
        marked = frame.localCheckpoint(eager=False)
        return marked.selectExpr(*(f"`{name}` as `{name}`" for name in marked.columns))

    def checkpoint(self, parts: Mapping[str, Part], fetched: Collection[str] = ()) -> CheckpointResult:
        """Runs one job that caches and counts all rows and fetches the rows of the frames in ``fetched``.

        The next job truncates the lineage of the cached rows; every `_CUT_EVERY` checkpoints, a second job of one stage
        truncates it at once. From the cache the planner knows the size of the rows. Otherwise its estimates would
        multiply at each checkpoint, and planning would take minutes after 20 rounds.
        """
        slots = _slots({name: part.schema for name, part in parts.items()})
        # Spark omits the exchange of a frame that has this partitioning. Before Spark 4.1, a union has no known
        # partitioning, so it needs an exchange.
        to = self.session.partitions, *self._by
        whole = union(frame.repartition(*to) for frame in _tagged(parts, slots)).repartition(*to)
        if not self.session.is_classic:
            # A server builds the plan of each query again, and finds no cached rows for a plan that reads checkpointed
            # rows twice. The plan that reads this checkpoint has one leaf.
            whole = whole.localCheckpoint(eager=False)
        whole = whole.cache()
        found = _counts_and_rows(whole, slots, fetched).toArrow()
        cut = whole.localCheckpoint(eager=next(self._number) % _CUT_EVERY == 0)
        self._uncache(whole)
        counted = found.filter(pc.is_valid(found["n_rows"]))
        counts: dict[str, dict[str, int]] = {name: {} for name in parts}
        names = [*parts]
        for row in counted.select(["tag", "digest", "n_rows"]).to_pylist():
            counts[names[row["tag"]]][row["digest"]] = row["n_rows"]
        rows = found.filter(pc.is_null(found["n_rows"]))
        tables = {name: _part_of(rows, name, parts[name].schema, slots) for name in parts if name in fetched}
        kept = {
            name: _frame_of_part(cut, name, part.schema, slots) if counts[name] else self.empty(part.schema)
            for name, part in parts.items()
            if name not in fetched
        }
        return CheckpointResult(kept, tables, counts)

    def _uncache(self, cached: DataFrame | None) -> None:
        """Frees the rows that the previous checkpoint cached; stores ``cached``, the rows of this checkpoint."""
        if self._cached is not None:
            self._cached.unpersist()
        self._cached = cached


@dataclass(frozen=True)
class _FetchedFrame:
    """A materialised frame whose rows the driver has fetched."""

    frame: DataFrame  # this reference prevents Python from reusing the object's `id` for another frame
    file: Path | None  # the file with the rows of the frame; None if the rows are inline
    is_empty: bool


class DriverCheckpoints(Checkpoints):
    """Keeps rows in the driver. Later plans contain the rows inline; large tables of Sail are in scratch files."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._number = itertools.count()
        self._kept: dict[int, _FetchedFrame] = {}

    def close(self) -> None:
        """Removes the files of all materialised frames."""
        self.end_round(())

    def load(self, rows: pa.Table, node: str | None = None) -> DataFrame:
        """Returns a frame of an Arrow table."""
        return self._frame("loaded", rows, is_kept=False)

    def __call__(self, name: str, frame: DataFrame) -> DataFrame:
        """Fetches the rows of ``frame``; returns a frame of the fetched rows."""
        return self._frame(name, arrow_of(frame), is_kept=True)

    def checkpoint(self, parts: Mapping[str, Part], fetched: Collection[str] = ()) -> CheckpointResult:
        """Fetches the rows of all frames with one query."""
        slots = _slots({name: part.schema for name, part in parts.items()})
        found = union(_tagged(parts, slots)).toArrow()
        tables = {name: _part_of(found, name, part.schema, slots) for name, part in parts.items()}
        counts = {name: _counts(found, slots.tags[name]) for name in parts}
        kept = {name: self._frame(name, tables.pop(name), is_kept=True) for name in parts if name not in fetched}
        return CheckpointResult(kept, tables, counts)

    def is_empty(self, frame: DataFrame) -> bool:
        """Returns whether a materialised frame has no rows."""
        kept = self._kept.get(id(frame))
        return kept is not None and kept.is_empty

    def end_round(self, read: Sequence[DataFrame]) -> None:
        """Removes the files of materialised frames that later rounds do not read."""
        for gone in self._kept.keys() - {id(frame) for frame in read}:
            if (file := self._kept.pop(gone).file) is not None:
                file.unlink(missing_ok=True)

    def _frame(self, name: str, rows: pa.Table, *, is_kept: bool) -> DataFrame:
        spark, file = self.session.spark, None
        if self.session.engine != "local":
            frame = frame_of(spark, rows).coalesce(1)  # with one partition, joins need no exchange
        elif rows.nbytes <= _FEW_BYTES:
            frame = frame_of(spark, rows)
        else:
            file = self.session.scratch / f"{id(self)}-{next(self._number)}-{name}.parquet"
            pq.write_table(rows, file, compression="none", use_dictionary=False)
            frame = spark.read.schema(from_arrow_schema(rows.schema)).parquet(str(file))
        if is_kept:
            self._kept[id(frame)] = _FetchedFrame(frame, file, not len(rows))
        return frame


def _place(columns: Sequence[str]) -> str | None:
    return next((name for name in _NODE if name in columns), None)


def _slots(schemas: Mapping[str, T.StructType]) -> _Slots:
    """Returns, for each type, as many shared columns as the relation with the most fields of this type has."""
    names: dict[tuple[str, int], str] = {}
    of = {}
    for name, schema in schemas.items():
        place, n_of_type = _place(schema.names), Counter[str]()
        of[name] = {"run_id": "run_id"} | ({} if place is None else {place: "place"})
        for field in schema:
            if field.name not in of[name]:
                kind = field.dataType.simpleString()
                of[name][field.name] = names.setdefault((kind, n_of_type[kind]), f"c{len(names)}")
                n_of_type[kind] += 1
    tags = {name: tag for tag, name in enumerate(schemas)}
    return _Slots({name: kind for (kind, _), name in names.items()}, of, tags)


def _tagged(parts: Mapping[str, Part], slots: _Slots) -> list[DataFrame]:
    """Returns the frames ``parts`` with columns ``tag, digest, run_id, place`` and the columns of ``slots``.

    ``tag`` is the number of a row's frame, and ``digest`` is the value of `Part.digest` for the row. ``place`` is the
    node of the row, or null if the frame has none of the columns `_NODE`.
    """
    frames = []
    for name, part in parts.items():
        field_of = {slot: field for field, slot in slots.of[name].items()}
        place = field_of.get("place", "null")
        head = [f"{slots.tags[name]} as tag", f"{part.digest} as digest", "run_id", f"cast({place} as bigint) as place"]
        columns = (
            f"cast({f'`{field_of[slot]}`' if slot in field_of else 'null'} as {kind}) as {slot}"
            for slot, kind in slots.types.items()
        )
        frames.append(part.rows.selectExpr(*head, *columns))
    return frames


def _counts_and_rows(whole: DataFrame, slots: _Slots, fetched: Collection[str]) -> DataFrame:
    """Returns counts and fetched rows of ``whole``, the union of the result of `_tagged`.

    A count has the number of rows ``n_rows`` of one ``tag`` and one ``digest``. A fetched row has a ``tag`` in
    ``fetched``, and its ``n_rows`` is null.
    """
    read = [slot for slot in slots.types if any(slot in slots.of[name].values() for name in fetched)]
    nulls = [f"cast(null as {slots.types[slot]}) as {slot}" for slot in read]
    counts = whole.groupBy("tag", "digest").count().selectExpr(
        "tag", "digest", "count as n_rows", "cast(null as bigint) as run_id", "cast(null as bigint) as place", *nulls
    )  # fmt: skip
    if not fetched:
        return counts
    wanted = whole.where(f"tag in ({', '.join(f'{slots.tags[name]}' for name in fetched)})").selectExpr(
        "tag", "digest", "cast(null as bigint) as n_rows", "run_id", "place", *read
    )  # fmt: skip
    return counts.unionByName(wanted)


def _frame_of_part(cut: DataFrame, name: str, schema: T.StructType, slots: _Slots) -> DataFrame:
    columns = (f"{slots.of[name][field]} as `{field}`" for field in schema.names)
    return cut.where(f"tag = {slots.tags[name]}").selectExpr(*columns)


def _part_of(found: pa.Table, name: str, schema: T.StructType, slots: _Slots) -> pa.Table:
    rows, wanted = found.filter(pc.equal(found["tag"], slots.tags[name])), to_arrow_schema(schema)
    columns = [rows[slots.of[name][field.name]].cast(field.type) for field in wanted]
    return pa.table(columns, schema=pa.schema([field.with_nullable(True) for field in wanted]))


def _counts(found: pa.Table, tag: int) -> dict[str, int]:
    digests = found.filter(pc.equal(found["tag"], tag))["digest"].combine_chunks().value_counts()
    return {row["values"]: row["counts"] for row in digests.to_pylist()}
