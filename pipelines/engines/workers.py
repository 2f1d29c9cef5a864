"""Applies Arrow functions to independent rows: in this process, in worker processes, or on Spark's executors.

Worker processes let engine `local` use all cores: the threads of one process share Python's interpreter lock.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, partial
from threading import Lock, Thread
from typing import TypeVar

import pyarrow as pa
from loky import BrokenProcessPool, ProcessPoolExecutor
from loky.backend import get_context
from loky.process_executor import ShutdownExecutorError
from pyspark.cloudpickle import dumps
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.errors import EngineError
from udfs.batches import Mapped
from udfs.nodes.processes import PACKED, apply, check, is_any_wanted, pack, packed, prepare, serve, stream_of, unpacked
from udfs.nodes.world import ProgramError

_SLICES_PER_CORE = 4
"""The largest number of slices per core. Small slices balance the load and bound the memory of a process."""
_IDLE_SECONDS = 300
_CHECK_SECONDS = 1.0
"""The interval at which a thread that waits for a worker process checks whether its run has ended."""
_NO_WORKER = (
    (re.compile(r'Cannot run program "([^"]+)"'), "the program {0!r} cannot be started"),
    (re.compile(r"reading the port number from pyspark\.daemon"), "the program is no Python with PySpark"),
    (re.compile(r"\[PYTHON_VERSION_MISMATCH\] (.*?)\.(?:\s|$)"), "{0}"),
    (re.compile(r"ModuleNotFoundError: No module named '([^']+)'"), "module {0} is not installed"),
)
"""The errors of a Python worker that cannot execute a function, and their descriptions."""
_EXITED = re.compile(r"EXIT\((\d+)\)")
_KILLED = re.compile(r"(SIG\w+)\(")
"""The end of a process in the message of `BrokenProcessPool`: its exit code, or the signal that ended it."""
_LOG = logging.getLogger("roundtable")
_lock = Lock()
_Answer = TypeVar("_Answer")


def in_thread(function: Callable[[], _Answer]) -> Future[_Answer]:
    """Calls a function in a new daemon thread. Threads of a `ThreadPoolExecutor` would delay the program's end."""
    future: Future[_Answer] = Future()

    def call() -> None:
        try:
            future.set_result(function())
        except BaseException as error:  # the caller of `Future.result` gets the error
            future.set_exception(error)

    Thread(target=call, daemon=True).start()
    return future


@dataclass
class _Pool:
    """A process pool; ``is_stopped`` means that `stop_workers` has killed it."""

    executor: ProcessPoolExecutor
    is_stopped: bool = False


_pools: dict[int, _Pool] = {}
"""Process pools by number of processes; all jobs share them, because a process takes half a second to start."""


def _pool(n_workers: int) -> _Pool:
    with _lock:
        if n_workers not in _pools:
            executor = ProcessPoolExecutor(n_workers, timeout=_IDLE_SECONDS, initializer=serve, initargs=(os.getpid(),))
            _pools[n_workers] = _Pool(executor)
        return _pools[n_workers]


def stop_workers() -> None:
    """Kills all worker processes, unless another run may use them; pending calls of Arrow functions fail."""
    with _lock:
        if is_any_wanted():
            return
        pools = [*_pools.values()]
        _pools.clear()
        for pool in pools:
            pool.is_stopped = True
    for pool in pools:
        pool.executor.shutdown(wait=False, kill_workers=True)


