"""Arrow functions over independent rows: in this process, in processes of this machine, on Spark's executors.

Processes use all cores of engine `local`: the threads of one process take turns at Python's interpreter lock.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock

import pyarrow as pa
from loky import BrokenProcessPool, ProcessPoolExecutor
from pyspark.cloudpickle import dumps
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from udfs.nodes.processes import PACKED, Play, apply, check, pack, packed, prepare, serve, stream_of, unpacked

_SLICES_PER_CORE = 4
"""Slices of rows a core: no core waits long for the last slice, and none holds all of its share at once."""
_IDLE_SECONDS = 300
_lock = Lock()


@dataclass
class _Pool:
    """Processes; `is_stopped`: their results are not needed any more."""

    executor: ProcessPoolExecutor
    is_stopped: bool = False


_pools: dict[int, _Pool] = {}
"""By the number of processes: all partitions and jobs share them, as each takes half a second to start."""


def _pool(n_workers: int) -> _Pool:
    with _lock:
        if n_workers not in _pools:
            executor = ProcessPoolExecutor(
                n_workers, timeout=_IDLE_SECONDS, initializer=serve, initargs=(os.getpid(),)
            )  # fmt: skip
            _pools[n_workers] = _Pool(executor)
        return _pools[n_workers]


def stop_workers() -> None:
    """Kills all processes; functions that wait for them fail."""
    with _lock:
        pools = [*_pools.values()]
        _pools.clear()
        for pool in pools:
            pool.is_stopped = True
    for pool in pools:
        pool.executor.shutdown(wait=False, kill_workers=True)


def _forget(n_workers: int, gone: _Pool) -> None:
    """Forgets processes of which one has died: none of them takes work any more."""
    with _lock:
        if _pools.get(n_workers) is gone:
            del _pools[n_workers]


@dataclass(frozen=True)
class InWorkers:
    """An Arrow function that processes of this machine apply to batches; rows have to be independent of each other.

    Attributes:
        text: The function that returns it, pickled.
        n_workers: The number of processes.
    """

    text: bytes
    n_workers: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields what the function returns, in the order of the batches.

        Each process works on a part; one more part waits, or has its result ready.
        """
        pool = _pool(self.n_workers)
        under_way: deque[Callable[[], list[pa.RecordBatch]]] = deque()
        for part in batches:
            check()
            under_way.append(self._begun(pool, stream_of(part)))
            if len(under_way) > self.n_workers:
                yield from under_way.popleft()()
        for result in under_way:
            yield from result()

    def _begun(self, pool: _Pool, part: pa.Buffer) -> Callable[[], list[pa.RecordBatch]]:
        """Submits rows to a process; returns the function of the result, which runs here if the process died."""

        def result() -> list[pa.RecordBatch]:
            try:
                return future.result()
            except BrokenProcessPool:
                if pool.is_stopped:
                    raise
                _forget(self.n_workers, pool)
                return apply(self.text, part)

        try:
            future: Future[list[pa.RecordBatch]] = pool.executor.submit(apply, self.text, part)
        except BrokenProcessPool:
            return partial(apply, self.text, part)
        return result


def n_workers_of(engine: str) -> int:
    """Returns the number of processes for Python functions: one a core, none where Spark starts them."""
    return (os.cpu_count() or 1) if engine == "local" else 0


def in_workers(make: Callable[[], Play], n_workers: int) -> Play:
    """Returns an Arrow function that processes apply; they end after five idle minutes.

    Args:
        make: Returns the function, of which each returned row depends on one given row. Importable parts are pickled by
            name.
        n_workers: The number of processes; below two the function runs in this one.
    """
    return make() if n_workers < 2 else InWorkers(_prepared(make, n_workers), n_workers)


@contextmanager
def starting(make: Callable[[], Play], n_workers: int) -> Iterator[None]:
    """Starts the processes of `in_workers` inside the block; if the block fails, they end.

    Args:
        make: As in `in_workers`.
        n_workers: The number of processes; below two none starts.
    """
    if n_workers > 1:
        _prepared(make, n_workers)
    try:
        yield
    except BaseException:
        if n_workers > 1:
            stop_workers()
        raise


def _prepared(make: Callable[[], Play], n_workers: int) -> bytes:
    """Starts processes and imports the modules of a function in them; returns `make`, pickled."""
    text: bytes = dumps(make)  # type: ignore[no-untyped-call]  # PySpark leaves it without types
    with suppress(BrokenProcessPool):  # their user gets the error
        executor = _pool(n_workers).executor
        for _ in range(n_workers):  # they start concurrently
            executor.submit(prepare, text)
    return text


def slices_of(rows: pa.Table, n_cores: int) -> list[pa.RecordBatch]:
    """Returns rows cut into slices of equal length, `_SLICES_PER_CORE` a core at most."""
    n_rows = -(-len(rows) // (max(n_cores, 1) * _SLICES_PER_CORE)) or 1
    parts = (rows.slice(first, n_rows).combine_chunks() for first in range(0, len(rows), n_rows))
    return [batch for part in parts for batch in part.to_batches()]


def mapped_here(rows: pa.Table, function: Play, schema: pa.Schema, n_cores: int) -> pa.Table:
    """Returns the result of an Arrow function that this process calls.

    Args:
        rows: Its input.
        function: Maps batches of rows, each row by itself; it may submit them to processes.
        schema: The columns that it returns.
        n_cores: The cores that work on them.

    Raises:
        PySparkException: The function fails.
    """
    try:
        return pa.Table.from_batches(function(slices_of(rows, n_cores)), schema)
    except Exception as error:
        raise PySparkException(f"{type(error).__name__}: {error}") from error


def mapped_on_executors(
    spark: SparkSession, rows: pa.Table, function: Play, schema: pa.Schema, n_cores: int
) -> pa.Table:  # fmt: skip
    """Returns the result of an Arrow function that Spark's executors call in one job.

    A slice of rows is one binary value, as is each batch of the result: Spark would convert each value of each row.
    Slices are dealt out in turn from one partition, so that tasks have equal numbers of them (within one).

    Args:
        spark: A session of Spark, classic or Connect.
        rows: Its input.
        function: As in `mapped_here`.
        schema: The columns that it returns.
        n_cores: The cores of all executors.

    Raises:
        PySparkException: The function fails, or executors are lost too often.
    """
    packs = pack(slices_of(rows, n_cores))
    tasks = spark.createDataFrame(packs).coalesce(1).repartition(min(len(packs), n_cores))
    found = tasks.mapInArrow(packed(function), from_arrow_schema(PACKED)).toArrow()
    return pa.Table.from_batches(unpacked(found), schema)
