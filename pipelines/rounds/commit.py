"""What the rounds leave behind: buffered between commits, then appended to the history tables.

The call log (``state_call_log``) holds the calls that are issued and not yet final: a publication's row is written
once, when it is confirmed, and a subscription's when it has ended; what is still open is written with the last commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from pipelines.engines.concurrently import concurrently
from pipelines.engines.materialise.base import Materialiser, Relation
from pipelines.experiment.batches import Batch
from pipelines.rounds.left import Left, RoundRows, Rows
from pipelines.store.store import Store
from pipelines.tables import CALL_LOG, PUBLICATION, SUBSCRIPTION

_CALL = ["run_id", "source", "source_seq"]
_SUBSCRIPTION = ["run_id", "subscription_id"]


class History:
    """Buffers rounds and commits them."""

    def __init__(
        self, store: Store, batch: Batch, materialiser: Materialiser, call: DataFrame, body: str,
        subscription: DataFrame, publication: DataFrame, confirms: bool, names: Mapping[str, str],
        log: DataFrame | None = None,
    ) -> None:  # fmt: skip
        """Starts with nothing buffered.

        Args:
            store: Where the tables are.
            batch: The runs.
            materialiser: Keeps the call log between commits.
            call: All calls of the runs.
            body: The protocol's SQL for column ``body`` of table ``message``.
            subscription: ``run_id, subscription_id, subscriber, predicate``.
            publication: ``run_id, source, source_seq, topic, content, guarantee, keys``.
            confirms: Whether the protocol confirms calls; if not, a call is final when it is issued.
            names: What the store calls the state tables, by the names that the protocol uses.
            log: The call log of the rounds before; None before the first one.
        """
        self._store = store
        self._batch = batch
        self._materialiser = materialiser
        self._call = call.selectExpr("run_id", "node_id as source", "source_seq", "kind", "subscription_id")
        self._subscription = subscription
        self._publication = publication
        self._final = "confirmed_round is not null" if confirms else "true"
        self._ended = "confirmed_round" if confirms else "issued_round"
        self._names = names
        self._left = Left(materialiser, body)
        self._held: list[Relation] = []
        given = materialiser.empty(CALL_LOG.schema) if log is None else log
        self._log = materialiser.checkpoint({"call_log": given}, {})[0]["call_log"]
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
        closed = {} if event is None and rest is None else self._close_calls(event, is_final=rest is not None)
        overwritten = {self._names[name]: rows for name, rows in state.items()} | {CALL_LOG.name: self._log.frame}
        concurrently([
            *(partial(self._append, name, rows) for name, rows in self._left.written().items()),
            *(partial(self._store.append, name, rows) for name, rows in closed.items()),
            *(partial(self._overwrite, name, rows) for name, rows in overwritten.items()),
        ])  # fmt: skip
        self._ledger(last_round, rest is not None)
        for relation in self._held:
            relation.release()
        self._held.clear()
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

    def _close_calls(self, event: DataFrame | None, *, is_final: bool) -> dict[str, DataFrame]:
        """Brings the call log up to date; returns the rows of subscriptions and publications that are final."""
        log = self._hold("call_log", self._log.frame if event is None else self._logged(event))
        final = "true" if is_final else self._final
        published = log.where(f"kind = 'publish' and {final}")
        over = log.where(f"kind = 'unsubscribe' and {final}")
        ended = over.selectExpr(
            "run_id", "subscription_id", "issued_round as unsubscribed_round", f"{self._ended} as ended_round"
        )
        subscribed = log.where("kind = 'subscribe'").join(ended, _SUBSCRIPTION, "left" if is_final else "inner")
        self._keep_open(log, published, over)
        return {
            "publication": published.join(self._publication, _CALL).select(PUBLICATION.columns),
            "subscription": subscribed.join(self._subscription, _SUBSCRIPTION).select(SUBSCRIPTION.columns),
        }

    def _logged(self, event: DataFrame) -> DataFrame:
        """Returns the call log with issued calls added and confirmations filled in; of other kinds none that is."""
        event = self._hold("call_event", event)
        issued = event.where("event = 'issued'").join(self._call, _CALL)
        issued = issued.selectExpr(
            *_CALL, "kind", "subscription_id", "round as issued_round", "cast(null as bigint) as confirmed_round"
        )
        confirmed = event.where("event = 'confirmed'").selectExpr(*_CALL, "round as now_confirmed")
        log = self._log.frame.unionByName(issued).join(confirmed, _CALL, "left")
        confirmed_round = "coalesce(confirmed_round, now_confirmed) as confirmed_round"
        log = log.selectExpr(*_CALL, "kind", "subscription_id", "issued_round", confirmed_round)
        return log.where("kind in ('subscribe', 'unsubscribe', 'publish') or confirmed_round is null")

    def _hold(self, name: str, frame: DataFrame) -> DataFrame:
        relation = self._materialiser.cache(f"history_{name}", frame)
        self._held.append(relation)
        return relation.frame

    def _keep_open(self, log: DataFrame, published: DataFrame, over: DataFrame) -> None:
        final = published.select(_CALL).unionByName(over.select(_CALL))
        ended = over.select("run_id", "subscription_id", F.lit("subscribe").alias("kind"))
        opened = log.join(final, _CALL, "left_anti").join(ended, ["run_id", "subscription_id", "kind"], "left_anti")
        relations, _ = self._materialiser.checkpoint({"call_log": opened.select(CALL_LOG.columns)}, {})
        self._log.release()
        self._log = relations["call_log"]
