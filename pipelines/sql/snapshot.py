"""Reads the tables of a store at the end of a round, and maps its runs to protocols.

- History tables are read at their newest version and filtered to events up to the round, such as handled messages and
  issued calls. ``sent_message`` also contains the messages in flight. If a call is confirmed or ended after the round,
  the column of this round is null. If a run ends after the round, its verdict is null.
- State tables are read at the version that the ledger records for the last commit up to the round.
- An unfinished store is read as of its last commit, so rows of an interrupted commit are hidden. Calls whose history
  rows may still change (calls that are not final) are read from the call log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame

from pipelines.contract.forms import Form
from pipelines.contract.round import IN_FLIGHT, STATE, ProtocolForm, state_tables
from pipelines.engines.frames import union, without_comments
from pipelines.protocols import PROTOCOLS, protocol_form
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
    Table,
)  # fmt: skip


class StoredRuns:
    """The runs of a store and the protocols of the runs, read from table ``run`` at the first use.

    The rows are read only once, because no run is added to a store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    @cached_property
    def _rows(self) -> list[dict[str, Any]]:
        return self._store.rows(RUN.name, ("run_id", "protocol", "form"))

    @cached_property
    def _forms(self) -> Mapping[str, Form]:
        return {row["protocol"]: row["form"] for row in self._rows}

    def form(self, name: str) -> ProtocolForm:
        """Returns the form of protocol ``name`` in this store; raises `ProtocolError` if it is not installed."""
        return protocol_form(name, self._forms[name])

    @cached_property
    def _spans(self) -> list[tuple[str, int, int]]:
        """The intervals of run ids whose runs have one protocol, as triples (protocol, first run id, last run id)."""
        rows = self._rows
        ordered = sorted((row["run_id"], row["protocol"]) for row in rows)
        groups = ((protocol, [run for run, _ in of]) for protocol, of in groupby(ordered, key=lambda row: row[1]))
        return [(protocol, runs[0], runs[-1]) for protocol, runs in groups]

    @cached_property
    def protocols(self) -> list[str]:
        """The protocols, in the order of their first runs."""
        return list(dict.fromkeys(protocol for protocol, _, _ in self._spans))

    @cached_property
    def tables(self) -> Mapping[str, Mapping[str, Table]]:
        """The state tables of the installed protocols, see `state_tables`."""
        return state_tables({name: self.form(name) for name in self.protocols if name in PROTOCOLS})

    def protocol_of(self, run_id: int) -> str:
        """Returns the protocol of a run; for an unknown run, the protocol of the first run."""
        found = (protocol for protocol, first, last in self._spans if first <= run_id <= last)
        return next(found, self._spans[0][0])

    def stored(self, protocol: str, name: str) -> str:
        """Returns the name under which state table ``name`` of ``protocol`` is stored, see `state_tables`."""
        own = f"{STATE}{protocol}_{name.removeprefix(STATE)}"
        return own if self._store.version(own) >= 0 else name

    @cached_property
    def _owners(self) -> Mapping[str, frozenset[str]]:
        """Maps the stored name of each state table to the protocols that write it."""
        pairs = [(self.stored(name, table), name) for name, of in self.tables.items() for table in of]
        return {table: frozenset(name for other, name in pairs if other == table) for table, _ in pairs}

    def writes(self, run_id: int, state: str) -> bool:
        """Returns whether the state table with the stored name ``state`` may contain rows of a run."""
        owners, protocol = self._owners.get(state), self.protocol_of(run_id)
        return owners is None or protocol in owners or protocol not in self.tables

    def rows_of(self, protocol: str, column: str = "run_id") -> str:
        """Returns a SQL condition that selects the runs of a protocol; ``column`` is the column of the run id."""
        spans = [f"{column} between {first} and {last}" for name, first, last in self._spans if name == protocol]
        return f"({' or '.join(spans)})"


SENT_MESSAGE = "sent_message"
_ENDING = ("verdict", "within_bound", "rounds")
"""The columns of table ``run`` that have a value when the run has ended."""


