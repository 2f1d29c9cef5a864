"""Buffers history rows between commits, appends the rows to the history tables, and maintains the call log.

A call is final when its history row cannot change any more. The call log (``state_call_log``) contains the calls that
nodes have accepted and that are not final.

A node issues an accepted call in the round of the call or later; until then, it holds the call. Column ``issued_round``
of the log contains the round of a held call, or the round in which the node issued the call. If the node crashes while
it holds the call, the call is lost and counts as issued in the round of the call. A call that is held to the end of the
run has no row in ``publication`` or ``subscription``.

A row of ``publication`` is written when the publication is confirmed, or when it is issued if the protocol confirms no
calls. A row of ``subscription`` is written when the subscription has ended. The last commit writes the rows of all
remaining publications and subscriptions.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from pipelines.contract.run_inputs import row_numbers
from pipelines.engines.session import concurrently
from pipelines.experiment.jobs import Batch
from pipelines.store.store import Store
from pipelines.tables import CALL_LOG, DELIVERY, MESSAGE, NODE_STATUS, PUBLICATION, ROUND_METRIC, SUBSCRIPTION

_CALL = ["run_id", "source", "source_seq"]
_SUBSCRIPTION = ["run_id", "subscription_id"]
_STORED = to_arrow_schema(CALL_LOG.schema)
_LOGGED = pa.schema([_STORED.field(name) for name in (
    *_CALL, "kind", "subscription_id", "issued_round", "confirmed_round", "is_held",
)])  # fmt: skip
"""The columns of the log in memory. The remaining columns of the table are functions of the call."""
_CLOSED = pa.array(["subscribe", "unsubscribe", "publish"])
"""The kinds of calls that have a row in ``publication`` or ``subscription``."""
CALL_EVENT: Final = "call_event"
"""The name of the buffered call events, which the call log consumes."""
_WRITTEN: Final = (MESSAGE.name, ROUND_METRIC.name, DELIVERY.name, NODE_STATUS.name)
"""The history tables that receive buffered rows without change."""


class CallLog:
    """The application calls whose history rows may still change; computes the rows of calls that become final.

    Attributes:
        rows: One row per call that is not final, columns of table ``state_call_log`` up to ``is_held``.
    """

    def __init__(
        self, call: pa.Table, subscription: pa.Table, publication: pa.Table, crash: pa.Table, *, confirms: bool,
        rows: pa.Table | None,
    ) -> None:  # fmt: skip
        """Sets the inputs of the runs (tables of `Inputs`), and the log at the last commit.

        Args:
            call: All calls.
            subscription: All subscriptions.
            publication: All publications.
            crash: All crashes.
            confirms: Whether the protocol confirms calls; otherwise a call is final when it is issued.
            rows: Table ``state_call_log`` at the last commit; None if no commit exists.
        """
        self._call = call.select(["run_id", "node_id", "source_seq", "kind", "subscription_id"]).rename_columns(
            [*_CALL, "kind", "subscription_id"]
        )
        self._subscription, self._publication = subscription, publication
        self._crash = crash.select(["run_id", "node_id", "round"]).rename_columns(["run_id", "source", "crash_round"])
        self._confirms = confirms
        self.rows = _LOGGED.empty_table() if rows is None else rows.select(_LOGGED.names).cast(_LOGGED)

    def take(self, event: pa.Table | None, last_round: int, *, is_final: bool) -> dict[str, pa.Table]:
        """Adds call events to the log, and moves the calls that are final from it to the returned history tables.

        Args:
            event: ``run_id, source, source_seq, round, event``; the event is ``held``, ``issued`` or ``confirmed``.
                None stands for no events.
            last_round: The last executed round.
            is_final: Whether no round follows; all calls are final then.
        """
        if event is not None:
            self.rows = self._logged(event)
        self.rows = self._without_lost(last_round)
        if event is None and not is_final:
            return {}
        log = self.rows.filter(pc.invert(self.rows["is_held"]))
        done = log if is_final or not self._confirms else log.filter(pc.is_valid(log["confirmed_round"]))
        published, opened, closed = (
            done.filter(pc.equal(done["kind"], kind)) for kind in ("publish", "subscribe", "unsubscribe")
        )
        ending = closed.select([*_SUBSCRIPTION, "issued_round", "confirmed_round"]).rename_columns(
            [*_SUBSCRIPTION, "unsubscribed_round", "ended_round"]
        )
        if not self._confirms:
            ending = ending.set_column(3, "ended_round", ending["unsubscribed_round"])
        subscribed = opened.join(ending, _SUBSCRIPTION, join_type="left outer" if is_final else "inner")
        over = closed.join(subscribed.select(_SUBSCRIPTION), _SUBSCRIPTION, join_type="left semi")
        final = pa.concat_tables(rows.select(_CALL) for rows in (published, subscribed, over))
        # No round follows a final commit, so the log then keeps only calls of kinds that have no history row.
        rest = log.filter(pc.invert(pc.is_in(log["kind"], _CLOSED))) if is_final else log
        held = self.rows.filter(self.rows["is_held"])
        self.rows = pa.concat_tables([rest.join(final, _CALL, join_type="left anti"), held]).cast(_LOGGED)
        return {
            PUBLICATION.name: _with(published, self._publication, _CALL, PUBLICATION.columns),
            SUBSCRIPTION.name: _with(subscribed, self._subscription, _SUBSCRIPTION, SUBSCRIPTION.columns),
        }

    def stored(self) -> pa.Table:
        """Returns the rows of table ``state_call_log``."""
        kind = self.rows["kind"]
        published, subscribed, others = (
            self.rows.filter(pc.equal(kind, "publish")),
            self.rows.filter(pc.equal(kind, "subscribe")),
            self.rows.filter(pc.invert(pc.is_in(kind, pa.array(["publish", "subscribe"])))),
        )
        parts = (
            _with(published, self._publication, _CALL, [*_LOGGED.names, "topic", "content", "guarantee", "keys"]),
            _with(subscribed, self._subscription, _SUBSCRIPTION, [*_LOGGED.names, "predicate"]),
            others,
        )
        return pa.concat_tables(parts, promote_options="default").select(_STORED.names).cast(_STORED)

    def _logged(self, event: pa.Table) -> pa.Table:
        """Returns the log with accepted calls and confirmations, without confirmed calls that have no history row."""
        accepted = event.filter(pc.not_equal(event["event"], "confirmed"))
        accepted = accepted.append_column("is_issued", pc.equal(accepted["event"], "issued"))
        # A held call has a second event when its node issues the call. The later round counts.
        accepted = accepted.group_by(_CALL, use_threads=False).aggregate([("round", "max"), ("is_issued", "any")])
        accepted = accepted.append_column("is_held", pc.invert(accepted["is_issued_any"]))
        accepted = accepted.rename_columns({"round_max": "issued_round"}).join(self._call, _CALL)
        accepted = accepted.append_column("confirmed_round", pa.nulls(len(accepted), pa.int64())).select(_LOGGED.names)
        before = self.rows.join(accepted.select(_CALL), _CALL, join_type="left anti")
        log = pa.concat_tables([before.cast(_LOGGED), accepted.cast(_LOGGED)])
        # A duplicated message confirms a call twice. The first confirmation counts.
        confirmed = event.filter(pc.equal(event["event"], "confirmed")).group_by(_CALL, use_threads=False)
        log = log.join(confirmed.aggregate([("round", "min")]), _CALL, join_type="left outer")
        confirmed_round = pc.coalesce(log["confirmed_round"], log["round_min"])
        log = log.set_column(log.schema.get_field_index("confirmed_round"), "confirmed_round", confirmed_round)
        is_kept = pc.is_in(log["kind"], _CLOSED)
        return log.filter(pc.or_(is_kept, pc.is_null(confirmed_round))).select(_LOGGED.names).cast(_LOGGED)

    def _without_lost(self, last_round: int) -> pa.Table:
        """Returns the log, in which held calls of nodes that crashed up to `last_round` are marked as issued."""
        held = self.rows.filter(self.rows["is_held"])
        if not held:
            return self.rows
        struck = held.join(self._crash, ["run_id", "source"], join_type="inner")
        is_lost = pc.and_(
            pc.greater(struck["crash_round"], struck["issued_round"]), pc.less_equal(struck["crash_round"], last_round)
        )
        lost = struck.filter(is_lost).group_by(_CALL, use_threads=False).aggregate([])
        taken = held.join(lost, _CALL, join_type="left semi").drop_columns(["is_held"])
        taken = taken.append_column("is_held", pa.array([False] * len(taken), pa.bool_()))
        rest = self.rows.join(lost, _CALL, join_type="left anti")
        return pa.concat_tables([one.select(_LOGGED.names).cast(_LOGGED) for one in (rest, taken)])


def _with(rows: pa.Table, given: pa.Table, key: Sequence[str], columns: Sequence[str]) -> pa.Table:
    """Joins `rows` with `given` by `key`, which is unique in `given`, and selects `columns`."""
    index = given.select(key).append_column("index", row_numbers(given))
    found = rows.join(index, list(key), join_type="inner")
    taken = given.take(found["index"])
    return pa.table({name: (found if name in found.column_names else taken)[name] for name in columns})


class History:
    """Buffers the history rows of rounds, and commits them.

    Attributes:
        first_round: The first buffered round; None if no round is buffered.
    """

    def __init__(self, store: Store, batch: Batch, log: CallLog, names: Mapping[str, str]) -> None:
        """Starts with an empty buffer; `names` maps a protocol's name for a state table to its name in the store."""
        self._store = store
        self._batch = batch
        self._names = names
        self._log = log
        self._rows: dict[str, list[pa.Table]] = defaultdict(list)
        self.first_round: int | None = None

    @property
    def n_bytes(self) -> int:
        """The size of the buffered rows in bytes."""
        return sum(int(table.nbytes) for tables in self._rows.values() for table in tables)

    def write_through(self, state: Mapping[str, DataFrame]) -> None:
        """Overwrites the state tables `state`. The next commit records the versions of the tables in the ledger."""
        for name, rows in state.items():
            self._store.overwrite(self._names[name], rows)

    def read_state(self, name: str) -> DataFrame:
        """Returns the latest version of the state table `name`."""
        stored = self._names[name]
        return self._store.read(stored, self._store.version(stored))

    def add(self, first_round: int, tables: Mapping[str, pa.Table]) -> None:
        """Buffers rows of `first_round` and later: history tables except ``round_metric``, and call events."""
        if self.first_round is None:
            self.first_round = first_round
        for name, table in tables.items():
            self._put(name, table)

    def _put(self, name: str, table: pa.Table) -> None:
        self._rows[name].append(table)
        if name == MESSAGE.name:
            self._rows[ROUND_METRIC.name].append(_counted(table))

    def commit(self, last_round: int, state: Mapping[str, DataFrame | pa.Table], rest: pa.Table | None) -> None:
        """Writes the buffered rows and the state, and then the ledger.

        Args:
            last_round: The last complete round.
            state: The state tables that changed since the last commit, by the protocol's name for the table.
            rest: In the final commit the messages that are still in flight, as rows of table ``message``; else None.
        """
        if rest is not None:
            self._put(MESSAGE.name, rest)
        events = self._rows.pop(CALL_EVENT, None)
        event = None if events is None else pa.concat_tables(events)
        closed = self._log.take(event, last_round, is_final=rest is not None)
        overwritten = {self._names[name]: rows for name, rows in state.items()} | {CALL_LOG.name: self._log.stored()}
        # With Spark's setting useLargeVarTypes, the messages in flight have other string types than the buffered rows.
        parts = {name: self._rows[name] for name in _WRITTEN if self._rows[name]}
        appended = {name: pa.concat_tables(tables, promote_options="permissive") for name, tables in parts.items()}
        concurrently([
            *(partial(self._store.load, name, rows) for name, rows in (appended | closed).items()),
            *(partial(self._store.overwrite, name, rows) for name, rows in overwritten.items()),
        ])  # fmt: skip
        row = {
            "first_run": [self._batch.first_run],
            "last_run": [self._batch.last_run],
            "n_later_runs": [self._batch.n_later_runs],
            "first_round": [self.first_round if self.first_round is not None else last_round],
            "last_round": [last_round],
            "is_final": [rest is not None],
            "versions": [json.dumps(self._store.written_versions(), sort_keys=True)],
        }
        self._store.commit(pa.table(row))
        self._rows.clear()
        self.first_round = None
        _release_memory()


def _release_memory() -> None:
    # Arrow and glibc keep freed memory: the process on Spark grew by 100 MB with each batch of 500 runs, to 1.2 GiB.
    pa.default_memory_pool().release_unused()
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)


def _counted(message: pa.Table) -> pa.Table:
    counted = message.group_by(["run_id", "due_round", "kind", "fate"]).aggregate([([], "count_all")])
    return counted.rename_columns({"due_round": "round", "count_all": "n_messages"}).select(ROUND_METRIC.columns)
