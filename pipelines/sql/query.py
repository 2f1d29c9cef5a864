"""SQL over a store: a statement uses the bare names of tables and views, and reads the newest or an earlier round.

Each statement is wrapped in a WITH clause that defines the names in the statement. The definition of a table reads a
temporary view, whose name is unique to the store and the round; the definition of a view is its SQL. So one session can
query several stores and several rounds of a store, and a DataFrame stays bound to its store. If the WITH clause of the
user's statement defines the name of a table or view, the user's definition takes precedence.

As of round R, tables have the rows that module `snapshot` selects. In a finished store, a round after the last round
selects the last round. In an unfinished store, uncommitted rounds are rejected.

In a store with several protocols, a view that belongs to one protocol reads only the runs of that protocol.
`StoreReader.of_protocol` restricts the store to one protocol. An unfinished store is read as of its last commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cached_property, partial, reduce
from importlib.util import find_spec
from threading import RLock
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from pipelines.contract.protocol import ComputedView
from pipelines.contract.round import IN_FLIGHT, STATE
from pipelines.engines.frames import arrow_of, frame_of, union
from pipelines.engines.session import Session, open_session
from pipelines.errors import QueryError
from pipelines.protocols import PROTOCOLS
from pipelines.sql.computed import COMPUTED, HELD_STATE, PARAMETER, held_rows, parameter_paths
from pipelines.sql.errors import query_error, unknown_table
from pipelines.sql.snapshot import SENT_MESSAGE, StoredRuns, StoreSnapshot
from pipelines.sql.statement import Statement, identifiers, read_statement, with_escaped_quotes, with_lower_case
from pipelines.sql.views import (
    COMMON,
    in_flight_meanings,
    parameter_meanings,
    relations_read,
    states_read,
    table_columns,
    view_head,
    view_owners,
    view_sources,
)  # fmt: skip
from pipelines.store.folder import check_store, missing_table
from pipelines.store.ledger import Ledger
from pipelines.store.place import RemotePath
from pipelines.store.roots import Root, root_of
from pipelines.store.store import Store
from pipelines.tables import HISTORY, MESSAGE, ROUND_COMMIT, RUN, VIOLATION, Table

FEW_BYTES: Final = 16 * 1024**2
"""Maximum size in bytes of a small store, including all versions of its tables.

