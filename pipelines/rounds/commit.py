"""History rows: buffered between commits, then appended to the history tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from pipelines.engines.concurrently import concurrently
from pipelines.engines.materialise.base import Materialiser
from pipelines.experiment.batches import Batch
from pipelines.rounds.call_log import CallLog
from pipelines.rounds.left import Left, RoundRows, Rows
from pipelines.store.store import Store
from pipelines.tables import CALL_LOG


class History:
    """Buffers rounds and commits them."""

    def __init__(
        self, store: Store, batch: Batch, materialiser: Materialiser, body: str, log: CallLog, names: Mapping[str, str]
    ) -> None:  # fmt: skip
        """Starts with nothing buffered.

        Args:
            store: Where the tables are.
            batch: The runs.
            materialiser: Keeps relations.
            body: The protocol's SQL for column ``body`` of table ``message``.
            log: The calls that are not final.
            names: What the store calls the state tables, by the names that the protocol uses.
        """
        self._store = store
        self._batch = batch
        self._names = names
        self._left = Left(materialiser, body)
        self._log = log
        self.first_round: int | None = None

    @property
    def n_rounds(self) -> int:
        """Rounds that are buffered."""
        return self._left.n_rounds

    @property
    def n_bytes(self) -> int:
        """How much room all takes that is held for the next commit."""
        return self._left.n_bytes

    def write_through(self, state: Mapping[str, DataFrame]) -> None:
        """Writes state tables at once; the ledger names them with the next commit."""
        for name, rows in state.items():
            self._store.overwrite(self._names[name], rows)

    def read_state(self, name: str) -> DataFrame:
        """Returns a state table as it was written last."""
        stored = self._names[name]
        return self._store.read(stored, self._store.version(stored))

    def add(self, round_: int, rows: RoundRows) -> None:
        """Buffers a round."""
        if self.first_round is None:
            self.first_round = round_
        self._left.add(rows)

    def add_tables(self, first_round: int, tables: Mapping[str, pa.Table]) -> None:
        """Buffers several rounds, of which one is the first."""
        if self.first_round is None:
            self.first_round = first_round
        self._left.add_tables(tables)

    def commit(
        self, last_round: int, state: Mapping[str, DataFrame | pa.Table], rest: DataFrame | pa.Table | None
    ) -> None:  # fmt: skip
        """Writes what is buffered, then the state, then the ledger.

        Args:
            last_round: The last round that is complete.
            state: State tables that changed since the last commit, by the protocol's name of the table.
            rest: With the last commit of all: the messages that are still in flight.
        """
        if rest is not None:
            self._left.add_in_flight(rest)
        event = self._left.call_events()
        closed = self._log.take(event, last_round, is_final=rest is not None)
        overwritten = {self._names[name]: rows for name, rows in state.items()} | {CALL_LOG.name: self._log.rows}
        concurrently([
            *(partial(self._append, name, rows) for name, rows in self._left.written().items()),
            *(partial(self._store.load, name, rows) for name, rows in closed.items()),
            *(partial(self._overwrite, name, rows) for name, rows in overwritten.items()),
        ])  # fmt: skip
        self._ledger(last_round, rest is not None)
        self._left.clear()
        self.first_round = None

    def _ledger(self, last_round: int, is_final: bool) -> None:
        first_round = self.first_round if self.first_round is not None else last_round
        row = {
            "first_run": [self._batch.first_run],
            "last_run": [self._batch.last_run],
            "n_later_runs": [self._batch.n_later_runs],
            "first_round": [first_round],
            "last_round": [last_round],
            "is_final": [is_final],
            "versions": [json.dumps(self._store.versions(), sort_keys=True)],
        }
        self._store.commit(pa.table(row))

    def _append(self, name: str, rows: Rows) -> None:
        """Adds rows to a table: those that are here, and those that an engine makes, in a commit each."""
        if (table := rows.table) is not None:
            self._store.load(name, table)
        if (frame := rows.frame) is not None:
            self._store.append(name, frame)

    def _overwrite(self, name: str, rows: DataFrame | pa.Table) -> None:
        if isinstance(rows, pa.Table):
            self._store.load(name, rows, "overwrite")
        else:
            self._store.overwrite(name, rows)
