"""A store of few rows, of which much is asked at a time, as audits, reports and stories do.

An engine plans the text of a view anew in each query, and in each other view, that reads it; for few rows that takes
much longer than the rows. So each view is asked for once here, and its rows are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pipelines.contract.protocol import MadeView
from pipelines.engines.inline import frame_of
from pipelines.engines.planner import Planner, is_planning
from pipelines.engines.rows.operators import most_rows
from pipelines.engines.session import Session
from pipelines.sql.query import PROTOCOL, AsOf, StoreReader
from pipelines.sql.snapshot import Snapshot
from pipelines.sql.statement import identifiers
from pipelines.sql.views import relations_read, view_names
from pipelines.store.roots import Root
from pipelines.store.store import Store
from pipelines.tables import ROUND_COMMIT

VERY_FEW_BYTES: Final = 2 * 1024**2
"""Of a store that is small."""


def reader_of(session: Session, root: Root) -> StoreReader:
    """Opens a store for whoever may ask much of it.

    Args:
        session: The engine that answers.
        root: The store.

    Raises:
        StoreError: The folder is no store.
    """
    is_near = session.engine == "local" and isinstance(root, Path)  # the files of others take long to list
    is_small = is_near and Store(root, session).n_bytes() <= VERY_FEW_BYTES
    return SmallStoreReader(session, root) if is_small else StoreReader(session, root)


def few_rows(answer: DataFrame) -> pa.Table | None:
    """Fetches the rows of an answer; returns None if they are many."""
    most = most_rows()
    rows = answer.limit(most + 1).toArrow()
    return None if len(rows) > most else rows


def rows_of(spark: SparkSession, answer: DataFrame) -> DataFrame:
    """Returns the rows of an answer, which are fetched, or what reads them if they are many."""
    rows = few_rows(answer)
    if rows is None:
        return answer
    # PySpark takes no table without any chunk.
    return frame_of(spark, rows.combine_chunks() if len(rows) else rows.schema.empty_table())


class SmallStoreReader(StoreReader):
    """A store that can be asked, with the rows of each view that is read, and with relations of one partition each.

    One partition suits windows, and joins of tables: they need no exchange. ``EXPLAIN`` tells how any store answers.
    """

    def __init__(self, session: Session, root: Root, planner: Planner | None = None) -> None:
        """Opens a store.

        Args:
            session: The engine that answers.
            root: The store.
            planner: What plans frames for this engine while it is asked, if anything does.
        """
        super().__init__(session, root)
        self._planner = planner

    def _made(self, views: Sequence[tuple[str, MadeView]], round_: int | None) -> DataFrame:
        """Made views call functions of PySpark: where these are for planned frames, they get such."""
        made = super()._made(views, round_)
        return made if (planner := self._planning) is None else planner.carried_out(made)

    def _as_of(self, round_: int | None) -> AsOf:
        return super()._as_of(round_) if (planner := self._planning) is None else _PlannedAsOf(self, round_, planner)

    @property
    def _planning(self) -> Planner | None:
        return self._planner if is_planning() else None

    def _query(self, body: str, round_: int | None, explain: str = "") -> DataFrame:
        if not explain:
            return super()._query(body, round_)
        plain = StoreReader(self._session, self._store.root)
        return (plain if self._only is None else plain.of_protocol(self._only))._query(body, round_, explain)

    def _relations(self, body: str) -> list[str]:
        """Returns the names in a query alone: the rows of a view need no others."""
        return sorted(identifiers(body))

    def _definition(self, name: str, snapshot: Snapshot, round_: int | None) -> str:
        text = super()._definition(name, snapshot, round_)
        if name not in (PROTOCOL, *view_names()) or self._reader_of(name) is not self:
            return text
        stored = self._stored()
        read = [ROUND_COMMIT.name, *(stored[one] for one in relations_read(text) if one in stored)]
        versions = tuple(self._store.version(one) for one in read)
        return self._defined_once(
            self._alias(name, round_), versions, lambda: rows_of(self._session.spark, self._query(text, round_))
        )

    def _defined_once(self, alias: str, versions: tuple[int, ...], make: Callable[[], DataFrame]) -> str:
        return super()._defined_once(alias, versions, lambda: make().coalesce(1))


class _PlannedAsOf(AsOf):
    """A store as of the end of a round, read with planned frames."""

    def __init__(self, reader: StoreReader, round_: int | None, planner: Planner) -> None:
        super().__init__(reader, round_)
        self._planner = planner

    def table(self, name: str) -> DataFrame:
        return self._planner.frame_of(super().table(name))

    def sql(self, text: str) -> DataFrame:
        return self._planner.frame_of(super().sql(text))
