"""A store as it was at the end of a round.

History tables are read at their newest version and cut to what had happened by then. State tables are read at the
version that the ledger names for the last commit that ended by then. A store whose runs are not finished is read as of
its last commit: rows of an interrupted commit do not show, and calls that are not final come from the call log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame

from pipelines.contract.state_tables import IN_FLIGHT, STATE
from pipelines.engines.frames import union
from pipelines.sql.runs import StoredRuns
from pipelines.store.ledger import Ledger
from pipelines.store.store import Store
from pipelines.tables import (
    CALL_LOG,
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


class Snapshot:
    """The tables of a store at the end of a round."""

    def __init__(self, store: Store, runs: StoredRuns, ledger: Ledger, round_: int | None) -> None:
        """Fixes the round; errors as in `Ledger.cut`.

        Args:
            store: The store.
            runs: Its runs.
            ledger: Its commits.
            round_: The round; None for the newest.
        """
        self._store = store
        self._runs = runs
        self._ledger = ledger
        self._round = round_
        self._cut = ledger.cut(round_)
        self._made: dict[str, Callable[[], DataFrame]] = {
            SENT_MESSAGE: self._sent_messages,
            PUBLICATION.name: self._publications,
            SUBSCRIPTION.name: self._subscriptions,
        }

    def frame(self, name: str) -> DataFrame:
        """Returns a table by the store's name of it, or ``sent_message``.

        The latter has every message that was put on a link; columns as in ``message``.

        Raises:
            QueryError: It is a state table, and none was written by then.
            StoreError: The store has no such table.
        """
        if name.startswith(STATE):
            return self._state(name)
        if name in self._made:
            return self._made[name]()
        table = self._store.read(name)
        if name == RUN.name:
            return table if self._cut is None else table.selectExpr(*_run_columns(self._cut))
        if name != ROUND_COMMIT.name:
            table = self._known(table, name)
        happened = _HAPPENED.get(name)
        return table if self._cut is None or happened is None else table.where(happened.format(round=self._cut))

    def _known(self, table: DataFrame, name: str) -> DataFrame:
        """Returns a table without what comes after the last commit."""
        last = self._ledger.last
        if last.n_later_runs:
            table = table.where(f"run_id <= {last.last_run}")
        if last.is_final or name not in _HAPPENED:
            return table
        return table.where(f"run_id < {last.first_run} or {_HAPPENED[name].format(round=last.last_round)}")

    def _state(self, name: str) -> DataFrame:
        every = self._ledger.state_commits(self._round)
        # A batch has runs of one protocol, and the versions of tables that its protocol has not have no rows of it.
        commits = [at for at in every if self._runs.writes(at.first_run, name)] or every[:1]
        if len(every) == 1 and not commits[0].n_later_runs and not commits[0].first_run:
            return self._store.read(name, commits[0].versions.get(name, 0))
        parts = (self._store.read(name, at.versions.get(name, 0)).where(at.own_runs) for at in commits)
        return union(parts)

    def _of_running(self, name: str) -> DataFrame | None:
        """Returns a state table of the batch that is under way, if there is one."""
        last = self._ledger.last
        return None if last.is_final else self._store.read(name, last.versions.get(name, 0)).where(last.own_runs)

    def _final_calls(self, name: str) -> DataFrame:
        """Returns the rows of calls that are final: exactly those that the newest call log does not hold."""
        last = self._ledger.last
        return self._store.read(name, None if self._ledger.is_finished else last.versions.get(name, 0))

    def _sent_messages(self) -> DataFrame:
        known = self._known(self._store.read(MESSAGE.name), MESSAGE.name)
        protocol = self._runs.protocol_of(self._ledger.last.first_run)
        waiting = self._of_running(self._runs.stored(protocol, IN_FLIGHT))
        if waiting is not None:
            body = f"{self._runs.form(protocol).body} as body"
            known = known.unionByName(
                waiting.selectExpr(*_replaced(MESSAGE.columns, body=body, fate="'in_flight' as fate"))
            )
        if self._cut is None:
            return known
        fate = f"case when due_round > {self._cut} then 'in_flight' else fate end as fate"
        return known.where(f"sent_round <= {self._cut}").selectExpr(*_replaced(MESSAGE.columns, fate=fate))

    def _publications(self) -> DataFrame:
        rows, log = self._final_calls(PUBLICATION.name), self._of_running(CALL_LOG.name)
        if log is not None:
            kinds = {field.name: field.dataType.simpleString() for field in PUBLICATION.schema}
            text = [f"cast(null as {kinds[name]}) as {name}" for name in ("topic", "content", "guarantee", "keys")]
            opened = (
                log.where("kind = 'publish' and not is_held")
                .selectExpr("run_id", "source", "source_seq", "issued_round", *text, "confirmed_round")
                .select(PUBLICATION.columns)
            )
            rows = rows.unionByName(opened)
        return self._until(rows, PUBLICATION.columns, "confirmed_round")

    def _subscriptions(self) -> DataFrame:
        rows, log = self._final_calls(SUBSCRIPTION.name), self._of_running(CALL_LOG.name)
        if log is not None:
            log = log.where("not is_held")
            ending = log.where("kind = 'unsubscribe'").selectExpr(
                "run_id", "subscription_id", "issued_round as unsubscribed_round"
            )
            opened = log.where("kind = 'subscribe'").join(ending, ["run_id", "subscription_id"], "left").selectExpr(
                "run_id", "subscription_id", "source as subscriber", "cast(null as string) as predicate",
                "issued_round", "confirmed_round", "unsubscribed_round", "cast(null as bigint) as ended_round",
            )  # fmt: skip
            rows = rows.unionByName(opened)
        later = ("confirmed_round", "unsubscribed_round", "ended_round")
        return self._until(rows, SUBSCRIPTION.columns, *later)

    def _until(self, rows: DataFrame, columns: Sequence[str], *later: str) -> DataFrame:
        """Returns what was issued by the round, with null for rounds that were still to come."""
        if self._cut is None:
            return rows
        nulled = {name: f"case when {name} <= {self._cut} then {name} end as {name}" for name in later}
        return rows.where(f"issued_round <= {self._cut}").selectExpr(*_replaced(columns, **nulled))


_HAPPENED = {
    MESSAGE.name: "due_round <= {round}",
    ROUND_COMMIT.name: "last_round <= {round}",
    **{table.name: "round <= {round}" for table in (DELIVERY, FAULT_EVENT, NODE_STATUS, ROUND_METRIC, VIOLATION)},
}
"""Which rows of a table are there after a round."""


def _replaced(columns: Sequence[str], **expressions: str) -> list[str]:
    return [expressions.get(column, column) for column in columns]


def _run_columns(cut: int) -> list[str]:
    """How a run ended is unknown while it goes on."""
    ending = ("verdict", "within_bound", "rounds")
    return _replaced(RUN.columns, **{name: f"case when rounds <= {cut} then {name} end as {name}" for name in ending})
