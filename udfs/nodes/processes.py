"""Support for worker processes that execute runs: pickled functions, Arrow streams, interruption, and GC thresholds."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from operator import itemgetter
from threading import Event, Lock, Thread

import pyarrow as pa

from udfs.batches import Mapped

_CHECK_SECONDS = 1.0


def serve(parent: int) -> None:
    """Makes this worker process ignore Ctrl-C, and raises its GC thresholds.

    Starts a thread that ends this process within a second after process `parent` has ended.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.set_threshold(*_RARELY)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_CHECK_SECONDS)
        os._exit(0)

    Thread(target=watch, daemon=True).start()


@lru_cache(maxsize=16)
def _function(pickled: bytes) -> Mapped:
    make: Callable[[], Mapped] = pickle.loads(pickled)  # noqa: S301 - written by the parent process
    return make()


def prepare(pickled: bytes) -> None:
    """Imports the modules that a pickled function needs, and excludes their objects from garbage collection."""
    _function(pickled)
    pa.array([0])  # imports pandas on the first call
    gc.freeze()


def apply(pickled: bytes, stream: pa.Buffer) -> list[pa.RecordBatch]:
    """Applies the `Mapped` that a pickled function without parameters returns to the batches of `stream`."""
    return list(_function(pickled)(batches_of(stream)))


PACKED = pa.schema([("place", pa.int64()), ("batch", pa.binary())])
"""The columns of a packed batch: the index of the input batch, and the input or result batch as an Arrow stream."""
_COMPRESSION = "lz4"


def packed(function: Mapped) -> Mapped:
    """Returns a function that unpacks packed batches, applies `function` to them, and packs the results."""

    def of_packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for given in batches:
            for place, value in zip(given.column("place").to_pylist(), given.column("batch"), strict=True):
                yield from (_packed(place, made) for made in function(batches_of(value.as_buffer())))

    return of_packed


def pack(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Returns a table of packed batches, with one row for each batch."""
    return pa.Table.from_batches([_packed(place, batch) for place, batch in enumerate(batches)], PACKED)


def unpacked(rows: pa.Table) -> list[pa.RecordBatch]:
    """Returns the unpacked batches of a table of packed batches, ascending by index."""
    pairs = sorted(zip(rows.column("place").to_pylist(), rows.column("batch"), strict=True), key=itemgetter(0))
    return [batch for _, value in pairs for batch in batches_of(value.as_buffer())]


def stream_of(batch: pa.RecordBatch, compression: str | None = None) -> pa.Buffer:
    """Returns a batch as an Arrow stream. A pickle of a slice would contain the rows of the whole batch."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def batches_of(stream: pa.Buffer) -> list[pa.RecordBatch]:
    """Returns the batches of an Arrow stream."""
    return [*pa.ipc.open_stream(stream)]


def _packed(place: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    # Spark copies the bytes several times: 1,000 runs take 34 CPU s with compression, and 41 CPU s without compression.
    stream = stream_of(batch, _COMPRESSION).to_pybytes()
    columns = [pa.array([place], pa.int64()), pa.array([stream], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=PACKED)


_ended: ContextVar[Event | None] = ContextVar("ended", default=None)
_open: list[Event] = []
"""The events of all open `until` blocks of this process."""


class Interrupted(Exception):  # noqa: N818 - not an error of a program
    """Raised by `check` after the event of the enclosing `until` block was set."""


@contextmanager
def until(ended: Event) -> Iterator[None]:
    """Inside the block, `check`, which runs before each round, raises `Interrupted` if event `ended` is set."""
    token = _ended.set(ended)
    _open.append(ended)
    try:
        yield
    finally:
        _open.remove(ended)
        _ended.reset(token)


def is_any_wanted() -> bool:
    """Returns whether this process has an open `until` block whose event is not set."""
    return not all(ended.is_set() for ended in [*_open])


def check() -> None:
    """Raises `Interrupted` if the event of the enclosing `until` block is set."""
    ended = _ended.get()
    if ended is not None and ended.is_set():
        raise Interrupted


_RARELY = (1_000_000, 20, 20)
_lock = Lock()
_usual: list[tuple[int, int, int]] = []
"""The GC thresholds to restore: one entry for each thread that executes nodes."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Raises the GC thresholds of the process inside the block, because history rows stay alive.

    The default collection after every 700 new objects would find no garbage.
    """
    with _lock:
        _usual.append(_usual[0] if _usual else gc.get_threshold())
        gc.set_threshold(*_RARELY)
    try:
        yield
    finally:
        with _lock:
            usual = _usual.pop()
            if not _usual:
                gc.set_threshold(*usual)