Audits of 19 runs of `repository` in 2.4 MB took 1.9 CPU seconds with cached views, and 9.7 without cached views. Audits
of 3,000 runs of `delta` in 29 MB took 15.6 CPU seconds with cached views, and 13.9 without cached views.
"""
VERY_FEW_BYTES: Final = 2 * 1024**2
"""Maximum size in bytes of a store whose queries shuffle rows into a single partition."""
INTERPRETED_BYTES: Final = 32 * 1024**2
"""Maximum size in bytes of a store whose queries Spark interprets instead of compiling them."""
_MOST_BYTES: Final = 16 * 1024**2
"""Maximum size in bytes of the cached rows of a view."""
_WHOLE = "select * from {}"
SENT_DESCRIPTION = "every message put on a link, including messages in flight; has the columns of message"
"""The description of relation `SENT_MESSAGE`."""


class StoreReader:
    """A reader of a store, which answers SQL queries.

    An engine plans the SQL of a view again for each query or view that reads it. In a small store, planning takes much
    longer than reading, so the reader then computes each view once and caches its rows.

    Attributes:
        session: The engine that executes the queries.
        store: The store.
        is_small: Whether the reader caches the rows of views, and reads small tables without the engine.
    """

    def __init__(self, session: Session, root: Root, *, is_small: bool | None = None) -> None:
        """Opens the store at ``root``; ``is_small`` None stands for a store of at most `FEW_BYTES`.

        Raises:
            StoreError: ``root`` is not a store.
        """
        self.session = session
        self.store = Store(root_of(root), session)
        self._prefix = f"roundtable_{uuid4().hex[:12]}"
        self._defined: dict[str, tuple[int, ...]] = {}
        self._defining = RLock()
        check_store(self.store.root)
        self._newest = Ledger.read(self.store)
        self.is_small = self.store.n_bytes() <= FEW_BYTES if is_small is None else is_small
        self.store.is_small = self.is_small
        self._n_holds = 0
        """The number of open blocks of `at_one_commit`."""
        self._whole = self
        """The reader of all protocols, whose ledger all readers of the store use."""
        self._runs = StoredRuns(self.store)
        self._only: str | None = None
        self._parts: dict[str, StoreReader] = {}

    def close(self) -> None:
        """Drops the temporary views that this reader has defined; the next query defines them again."""
        with self._defining:
            for reader in (self, *self._parts.values()):
                for alias in reader._defined:
                    self.session.spark.catalog.dropTempView(alias)
                reader._defined.clear()

    @property
    def protocols(self) -> list[str]:
        """The protocols of the runs, in the order of their first runs."""
        return self._runs.protocols if self._only is None else [self._only]

    def of_protocol(self, protocol: str) -> StoreReader:
        """Returns a reader of the runs of one installed protocol, in which state tables have their short names.

        In a store with several protocols, the full name of a state table includes the protocol.
        """
        if self.protocols == [protocol]:
            return self
        with self._defining:
            if protocol not in self._parts:
                part = copy(self)
                part._prefix, part._only = f"{self._prefix}_{protocol}", protocol
                part._defined, part._parts = {}, {}
                self._parts[protocol] = part
        return self._parts[protocol]

    def of_run(self, run_id: int) -> StoreReader:
        """Returns a reader of all runs that have the protocol of run ``run_id``."""
        return self.of_protocol(self._runs.protocol_of(run_id))

    def tables(self) -> list[str]:
        """Returns the names that a statement may use: history tables, state tables, and views.

        A view that belongs to a protocol is listed only if the store has runs of the protocol. A view that reads a
        state table is listed only if the state table exists.
        """
        stored = {reader: reader._stored() for reader in (self, *map(self.of_protocol, self._installed))}
        readers = {name: self._readers_of(name) for name in view_sources()}
        views = [
            name for name, parts in readers.items()
            if parts and all(states_read(name) <= stored[part].keys() for part in parts)
        ]  # fmt: skip
        return [*stored[self], *sorted([*views, SENT_MESSAGE, *self._computed_views()])]

    @property
    def _installed(self) -> list[str]:
        return [name for name in self.protocols if name in PROTOCOLS]

    def _stored(self) -> Mapping[str, str]:
        """Maps the name of each table in a statement to the name under which the table is stored."""
        if self._only is None:
            return {name: name for name in self._table_names}
        states = {name: self._runs.stored(self._only, name) for name in self._runs.tables[self._only]}
        return dict(sorted({**{table.name: table.name for table in HISTORY}, **states}.items()))

    def _readers_of(self, view: str) -> list[StoreReader]:
        """Returns this reader, or the readers restricted to those protocols of this store that own ``view``."""
        owners = view_owners().get(view)
        return [self] if owners is None else [self.of_protocol(name) for name in self._installed if name in owners]

    def table(self, name: str, as_of_round: int | None = None) -> DataFrame:
        """Returns a history table, a state table or a view; for ``as_of_round`` see `sql`.

        Raises:
            QueryError: The table does not exist, or did not exist at the end of round ``as_of_round``.
        """
        if name not in self.tables():
            raise self._missing(name)
        return self._query(_WHOLE.format(name), as_of_round)

    def _missing(self, name: str) -> QueryError:
        return unknown_table(name, self.tables(), view_owners().get(name.lower(), ()), self.protocols)

    def sql(self, text: str, as_of_round: int | None = None) -> DataFrame:
        """Answers one read-only statement: SELECT, WITH, VALUES, SHOW, DESCRIBE or EXPLAIN.

        Args:
            text: The statement, with bare names of tables and views.
            as_of_round: The statement reads the store as of the end of this round; None selects the newest round.

        Returns:
            A lazy DataFrame; collect it inside `readable_errors`.

        Raises:
            QueryError: The statement is not read-only, or the engine rejects it.
        """
        statement = read_statement(text)
        if statement.verb == "tables":
            return self._described_tables()
        if statement.verb == "describe":
            return self._described_columns(statement, as_of_round)
        explain = f"explain {statement.mode} " if statement.verb == "explain" else ""
        return self._query(statement.body, as_of_round, explain)

    def state_versions(self, name: str, rounds: Sequence[int]) -> list[tuple[int, ...]]:
        """Returns, for each round in ``rounds``, the Delta versions from which state table ``name`` is read.

        Each batch of runs has a version. In rounds with equal versions, the table has equal rows.
        """
        ledger, stored = self._ledger(), self._stored_name(name)
        return [tuple(commit.versions.get(stored, 0) for commit in ledger.state_commits(round_)) for round_ in rounds]

    def last_round(self) -> int:
        """Returns the last committed round of the newest batch of runs.

        If this batch has ended, returns the highest committed round of all batches.
        """
        return self._ledger().last_round

    def is_finished(self) -> bool:
        """Returns whether all runs have ended."""
        return self._ledger().is_finished

    @contextmanager
    def at_one_commit(self) -> Iterator[None]:
        """Inside the ``with`` block, all queries read one commit: the newest at the start of the outermost block.

        The verdicts and table ``violation`` are exceptions: audits may write them during the block. Outside a block,
        each query reads the newest commit, so the results of two queries may come from different commits.
        """
        with self._defining:
            self._ledger()
            self._whole._n_holds += 1
        try:
            yield
        finally:
            with self._defining:
                self._whole._n_holds -= 1

    def _ledger(self) -> Ledger:
        """Returns the newest ledger, or in a block `at_one_commit` the one that the block has read."""
        whole = self._whole
        if not whole._newest.is_finished and not whole._n_holds:
            whole._newest = Ledger.read(self.store)
        return whole._newest

    def _version(self, name: str) -> int:
        """Returns the newest version of a stored table; for the ledger, the number of commits that queries read.

        If all runs have ended, only audits write new versions. So the version of a remote table that audits do not
        write is looked up only once, because each look-up sends a request.
        """
        if name == ROUND_COMMIT.name:
            return len(self._whole._newest.commits)
        is_looked_up = name in (RUN.name, VIOLATION.name) or not self._whole._newest.is_finished
        if is_looked_up or not isinstance(self.store.root, RemotePath):
            return self.store.version(name)
        return self.store.known_version(name)

    @cached_property
    def _table_names(self) -> list[str]:
        """The stored tables, which are cached: after the first commit, no table is added to a store."""
        names = self.store.tables()
        missing = self._whole._newest.last.versions.keys() - set(names)
        if missing:
            raise missing_table(self.store.root, min(missing))
        return names

    def _query(self, body: str, round_: int | None, explain: str = "") -> DataFrame:
        if explain and self.is_small:  # a query of cached rows has a plan without the SQL of views
            plain = StoreReader(self.session, self.store.root, is_small=False)
            return (plain if self._only is None else plain.of_protocol(self._only))._query(body, round_, explain)
        known = set(self.tables())
        body = with_lower_case(body, known)
        if self.session.engine == "local":
            body = with_escaped_quotes(body)
        read = sorted(identifiers(body)) if self.is_small else relations_read(body)
        names = [name for name in read if name in known]
        snapshot = StoreSnapshot(self.store, self._runs, self._ledger(), round_)
        definitions = [f"{name} as (\n{self._definition(name, snapshot, round_)}\n)" for name in names]
        # Inside the parentheses only a query is valid, which may start with its own WITH.
        prefix = f"{explain}with {', '.join(definitions or ['nothing as (select 1)'])} (\n"
        try:
            answer = self.session.spark.sql(f"{prefix}{body}\n)")
            _ = answer.columns  # Spark Connect analyses a statement only on request
        except PySparkException as error:
            # The columns of a view are unknown if its own SQL is wrong.
            known_columns = [name for name in names if body != _WHOLE.format(name)]
            raise query_error(
                error,
                body,
                prefix,
                self._missing,
                lambda: {name: self.table(name, round_).columns for name in known_columns},
            ) from None
        return answer

    def _definition(self, name: str, snapshot: StoreSnapshot, round_: int | None) -> str:
        alias = f"{self._prefix}_{'newest' if round_ is None else round_}_{name}"
        if name in view_sources():
            if (readers := self._readers_of(name)) == [self]:
                return self._view_once(alias, name, round_) if self.is_small else view_sources()[name]
            audited = tuple(self._version(one.name) for one in (ROUND_COMMIT, RUN, VIOLATION))
            return self._defined_once(alias, audited, lambda: union(one.table(name, round_) for one in readers))
        if parts := self._computed_views().get(name):
            known = (self._version(ROUND_COMMIT.name), *map(id, PROTOCOLS.values()))
            return self._defined_once(alias, known, lambda: self._computed(parts, round_))
        # The rows of a name change only with a commit or, for some tables, with an audit.
        versions = self._version(ROUND_COMMIT.name), self._version(self._stored_name(name))
        return self._defined_once(alias, versions, lambda: self._stored_rows(snapshot, name))

    def _view_once(self, alias: str, name: str, round_: int | None) -> str:
        """Computes the rows of a view once for each state of the tables that it reads; the result reads these rows."""
        stored = self._stored()
        read = [ROUND_COMMIT.name, *(stored[one] for one in relations_read(name) if one in stored)]

        def fetched() -> DataFrame:
            answer = self._query(view_sources()[name], round_)
            rows = arrow_of(answer)
            return frame_of(self.session.spark, rows) if rows.nbytes <= _MOST_BYTES else answer

        return self._defined_once(alias, tuple(self._version(one) for one in read), fetched)

    def _defined_once(self, alias: str, versions: tuple[int, ...], make: Callable[[], DataFrame]) -> str:
        """Defines the temporary view ``alias``, unless it was already defined for these ``versions`` of its tables.

        Returns a SELECT statement that reads the view.
        """
        with self._defining:
            if self._defined.get(alias) != versions:
                make().createOrReplaceTempView(alias)
                self._defined[alias] = versions
        return f"select * from {alias}"  # noqa: S608 - built of names that were checked

    def _computed(self, parts: Sequence[tuple[StoreReader, ComputedView]], round_: int | None) -> DataFrame:
        made = [view.make(partial(reader.sql, as_of_round=round_)) for reader, view in parts]
        frames = [rows for rows in made if not isinstance(rows, pa.Table)]
        if tables := [rows for rows in made if isinstance(rows, pa.Table)]:
            frames.append(frame_of(self.session.spark, pa.concat_tables(tables)))
        return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)

    def _stored_name(self, name: str) -> str:
        return name if self._only is None or not name.startswith(STATE) else self._runs.stored(self._only, name)

    def _stored_rows(self, snapshot: StoreSnapshot, name: str) -> DataFrame:
        rows = snapshot.frame(self._stored_name(name))
        if self._only is None:
            return rows
        return rows.where(self._runs.rows_of(self._only, "first_run" if name == ROUND_COMMIT.name else "run_id"))

    def _described_tables(self) -> DataFrame:
        told = {name: view_head(name).question for name in view_sources()} | {SENT_MESSAGE: SENT_DESCRIPTION}
        told |= {name: parts[0][1].question.partition("\n")[0] for name, parts in self._computed_views().items()}
        grains = {
            name: f"a row is {table.grain}; key {', '.join(table.key)}" for name, table in self._known_tables().items()
        }
        rows = [
            (name, "view", told[name]) if name in told
            else (name, "state" if name.startswith(STATE) else "history", grains.get(name))
            for name in self.tables()
        ]  # fmt: skip
        return self.session.spark.createDataFrame(rows, "name string, kind string, description string")

    def _described_columns(self, statement: Statement, round_: int | None) -> DataFrame:
        name = statement.body.lower()
        fields = self.table(name, round_).schema
        meanings = self._meanings(name)
        rows = [(field.name, field.dataType.simpleString(), meanings.get(field.name)) for field in fields]
        return self.session.spark.createDataFrame(rows, "col_name string, data_type string, comment string")

    def _meanings(self, name: str) -> Mapping[str, str]:
        """Returns the meanings of the columns of a table or view, and possibly of further columns."""
        if name in self._in_flight():
            return in_flight_meanings({one: self._runs.form(one).payload.names for one in self._in_flight()[name]})
        if (table := self._known_tables().get(name)) is not None:
            return table_columns(table)
        if name == SENT_MESSAGE:
            return table_columns(MESSAGE)
        if name == PARAMETER:
            paths = parameter_paths([row.parameters for row in self.sql("select parameters from run").collect()])
            return {**COMMON, **parameter_meanings(paths, self.protocols)}
        if made := self._computed_views().get(name):
            return {**COMMON, **made[0][1].columns}
        head = view_head(name)
        meanings = dict(COMMON)
        for relation in reversed(head.like):
            meanings |= self._meanings(relation)
        return meanings | dict(head.columns)

    def _in_flight(self) -> Mapping[str, Sequence[str]]:
        """Maps each table of messages in flight to the protocols whose messages it contains."""
        found: dict[str, list[str]] = {}
        for protocol in self._installed:
            name = IN_FLIGHT if self._only is not None else self._runs.stored(protocol, IN_FLIGHT)
            found.setdefault(name, []).append(protocol)
        return found

    def _known_tables(self) -> dict[str, Table]:
        history = {table.name: table for table in HISTORY}
        states = {
            table.name if self._only is None else name: table
            for protocol, tables in self._runs.tables.items() if protocol in self.protocols
            for name, table in tables.items()
        }  # fmt: skip
        return history | states

    def _computed_views(self) -> Mapping[str, Sequence[tuple[StoreReader, ComputedView]]]:
        """Maps the name of each computed view to its parts: readers, each with the view that is computed from it."""
        found = {name: [(self, view)] for name, view in COMPUTED.items()}
        for protocol in self._installed:
            held = replace(COMPUTED[HELD_STATE], make=partial(held_rows, self._runs.form(protocol).states))
            for name, view in {HELD_STATE: held, **PROTOCOLS[protocol].made_views}.items():
                found.setdefault(name, []).append((self.of_protocol(protocol), view))
        return found


@contextmanager
def suited_to(reader: StoreReader) -> Iterator[None]:
    """Configures the engine of ``reader`` for the size of its store inside the ``with`` block."""
    n_bytes = reader.store.n_bytes()
    with reader.session.suited(is_small=n_bytes <= INTERPRETED_BYTES, is_in_one=n_bytes <= VERY_FEW_BYTES):
        yield


@contextmanager
def fast_reader(opened: StoreReader) -> Iterator[StoreReader]:
    """Yields a reader of the store of ``opened`` on the engine that is fastest for many queries.

    The engine is ``local`` if it is installed, the store has at most `INTERPRETED_BYTES`, and ``opened`` uses a local
    Spark that this program started. Spark takes ten times as long as Sail to plan the queries of a small store.
    Otherwise, the reader is ``opened``.
    """
    session, store = opened.session, opened.store
    is_own = session.engine == "spark" and session.owns and find_spec("pysail") is not None
    if is_own and store.n_bytes() <= INTERPRETED_BYTES:
        with open_session("local") as other:
            yield StoreReader(other, store.root)
        return
    with suited_to(opened):
        yield opened
