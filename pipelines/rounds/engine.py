"""The round engine: every run of one protocol goes through the same jobs, round after round.

A round:

1. **faults**: a node that crashes loses its rows of all relations that are not durable; one that recovers reads its
   durable rows back from the store;
   **inbox**: the messages in flight that are due (`network.due_messages`), and the application calls that are due;
2. **protocol steps**: the protocol's own, given in one lazy plan (`contract.Round`);
3. **network**: the outbox put on links, with what is still on its way (`network.put_on_links`);
4. **checkpoint**: new state and messages are materialised, and a few counts of them come back to the driver;
5. **commit**, every k rounds: history and state go to the store. What a round leaves behind but no later round reads
   (messages, deliveries, events) waits for it (`left`): as rows, or as plans over the round's relations.

The counts tell which kinds are due when: rounds in which nothing is due are skipped, and steps for absent kinds are
left out of the plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame

from pipelines.contract.due import CrashesDue, Due
from pipelines.contract.in_flight import in_flight_schema
from pipelines.contract.round import DataflowProtocol, Round, RoundResult, RunTables
from pipelines.engines.materialise.base import Materialiser, Relation
from pipelines.errors import InternalError
from pipelines.rounds import network
from pipelines.rounds.calls import Calls
from pipelines.rounds.commit import History
from pipelines.rounds.faults.run_faults import RunFaults
from pipelines.rounds.left import RoundRows
from pipelines.rounds.loop import Rounds
from pipelines.rounds.relations import Relations

_NODE = ["run_id", "node_id"]
_EVENTS = ("delivery", "call_event", "node_status")
_IN_FLIGHT = "in_flight"


@dataclass(frozen=True)
class Job:
    """What the rounds of some runs are made with; it stays the same.

    Attributes:
        protocol: The protocol.
        materialiser: Keeps relations.
        calls: The application calls, by round.
        history: Takes what the rounds leave behind.
        faults: The faults.
        run: What the runs are given.
        latency: The latency of all links, where it is one.
        settings: The distinct settings objects of the runs.
    """

    protocol: DataflowProtocol
    materialiser: Materialiser
    calls: Calls
    history: History
    faults: RunFaults
    run: RunTables
    latency: int | None
    settings: Sequence[Any]


@dataclass(frozen=True)
class Kept:
    """Materialises frames of one round, or before the first one (`contract.round.Keeper`).

    Attributes:
        materialiser: Keeps them.
        kept: Gets them.
    """

    materialiser: Materialiser
    kept: list[Relation]

    def __call__(self, name: str, frame: DataFrame) -> DataFrame:
        """Materialises a frame and returns it."""
        relation = self.materialiser.cache(f"kept_{name}", frame)
        self.kept.append(relation)
        return relation.frame

    def is_empty(self, frame: DataFrame) -> bool:
        """Returns whether a kept frame is known to have no rows."""
        return any(one.frame is frame and one.is_empty for one in self.kept)


class RoundEngine(Rounds):
    """Runs one protocol for many runs, a round at a time."""

    def __init__(self, job: Job) -> None:
        """Starts with nothing in flight."""
        self._job = job
        self._relations = Relations(job.protocol, job.materialiser)
        schema = in_flight_schema(job.protocol.payload)
        job.materialiser.declare({_IN_FLIGHT: schema})
        self._in_flight = Relation(job.materialiser.empty(schema))
        self._traffic = network.Traffic({}, 0, 0, 0, 0)
        self.round = -1
        self.history = job.history

    def start(self, state: Mapping[str, DataFrame], kept: Sequence[Relation]) -> None:
        """Sets the relations before the first round; the others start without rows, and nothing is in flight.

        Args:
            state: Relations by name; ``node_status`` rows, and an ``outbox`` of what is on links at the start.
            kept: What these read.
        """
        frames = self._relations.starting(state)
        if "outbox" in state:
            frames[_IN_FLIGHT] = self._sent([], RoundResult(outbox=state["outbox"]))
        relations = self._checkpoint(frames)
        self._in_flight = relations.pop(_IN_FLIGHT, self._in_flight)
        self._relations.set_all(relations, state.keys() & relations.keys())
        events = {name: state[name] for name in _EVENTS if name in state}
        self._job.history.add(0, RoundRows(None, None, events, [*kept]))

    def resume(self, round_: int, state: Mapping[str, DataFrame], in_flight: DataFrame) -> None:
        """Sets the relations as they were at the end of a round, instead of `start`.

        Args:
            round_: The round.
            state: Every relation of the protocol that is not derived.
            in_flight: The messages in flight.
        """
        relations = self._checkpoint({**state, _IN_FLIGHT: in_flight})
        self._in_flight = relations.pop(_IN_FLIGHT)
        self._relations.set_all(relations, ())
        self.round = round_

    def play(self, upcoming: int, last: int) -> int:
        """Plays a round; returns how many messages were due."""
        if self._job.faults.crashes.has_crash(upcoming):
            self._job.history.write_through(self._relations.to_write_through())
        return self._make_round(upcoming)

    def discard(self) -> None:
        """Forgets what is being written for a round that has failed."""
        self._job.materialiser.discard()

    def commit(self, *, is_final: bool) -> None:
        """Writes what is buffered and the state that changed."""
        state = {**self._relations.to_commit(), "state_message": self._in_flight.frame}
        self._job.history.commit(max(self.round, 0), state, self._in_flight.frame if is_final else None)

    @property
    def n_in_flight(self) -> int:
        """Messages in flight."""
        return self._traffic.n_messages

    def next_round(self) -> int | None:
        """Returns the next round in which anything happens; None: nothing happens any more."""
        wait = self._traffic.next_wait
        due = None if wait is None else self.round + wait
        call = self._job.calls.next_round(self.round)
        wakes = (max(wake, self.round + 1) for wake in self._relations.wakes)
        faults = self._job.faults.next_rounds(self.round)
        return min((r for r in (due, call, *faults, *wakes) if r is not None), default=None)

    def _make_round(self, upcoming: int) -> int:
        """Makes a round, by the numbers of the module's summary; returns how many messages were due."""
        job, step, before, traffic = self._job, upcoming - self.round, self._in_flight, self._traffic
        is_all_due = traffic.last_wait <= step
        kept: list[Relation] = []
        # 1. faults, inbox
        due = before.frame if is_all_due else network.due_messages(before.frame, step)
        crashes = job.faults.crashes.due(upcoming)
        state, touched = self._relations.after_faults(crashes, job.history.read_state, kept)
        # 2. protocol steps
        result = job.protocol.round(self._round(upcoming, due, crashes, state, kept))
        result.state = {**{name: state[name] for name in touched}, **result.state}
        # 3. network
        payload = job.protocol.payload
        messages = [] if is_all_due else [network.waiting_messages(before.frame, step, payload)]
        frames = {**self._relations.whole_frames(result.state), _IN_FLIGHT: self._sent(messages, result)}
        # 4. checkpoint
        relations = self._checkpoint(frames)
        self._in_flight = relations.pop(_IN_FLIGHT)
        self._relations.take(result.state, relations)
        # 5. what the next commit writes
        events = {name: frame for name in _EVENTS if (frame := getattr(result, name)) is not None}
        inbox, held = due if traffic.n_messages else None, [before, *job.calls.retired()]
        job.history.add(upcoming, RoundRows(inbox, result.fate, events, held, kept))
        self.round = upcoming
        return traffic.n_messages - (self._traffic.n_messages - self._traffic.n_new)

    def _round(
        self, upcoming: int, due: DataFrame, crashes: CrashesDue, state: Mapping[str, DataFrame], kept: list[Relation]
    ) -> Round:
        """Returns what the protocol may read."""
        job, faults = self._job, self._job.faults
        calls = job.calls.due(upcoming)
        if calls is not None and crashes.down is not None:
            calls = calls.join(crashes.down.select(_NODE).hint("shuffle_hash"), _NODE, "left_anti")
        kinds = {*self._traffic.due_kinds(upcoming - self.round), *job.calls.kinds(upcoming)}
        inbox = network.handled_messages(due) if self._traffic.n_doomed else due
        return Round(
            number=upcoming,
            due=Due(inbox, calls, frozenset(kinds)),
            state=state,
            facts=self._relations.facts,
            run=job.run,
            settings=job.settings,
            faults=faults.due(upcoming, crashes),
            keep=Kept(job.materialiser, kept),
        )

    def _sent(self, waiting: list[DataFrame], result: RoundResult) -> DataFrame:
        """Returns the messages in flight after the round: those that wait, and the outbox on its links."""
        job = self._job
        messages = list(waiting)
        if result.outbox is not None:
            outbox = network.Outbox(result.outbox, result.sent_fields)
            faults = network.Faults(job.faults.crashes.schedule, job.faults.links, job.faults.pauses)
            messages.append(network.put_on_links(outbox, job.run.link, job.latency, job.protocol.payload, faults))
        if not messages:
            messages.append(job.materialiser.empty(in_flight_schema(job.protocol.payload)))
        return reduce(DataFrame.unionByName, messages)

    def _checkpoint(self, frames: Mapping[str, DataFrame]) -> dict[str, Relation]:
        """Materialises what the next rounds read, and takes the facts that come with it."""
        wanted = self._relations.wanted_facts(frames.keys())
        if _IN_FLIGHT in frames:
            wanted[_IN_FLIGHT] = network.traffic_facts(self._job.protocol.told_apart)
        relations, facts = self._job.materialiser.checkpoint(frames, wanted)
        if facts.get("n_lost"):
            raise InternalError(f"a message of round {self.round} was sent where no link is")
        if "n_messages" in facts:
            self._traffic = network.traffic(facts)
        self._relations.take_facts(facts)
        return relations
