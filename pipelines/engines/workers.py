"""Arrow functions in processes of their own, for an engine that runs Python in this process (Sail).

Python has one lock a process: there the partitions of such a job would take turns, whatever the number of cores.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from threading import Lock

import pyarrow as pa
from loky import BrokenProcessPool, ProcessPoolExecutor
from pyspark.cloudpickle import dumps

from udfs.nodes.apart import apply

_IDLE_SECONDS = 300
_PARTS_PER_WORKER = 4
_AHEAD = 2
"""Parts of a partition that are under way: one that is worked on, and one that waits or has come back."""
_pools: dict[int, ProcessPoolExecutor] = {}
_lock = Lock()


def _pool(n_workers: int) -> ProcessPoolExecutor:
    """Returns the processes, the same ones for all partitions and jobs: each takes half a second to start."""
    with _lock:
        if n_workers not in _pools:
            _pools[n_workers] = ProcessPoolExecutor(n_workers, timeout=_IDLE_SECONDS)
        return _pools[n_workers]


def _forget(n_workers: int) -> None:
    """Forgets processes of which one has died: none of them takes work any more."""
    with _lock:
        _pools.pop(n_workers, None)


@dataclass(frozen=True)
class InWorkers:
    """An Arrow function whose rows are worked on by other processes; the rows have to be independent of each other.

    Attributes:
        text: The function, pickled.
        n_workers: How many processes there are.
    """

    text: bytes
    n_workers: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields what the function returns, in the order of the rows."""
        under_way: deque[tuple[pa.RecordBatch, Future[list[pa.RecordBatch]] | None]] = deque()
        for part in self._parts(batches):
            under_way.append((part, self._submit(part)))
            if len(under_way) > _AHEAD:
                yield from self._result(*under_way.popleft())
        for one in under_way:
            yield from self._result(*one)

    def _submit(self, part: pa.RecordBatch) -> Future[list[pa.RecordBatch]] | None:
        """Has a process work on some rows; None: the processes are gone."""
        try:
            future: Future[list[pa.RecordBatch]] = _pool(self.n_workers).submit(apply, self.text, part)
        except BrokenProcessPool:
            _forget(self.n_workers)
            return None
        return future

    def _result(self, part: pa.RecordBatch, future: Future[list[pa.RecordBatch]] | None) -> list[pa.RecordBatch]:
        """Returns what the function makes of some rows: if a process has died meanwhile, in this one."""
        try:
            return apply(self.text, part) if future is None else future.result()
        except BrokenProcessPool:
            _forget(self.n_workers)
            return apply(self.text, part)

    def _parts(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            n_rows = -(-batch.num_rows // (self.n_workers * _PARTS_PER_WORKER)) or 1
            yield from (batch.slice(first, n_rows) for first in range(0, batch.num_rows, n_rows))


def in_workers(
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], n_workers: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns an Arrow function that has processes of their own work on its rows; they end when nobody needs them.

    Args:
        function: Each row of what it returns depends on one row that it is given.
        n_workers: Processes; with one or none the function is returned as it is.
    """
    if n_workers < 2:
        return function
    return InWorkers(dumps(function), n_workers)  # type: ignore[no-untyped-call]  # PySpark leaves it without types
