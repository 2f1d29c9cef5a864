"""SQL over a store: its tables and views by their bare names, now or as of an earlier round.

Each statement is wrapped in a WITH that defines the names it uses: tables as temporary views whose names no other store
and no other round shares, views as their texts. So several stores, and several rounds of one, can be asked in one
session, and a frame that is read later still means the store it came from. A name that the statement itself defines in
a WITH hides the store's.

As of round R:

- history tables hold what had happened by the end of round R: messages handled by then (``sent_message`` has those in
  flight too), publications and subscriptions issued by then, with later rounds null; how a run ended is null where it
  went on after R;
- state tables are those of the last commit that ended by round R (`StoreReader.state_round` says which round that is);
  before the end of the first commit there are none;
- a round after the last one of a finished store is as the last one; negative rounds, and in an unfinished store rounds
  that are not committed yet, are refused.

A store whose runs are not finished answers as of its last commit. Publications and subscriptions that are not final yet
have no texts there (``topic``, ``content``, ``predicate`` are null): a row gets them when it becomes final.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from threading import RLock
from uuid import uuid4

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from pipelines.contract.round import MadeView, Protocol
from pipelines.contract.state_tables import state_tables
from pipelines.engines.session import Session
from pipelines.errors import QueryError, nearest
from pipelines.protocols import PROTOCOLS, protocol_module
from pipelines.sql.errors import query_error
from pipelines.sql.parameters import parameter_rows
from pipelines.sql.snapshot import SENT_MESSAGE, Snapshot
from pipelines.sql.statement import Statement, read_statement, with_lower_case
from pipelines.sql.views import relations_read, view_names, view_question, view_sql
from pipelines.store.folder import check_store
from pipelines.store.ledger import Ledger
from pipelines.store.store import Store
from pipelines.tables import HISTORY, ROUND_COMMIT, RUN, Table

_PROTOCOL = "protocol"
_PARAMETER = "parameter"
_STATE = "state_"
MADE = {
    _PARAMETER: "the parameters of each run as columns, named by their paths with _ for . (protocol_delta)",
    _PROTOCOL: "the protocols that there are, and what they promise of calls and of a source's order",
    SENT_MESSAGE: "every message that was put on a link, those in flight too; columns as in message",
}


class StoreReader:
    """A store that can be asked."""

    def __init__(self, session: Session, root: Path) -> None:
        """Opens a store.

        Args:
            session: The engine that answers.
            root: Folder of the store.

        Raises:
            StoreError: The folder is no store.
        """
        self._session = session
        self._store = Store(Path(root), session)
        self._prefix = f"roundtable_{uuid4().hex[:12]}"
        self._defined: dict[str, tuple[int, ...]] = {}
        self._defining = RLock()
        check_store(self._store.root)
        self._newest = Ledger.read(self._store)

    def tables(self) -> list[str]:
        """Returns the names that a statement may use: history tables, state tables, views.

        A view of the state of one protocol is there where that state is.
        """
        stored = self._store.tables()
        views = [name for name in view_names() if _states_read(name) <= set(stored)]
        return [*stored, *sorted([*views, *MADE, *self._made_views()])]

    def table(self, name: str, as_of_round: int | None = None) -> DataFrame:
        """Returns a history table, a state table or a view.

        Args:
            name: Its name.
            as_of_round: The end of this round; None for the newest.

        Raises:
            QueryError: There is no such table, or none as of that round.
        """
        self._check_name(name)
        return self._query(f"select * from {name}", as_of_round)  # noqa: S608 - a name that was checked

    def sql(self, text: str, as_of_round: int | None = None) -> DataFrame:
        """Answers one statement that reads: SELECT, WITH, VALUES, SHOW, DESCRIBE or EXPLAIN.

        Args:
            text: The statement; tables and views by their bare names.
            as_of_round: The end of this round; None for the newest.

        Returns:
            The rows, not computed yet; whoever collects them wraps that in `readable_errors`.

        Raises:
            QueryError: It is no such statement, or it cannot be answered.
        """
        statement = read_statement(text)
        if statement.verb == "tables":
            return self._described_tables()
        if statement.verb == "describe":
            return self._described_columns(statement, as_of_round)
        explain = f"explain {statement.mode} " if statement.verb == "explain" else ""
        return self._query(statement.body, as_of_round, explain)

    def state_round(self, as_of_round: int | None = None) -> int:
        """Returns the round whose end the state tables show when asked as of a round; the newest of all batches.

        Raises:
            QueryError: No state was written by then, or there is no such round.
        """
        return max(commit.last_round for commit in self._ledger().state_commits(as_of_round))

    def last_round(self) -> int:
        """Returns the last round that is committed; of several batches, that of the one under way."""
        return self._ledger().last_round

    def is_finished(self) -> bool:
        """Returns whether the runs ended; otherwise more rounds may come."""
        return self._ledger().is_finished

    def _ledger(self) -> Ledger:
        """Reads the ledger again as long as commits may come."""
        if not self._newest.is_finished:
            self._newest = Ledger.read(self._store)
        return self._newest

    def _check_name(self, name: str) -> None:
        names = self.tables()
        if name not in names:
            raise QueryError(f"there is no table {name!r};{nearest(name, names)} there are: {', '.join(names)}")

    def _query(self, body: str, round_: int | None, explain: str = "") -> DataFrame:
        known = set(self.tables())
        body = with_lower_case(body, known)
        names = [name for name in relations_read(body) if name in known]
        snapshot = Snapshot(self._store, self._ledger(), round_)
        definitions = [f"{name} as (\n{self._definition(name, snapshot, round_)}\n)" for name in names]
        # The parentheses let the engine take queries only, and a query may start with a WITH of its own.
        prefix = f"{explain}with {', '.join(definitions or ['nothing as (select 1)'])} (\n"
        try:
            answer = self._session.spark.sql(f"{prefix}{body}\n)")
            _ = answer.columns  # Spark Connect looks at a statement only when it is asked something
        except PySparkException as error:
            raise query_error(error, body, prefix, self.tables(), lambda: self._columns(names, round_)) from None
        return answer

    def _definition(self, name: str, snapshot: Snapshot, round_: int | None) -> str:
        if name == _PROTOCOL:
            rows = ", ".join(
                f"('{spec.name}', {str(spec.confirms).lower()}, {str(spec.keeps_source_order).lower()},"
                f" cast(array({', '.join(map(repr, spec.maintenance))}) as array<string>))"
                for spec in PROTOCOLS.values()
            )
            return f"select * from values {rows} as known(name, confirms, keeps_source_order, maintenance)"  # noqa: S608 - built of constants
        if name in view_names():
            return view_sql(name)
        alias = f"{self._prefix}_{'newest' if round_ is None else round_}_{name}"
        if (made := self._made_views().get(name)) is not None:
            commits = (self._store.version(ROUND_COMMIT.name),)
            return self._defined_once(alias, commits, lambda: made.make(_AsOf(self, round_)))
        if name == _PARAMETER:
            return self._defined_once(f"{self._prefix}_{name}", (), self._parameters)
        # Only a commit, or for some tables an audit, changes what a name means.
        versions = self._store.version(ROUND_COMMIT.name), self._store.version(name)
        return self._defined_once(alias, versions, lambda: snapshot.frame(name))

    def _defined_once(self, alias: str, versions: tuple[int, ...], make: Callable[[], DataFrame]) -> str:
        """Makes a temporary view, unless it is there for the same versions; returns what reads it."""
        with self._defining:
            if self._defined.get(alias) != versions:
                make().createOrReplaceTempView(alias)
                self._defined[alias] = versions
        return f"select * from {alias}"  # noqa: S608 - built of names that were checked

    def _parameters(self) -> DataFrame:
        """Returns the parameters of the runs, which never change."""
        runs = self._store.read(RUN.name).select("run_id", "parameters").toArrow()
        rows = parameter_rows(runs["run_id"].to_pylist(), runs["parameters"].to_pylist())
        return self._session.spark.createDataFrame(rows)

    def _columns(self, names: Sequence[str], round_: int | None) -> dict[str, list[str]]:
        return {name: self.table(name, round_).columns for name in names}

    def _described_tables(self) -> DataFrame:
        tables = self._known_tables()
        made = {name: view.question.partition("\n")[0] for name, view in self._made_views().items()}
        rows = [
            (name, "view" if name in made else _kind(name), made.get(name) or _description(name, tables))
            for name in self.tables()
        ]
        return self._session.spark.createDataFrame(rows, "name string, kind string, description string")

    def _described_columns(self, statement: Statement, round_: int | None) -> DataFrame:
        name = statement.body.lower()
        known = self._known_tables().get(name)
        comments = {field.name: field.metadata.get("comment") for field in known.schema} if known else {}
        fields = self.table(name, round_).schema
        rows = [(field.name, field.dataType.simpleString(), comments.get(field.name)) for field in fields]
        return self._session.spark.createDataFrame(rows, "col_name string, data_type string, comment string")

    def _known_tables(self) -> dict[str, Table]:
        states = [] if self._protocol is None else state_tables(self._protocol)
        return {table.name: table for table in (*HISTORY, *states)}

    def _made_views(self) -> Mapping[str, MadeView]:
        return {} if self._protocol is None else self._protocol.views

    @cached_property
    def _protocol(self) -> Protocol | None:
        """The protocol of the runs; None: this installation does not have it."""
        run = self._store.read(RUN.name).select(_PROTOCOL).limit(1).collect()
        return next((protocol_module(row[0]) for row in run if row[0] in PROTOCOLS), None)


class _AsOf:
    """A store as of the end of a round, as made views read it."""

    def __init__(self, reader: StoreReader, round_: int | None) -> None:
        self._reader = reader
        self._round = round_

    def table(self, name: str) -> DataFrame:
        return self._reader.table(name, self._round)

    def sql(self, text: str) -> DataFrame:
        return self._reader.sql(text, self._round)

    def is_finished(self) -> bool:
        return self._reader.is_finished()


def _states_read(view: str) -> set[str]:
    return {name for name in relations_read(view) if name.startswith(_STATE)}


def _kind(name: str) -> str:
    if name in MADE or name in view_names():
        return "view"
    return "state" if name.startswith(_STATE) else "history"


def _description(name: str, tables: dict[str, Table]) -> str | None:
    if name in view_names():
        return view_question(name)
    table = tables.get(name)
    return MADE.get(name, f"one row per {table.grain}; key {', '.join(table.key)}" if table else None)
