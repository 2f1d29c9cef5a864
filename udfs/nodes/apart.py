"""What a process does that works for another one: applies a function to some rows."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import time
from functools import lru_cache
from threading import Thread
from typing import TYPE_CHECKING

import pyarrow as pa

from udfs.nodes.collection import collect_rarely
from udfs.nodes.packed import batches_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from udfs.nodes.block import Play

_LOOK_SECONDS = 1.0


def serve(parent: int) -> None:
    """Has this process end soon after the one that it works for, even if that is killed, and by its word only.

    Args:
        parent: The process that has started this one; it gets Ctrl-C, too, and ends what is to be ended.
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
    """Returns the function that a pickled one makes, the same one each time: what it remembers of its program stays."""
    make: Callable[[], Play] = pickle.loads(text)  # noqa: S301 - our own
    return make()


def prepare(text: bytes) -> None:
    """Imports what a function needs, before rows come; none of that is ever garbage.

    Args:
        text: What makes the function, pickled.
    """
    _function(text)
    pa.array([0])  # looks for pandas, once
    gc.freeze()


def apply(text: bytes, stream: pa.Buffer) -> list[pa.RecordBatch]:
    """Returns the result of an Arrow function on some rows.

    Args:
        text: What makes the function, pickled.
        stream: The rows, as an Arrow stream.
    """
    return list(_function(text)(batches_of(stream)))
