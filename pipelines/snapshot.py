"""A store as it was at the end of a round.

History tables are read at their newest version and cut to what had happened by then. State tables are read at the
version that the ledger names for the last commit that ended by then. A store whose runs are not finished is read as of
its last commit: rows of an interrupted commit do not show, and calls that are not final come from the call log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame

from pipelines.execute import protocol_module
from pipelines.history import CALL_LOG
from pipelines.ledger import Ledger
from pipelines.store import Store
from pipelines.tables import (
    DELIVERY,
    FAULT_EVENT,
    MESSAGE,
    NODE_STATUS,
    PUBLICATION,
    ROUND_COMMIT,
    ROUND_METRIC,
    RUN,
    SUBSCRIPTION,
    VIOLATION,
)

SENT_MESSAGE = "sent_message"
_STATE = "state_"
_MESSAGES_IN_FLIGHT = "state_message"


class Snapshot:
    """The tables of a store at the end of a round."""

    def __init__(self, store: Store, ledger: Ledger, round_: int | None) -> None:
        """Fixes the round; errors as in `Ledger.cut`."""
        self._store = store
        self._ledger = ledger
        self._round = round_
        self._cut = ledger.cut(round_)
        self._made: dict[str, Callable[[int], DataFrame]] = {
            SENT_MESSAGE: self._sent_messages,
            PUBLICATION.name: self._publications,
            SUBSCRIPTION.name: self._subscriptions,
        }

    def frame(self, name: str) -> DataFrame:
        """Gives a table, or ``sent_message``: every message that was put on a link, columns as in ``message``.

        Raises:
            QueryError: It is a state table, and none was written by then.
            StoreError: The store has no such table.
        """
        if name.startswith(_STATE):
            return self._state(name)
        if self._cut is None:
            return self._store.read(MESSAGE.name if name == SENT_MESSAGE else name)
        if name in self._made:
            return self._made[name](self._cut)
        table = self._store.read(name)
        if name == RUN.name:
            return table.selectExpr(*_run_columns(self._cut))
        return table.where(_HAPPENED[name].format(round=self._cut)) if name in _HAPPENED else table

    def _state(self, name: str) -> DataFrame:
        return self._store.read(name, self._ledger.state_commit(self._round).versions.get(name, 0))

    def _newest_state(self, name: str) -> DataFrame:
        return self._store.read(name, self._ledger.last.versions.get(name, 0))

    def _final_calls(self, name: str) -> DataFrame:
        """Gives the rows of calls that are final: exactly those that the newest call log does not hold."""
        last = self._ledger.last
        return self._store.read(name, None if last.is_final else last.versions.get(name, 0))

    def _open_calls(self) -> DataFrame | None:
        return None if self._ledger.last.is_final else self._newest_state(CALL_LOG.name)

    def _sent_messages(self, cut: int) -> DataFrame:
        last = self._ledger.last
        known = self._store.read(MESSAGE.name)
        if not last.is_final:
            body = f"{protocol_module(self._protocol()).body} as body"
            waiting = self._newest_state(_MESSAGES_IN_FLIGHT).selectExpr(
                *_replaced(MESSAGE.columns, body=body, fate="'in_flight' as fate")
            )
            known = known.where(f"due_round <= {last.last_round}").unionByName(waiting)
        fate = f"case when due_round > {cut} then 'in_flight' else fate end as fate"
        return known.where(f"sent_round <= {cut}").selectExpr(*_replaced(MESSAGE.columns, fate=fate))

    def _publications(self, cut: int) -> DataFrame:
        rows, log = self._final_calls(PUBLICATION.name), self._open_calls()
        if log is not None:
            text = ("cast(null as string) as topic", "cast(null as string) as content")
            opened = log.where("kind = 'publish'").selectExpr(
                "run_id", "source", "source_seq", "issued_round as round", *text, "confirmed_round"
            )
            rows = rows.unionByName(opened)
        return rows.where(f"round <= {cut}").selectExpr(*_until(cut, PUBLICATION.columns, "confirmed_round"))

    def _subscriptions(self, cut: int) -> DataFrame:
        rows, log = self._final_calls(SUBSCRIPTION.name), self._open_calls()
        if log is not None:
            ending = log.where("kind = 'unsubscribe'").selectExpr(
                "run_id", "subscription_id", "issued_round as unsubscribed_round"
            )
            opened = log.where("kind = 'subscribe'").join(ending, ["run_id", "subscription_id"], "left").selectExpr(
                "run_id", "subscription_id", "source as subscriber", "cast(null as string) as predicate",
                "issued_round", "confirmed_round", "unsubscribed_round", "cast(null as bigint) as ended_round",
            )  # fmt: skip
            rows = rows.unionByName(opened)
        later = ("confirmed_round", "unsubscribed_round", "ended_round")
        return rows.where(f"issued_round <= {cut}").selectExpr(*_until(cut, SUBSCRIPTION.columns, *later))

    def _protocol(self) -> str:
        return str(self._store.read(RUN.name).select("protocol").limit(1).collect()[0][0])


_HAPPENED = {
    MESSAGE.name: "due_round <= {round}",
    ROUND_COMMIT.name: "last_round <= {round}",
    **{table.name: "round <= {round}" for table in (DELIVERY, FAULT_EVENT, NODE_STATUS, ROUND_METRIC, VIOLATION)},
}
"""Which rows of a table are there after a round."""


def _replaced(columns: Sequence[str], **expressions: str) -> list[str]:
    return [expressions.get(column, column) for column in columns]


def _until(cut: int, columns: Sequence[str], *later: str) -> list[str]:
    """Nulls the rounds that were still to come."""
    return _replaced(columns, **{name: f"case when {name} <= {cut} then {name} end as {name}" for name in later})


def _run_columns(cut: int) -> list[str]:
    """How a run ended is unknown while it goes on."""
    ending = ("verdict", "within_bound", "rounds")
    return _replaced(RUN.columns, **{name: f"case when rounds <= {cut} then {name} end as {name}" for name in ending})
