"""What a process does that works for another one: applies a function to some rows."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

import pyarrow as pa


@lru_cache(maxsize=16)
def _function(text: bytes) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns a pickled function, the same one each time: what it remembers of its program stays."""
    found: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]] = pickle.loads(text)  # noqa: S301 - our own
    return found


def apply(text: bytes, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    """Returns what an Arrow function makes of a batch.

    Args:
        text: The function, pickled.
        batch: The rows.
    """
    return list(_function(text)([batch]))