class StoreSnapshot:
    """The tables of a store at the end of a round."""

    def __init__(self, store: Store, runs: StoredRuns, ledger: Ledger, round_: int | None) -> None:
        """Selects the round ``round_``; None selects the newest round.

        Raises:
            QueryError: The round is negative, or it is not committed yet.
        """
        self._store = store
        self._runs = runs
        self._ledger = ledger
        self._round = round_
        self._cut = ledger.history_round(round_)
        self._computed: dict[str, Callable[[], DataFrame]] = {
            SENT_MESSAGE: self._sent_messages,
            PUBLICATION.name: self._publications,
            SUBSCRIPTION.name: self._subscriptions,
        }

    def frame(self, name: str) -> DataFrame:
        """Returns a table by its stored name, or ``sent_message``: all messages put on a link, as rows of ``message``.

        Raises:
            QueryError: The table is a state table, and no commit precedes the round.
            StoreError: The table does not exist.
        """
        if name.startswith(STATE):
            return self._state(name)
        if name in self._computed:
            return self._computed[name]()
        table = self._store.read(name)
        if name == RUN.name:
            known = {one: f"case when rounds <= {self._cut} then {one} end as {one}" for one in _ENDING}
            return table if self._cut is None else table.selectExpr(*_replaced(RUN.columns, **known))
        if name != ROUND_COMMIT.name:
            table = self._known(table, name)
        happened = _EXISTING_ROWS.get(name)
        return table if self._cut is None or happened is None else table.where(happened.format(round=self._cut))

    def _known(self, table: DataFrame, name: str) -> DataFrame:
        last = self._ledger.last
        if last.n_later_runs:
            table = table.where(f"run_id <= {last.last_run}")
        if last.is_final or name not in _EXISTING_ROWS:
            return table
        return table.where(f"run_id < {last.first_run} or {_EXISTING_ROWS[name].format(round=last.last_round)}")

    def _state(self, name: str) -> DataFrame:
        every = self._ledger.state_commits(self._round)
        # A batch has runs of one protocol; the state tables of other protocols have no rows of the batch.
        commits = [at for at in every if self._runs.writes(at.first_run, name)] or every[:1]
        if len(every) == 1 and not commits[0].n_later_runs and not commits[0].first_run:
            return self._store.read(name, commits[0].versions.get(name, 0))
        parts = (self._store.read(name, at.versions.get(name, 0)).where(at.own_runs) for at in commits)
        return union(parts)

    def _of_running(self, name: str) -> DataFrame | None:
        """Returns the rows of a state table for the unfinished batch; None if no batch is unfinished."""
        last = self._ledger.last
        return None if last.is_final else self._store.read(name, last.versions.get(name, 0)).where(last.own_runs)

    def _final_calls(self, name: str) -> DataFrame:
        """Returns the rows of table ``name`` up to the last commit; all of them belong to final calls."""
        last = self._ledger.last
        return self._store.read(name, None if self._ledger.is_finished else last.versions.get(name, 0))

    def _sent_messages(self) -> DataFrame:
        known = self._known(self._store.read(MESSAGE.name), MESSAGE.name)
        protocol = self._runs.protocol_of(self._ledger.last.first_run)
        waiting = self._of_running(self._runs.stored(protocol, IN_FLIGHT))
        if waiting is not None:
            body = f"{self._runs.form(protocol).body} as body"
            known = self._union(
                known, waiting.selectExpr(*_replaced(MESSAGE.columns, body=body, fate="'in_flight' as fate"))
            )
        if self._cut is None:
            return known
        fate = f"case when due_round > {self._cut} then 'in_flight' else fate end as fate"
        return known.where(f"sent_round <= {self._cut}").selectExpr(*_replaced(MESSAGE.columns, fate=fate))

    def _publications(self) -> DataFrame:
        rows, log = self._final_calls(PUBLICATION.name), self._of_running(CALL_LOG.name)
        if log is not None:
            rows = self._union(rows, log.where("kind = 'publish' and not is_held").select(PUBLICATION.columns))
        return self._issued_rows(rows, PUBLICATION.columns, "confirmed_round")

    def _subscriptions(self) -> DataFrame:
        rows, log = self._final_calls(SUBSCRIPTION.name), self._of_running(CALL_LOG.name)
        if log is not None:
            log = log.where("not is_held")
            ending = log.where("kind = 'unsubscribe'").selectExpr(
                "run_id", "subscription_id", "issued_round as unsubscribed_round"
            )
            opened = log.where("kind = 'subscribe'").join(ending, ["run_id", "subscription_id"], "left").selectExpr(
                "run_id", "subscription_id", "source as subscriber", "predicate",
                "issued_round", "confirmed_round", "unsubscribed_round", "cast(null as bigint) as ended_round",
            )  # fmt: skip
            rows = self._union(rows, opened)
        later = ("confirmed_round", "unsubscribed_round", "ended_round")
        return self._issued_rows(rows, SUBSCRIPTION.columns, *later)

    def _union(self, rows: DataFrame, others: DataFrame) -> DataFrame:
        if self._store.session.engine == "local":
            rows, others = without_comments(rows), without_comments(others)
        return rows.unionByName(others)

    def _issued_rows(self, rows: DataFrame, columns: Sequence[str], *later: str) -> DataFrame:
        """Returns the calls issued up to the snapshot's round; sets later rounds in columns ``later`` to null."""
        if self._cut is None:
            return rows
        nulled = {name: f"case when {name} <= {self._cut} then {name} end as {name}" for name in later}
        return rows.where(f"issued_round <= {self._cut}").selectExpr(*_replaced(columns, **nulled))


_EXISTING_ROWS = {
    MESSAGE.name: "due_round <= {round}",
    ROUND_COMMIT.name: "last_round <= {round}",
    **{table.name: "round <= {round}" for table in (DELIVERY, FAULT_EVENT, NODE_STATUS, ROUND_METRIC, VIOLATION)},
}
"""For each table, the SQL condition for the rows that exist at the end of a round."""


def _replaced(columns: Sequence[str], **expressions: str) -> list[str]:
    return [expressions.get(column, column) for column in columns]
