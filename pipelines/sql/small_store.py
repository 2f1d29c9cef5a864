"""A reader of small stores that caches the rows of views, for audits, reports and stories.

An engine plans the SQL of a view again for each query or view that reads it. In a small store, planning takes much
longer than reading, so this reader computes each view once. An engine also reads the log of a Delta table for each
query. Without the logs of small tables, audits take 5 to 25 % less CPU time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Final

from pyspark.sql import DataFrame

from pipelines.engines.frames import frame_of
from pipelines.engines.session import Session, beside
from pipelines.sql.query import StoreReader
from pipelines.sql.snapshot import StoreSnapshot
from pipelines.sql.statement import identifiers
from pipelines.sql.views import relations_read, view_names
from pipelines.store.roots import Root
from pipelines.store.store import Store
from pipelines.tables import ROUND_COMMIT

VERY_FEW_BYTES: Final = 2 * 1024**2
"""Maximum size in bytes of a store whose queries shuffle rows into a single partition."""
FEW_BYTES: Final = 16 * 1024**2
"""Maximum size in bytes of a small store, including all versions of its tables.

Audits of 19 runs of `repository` in 2.4 MB took 1.9 CPU seconds with cached views, and 9.7 without cached views. Audits
of 3,000 runs of `delta` in 29 MB took 15.6 CPU seconds with cached views, and 13.9 without cached views.
"""
INTERPRETED_BYTES: Final = 32 * 1024**2
"""Maximum size in bytes of a store whose queries Spark interprets instead of compiling them."""
_MOST_BYTES: Final = 16 * 1024**2
"""Maximum size in bytes of the cached rows of a view."""


def reader_of(session: Session, root: Root) -> StoreReader:
    """Opens a store for many queries. If the store is small, the reader caches the rows of views.

    Raises:
        StoreError: The location is not a store.
    """
    is_small = Store(root, session).n_bytes() <= FEW_BYTES
    return SmallStoreReader(session, root) if is_small else StoreReader(session, root)


@contextmanager
def suited_to(root: Root, session: Session) -> Iterator[bool]:
    """Configures the engine for the size of a store inside the ``with`` block.

    Yields:
        Whether the store has at most `VERY_FEW_BYTES`.
    """
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

    Args:
        root: The location of the store.
        session: The session that wrote the store or opened it.
        opened: A reader of the store on ``session``; None opens one.

    Yields:
        The reader, the session of the engine, and whether one partition is enough for the queries.
    """
    is_own = session.engine == "spark" and session.owns and find_spec("pysail") is not None
    if is_own and Store(root, session).n_bytes() <= INTERPRETED_BYTES:
        with beside(session) as other:
            yield reader_of(other, root), other, True
        return
    with suited_to(root, session) as is_very_small:
        yield opened or reader_of(session, root), session, is_very_small


class SmallStoreReader(StoreReader):
    """A reader that caches the rows of each view, and reads the files of small tables without the engine."""

    def __init__(self, session: Session, root: Root) -> None:
        """Opens the store at ``root``; raises `StoreError` if ``root`` is not a store."""
        super().__init__(session, root)
        self._store.is_small = True

    def _query(self, body: str, round_: int | None, explain: str = "") -> DataFrame:
        if not explain:
            return super()._query(body, round_)
        plain = StoreReader(self._session, self._store.root)
        return (plain if self._only is None else plain.of_protocol(self._only))._query(body, round_, explain)

    def _relations(self, body: str) -> list[str]:
        """Returns the identifiers in ``body``, but not those in the SQL of the views that it reads.

        The rows of these views are cached, so the query does not need the tables that the views read.
        """
        return sorted(identifiers(body))

    def _definition(self, name: str, snapshot: StoreSnapshot, round_: int | None) -> str:
        text = super()._definition(name, snapshot, round_)
        if name not in view_names() or self._reader_of(name) is not self:
            return text
        stored = self._stored()
        read = [ROUND_COMMIT.name, *(stored[one] for one in relations_read(text) if one in stored)]
        versions = tuple(self._version(one) for one in read)
        return self._defined_once(self._alias(name, round_), versions, lambda: self._fetched(text, round_))

    def _fetched(self, text: str, round_: int | None) -> DataFrame:
        """Executes query ``text`` and returns its rows as a DataFrame.

        If the rows exceed `_MOST_BYTES`, they are not kept: the result is a lazy DataFrame of the query.
        """
        answer = self._query(text, round_)
        rows = answer.toArrow()
        return frame_of(self._session.spark, rows) if rows.nbytes <= _MOST_BYTES else answer
