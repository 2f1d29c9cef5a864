"""The round engine: every run of one protocol goes through the same jobs, round after round.

A round:

1. **inbox**: the messages in flight that are due (`network.due_messages`), and the application calls that are due;
2. **protocol steps**: the protocol's own, given in one lazy plan (`contract.Round`);
3. **network**: the outbox put on links, with what is still on its way (`network.put_on_links`);
4. **settle**: new state, messages and events are materialised, and a few counts of them come back to the driver;
5. **commit**, every k rounds: history and state go to the store.

The counts tell which kinds are due when: rounds in which nothing is due are skipped, and steps for absent kinds are
left out of the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import DataFrame

from pipelines import network
from pipelines.calls import Calls
from pipelines.contract import ProtocolModule, Round, RoundResult
from pipelines.errors import InternalError
from pipelines.history import History, RoundRows
from pipelines.materialise import Materialiser, Relation

_MAX_INCREMENTS = 16
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
        fixed: Mapping[str, DataFrame], latency: int | None, *, may_duplicate: bool = False,
    ) -> None:  # fmt: skip
        """Starts with nothing in flight.

        Args:
            protocol: The protocol.
            materialiser: Keeps relations.
            calls: The application calls, by round.
            history: Takes what the rounds leave behind.
            fixed: Frames ``node``, ``link``, ``setting``.
            latency: The latency of all links, where it is one.
            may_duplicate: Whether a message may reach a node twice.
        """
        self._protocol = protocol
        self._materialiser = materialiser
        self._calls = calls
        self._history = history
        self._fixed = fixed
        self._latency = latency
        self._may_duplicate = may_duplicate
        self._states = {state.table.name: state for state in protocol.states}
        self._parts: dict[str, list[Relation]] = {}
        self._facts: dict[str, int] = {}
        self._changed: set[str] = set()
        schema = network.in_flight_schema(protocol.payload)
        materialiser.declare({name: state.table.schema for name, state in self._states.items()})
        materialiser.declare({"in_flight": schema})
        self._in_flight = Relation(materialiser.empty(schema))
        self._traffic = network.Traffic({}, 0, 0)
        self.round = -1

    def begin(self, state: Mapping[str, DataFrame]) -> None:
        """Sets the relations before the first round; the others start without rows."""
        given = {
            name: state.get(name, self._materialiser.empty(known.table.schema)) for name, known in self._states.items()
        }
        events = {name: state[name] for name in _EVENTS if name in state}
        settled, facts = self._materialiser.settle(given | events, self._wanted_facts(given))
        self._take_facts(facts)
        for name in given:
            self._parts[name] = [settled[name]]
        self._changed |= set(given)
        held = [settled[name] for name in events]
        self._history.add(0, RoundRows(None, None, {name: settled[name].frame for name in events}, held))

    def run(self, horizon: int, commit_every: int, observe: Callable[[Progress], None]) -> None:
        """Runs until nothing can happen any more, or to the horizon; commits what is left at the end.

        Args:
            horizon: The last round that may happen.
            commit_every: Rounds between commits.
            observe: Is told of each round.
        """
        while (upcoming := self._next_round()) is not None and upcoming <= horizon:
            n_handled = self._make_round(upcoming)
            observe(Progress(self.round, self._traffic.n_messages, n_handled))
            if self._history.n_rounds >= commit_every:
                self.commit(is_final=False)
        self.commit(is_final=True)

    @property
    def n_in_flight(self) -> int:
        """Messages in flight."""
        return self._traffic.n_messages

    def commit(self, *, is_final: bool) -> None:
        """Writes what is buffered and the state that changed."""
        for name in self._changed & {name for name, parts in self._parts.items() if len(parts) > 1}:
            self._compact(name)
        state = {f"state_{name}": self._parts[name][0].frame for name in sorted(self._changed)}
        state["state_message"] = self._in_flight.frame
        self._history.commit(max(self.round, 0), state, self._in_flight.frame if is_final else None)
        self._changed.clear()

    def _next_round(self) -> int | None:
        wait = self._traffic.next_wait
        due = None if wait is None else self.round + wait
        call = self._calls.next_round(self.round)
        return min((r for r in (due, call) if r is not None), default=None)

    def _make_round(self, upcoming: int) -> int:
        step, before, traffic = upcoming - self.round, self._in_flight, self._traffic
        kinds = {*traffic.due_kinds(step), *self._calls.kinds(upcoming)}
        all_due = traffic.last_wait <= step
        inbox = before.frame if all_due else network.due_messages(before.frame, step)
        kept: list[Relation] = []
        result = self._protocol.round(
            Round(
                inbox=inbox, calls=self._calls.due(upcoming), kinds=frozenset(kinds), state=self._state_frames(),
                facts=self._facts, fixed=self._fixed, may_duplicate=self._may_duplicate, keep=self._keeper(kept),
            )  # fmt: skip
        )
        frames = self._outcome(result, None if all_due else network.waiting_messages(before.frame, step))
        settled, facts = self._materialiser.settle(frames, self._wanted_facts(frames))
        n_before = traffic.n_messages
        self._take_facts(facts)
        self._take_state(result, settled)
        self._in_flight = settled["in_flight"]
        self._remember(upcoming, inbox if n_before else None, before, settled)
        for relation in kept:
            relation.release()
        self.round = upcoming
        return n_before

    def _state_frames(self) -> dict[str, DataFrame]:
        return {
            name: reduce(DataFrame.unionByName, [part.frame for part in parts]) for name, parts in self._parts.items()
        }

    def _keeper(self, kept: list[Relation]) -> Callable[[str, DataFrame], DataFrame]:
        def keep(name: str, frame: DataFrame) -> DataFrame:
            relation = self._materialiser.keep(f"kept_{name}", frame)
            kept.append(relation)
            return relation.frame

        return keep

    def _outcome(self, result: RoundResult, waiting: DataFrame | None) -> dict[str, DataFrame]:
        """Names every frame that must outlive the round."""
        frames = dict(result.state)
        messages = [waiting] if waiting is not None else []
        if result.outbox is not None:
            link = self._fixed["link"]
            messages.append(network.put_on_links(result.outbox, link, self._latency, self._protocol.payload))
        if not messages:
            messages.append(self._materialiser.empty(network.in_flight_schema(self._protocol.payload)))
        frames["in_flight"] = reduce(DataFrame.unionByName, messages)
        for name in (*_EVENTS, "duplicate"):
            frame = getattr(result, name)
            if frame is not None:
                frames[name] = frame
        return frames

    def _wanted_facts(self, frames: Mapping[str, DataFrame]) -> dict[str, Mapping[str, str]]:
        wanted: dict[str, Mapping[str, str]] = {
            name: self._states[name].facts for name in frames if name in self._states
        }
        if "in_flight" in frames:
            wanted["in_flight"] = network.traffic_facts(self._protocol.kinds)
        return wanted

    def _take_facts(self, facts: dict[str, int | None]) -> None:
        if facts.get("n_lost"):
            raise InternalError(f"a message of round {self.round} was sent where no link is")
        if (facts.get("n_sent") or 0) >= network.MAX_SENT - 1:
            raise InternalError(f"a node sent {network.MAX_SENT} messages in one round; no more can be numbered")
        if "n_messages" in facts:
            self._traffic = network.traffic(facts)
        for state in self._protocol.states:
            self._facts |= {fact: facts[fact] or 0 for fact in state.facts if fact in facts}

    def _take_state(self, result: RoundResult, settled: Mapping[str, Relation]) -> None:
        for name in result.state:
            self._changed.add(name)
            if self._states[name].compact is None:
                for part in self._parts[name]:
                    part.release()
                self._parts[name] = [settled[name]]
            else:
                self._parts[name].append(settled[name])
                if len(self._parts[name]) > _MAX_INCREMENTS:
                    self._compact(name)

    def _compact(self, name: str) -> None:
        compact = self._states[name].compact
        if compact is None:
            raise InternalError(f"relation {name!r} has increments but no way to fold them")
        parts = self._parts[name]
        whole = compact(self._state_frames()[name])
        self._parts[name] = [self._materialiser.settle({name: whole}, {})[0][name]]
        for part in parts:
            part.release()

    def _remember(
        self, round_: int, inbox: DataFrame | None, before: Relation, settled: Mapping[str, Relation]
    ) -> None:
        held = [before, *(settled[name] for name in (*_EVENTS, "duplicate") if name in settled)]
        duplicate = settled["duplicate"].frame if "duplicate" in settled else None
        events = {name: settled[name].frame for name in _EVENTS if name in settled}
        self._history.add(round_, RoundRows(inbox, duplicate, events, held))
