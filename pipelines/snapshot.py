"""A store as it was at the end of a round.

History tables are read at their newest version and cut to what had happened by then. State tables are read at the
version that the ledger names for the last commit that ended by then. A store whose runs are not finished is read as of
its last commit: rows of an interrupted commit do not show, and calls that are not final come from the call log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from pipelines.errors import QueryError, StoreError
from pipelines.execute import protocol_module
from pipelines.history import CALL_LOG
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


@dataclass(frozen=True)
class Commit:
    """A row of the ledger.

    Attributes:
        last_round: The last round that it holds.
        is_final: Whether the runs ended with it.
        versions: Delta version of each table that was written up to it.
    """

    last_round: int
    is_final: bool
    versions: Mapping[str, int]


class Ledger:
    """The commits of a store, oldest first."""

    def __init__(self, commits: Sequence[Commit]) -> None:
        """Sorts them; of several that end with the same round the later one counts."""
        self._commits = sorted(commits, key=lambda commit: (commit.last_round, commit.is_final))

    @classmethod
    def read(cls, store: Store) -> Ledger:
        """Reads the ledger of a store.

        Raises:
            StoreError: Nothing was committed yet.
        """
        rows = store.read(ROUND_COMMIT.name).select("last_round", "is_final", "versions").collect()
        if not rows:
            raise StoreError(f"the store {str(store.root)!r} holds no complete round; wait, or run the scenario again")
        return cls([Commit(row.last_round, row.is_final, json.loads(row.versions)) for row in rows])

    @property
    def last(self) -> Commit:
        """The newest commit."""
        return self._commits[-1]

    def cut(self, round_: int | None) -> int | None:
        """Gives the round that history is cut after; None where nothing is to be cut.

        Args:
            round_: The round that was asked for; None for the newest. In a store whose runs are over, every round after
                their last one is as that one.

        Raises:
            QueryError: No round has this number, or it is not committed yet.
        """
        last = self.last
        if round_ is not None and round_ < 0:
            raise QueryError(f"round {round_} is before the first round; allowed: 0 to {last.last_round}")
        if round_ is not None and not last.is_final and round_ > last.last_round:
            raise QueryError(
                f"round {round_} is not in the store yet; allowed: 0 to {last.last_round}, the last round committed;"
                " the runs are not finished, so later rounds are not there"
            )
        if round_ is None or round_ >= last.last_round:
            return None if last.is_final else last.last_round
        return round_

    def state_commit(self, round_: int | None) -> Commit:
        """Gives the commit whose state tables answer for a round: the last one that ended by then.

        Raises:
            QueryError: The round is before the end of the first commit, or as in `cut`.
        """
        cut = self.cut(round_)
        found = [commit for commit in self._commits if cut is None or commit.last_round <= cut]
        if not found:
            first = self._commits[0].last_round
            raise QueryError(
                f"no state tables were written by round {cut}; the first ones are those of round {first};"
                " a run with a smaller --commit-every writes them earlier"
            )
        return found[-1]


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
            body = protocol_module(self._protocol()).body
            waiting = self._newest_state(_MESSAGES_IN_FLIGHT).selectExpr("*", f"{body} as body", "'in_flight' as fate")
            known = known.where(f"due_round <= {last.last_round}").unionByName(waiting.select(MESSAGE.columns))
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
