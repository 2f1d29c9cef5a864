"""What the rounds leave behind: buffered between commits, then appended to the history tables.

The call log (``state_call_log``) holds the calls that are issued and not yet final: a publication's row is written
once, when it is confirmed, and a subscription's when it has ended; what is still open is written with the last commit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial, reduce

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F

from pipelines.contract.round import CALL_EVENT, DELIVERY, NODE_STATUS
from pipelines.engines.concurrently import concurrently
from pipelines.engines.materialise.base import Materialiser, Relation
from pipelines.experiment.batches import Batch
from pipelines.store.store import Store
from pipelines.tables import (
    CALL_LOG,
    MESSAGE,
    PUBLICATION,
    ROUND_METRIC,
    SUBSCRIPTION,
)

_CALL = ["run_id", "source", "source_seq"]
_SUBSCRIPTION = ["run_id", "subscription_id"]


@dataclass
class RoundRows:
    """What one round leaves behind.

    Attributes:
        inbox: The messages that were due.
        fate: Those that the protocol dropped (``run_id, message_id, fate``), if any.
        events: Frames ``delivery``, ``call_event``, ``node_status`` as far as the round has any.
        held: The relations that these frames read; released after the commit.
    """

    inbox: DataFrame | None
    fate: DataFrame | None
    events: Mapping[str, DataFrame]
    held: list[Relation] = field(default_factory=list)


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
        self._body = body
        self._subscription = subscription
        self._publication = publication
        self._final = "confirmed_round is not null" if confirms else "true"
        self._ended = "confirmed_round" if confirms else "issued_round"
        self._names = names
        self._rounds: list[RoundRows] = []
        self._held: list[Relation] = []
        given = materialiser.empty(CALL_LOG.schema) if log is None else log
        self._log = materialiser.checkpoint({"call_log": given}, {})[0]["call_log"]
        self.first_round: int | None = None

    @property
    def n_rounds(self) -> int:
        """Rounds that are buffered."""
        return len(self._rounds)

    @property
    def n_bytes(self) -> int:
        """How much room the relations take that are held for the next commit."""
        return sum(relation.content().n_bytes for rows in self._rounds for relation in rows.held)

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
        self._rounds.append(rows)

    def commit(self, last_round: int, state: Mapping[str, DataFrame], rest: DataFrame | None) -> None:
        """Writes what is buffered, then the state, then the ledger.

        Args:
            last_round: The last round that is complete.
            state: State tables that changed since the last commit, by the protocol's name of the table.
            rest: With the last commit of all: the messages that are still in flight.
        """
        appended = self._appended(rest is not None)
        messages = self._messages(rest)
        if messages is not None:
            appended |= {"message": messages, "round_metric": round_metrics(messages)}
        overwritten = {self._names[name]: rows for name, rows in state.items()} | {CALL_LOG.name: self._log.frame}
        concurrently([
            *(partial(self._store.append, name, rows) for name, rows in appended.items()),
            *(partial(self._store.overwrite, name, rows) for name, rows in overwritten.items()),
        ])  # fmt: skip
        self._ledger(last_round, rest is not None)
        for relation in (*self._held, *(relation for rows in self._rounds for relation in rows.held)):
            relation.release()
        self._held.clear()
        self._rounds.clear()
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

    def _appended(self, is_final: bool) -> dict[str, DataFrame]:
        events = {
            name: _union([rows.events[name] for rows in self._rounds if name in rows.events], columns)
            for name, columns in (("delivery", DELIVERY), ("node_status", NODE_STATUS), ("call_event", CALL_EVENT))
        }
        appended = {name: rows for name in ("delivery", "node_status") if (rows := events[name]) is not None}
        if events["call_event"] is not None or is_final:
            appended |= self._close_calls(events["call_event"], is_final)
        return appended

    def _close_calls(self, event: DataFrame | None, is_final: bool) -> dict[str, DataFrame]:
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

    def _messages(self, rest: DataFrame | None) -> DataFrame | None:
        """Returns the rows of table ``message``: the handled ones with their fate, at the end also those in flight."""
        parts = []
        for rows in self._rounds:
            if rows.inbox is None:
                continue
            if rows.fate is None:
                parts.append(rows.inbox.selectExpr("*", "coalesce(fate, 'delivered') as outcome"))
            else:
                dropped = rows.fate.selectExpr("run_id", "message_id", "fate as dropped")
                parts.append(
                    rows.inbox.join(dropped, ["run_id", "message_id"], "left").selectExpr(
                        "*", "coalesce(fate, dropped, 'delivered') as outcome"
                    ).drop("dropped")
                )  # fmt: skip
        if rest is not None:
            parts.append(rest.selectExpr("*", "coalesce(fate, 'in_flight') as outcome"))
        if not parts:
            return None
        whole = reduce(DataFrame.unionByName, parts)
        own = {"fate": "outcome as fate", "body": f"{self._body} as body"}
        return whole.selectExpr(*(own.get(name, name) for name in MESSAGE.columns))


def round_metrics(message: DataFrame) -> DataFrame:
    """Counts messages by the round they were due in, kind and fate: rows of table ``round_metric``."""
    return message.groupBy("run_id", F.col("due_round").alias("round"), "kind", "fate").agg(
        F.expr("count(1) as n_messages")
    ).select(ROUND_METRIC.columns)  # fmt: skip


def _union(parts: list[DataFrame], columns: tuple[str, ...]) -> DataFrame | None:
    return reduce(DataFrame.unionByName, [part.select(*columns) for part in parts]) if parts else None