def _applied(text: bytes, n_workers: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the results of a pickled Arrow function that worker processes apply to batches, in order.

    At most ``n_workers + 1`` batches are submitted at a time. The additional batch keeps the processes busy while the
    caller uses a result.
    """
    pool = _pool(n_workers)
    under_way: deque[Callable[[], list[pa.RecordBatch]]] = deque()
    for part in batches:
        check()
        under_way.append(_submitted(text, n_workers, pool, stream_of(part)))
        if len(under_way) > n_workers:
            yield from under_way.popleft()()
    for result in under_way:
        yield from result()


def _submitted(text: bytes, n_workers: int, pool: _Pool, part: pa.Buffer) -> Callable[[], list[pa.RecordBatch]]:
    """Submits a batch to a worker process; returns a function that waits for the result.

    If a worker process dies, the pool accepts no further batch, and the returned function calls `_applied_alone`.
    """

    def result() -> list[pa.RecordBatch]:
        while wait([future], _CHECK_SECONDS).not_done:
            check()
        try:
            return future.result()
        except BrokenProcessPool:
            _remove(n_workers, pool)
            return _applied_alone(text, part)

    try:
        future: Future[list[pa.RecordBatch]] = pool.executor.submit(apply, text, part)
    except BrokenProcessPool:
        return partial(_applied_alone, text, part)
    return result


def _remove(n_workers: int, pool: _Pool) -> None:
    """Removes a pool that is broken. Raises the current exception again if `stop_workers` has killed the pool."""
    if pool.is_stopped:
        raise
    with _lock:
        if _pools.get(n_workers) is pool:
            del _pools[n_workers]


def _applied_alone(text: bytes, part: pa.Buffer) -> list[pa.RecordBatch]:
    """Applies an Arrow function to each run of a batch in a process that executes no other run at that time.

    Raises:
        ProgramError: A handler ends the process.
        EngineError: The system ends the process.
    """
    found: list[pa.RecordBatch] = []
    for batch in pa.ipc.open_stream(part):
        for row in range(batch.num_rows):
            pool = _pool(1)
            try:
                found += pool.executor.submit(apply, text, stream_of(batch.slice(row, 1))).result()
            except BrokenProcessPool as error:
                _remove(1, pool)
                run = f"run {batch['run_id'][row]}"
                if exited := _EXITED.search(str(error)):
                    told = f"{run}: a handler ends its process with exit code {exited[1]}; allowed: raise an exception"
                    raise ProgramError(told) from error
                killed = _KILLED.search(str(error))
                how = f"by {killed[1]}" if killed else "without a message"
                raise EngineError(
                    f"{run}: the process that executes it ended {how}; a process also ends if memory is full: take "
                    "fewer runs, or a smaller --batch-runs"
                ) from error
    return found


def n_workers_of(engine: str) -> int:
    """Returns the number of worker processes of an engine: one per core for ``local``, 0 for any other engine.

    The result is also 0 if the system creates no semaphores, which several worker processes share.
    """
    n_cores = os.cpu_count() or 1
    return n_cores if engine == "local" and (n_cores == 1 or _has_semaphores()) else 0


@cache
def _has_semaphores() -> bool:
    try:
        get_context().Lock()
    except (ImportError, OSError) as error:  # on Linux, a semaphore is a file in /dev/shm
        _LOG.warning(
            "one core executes all runs: the system creates no semaphores for worker processes (%s); "
            "to use all cores, mount a file system with free space at /dev/shm", error,
        )  # fmt: skip
        return False
    return True


def in_workers(make: Callable[[], Mapped], n_workers: int) -> Mapped:
    """Returns an Arrow function that runs in worker processes, or in this process if ``n_workers`` is less than two.

    ``make``, which is pickled, returns the Arrow function. An idle process ends after five minutes.
    """
    if n_workers < 2:
        return make()
    text: bytes = dumps(make)  # type: ignore[no-untyped-call]  # PySpark leaves it without types
    with suppress(BrokenProcessPool, ShutdownExecutorError):  # the caller of the function gets another pool or error
        executor = _pool(n_workers).executor
        for _ in range(n_workers):  # the processes start concurrently, and import the modules of `make`
            executor.submit(prepare, text)
    return partial(_applied, text, n_workers)


@contextmanager
def starting(make: Callable[[], Mapped], n_workers: int) -> Iterator[None]:
    """Starts the processes of `in_workers` in the background. If the block raises, kills all worker processes."""
    in_workers(make, n_workers)
    try:
        yield
    except BaseException:
        stop_workers()
        raise


def slices_of(rows: pa.Table, n_cores: int) -> list[pa.RecordBatch]:
    """Returns ``rows`` cut into slices of equal length, at most `_SLICES_PER_CORE` per core."""
    n_rows = -(-len(rows) // (max(n_cores, 1) * _SLICES_PER_CORE)) or 1
    # Combining all chunks would copy the rows, and a nested column of large batches exceeds Arrow's 32-bit offsets.
    parts = (rows.slice(first, n_rows).combine_chunks() for first in range(0, len(rows), n_rows))
    return [batch for part in parts for batch in part.to_batches()]


def mapped_here(rows: pa.Table, function: Mapped, schema: pa.Schema, n_cores: int) -> pa.Table:
    """Calls an Arrow function in this process; the function may submit slices of ``rows`` to worker processes.

    Raises:
        EngineError: The system ends a worker process.
        PySparkException: The function raises an exception.
    """
    try:
        return pa.Table.from_batches(function(slices_of(rows, n_cores)), schema)
    except EngineError:
        raise
    except Exception as error:
        raise PySparkException(f"{type(error).__name__}: {error}") from error


def mapped_on_executors(
    spark: SparkSession, rows: pa.Table, function: Mapped, schema: pa.Schema, n_cores: int
) -> pa.Table:  # fmt: skip
    """Calls an Arrow function on Spark's executors in one job and returns its result. Arguments as in `mapped_here`.

    Each slice of rows is sent as one binary value; otherwise Spark would convert each value of each row. The slices are
    distributed round-robin, so the numbers of slices of two tasks differ by at most one.

    Raises:
        EngineError: The Python workers of the executors cannot execute the function.
        PySparkException: The function raises an exception, or too many executors are lost.
    """
    packs = pack(slices_of(rows, n_cores))
    tasks = spark.createDataFrame(packs).coalesce(1).repartition(min(len(packs), n_cores))
    try:
        found = tasks.mapInArrow(packed(function), from_arrow_schema(PACKED)).toArrow()
    except Exception as error:
        cause = worker_problem(str(error))
        if cause is None:
            raise
        wanted = ".".join(map(str, sys.version_info[:2]))
        raise EngineError(
            f"the Python workers of Spark cannot execute the runs: {cause}; PYSPARK_PYTHON, or the Python of the "
            f"executors, must be Python {wanted} with numpy, pandas, pyarrow, and the packages of your protocols"
        ) from error
    return pa.Table.from_batches(unpacked(found), schema)


def worker_problem(told: str) -> str | None:
    """Returns why a Python worker cannot execute functions; None if a job's error has another cause."""
    if f"{ProgramError.__name__}: " in told:
        return None
    found = ((pattern.search(told), reason) for pattern, reason in _NO_WORKER)
    return next((reason.format(*match.groups()) for match, reason in found if match is not None), None)
