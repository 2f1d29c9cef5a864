"""The round engine: every run of one protocol goes through the same jobs, round after round.

A round:

1. **faults**: a node that crashes loses its rows of all relations that are not durable; one that recovers reads its
   durable rows back from the store;
   **inbox**: the messages in flight that are due (`network.due_messages`), and the application calls that are due;
2. **protocol steps**: the protocol's own, given in one lazy plan (`contract.Round`);
3. **network**: the outbox put on links, with what is still on its way (`network.put_on_links`);
4. **settle**: new state and messages are materialised, and a few counts of them come back to the driver;
5. **commit**, every k rounds: history and state go to the store. What a round leaves behind but no later round reads
   (deliveries, events, increments) stays a plan over the round's relations until then.

The counts tell which kinds are due when: rounds in which nothing is due are skipped, and steps for absent kinds are
left out of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame

from pipelines import network
from pipelines.calls import Calls
from pipelines.contract import ProtocolModule, Round, RoundResult
from pipelines.crashes import Crashes, CrashesDue
from pipelines.errors import InternalError
from pipelines.history import History, RoundRows
from pipelines.link_faults import LinkFaults
from pipelines.materialise import Materialiser, Relation
from pipelines.pauses import Pauses
from pipelines.replacements import Replacements

_MAX_INCREMENTS = 16
_MAX_BUFFERED = 2_000_000
_MAX_HELD_BYTES = 2 * 1024**3
_NODE = ["run_id", "node_id"]
_EVENTS = ("delivery", "call_event", "node_status")


@dataclass(frozen=True)
class Progress:
    """What an observer is told after each round."""

    round: int
    n_in_flight: int
    n_handled: int


class RoundEngine:
    """Runs one protocol for many runs."""

    def __init__(
        self, protocol: ProtocolModule, materialiser: Materialiser, calls: Calls, history: History,
        crashes: Crashes, link_faults: LinkFaults, pauses: Pauses, replacements: Replacements,
        fixed: Mapping[str, DataFrame],
        latency: int | None, settings: Sequence[Any],
    ) -> None:  # fmt: skip
        """Starts with nothing in flight.

        Args:
            protocol: The protocol.
            materialiser: Keeps relations.
            calls: The application calls, by round.
            history: Takes what the rounds leave behind.
            crashes: The crash schedule.
            link_faults: The link faults.
            pauses: The pauses of nodes.
            replacements: The links that others replace.
            fixed: Frames ``node``, ``link``, ``setting``, ``subscription``.
            latency: The latency of all links, where it is one.
            settings: The distinct settings objects of the runs.
        """
        self._protocol = protocol
        self._materialiser = materialiser
        self._calls = calls
        self._history = history
        self._crashes = crashes
        self._pauses = pauses
        self._replacements = replacements
        self._faults = network.Faults(crashes.schedule, link_faults, pauses)
        self._fixed = fixed
        self._latency = latency
        self._settings = settings
        # After a crash nodes may send again what had arrived.
        self._may_duplicate = link_faults.may_duplicate or crashes.schedule is not None
        self._states = {state.table.name: state for state in protocol.states if state.derived is None}
        self._derived = {state.table.name: state.derived for state in protocol.states if state.derived is not None}
        self._whole: dict[str, Relation] = {}
        self._increments: dict[str, list[Relation]] = {}
        self._facts: dict[str, int] = {}
        self._wakes: dict[str, int | None] = {}
        self._changed: set[str] = set()
        schema = network.in_flight_schema(protocol.payload)
        materialiser.declare({name: state.table.schema for name, state in self._states.items()})
        materialiser.declare({"in_flight": schema})
        self._in_flight = Relation(materialiser.empty(schema))
        self._traffic = network.Traffic({}, 0, 0, 0, 0)
        self.round = -1

    def begin(self, state: Mapping[str, DataFrame]) -> None:
        """Sets the relations before the first round; the others start without rows."""
        given = {
            name: state.get(name, self._materialiser.empty(known.table.schema)) for name, known in self._states.items()
        }
        settled, facts = self._materialiser.settle(given, self._wanted_facts(given))
        self._take_facts(facts)
        self._whole = settled
        self._increments = {name: [] for name, known in self._states.items() if known.compact is not None}
        self._changed |= state.keys() & given.keys()
        self._history.add(0, RoundRows(None, None, {name: state[name] for name in _EVENTS if name in state}))

    def go_on(self, round_: int, state: Mapping[str, DataFrame], in_flight: DataFrame) -> None:
        """Sets the relations as they were at the end of a round, instead of `begin`.

        Args:
            round_: The round.
            state: Every relation of the protocol that is not derived.
            in_flight: The messages in flight.
        """
        frames = {**state, "in_flight": in_flight}
        settled, facts = self._materialiser.settle(frames, self._wanted_facts(frames))
        self._take_facts(facts)
        self._in_flight = settled.pop("in_flight")
        self._whole = settled
        self._increments = {name: [] for name, known in self._states.items() if known.compact is not None}
        self.round = round_

    def run(self, horizon: int, commit_every: int, observe: Callable[[Progress], None]) -> None:
        """Runs until nothing can happen any more, or to the horizon; commits what is left at the end.

        A commit comes early when many messages are buffered, or the relations that wait for it take much room.

        Args:
            horizon: The last round that may happen.
            commit_every: Rounds between commits.
            observe: Is told of each round.
        """
        n_buffered = 0
        while (upcoming := self._next_round()) is not None and upcoming <= horizon:
            if self._crashes.has_crash(upcoming):
                self._write_durable()
            n_handled = self._make_round(upcoming)
            observe(Progress(self.round, self._traffic.n_messages, n_handled))
            n_buffered += n_handled
            is_full = n_buffered >= _MAX_BUFFERED or self._history.n_bytes >= _MAX_HELD_BYTES
            if self._history.n_rounds >= commit_every or is_full:
                self.commit(is_final=False)
                n_buffered = 0
        self.commit(is_final=True)

    @property
    def n_in_flight(self) -> int:
        """Messages in flight that somebody will handle."""
        return self._traffic.n_messages - self._traffic.n_doomed

    def commit(self, *, is_final: bool) -> None:
        """Writes what is buffered and the state that changed."""
        for name in self._increments:
            self._compact(name)
        state = {f"state_{name}": self._whole[name].frame for name in sorted(self._changed)}
        for name, derived in self._derived.items():
            if derived.of in self._changed:
                state[f"state_{name}"] = derived.make(self._whole[derived.of].frame)
        state["state_message"] = self._in_flight.frame
        self._history.commit(max(self.round, 0), state, self._in_flight.frame if is_final else None)
        self._changed.clear()

    def _next_round(self) -> int | None:
        wait = self._traffic.next_wait
        due = None if wait is None else self.round + wait
        call, fault = self._calls.next_round(self.round), self._crashes.next_round(self.round)
        change = self._replacements.next_round(self.round)
        wakes = (None if wake is None else max(wake, self.round + 1) for wake in self._wakes.values())
        return min((r for r in (due, call, fault, change, *wakes) if r is not None), default=None)

    def _make_round(self, upcoming: int) -> int:
        step, before, traffic = upcoming - self.round, self._in_flight, self._traffic
        kinds = {*traffic.due_kinds(step), *self._calls.kinds(upcoming)}
        all_due = traffic.last_wait <= step
        due = before.frame if all_due else network.due_messages(before.frame, step)
        crashes = self._crashes.due(upcoming)
        calls = self._calls.due(upcoming)
        if calls is not None and crashes.down is not None:
            calls = calls.join(crashes.down.select("run_id", "node_id").hint("shuffle_hash"), _NODE, "left_anti")
        kept: list[Relation] = []
        state, touched = self._after_faults(crashes, kept)
        result = self._protocol.round(
            Round(
                round=upcoming,
                inbox=network.handled_messages(due) if traffic.n_doomed else due,
                calls=calls,
                kinds=frozenset(kinds),
                state=state,
                facts=self._facts,
                fixed=self._fixed,
                settings=self._settings,
                may_crash=self._crashes.schedule is not None,
                crashing=self._crashes.runs,
                crashes=crashes,
                links=self._replacements.due(upcoming),
                paused=self._pauses.paused(upcoming),
                may_duplicate=self._may_duplicate,
                keep=self._keeper(kept),
                is_empty=lambda frame: any(one.frame is frame and one.is_empty for one in kept),
            )
        )
        result.state = {**{name: state[name] for name in touched}, **result.state}
        payload = self._protocol.payload
        frames = self._outcome(result, None if all_due else network.waiting_messages(before.frame, step, payload))
        settled, facts = self._materialiser.settle(frames, self._wanted_facts(frames))
        self._take_facts(facts)
        self._in_flight = settled.pop("in_flight")
        self._take_state(result, settled)
        events = {name: frame for name in _EVENTS if (frame := getattr(result, name)) is not None}
        handled = due if traffic.n_messages else None
        self._history.add(upcoming, RoundRows(handled, result.fate, events, [before, *kept, *self._calls.retired()]))
        self.round = upcoming
        return traffic.n_messages - (self._traffic.n_messages - self._traffic.n_new)

    def _state_frames(self) -> dict[str, DataFrame]:
        return {
            name: self._materialiser.together(name, [relation, *self._increments.get(name, [])])
            for name, relation in self._whole.items()
        }

    def _after_faults(
        self, crashes: CrashesDue, kept: list[Relation]
    ) -> tuple[dict[str, DataFrame], list[str]]:  # fmt: skip
        """Gives the relations as faults leave them, and the names of those that are still to be settled for that."""
        state = self._state_frames()
        touched = []
        for name, known in self._states.items():
            if known.is_durable and crashes.recovered is not None:
                state[name] = self._read_back(name, state[name], crashes.recovered, kept)
            elif not known.is_durable and crashes.crashed is not None:
                state[name] = _without(state[name], crashes.crashed)
            else:
                continue
            if known.compact is None:
                touched.append(name)
            else:
                state[name] = self._fold(name, known.compact(state[name]))
        return state, touched

    def _read_back(
        self, name: str, frame: DataFrame, recovered: DataFrame, kept: list[Relation]
    ) -> DataFrame:  # fmt: skip
        """Gives a durable relation in which recovered nodes have the rows that the store has of them.

        These are kept by themselves: Sail does not plan every union with columns that have comments.
        """
        stored = self._history.read_state(f"state_{name}")
        node = recovered.select(_NODE).hint("shuffle_hash")
        relation = self._materialiser.keep(f"stored_{name}", stored.join(node, _NODE, "left_semi"))
        kept.append(relation)
        return _without(frame, recovered).unionByName(relation.frame)

    def _write_durable(self) -> None:
        """Commits the durable relations that changed, so that nodes which crash now can read them back."""
        durable = [name for name in sorted(self._changed) if self._states[name].is_durable]
        for name in durable:
            self._compact(name)
        self._history.write_through({f"state_{name}": self._whole[name].frame for name in durable})
        self._changed.difference_update(durable)

    def _keeper(self, kept: list[Relation]) -> Callable[[str, DataFrame], DataFrame]:
        def keep(name: str, frame: DataFrame) -> DataFrame:
            relation = self._materialiser.keep(f"kept_{name}", frame)
            kept.append(relation)
            return relation.frame

        return keep

    def _outcome(self, result: RoundResult, waiting: DataFrame | None) -> dict[str, DataFrame]:
        """Names every frame that the next rounds read."""
        frames = {name: frame for name, frame in result.state.items() if name not in self._increments}
        messages = [waiting] if waiting is not None else []
        if result.outbox is not None:
            link, payload = self._replacements.links, self._protocol.payload
            outbox = network.Outbox(result.outbox, result.sent_fields)
            messages.append(network.put_on_links(outbox, link, self._latency, payload, self._faults))
        if not messages:
            messages.append(self._materialiser.empty(network.in_flight_schema(self._protocol.payload)))
        frames["in_flight"] = reduce(DataFrame.unionByName, messages)
        return frames

    def _wanted_facts(self, frames: Mapping[str, DataFrame]) -> dict[str, Mapping[str, str]]:
        wanted: dict[str, Mapping[str, str]] = {}
        for name in (name for name in frames if name in self._states):
            wake = self._states[name].wake
            wanted[name] = {**self._states[name].facts, **({} if wake is None else {f"wake_{name}": wake})}
        if "in_flight" in frames:
            wanted["in_flight"] = network.traffic_facts(self._protocol.kinds)
        return wanted

    def _take_facts(self, facts: dict[str, int | None]) -> None:
        if facts.get("n_lost"):
            raise InternalError(f"a message of round {self.round} was sent where no link is")
        if "n_messages" in facts:
            self._traffic = network.traffic(facts)
        for state in self._states.values():
            self._facts |= {fact: facts[fact] or 0 for fact in state.facts if fact in facts}
            if (wake := f"wake_{state.table.name}") in facts:
                self._wakes[state.table.name] = facts[wake]

    def _take_state(self, result: RoundResult, settled: Mapping[str, Relation]) -> None:
        self._changed |= set(result.state)
        for name, relation in settled.items():
            self._whole[name].release()
            self._whole[name] = relation
        for name in result.state.keys() & self._increments.keys():
            self._increments[name].append(self._materialiser.add(name, result.state[name]))
            if len(self._increments[name]) >= _MAX_INCREMENTS:
                self._compact(name)

    def _compact(self, name: str) -> None:
        """Folds the increments of a relation into it."""
        compact = self._states[name].compact
        if compact is None or not self._increments[name]:
            return
        self._fold(name, compact(self._state_frames()[name]))

    def _fold(self, name: str, whole: DataFrame) -> DataFrame:
        """Settles a relation that grows by increments; gives it."""
        folded = self._materialiser.settle({name: whole}, {})[0][name]
        self._whole[name].release()
        self._whole[name] = folded
        for increment in self._increments[name]:
            increment.release()
        self._increments[name].clear()
        self._changed.add(name)
        return folded.frame


def _without(frame: DataFrame, node: DataFrame) -> DataFrame:
    """Gives the rows of a relation that belong to other nodes than the given ones."""
    return frame.join(node.select(_NODE).hint("shuffle_hash"), _NODE, "left_anti")
