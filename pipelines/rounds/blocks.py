"""Several rounds in one job: a node program's runs are played whole, each by one call of an Arrow function.

Processes play them, those of the program or of Spark's executors. The runs lie in the program between two blocks, as
Arrow tables, and so does what the rounds of a block leave behind: the same rows as the engine would make one by one. A
round costs what plain Python costs, where a job of the engine takes tens of milliseconds; so runs of up to a few
thousand nodes are played so. A run is played by one core; where there are many, all cores play, and go on while the
program commits the block before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from threading import Event

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from pipelines.contract.forms import AskedForm
from pipelines.contract.nodes import NODE_DURABLE, NODE_STATE, ProgramForm
from pipelines.contract.predicate import compiled
from pipelines.contract.protocol import SETTINGS_JSON
from pipelines.contract.state_tables import IN_FLIGHT, STATE
from pipelines.engines.executors import mapped_here, mapped_on_executors, ship_udfs
from pipelines.engines.session import Session
from pipelines.engines.workers import in_workers, n_workers_of, starting, stop_workers
from pipelines.errors import InternalError
from pipelines.experiment.inputs import Inputs
from pipelines.experiment.jobs import MANY_RUNS
from pipelines.protocols import PROTOCOLS, protocol_form
from pipelines.rounds.block_rows import Between, Played, listed, with_fate, without
from pipelines.rounds.calls import Calls
from pipelines.rounds.commit import History
from pipelines.rounds.faults.run_faults import RunFaults
from pipelines.rounds.loop import Rounds
from pipelines.scenario.expand import RunConfig
from udfs.nodes import interruption
from udfs.nodes.arrow import CALL, rows_of
from udfs.nodes.block import COUNTED, FLIGHT, GIVEN, OVERLAY, Play, block_of, block_schema, first_block_of, node_type
from udfs.nodes.link_faults import COPY_ID, NthFault
from udfs.nodes.matching import ATTRIBUTE
from udfs.nodes.network import Flight
from udfs.nodes.world import BEFORE

_NODE = ["run_id", "node_id"]
_CALL = ("node_id", *CALL)
_TAG = "roundtable-block"
"""What the jobs of executors are called that play runs."""


@dataclass(frozen=True)
class _Block:
    """A block that is being played.

    Attributes:
        asked: The last round that was asked for.
        last: The last one that is played: fewer are where there are very many calls.
        runs: What it leaves behind.
    """

    asked: int
    last: int
    runs: Future[pa.Table]


class Blocks(Rounds):
    """The runs of a node program, several rounds a job."""

    def __init__(
        self, protocol: ProgramForm, session: Session, calls: Calls, faults: RunFaults, history: History,
        inputs: Inputs, setting: pa.Table,
    ) -> None:  # fmt: skip
        """Collects what each run is given; nothing has begun.

        Args:
            protocol: The protocol.
            session: The engine.
            calls: The application calls.
            faults: The faults.
            history: Takes what the rounds leave behind.
            inputs: What the runs are given.
            setting: Their settings, a row a run.
        """
        self.round = BEFORE
        self.history = history
        self._protocol, self._calls, self._faults, self._inputs = protocol, calls, faults, inputs
        self._name = protocol.program.name
        self._session = session
        is_many = len(setting) >= MANY_RUNS
        self._n_workers = session.n_python_workers if is_many else 0
        self._n_executors = session.partitions if session.engine != "local" else 0
        if session.engine == "connect":
            ship_udfs(session.spark, session.scratch)
        self._play = in_workers(partial(block_of, protocol.program), self._n_workers)
        self._begin = in_workers(partial(first_block_of, protocol.program), self._n_workers)
        setting = setting.sort_by("run_id")
        self._run = setting["run_id"].combine_chunks()
        self._given = self._given_of(setting)
        self._between: Between | None = None
        self._grown: dict[str, list[pa.Table]] = defaultdict(list)
        self._written = {state.table.name for state in protocol.states if state.derived_from is None}
        self._is_changed = False
        self._block: _Block | None = None
        self._thread = ThreadPoolExecutor(1)
        self._ended = Event()

    def _given_of(self, setting: pa.Table) -> pa.Table:
        """Returns what each run is given in all blocks."""
        inputs, links = self._inputs, self._faults.links
        rows = {
            "links": inputs.link, "crashes": inputs.crash, "pauses": inputs.pause,
            "on_link": links.on_link, "anywhere": links.anywhere, "sides": links.sides, "nth": inputs.nth_fault,
            "subscriptions": inputs.subscription, "replacements": inputs.replacement,
            "comparisons": compiled(inputs.predicate),
        }  # fmt: skip
        run = self._run
        lists = {name: listed(rows[name], columns, run) for name, columns in GIVEN.items()}
        may_duplicate = pc.is_in(run, value_set=links.duplicating)
        return pa.table({"run_id": run, "settings": setting[SETTINGS_JSON], "may_duplicate": may_duplicate, **lists})

    def resume(self, round_: int, state: Mapping[str, DataFrame], in_flight: DataFrame, message: DataFrame) -> None:
        """Resumes after a round.

        Args:
            round_: The round.
            state: Every relation of the protocol that is not derived, as the store has it.
            in_flight: The messages in flight.
            message: The messages of the history.
        """
        rows = rows_of(self._protocol.program)
        node = state[NODE_STATE]
        if rows.plan.durable:
            node = state[NODE_DURABLE].join(node.hint("shuffle_hash"), _NODE, "left")
        run = self._run
        lists = {
            "nodes": listed(node.toArrow(), list(node_type(rows)), run),
            "in_flight": listed(in_flight.toArrow(), list(FLIGHT), run),
            "counted": self._counted(message, in_flight),
        }
        self.round = round_
        self._between = Between(pa.table({"run_id": run, **lists}), self._protocol, round_)
        for name in rows.plan.appended:
            self._grown[name].append(state[name].toArrow())
        self._written = {state.table.name for state in self._protocol.states}

    def _counted(self, *messages: DataFrame) -> pa.Array:
        """Returns how many of all messages that were sent each fault of one message has counted, a list a run."""
        rows = self._inputs.nth_fault
        faults: dict[int, list[NthFault]] = {}
        if len(rows):
            ordered = rows.sort_by("run_id")
            values = zip(*(ordered[name].to_pylist() for name in NthFault._fields), strict=True)
            for run, one in zip(ordered["run_id"].to_pylist(), values, strict=True):
                faults.setdefault(run, []).append(NthFault(*one))
        counted = {run: [0] * len(of_run) for run, of_run in faults.items()}
        is_original = f"src <> dst and message_id div {COPY_ID} % 2 = 0"
        if twice := self._faults.links.duplicating.to_pylist():
            is_original += f" and (message_id % 2 = 0 or run_id not in ({', '.join(map(str, twice))}))"
        for frame in messages if faults else ():
            sent = frame.where(is_original).groupBy("run_id", "kind", "src", "dst", "sent_round").count()
            for run, kind, src, dst, sent_round, number in sent.collect():
                flight = Flight(0, kind, src, dst, sent_round, sent_round, None, None)
                for place, fault in enumerate(faults.get(run, ())):
                    counted[run][place] += number * fault.counts(flight)
        return pa.array([counted.get(run) for run in self._run.to_pylist()], COUNTED)

    @property
    def n_in_flight(self) -> int:
        """Messages in flight."""
        return 0 if self._between is None else self._between.n_in_flight

    def next_round(self) -> int | None:
        """Returns the next round in which anything happens; before the runs have begun: the first one."""
        if self._between is None:
            return 0
        call, faults = self._calls.next_round(self.round), self._faults.next_rounds(self.round)
        return min((*self._between.next_rounds, *faults, *(() if call is None else (call,))), default=None)

    def play_ahead(self, upcoming: int, last: int) -> None:
        """Begins to play, if others than this process do."""
        if self._n_workers > 1 or self._n_executors:
            self._block = self._begun(last)

    def play(self, upcoming: int, last: int) -> int:
        """Plays rounds, or waits for those that are being played; returns how many messages were due."""
        if self._block is None or self._block.asked != last:
            self._block = self._begun(last)
        block = self._block
        found = Played(block.runs.result(), self._protocol)
        self._block = None
        if not found.runs["run_id"].equals(self._given["run_id"]):
            raise InternalError(f"the runs of rounds {upcoming} to {block.last} came back in another order")
        over = found.last_round
        if over is None:  # nothing happened, or but for what was there at the start
            over = 0 if self._between is None else block.last
        crashed = self._faults.crashes.crashed_between(self.round, block.last)
        if len(crashed):
            self._forget(crashed)
        for name, rows in found.grown().items():
            self._grown[name].append(rows)
        self.history.add(upcoming, found.left(over))
        self._between = Between(found.runs, self._protocol, over)
        self.round, self._is_changed = over, True
        return found.n_handled

    def _begun(self, last: int) -> _Block:
        """Begins to play the rounds up to one."""
        called, attribute, reached = self._calls.between(self.round, last)
        run = self._run
        given = self._given.append_column("last", pa.repeat(pa.scalar(reached, pa.int64()), len(run)))
        given = given.append_column("calls", listed(called, _CALL, run))
        given = given.append_column("attributes", listed(attribute, ATTRIBUTE, run))
        if self._between is None:
            given = self._with_worlds(given)
        else:
            given = given.append_column("after", pa.repeat(pa.scalar(self.round, pa.int64()), len(run)))
            for name in ("nodes", "in_flight", "counted"):
                given = given.append_column(name, self._between.runs[name])
        function = self._begin if self._between is None else self._play
        schema = block_schema(rows_of(self._protocol.program))
        runs = f"runs {run[0].as_py():,} to {run[-1].as_py():,}" if len(run) > 1 else f"run {run[0].as_py():,}"
        what = f"{self._name}: {runs}, rounds {max(self.round, BEFORE) + 1:,} to {reached:,}"
        return _Block(last, reached, self._thread.submit(self._played, given, function, schema, what))

    def _played(self, given: pa.Table, function: Play, schema: pa.Schema, what: str) -> pa.Table:
        """Has runs played, until `close` ends that."""
        with interruption.until(self._ended):
            interruption.check()
            if self._n_executors == 0:
                return mapped_here(given, function, schema, self._n_workers)
            with self._session.tagged(_TAG, what):
                return mapped_on_executors(self._session.spark, given, function, schema, self._n_executors)

    def _with_worlds(self, given: pa.Table) -> pa.Table:
        """Adds what runs begin with."""
        run = self._run
        given = given.append_column("overlay", listed(self._inputs.node, OVERLAY, run))
        given = given.append_column("all_calls", listed(self._inputs.call, _CALL, run))
        return given.append_column("has_crashes", pc.is_in(run, self._inputs.crash["run_id"]))

    def _forget(self, crashed: pa.Table) -> None:
        """Drops what grew at nodes that crash and is not durable."""
        for name, one in rows_of(self._protocol.program).plan.appended.items():
            if not one.is_durable:
                self._grown[name] = [without(rows, crashed) for rows in self._grown[name]]

    def commit(self, *, is_final: bool) -> None:
        """Writes what is buffered, and the state."""
        assert self._between is not None  # noqa: S101 - the first block comes before
        messages = self._between.messages()
        state = self._changed_state(self._between) if self._is_changed else {}
        self._is_changed = False
        named = {f"{STATE}{name}": rows for name, rows in state.items()} | {IN_FLIGHT: messages}
        self.history.commit(max(self.round, 0), named, with_fate(messages, "in_flight") if is_final else None)

    def _changed_state(self, between: Between) -> dict[str, pa.Table]:
        """Returns the state tables; what had no rows at the last commit, and has none, is left out."""
        whole = {name: pa.concat_tables(rows) for name, rows in self._grown.items()}
        found = {name: rows for name, rows in (between.state() | whole).items() if len(rows) or name in self._written}
        self._written = {name for name in found if len(found[name])}
        return found | {one.name: one.make(found[one.of]) for one in self._protocol.shown if one.of in found}

    def discard(self) -> None:
        """Forgets the block that has failed."""
        self._block = None

    def close(self) -> None:
        """Takes no more blocks; one that is being played, as when the program is interrupted, ends before its time."""
        self._ended.set()
        if self._block is not None and not self._block.runs.done():
            stop_workers()
            self._session.end_tagged(_TAG)
        self._thread.shutdown(wait=False, cancel_futures=True)


def players(runs: Sequence[RunConfig], engine: str, form: AskedForm) -> AbstractContextManager[None]:
    """Has the processes start that will play runs, while these are built.

    Args:
        runs: The runs.
        engine: The engine.
        form: As the user asks for it.
    """
    n_runs = Counter(run.scenario.protocol.name for run in runs)
    many = [name for name in n_runs if "program" in PROTOCOLS[name].forms and n_runs[name] >= MANY_RUNS]
    protocol = protocol_form(many[0], "program") if many and form != "dataflow" else None
    if not isinstance(protocol, ProgramForm):
        return nullcontext()
    return starting(partial(first_block_of, protocol.program), n_workers_of(engine))
