"""History rows: buffered between commits, then appended to the history tables."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping
from functools import partial
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame

from pipelines.engines.session import concurrently
from pipelines.experiment.batches import Batch
from pipelines.rounds.call_log import CallLog
from pipelines.store.store import Store
from pipelines.tables import CALL_LOG, DELIVERY, MESSAGE, NODE_STATUS, ROUND_METRIC

CALL_EVENT: Final = "call_event"
"""The buffered steps in the life of calls, which the call log takes."""
_WRITTEN: Final = (MESSAGE.name, ROUND_METRIC.name, DELIVERY.name, NODE_STATUS.name)
"""The tables that get buffered rows as they are."""


class History:
    """Buffers the history rows of rounds, and commits them.

    Attributes:
        n_rounds: Rounds, or blocks of them, that are buffered.
        first_round: The first round that is buffered; None: nothing is.
    """

    def __init__(self, store: Store, batch: Batch, log: CallLog, names: Mapping[str, str]) -> None:
        """Starts with nothing buffered.

        Args:
            store: Where the tables are.
            batch: The runs.
            log: The calls that are not final.
            names: What the store calls the state tables, by the names that the protocol uses.
        """
        self._store = store
        self._batch = batch
        self._names = names
        self._log = log
        self._rows: dict[str, list[pa.Table]] = defaultdict(list)
        self.n_rounds = 0
        self.first_round: int | None = None

    @property
    def n_bytes(self) -> int:
        """How much room the buffered rows take."""
        return sum(int(table.nbytes) for tables in self._rows.values() for table in tables)

    def write_through(self, state: Mapping[str, DataFrame]) -> None:
        """Writes state tables at once; the ledger names them with the next commit."""
        for name, rows in state.items():
            self._store.overwrite(self._names[name], rows)

    def read_state(self, name: str) -> DataFrame:
        """Returns a state table as it was written last."""
        stored = self._names[name]
        return self._store.read(stored, self._store.version(stored))

    def add(self, first_round: int, tables: Mapping[str, pa.Table]) -> None:
        """Buffers the rows of some rounds.

        Args:
            first_round: The first of these rounds.
            tables: Rows of tables ``message``, ``delivery`` and ``node_status``, and `CALL_EVENT`.
        """
        if self.first_round is None:
            self.first_round = first_round
        self.n_rounds += 1
        for name, table in tables.items():
            self._put(name, table)

    def _put(self, name: str, table: pa.Table) -> None:
        self._rows[name].append(table)
        if name == MESSAGE.name:
            self._rows[ROUND_METRIC.name].append(_counted(table))

    def commit(
        self, last_round: int, state: Mapping[str, DataFrame | pa.Table], rest: pa.Table | None
    ) -> None:  # fmt: skip
        """Writes what is buffered, then the state, then the ledger.

        Args:
            last_round: The last round that is complete.
            state: State tables that changed since the last commit, by the protocol's name of the table.
            rest: With the last commit of all: the messages that are still in flight, as rows of table ``message``.
        """
        if rest is not None:
            self._put(MESSAGE.name, rest)
        events = self._rows.pop(CALL_EVENT, None)
        event = None if events is None else pa.concat_tables(events)
        closed = self._log.take(event, last_round, is_final=rest is not None)
        overwritten = {self._names[name]: rows for name, rows in state.items()} | {CALL_LOG.name: self._log.rows}
        appended = {name: pa.concat_tables(self._rows[name]) for name in _WRITTEN if self._rows[name]}
        concurrently([
            *(partial(self._store.load, name, rows) for name, rows in (appended | closed).items()),
            *(partial(self._overwrite, name, rows) for name, rows in overwritten.items()),
        ])  # fmt: skip
        self._ledger(last_round, rest is not None)
        self._rows.clear()
        self.n_rounds, self.first_round = 0, None

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

    def _overwrite(self, name: str, rows: DataFrame | pa.Table) -> None:
        if isinstance(rows, pa.Table):
            self._store.load(name, rows, "overwrite")
        else:
            self._store.overwrite(name, rows)


def _counted(message: pa.Table) -> pa.Table:
    """Returns the messages of table ``message`` counted by run, due round, kind and fate: rows of ``round_metric``."""
    counted = message.group_by(["run_id", "due_round", "kind", "fate"]).aggregate([([], "count_all")])
    return counted.rename_columns({"due_round": "round", "count_all": "n_messages"}).select(ROUND_METRIC.columns)
