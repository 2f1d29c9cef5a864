"""Garbage collection of reference cycles, which would take a third of the time in which nodes are played."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

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
