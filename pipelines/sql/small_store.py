"""Configures the engine for the size of a store, and selects the fastest engine for many queries of a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from pipelines.engines.session import Session, beside
from pipelines.sql.query import StoreReader
from pipelines.store.roots import Root
from pipelines.store.store import Store

VERY_FEW_BYTES: Final = 2 * 1024**2
"""Maximum size in bytes of a store whose queries shuffle rows into a single partition."""
INTERPRETED_BYTES: Final = 32 * 1024**2
"""Maximum size in bytes of a store whose queries Spark interprets instead of compiling them."""


@contextmanager
def suited_to(root: Root, session: Session) -> Iterator[bool]:
    """Configures the engine for the size of a store; yields whether the store has at most `VERY_FEW_BYTES`."""
    n_bytes = Store(root, session).n_bytes()
    with session.suited(is_small=n_bytes <= INTERPRETED_BYTES, is_in_one=n_bytes <= VERY_FEW_BYTES):
        yield n_bytes <= VERY_FEW_BYTES


@contextmanager
def fast_reader(
    root: Root, session: Session, opened: StoreReader | None = None
) -> Iterator[tuple[StoreReader, Session, bool]]:
    """Opens a store on the engine that is fastest for many queries.

    The engine is ``local`` if it is installed, the store has at most `INTERPRETED_BYTES`, and ``session`` is a local
    Spark that this program started. Spark takes ten times as long as Sail to plan the queries of a small store.
    Otherwise, the reader is ``opened``, a reader on ``session``; None opens one.

    Yields:
        The reader, the session of the engine, and whether one partition is enough for the queries.
    """
    is_own = session.engine == "spark" and session.owns and find_spec("pysail") is not None
    if is_own and Store(root, session).n_bytes() <= INTERPRETED_BYTES:
        with beside(session) as other:
            yield StoreReader(other, root), other, True
        return
    with suited_to(root, session) as is_very_small:
        yield opened or StoreReader(session, root), session, is_very_small
