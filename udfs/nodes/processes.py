"""Processes that play runs: their work, its Arrow streams, the end of rounds, and GC thresholds."""

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

Play = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function of batches of rows, each row independent of the others."""
_LOOK_SECONDS = 1.0


def serve(parent: int) -> None:
    """Makes this process end soon after its parent, even if that is killed, and on the parent's word only.

    Args:
        parent: The process that has started this one; it also gets Ctrl-C, and ends its children.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    collect_rarely()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_LOOK_SECONDS)
        os._exit(0)

    Thread(target=watch, daemon=True).start()


@lru_cache(maxsize=16)
def _function(text: bytes) -> Play:
    """Returns the unpickled function, one object per pickle, so that its caches stay."""
    make: Callable[[], Play] = pickle.loads(text)  # noqa: S301 - our own
    return make()


def prepare(text: bytes) -> None:
    """Imports the modules of a function before rows arrive, and excludes their objects from garbage collection.

    Args:
        text: The pickled factory of the function.
    """
    _function(text)
    pa.array([0])  # looks for pandas, once
    gc.freeze()


def apply(text: bytes, stream: pa.Buffer) -> list[pa.RecordBatch]:
    """Returns the result of an Arrow function on some rows.

    Args:
        text: The pickled factory of the function.
        stream: The rows, as an Arrow stream.
    """
    return list(_function(text)(batches_of(stream)))


PACKED = pa.schema([("place", pa.int64()), ("batch", pa.binary())])
"""The columns of packed batches: the index of the input batch, and a batch as an Arrow stream."""


def packed(function: Play) -> Play:
    """Returns an Arrow function that takes packed batches, and packs those that another one makes of each."""

    def of_packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for given in batches:
            for place, value in zip(given.column("place").to_pylist(), given.column("batch"), strict=True):
                yield from (_packed(place, made) for made in function(batches_of(value.as_buffer())))

    return of_packed


def pack(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Returns batches as a table of packed ones, which remember their order."""
    return pa.Table.from_batches([_packed(place, batch) for place, batch in enumerate(batches)], PACKED)


def unpacked(rows: pa.Table) -> list[pa.RecordBatch]:
    """Returns the packed batches in the order of their inputs, for any order of arrival."""
    pairs = zip(rows.column("place").to_pylist(), rows.column("batch"), strict=True)
    ordered = sorted(pairs, key=itemgetter(0))
    return [batch for _, value in ordered for batch in batches_of(value.as_buffer())]


def stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    """Returns a batch as an Arrow stream; of a slice it holds the rows of the slice only, where a pickle holds all."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def batches_of(stream: pa.Buffer) -> list[pa.RecordBatch]:
    """Returns the batches of an Arrow stream."""
    return [*pa.ipc.open_stream(stream)]


def _packed(place: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [pa.array([place], pa.int64()), pa.array([stream_of(batch).to_pybytes()], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=PACKED)


_ended: ContextVar[Event | None] = ContextVar("ended", default=None)


class Interrupted(Exception):  # noqa: N818 - not an error of a program
    """The rounds were interrupted."""


@contextmanager
def until(ended: Event) -> Iterator[None]:
    """Stops the rounds that this thread plays inside the block once an event is set."""
    token = _ended.set(ended)
    try:
        yield
    finally:
        _ended.reset(token)


def check() -> None:
    """Checks whether the rounds were interrupted.

    Raises:
        Interrupted: They were.
    """
    ended = _ended.get()
    if ended is not None and ended.is_set():
        raise Interrupted


_RARELY = (1_000_000, 20, 20)
_lock = Lock()
_usual: list[tuple[int, int, int]] = []
"""The thresholds to return to, once for each thread that plays nodes now."""


def collect_rarely() -> None:
    """Raises the GC thresholds of a process that only plays nodes."""
    gc.set_threshold(*_RARELY)


@contextmanager
def rare_collections() -> Iterator[None]:
    """Raises the GC thresholds inside the block.

    History rows stay alive: a collection every 700 objects finds no garbage in them.
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
