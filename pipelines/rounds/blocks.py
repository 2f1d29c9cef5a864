"""The round engine of the program form: a job executes a block, which is a number of consecutive rounds of all runs.

One core executes all rounds of a run in a block. The cores belong to Spark's executors or to processes of this machine
(`engines.workers`). Between two blocks the driver holds the state of the runs as Arrow tables. The driver commits a
block while the next block is being executed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Event

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from pipelines.contract.forms import AskedForm
from pipelines.contract.nodes import NODE_STATE, ProgramForm
from pipelines.contract.protocol import SETTINGS_JSON
from pipelines.contract.round import IN_FLIGHT, STATE, in_flight_schema
from pipelines.contract.run_inputs import Inputs, row_numbers
from pipelines.engines.frames import arrow_of
from pipelines.engines.session import Session
from pipelines.engines.workers import (
    in_thread,
    in_workers,
    mapped_here,
    mapped_on_executors,
    n_workers_of,
    starting,
    stop_workers,
)
from pipelines.errors import InternalError
from pipelines.experiment.jobs import MANY_RUNS
from pipelines.protocols import PROTOCOLS
from pipelines.rounds.commit import History
from pipelines.rounds.loop import Rounds
from pipelines.rounds.schedule import Calls, Crashes, next_of
from pipelines.scenario.load import RunConfig
from pipelines.tables import MESSAGE
from udfs.nodes.arrow import CALL, COUNTED, FLIGHT, NODE, rows_of
from udfs.nodes.block import GIVEN, OVERLAY, block_of, block_schema, shown_type
from udfs.nodes.link_faults import COPY_ID, NthFault
from udfs.nodes.matching import ATTRIBUTE
from udfs.nodes.processes import check, until
from udfs.nodes.world import BEFORE, Flight

_MOST_BYTES = 1 << 30
"""The maximum size of a chunk of a list column. An Arrow array holds at most 2 GiB of strings."""
_END_SECONDS = 10.0
"""The number of seconds that `Blocks.close` waits for the end of an interrupted block."""
_NODE = ["run_id", "node_id"]
_CALL = ("node_id", *CALL)


def history_rows(runs: pa.Table, last: int) -> dict[str, pa.Table]:
    """Returns the history rows of a block up to round `last`, by table; `runs` is the result of the block."""
    # A lost message that is due in a round without another event of its run is still in column ``in_flight``.
    lost = exploded(runs, "in_flight").filter(pc.field("due_round") <= last)
    message = pa.concat_tables([exploded(runs, "handled"), lost])
    return {
        "message": with_fate(message, "delivered"),
        "delivery": exploded(runs, "delivery").rename_columns({"node_id": "subscriber"}),
        "node_status": exploded(runs, "statuses"),
        "call_event": exploded(runs, "events"),
    }


def with_fate(message: pa.Table, fate: str) -> pa.Table:
    """Returns `message` as rows of table ``message``; a null fate becomes `fate`."""
    fates = pc.fill_null(message["fate"], fate)
    return message.set_column(message.schema.get_field_index("fate"), "fate", fates).select(MESSAGE.columns)


def without(rows: pa.Table, node: pa.Table) -> pa.Table:
    """Returns `rows` without the rows of the nodes in `node` (``run_id, node_id``)."""
    kept = rows.select(_NODE).append_column("index", row_numbers(rows)).join(node, _NODE, join_type="left anti")
    return rows.take(kept["index"].sort())


def exploded(runs: pa.Table, name: str) -> pa.Table:
    """Returns the structs of list column `name` as rows with ``run_id``.

    The rows are computed chunk by chunk: an Arrow array holds at most 2 GiB.
    """
    parts = []
    for batch in runs.to_batches():
        values, index = pc.list_flatten(batch.column(name)), pc.list_parent_indices(batch.column(name))
        names = ["run_id", *(field.name for field in values.type)]
        parts.append(pa.table([batch.column("run_id").take(index), *values.flatten()], names=names))
    return pa.concat_tables(parts)


def _by_position(rows: pa.Table) -> pa.Table:
    return rows.sort_by("position") if "position" in rows.column_names else rows


def _copied(rows: pa.Table) -> pa.Table:
    # An Arrow view of a part of a table would keep the whole table in memory.
    parts = [batch.take(pa.array(np.arange(batch.num_rows))) for batch in rows.to_batches()]
    return pa.Table.from_batches(parts, rows.schema)


def list_column(rows: pa.Table | None, columns: Sequence[str], run: pa.Array) -> pa.ChunkedArray:
    """Returns the rows of each run as a list of structs; the inverse of `exploded`.

    Args:
        rows: A table with column ``run_id`` and `columns`; None stands for an empty table.
        columns: The fields of the structs.
        run: The ids of all runs, ascending.
    """
    if rows is None:
        return pa.chunked_array([pa.nulls(len(run), pa.list_(pa.int64()))])
    if rows.nbytes > _MOST_BYTES and len(run) > 1:
        half = len(run) // 2
        is_before = pc.less(rows["run_id"], run[half])
        parts = (rows.filter(is_before), run[:half]), (rows.filter(pc.invert(is_before)), run[half:])
        return pa.chunked_array([chunk for part in parts for chunk in list_column(part[0], columns, part[1]).chunks])
    ordered = rows.sort_by("run_id").select(["run_id", *columns]).combine_chunks()
    offsets = np.append(np.searchsorted(ordered["run_id"].to_numpy(), run.to_numpy()), len(ordered))
    values = ordered.select(columns).to_struct_array().combine_chunks()
    return pa.chunked_array([pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)])


@dataclass(frozen=True)
class _Block:
    """A block that is being executed."""

    asked: int  # the last round that the caller requested
    last: int  # the last round of the block, less than `asked` if the requested rounds have too many calls
    runs: Future[pa.Table]


class Blocks(Rounds):
    """Executes the runs of a node program; each job executes a block of rounds."""

    def __init__(
        self, protocol: ProgramForm, session: Session, calls: Calls, crashes: Crashes, history: History,
        inputs: Inputs, setting: pa.Table,
    ) -> None:  # fmt: skip
        """Collects the input columns that are equal in all blocks; `setting` has one row per run."""
        self.round = BEFORE
        self.history = history
        self._protocol, self._calls, self._crashes, self._inputs = protocol, calls, crashes, inputs
        fault = inputs.link_fault
        # In these runs every second message id is reserved for copies. Ids do not depend on other runs of the job.
        self._duplicating = pc.unique(fault.filter(pc.equal(fault["effect"], "duplicate"))["run_id"])
        self._replaced = np.unique(inputs.replacement["round"].to_numpy())
        self.name = protocol.name
        self._session = session
        is_many = len(setting) >= MANY_RUNS
        self._n_workers = n_workers_of(session.engine) if is_many else 0
        self._n_executors = session.partitions if session.engine != "local" else 0
        self._play = in_workers(partial(block_of, protocol.program), self._n_workers)
        setting = setting.sort_by("run_id")
        self._run = setting["run_id"].combine_chunks()
        self._constants = self._constant_inputs(setting)
        # The state of the runs between two blocks, one row per run, and their messages in flight.
        self._runs: pa.Table | None = None
        self._flight = pa.schema([("run_id", pa.int64()), *FLIGHT.items()]).empty_table()
        self._grown: dict[str, list[pa.Table]] = defaultdict(list)
        self._written = {state.table.name for state in protocol.states if state.derived_from is None}
        self._is_changed = False
        self._block: _Block | None = None
        self._ended = Event()

    def _constant_inputs(self, setting: pa.Table) -> pa.Table:
        inputs = self._inputs
        rows = {
            "links": inputs.link, "crashes": inputs.crash, "pauses": inputs.pause,
            "link_faults": inputs.link_fault, "sides": inputs.side, "nth": inputs.nth_fault,
            "subscriptions": inputs.subscription, "replacements": inputs.replacement,
            "comparisons": inputs.predicate,
        }  # fmt: skip
        run = self._run
        lists = {name: list_column(rows[name], columns, run) for name, columns in GIVEN.items()}
        may_duplicate = pc.is_in(run, value_set=self._duplicating)
        return pa.table({"run_id": run, "settings": setting[SETTINGS_JSON], "may_duplicate": may_duplicate, **lists})

    def resume(self, round_: int, state: Mapping[str, DataFrame], in_flight: DataFrame, message: DataFrame) -> None:
        """Restores the state at the end of round `round_` from stored tables."""
        rows, run = rows_of(self._protocol.program), self._run
        tables = {name: _by_position(arrow_of(state[name])) for name in rows.tables}
        lists = {
            "nodes": list_column(arrow_of(state[NODE_STATE]), list(NODE), run),
            "in_flight": list_column(arrow_of(in_flight), list(FLIGHT), run),
            "counted": self._counted(message, in_flight),
            **{name: list_column(tables[name], list(shown_type(one)), run) for name, one in rows.tables.items()},
        }
        self._set_state(pa.table({"run_id": run, **lists}), round_)
        for name in rows.plan.appended:
            self._grown[name].append(arrow_of(state[name]))
        self._written = {state.table.name for state in self._protocol.states}

    def _set_state(self, runs: pa.Table, after: int) -> None:
        """Selects the state at the end of round `after` from `runs`, columns of `udfs.nodes.block.block_schema`."""
        self._runs = runs.select(["run_id", "nodes", "in_flight", "counted", *rows_of(self._protocol.program).tables])
        self._flight = exploded(self._runs, "in_flight").filter(pc.field("due_round") > after)
        self.round = after

    def _counted(self, *messages: DataFrame) -> pa.Array:
        """Returns, for each run, a list with the number of matching messages in `messages` for each `NthFault`."""
        faults: dict[int, list[NthFault]] = defaultdict(list)
        for row in self._inputs.nth_fault.to_pylist():
            faults[row["run_id"]].append(NthFault(*(row[name] for name in NthFault._fields)))
        counted = {run: [0] * len(of_run) for run, of_run in faults.items()}
        is_original = f"src <> dst and message_id div {COPY_ID} % 2 = 0"
        if twice := self._duplicating.to_pylist():
            is_original += f" and (message_id % 2 = 0 or run_id not in ({', '.join(map(str, twice))}))"
        for frame in messages if faults else ():
            sent = frame.where(is_original).groupBy("run_id", "kind", "src", "dst", "sent_round").count()
            for run, kind, src, dst, sent_round, number in sent.collect():
                flight = Flight(0, kind, src, dst, sent_round, sent_round, None, None)
                for index, fault in enumerate(faults.get(run, ())):
                    counted[run][index] += number * fault.counts(flight)
        return pa.array([counted.get(run) for run in self._run.to_pylist()], COUNTED)

    @property
    def n_in_flight(self) -> int:
        """The number of messages in flight."""
        return len(self._flight)

    def next_round(self) -> int | None:
        """Returns the next round with an event, 0 before the first block; None if no event remains."""
        if self._runs is None:
            return 0
        wakes = [pc.min(pc.list_flatten(one).field("wake_round")).as_py() for one in self._runs["nodes"].chunks]
        planned = [
            *(max(wake, self.round + 1) for wake in wakes if wake is not None),
            pc.min(self._flight["due_round"]).as_py(),
            self._calls.next_round(self.round),
            self._crashes.next_round(self.round),
            next_of(self._replaced, self.round),
        ]
        return min((round_ for round_ in planned if round_ is not None), default=None)

    def play_ahead(self, upcoming: int, last: int) -> None:
        """Submits the next block if worker processes or executors execute it. This process commits at the same time."""
        if self._n_workers > 1 or self._n_executors:
            self._block = self._submit(last)

    def play(self, upcoming: int, last: int) -> int:
        """Executes a block, or waits for the block that `play_ahead` submitted; returns the number of due messages."""
        if self._block is None or self._block.asked != last:
            self._block = self._submit(last)
        block = self._block
        runs = block.runs.result()
        self._block = None
        if not runs["run_id"].equals(self._constants["run_id"]):
            raise InternalError(f"the runs of rounds {upcoming} to {block.last} returned in another order")
        over: int | None = pc.max(runs["last_played"]).as_py()
        if over is None:  # the block has no event; the first block computes the initial state in round 0
            over = 0 if self._runs is None else block.last
        crashed = self._crashes.crashed_between(self.round, block.last)
        for name, declared in rows_of(self._protocol.program).plan.appended.items():
            if len(crashed) and not declared.is_durable:
                self._grown[name] = [without(rows, crashed) for rows in self._grown[name]]
            self._grown[name].append(_copied(exploded(runs, name)))
        self.history.add(upcoming, history_rows(runs, over))
        self._set_state(runs, over)
        self._is_changed = True
        return pc.sum(pc.list_value_length(runs["handled"])).as_py() or 0

    def _submit(self, last: int) -> _Block:
        called, attribute, reached = self._calls.between(self.round, last)
        run = self._run
        given = self._constants.append_column("last", pa.repeat(pa.scalar(reached, pa.int64()), len(run)))
        given = given.append_column("calls", list_column(called, _CALL, run))
        given = given.append_column("attributes", list_column(attribute, ATTRIBUTE, run))
        if self._runs is None:
            given = given.append_column("overlay", list_column(self._inputs.node, OVERLAY, run))
            given = given.append_column("all_calls", list_column(self._inputs.call, _CALL, run))
        else:
            given = given.append_column("after", pa.repeat(pa.scalar(self.round, pa.int64()), len(run)))
            for name in self._runs.column_names[1:]:
                given = given.append_column(name, self._runs[name])
        schema = block_schema(rows_of(self._protocol.program))
        runs = f"runs {run[0].as_py():,} to {run[-1].as_py():,}" if len(run) > 1 else f"run {run[0].as_py():,}"
        what = f"{self.name}: {runs}, rounds {max(self.round, BEFORE) + 1:,} to {reached:,}"
        return _Block(last, reached, in_thread(partial(self._play_runs, given, schema, what)))

    def _play_runs(self, given: pa.Table, schema: pa.Schema, what: str) -> pa.Table:
        """Executes the runs in `given`; if another thread calls `close`, raises an error in the middle of a block."""
        with until(self._ended):
            check()
            if self._n_executors == 0:
                return mapped_here(given, self._play, schema, self._n_workers)
            with self._session.tagged(what):
                return mapped_on_executors(self._session.spark, given, self._play, schema, self._n_executors)

    def commit(self, horizon: int | None = None) -> None:
        """Writes the buffered history rows and the state."""
        remaining = pc.subtract(self._flight["due_round"], self.round if horizon is None else horizon)
        messages = self._flight.append_column("remaining_rounds", remaining)
        messages = messages.select(in_flight_schema(self._protocol.payload).names)
        state = self._changed_state() if self._is_changed else {}
        self._is_changed = False
        named = {f"{STATE}{name}": rows for name, rows in state.items()} | {IN_FLIGHT: messages}
        self.history.commit(max(self.round, 0), named, None if horizon is None else with_fate(messages, "in_flight"))

    def _changed_state(self) -> dict[str, pa.Table]:
        """Returns the state tables for a commit, except tables that are empty and were empty at the last commit."""
        names = {NODE_STATE: "nodes"} | {name: name for name in rows_of(self._protocol.program).tables}
        whole = {name: exploded(self._runs, column) for name, column in names.items()}
        whole |= {name: pa.concat_tables(rows, promote_options="permissive") for name, rows in self._grown.items()}
        found = {name: rows for name, rows in whole.items() if len(rows) or name in self._written}
        self._written = {name for name in found if len(found[name])}
        return found | {one.name: one.make(found[one.of]) for one in self._protocol.shown if one.of in found}

    def close(self) -> None:
        """Interrupts the block that is being executed. A handler that never returns keeps its thread."""
        self._ended.set()
        if self._block is not None and not self._block.runs.done():
            stop_workers()
            self._session.end_tagged()
            wait([self._block.runs], _END_SECONDS)


def players(runs: Sequence[RunConfig], engine: str, form: AskedForm) -> AbstractContextManager[None]:
    """Returns a context manager that starts worker processes if a node program executes at least `MANY_RUNS` of `runs`.

    The processes start in the background, so that the caller can build the inputs of the runs at the same time.
    """
    n_runs = Counter(run.scenario.protocol.name for run in runs)
    many = [name for name, number in n_runs.items() if number >= MANY_RUNS]
    if not many or form == "dataflow":
        return nullcontext()
    return starting(partial(block_of, PROTOCOLS[many[0]].program), n_workers_of(engine))
