"""Executes the rounds of one run in plain Python. The history rows equal the history rows of the dataflow form.

A round has three steps:

1. Faults: nodes crash and lose their volatile state, and failure detectors report the crashes. Crashed nodes recover.
2. Nodes: each node with due events handles them (`step`), in ascending order of node ids.
3. Network: sent messages get ids. They get due rounds from link latency, link faults, pauses and crashes. The scenario
   fixes all faults in advance, so the fate of a message is known when it is sent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from operator import attrgetter, itemgetter
from typing import Any

from udfs.nodes.calls import Call
from udfs.nodes.context import Context, Delivery, Internal
from udfs.nodes.processes import check
from udfs.nodes.program import NodeDown, Plan
from udfs.nodes.run import UNCHANGED, LinkChange, LinkReplacement, Links, NodeIntervals, RunView, first_after
from udfs.nodes.world import BEFORE, Flight, NodeInfo, ProgramError, RoundDue, RunningNode, World, program_error, step

_GROUP = 1024
"""The number of consecutive node ids that share a counter of message ids."""
_NODE = attrgetter("node")
_flight = tuple.__new__
"""Constructs a `Flight` from a tuple, in a third of the time of the class's own constructor."""


Strike = Callable[[list[Flight]], list[Flight]]


@dataclass
class HistoryRows:
    """The history rows of consecutive rounds.

    Attributes:
        handled: The messages that were due, with their fate; the fate None stands for ``delivered``.
        delivered: The deliveries as (node, round, delivery).
        statuses: The status changes as (node, round, status).
        calls: The events of calls as (node, number, round, event); the event is ``held``, ``issued`` or ``confirmed``.
        appended: The rows of each table that the program declares as append-only, as (node, row).
    """

    handled: list[Flight] = field(default_factory=list)
    delivered: list[tuple[int, int, Delivery]] = field(default_factory=list)
    statuses: list[tuple[int, int, str]] = field(default_factory=list)
    calls: list[tuple[int, int, int, str]] = field(default_factory=list)
    appended: dict[str, list[tuple[int, Any]]] = field(default_factory=lambda: defaultdict(list))

    def of_nodes(self, nodes: Collection[int]) -> HistoryRows:
        """Returns the rows of `nodes`, and the messages that they sent."""
        return HistoryRows(
            [one for one in self.handled if one.src in nodes],
            [row for row in self.delivered if row[0] in nodes],
            [row for row in self.statuses if row[0] in nodes],
            [row for row in self.calls if row[0] in nodes],
            {name: [row for row in rows if row[0] in nodes] for name, rows in self.appended.items()},
        )


@dataclass(frozen=True)
class RunInput:
    """The input of a run.

    Attributes:
        run: The run id.
        settings: The settings of the protocol, and ``seed``.
        links: The latency of each directed link before the first round.
        calls: The application calls by round and node.
        crashes: The crashes of nodes.
        pauses: The pauses of nodes.
        strike: The function that applies link faults to sent messages. It is ``None`` if the run has no link faults.
        may_duplicate: Whether a link fault copies messages. If so, every second message id is reserved for copies.
        subscribers: The subscriber of each subscription.
        predicates: The predicate of each subscription.
        replacements: The link replacements, in the order in which they apply.
    """

    run: int
    settings: Mapping[str, Any]
    links: Mapping[tuple[int, int], int]
    calls: Mapping[int, Mapping[int, Sequence[Call]]]
    crashes: NodeIntervals
    pauses: NodeIntervals
    strike: Strike | None = None
    may_duplicate: bool = False
    subscribers: Mapping[int, int] = field(default_factory=dict)
    predicates: Mapping[int, str] = field(default_factory=dict)
    replacements: Sequence[LinkReplacement] = ()


class Network:
    """The nodes of one run, its messages in flight, and its last executed round."""

    def __init__(
        self, plan: Plan, given: RunInput, nodes: dict[int, RunningNode], flights: Iterable[Flight], round_: int,
        down: dict[int, dict[str, Any]] | None = None,
    ) -> None:  # fmt: skip
        """Restores a run at the end of round `round_`.

        `nodes` are the nodes that are up. `down` has the durable state of each node that is down, by declaration.
        """
        self._plan = plan
        self._given = given
        self.nodes = nodes
        self.down = down or {}
        self.round = round_
        self.last_played: int | None = None
        self._due: dict[int, list[Flight]] = defaultdict(list)
        self._lost: list[Flight] = []
        self._call_rounds = sorted(given.calls)
        self._wakes: dict[int, int] = {}
        self._stored: dict[int, dict[str, Any]] = {}
        self._contexts: dict[int, Context] = {}
        self._links = Links(given.links, given.replacements, round_)
        self._view = RunView(dict(self._links.now), given.crashes, given.subscribers, given.predicates, self._stored_at)
        for flight in flights:
            self._fly(flight)
        for at, node in nodes.items():
            self._set_wake(at, node)

    @classmethod
    def begun(
        cls, plan: Plan, given: RunInput, nodes: Mapping[int, NodeInfo], calls: Mapping[int, Sequence[Call]]
    ) -> tuple[Network, HistoryRows]:  # fmt: skip
        """Returns the network in its initial state, and the history rows of this state: statuses and appended rows.

        `nodes` has the nodes by id, and `calls` all calls of the run by node.

        Raises:
            ProgramError: `NodeProgram.start` raised an exception.
        """
        has_crashes = given.crashes.first_round is not None
        world = World(nodes, given.links, calls, given.settings, has_crashes, given.predicates)
        world.at = {node: RunningNode(plan.program()) for node in sorted(nodes)}
        view = RunView(given.links)
        world.contexts = {at: Context(at, BEFORE, given.settings, node.internal, view) for at, node in world.at.items()}
        try:
            plan.program.start(world)
        except ProgramError:
            raise
        except Exception as error:
            error.add_note(f"run {given.run}, start")
            raise program_error(error) from error
        network, rows = cls(plan, given, world.at, (), BEFORE), HistoryRows()
        network.put(network.numbered([*world.contexts.values()]))
        for at, node in world.at.items():
            rows.statuses += [(at, 0, status) for status in world.contexts[at].statuses]
            network.take_appended(at, node, rows)
        return network, rows

    @property
    def flights(self) -> list[Flight]:
        """The messages in flight, including messages that will be lost, ascending by id."""
        return sorted([*self._lost, *(one for of_round in self._due.values() for one in of_round)], key=itemgetter(0))

    def of_nodes(self, nodes: Collection[int]) -> Network:
        """Returns a copy with `nodes` and the messages in flight that they sent. It executes no rounds."""
        found = copy(self)
        found.nodes = {at: node for at, node in self.nodes.items() if at in nodes}
        found.down = {at: kept for at, kept in self.down.items() if at in nodes}
        found._lost = [one for one in self.flights if one.src in nodes]
        found._due = defaultdict(list)
        return found

    def next_round(self) -> int | None:
        """Returns the next round with an event, or None if no event remains."""
        planned = (self._call_rounds, self._given.crashes.rounds, self._links.rounds)
        found = [*self._due, *self._wakes.values(), *(first_after(rounds, self.round) for rounds in planned)]
        return min([round_ for round_ in found if round_ is not None], default=None)

    def play(self, last: int, rows: HistoryRows) -> None:
        """Executes all rounds up to and including `last`, and adds their history rows to `rows`."""
        while (upcoming := self.next_round()) is not None and upcoming <= last:
            check()
            self.play_round(upcoming, rows)
        self.round = max(self.round, last)

    def play_round(self, round_: int, rows: HistoryRows) -> None:
        """Executes one round: faults, then nodes, then the network. Adds the history rows of the round to `rows`."""
        self.round = self.last_played = round_
        # 1. faults
        noticed, out = self._crash(round_, rows), list[Context]()
        if not self._plan.is_whole:
            out, noticed = [self._reports(at, crashed) for at, crashed in noticed.items()], {}
        recovered = self._recover(round_)
        changed = self._change_links(round_, recovered)
        # 2. nodes
        inbox: dict[int, list[Flight]] = defaultdict(list)
        due = self._due.pop(round_, [])
        for one in due:
            inbox[one.dst].append(one)
        calls = {node: of for node, of in self._given.calls.get(round_, {}).items() if node in self.nodes}
        awake = [at for at, wake in self._wakes.items() if wake <= round_]
        fates: dict[int, str] = {}
        acting = sorted({*inbox, *calls, *recovered, *awake, *noticed, *changed})
        self._store(acting)
        for at in acting:
            is_paused, links = self._given.pauses.at(at, round_) is not None, changed.get(at, UNCHANGED)
            events = inbox.get(at, ()), calls.get(at, ()), (), noticed.get(at, ()), at in recovered, is_paused, links
            ctx = self._play_node(at, RoundDue(*events), rows)
            if ctx.fates:
                fates.update(ctx.fates)
            if ctx.sent:
                out.append(ctx)
        rows.handled += [one._replace(fate=fates.get(one.message_id)) for one in due] if fates else due
        if self._lost:
            rows.handled += [one for one in self._lost if one.due_round <= round_]
            self._lost = [one for one in self._lost if one.due_round > round_]
        # 3. network
        self.put(self.numbered(out))

    def _play_node(self, at: int, due: RoundDue, rows: HistoryRows) -> Context:
        given, node, round_ = self._given, self.nodes[at], self.round
        ctx = self._contexts.get(at)
        if ctx is None:
            ctx = self._contexts[at] = Context(at, round_, given.settings, node.internal, self._view)
        else:
            ctx.begin(round_, self._view)
        step(self._plan, given.run, node, ctx, due)
        self._take(ctx, node, due.calls, rows)
        self._set_wake(at, node)
        return ctx

    def close(self) -> None:
        """Drops the nodes, and breaks the reference cycles of their programs. No round can be executed afterwards."""
        for node in self.nodes.values():
            node.program.close()
        self.nodes.clear()
        self._contexts.clear()

    def _store(self, acting: Iterable[int]) -> None:
        """Records the state of the nodes `acting` before they act, which other nodes read during the round."""
        names = self._plan.program.read_by_others
        if names and self._view.has_crashed(self.round):
            self._stored = {at: {name: getattr(self.nodes[at].program, name) for name in names} for at in acting}

    def _stored_at(self, peer: int, name: str) -> Any:  # noqa: ANN401 - the value of any declaration
        found = self._stored.get(peer) or self.down.get(peer)
        return getattr(self.nodes[peer].program, name) if found is None else found[name]

    def _crash(self, round_: int, rows: HistoryRows) -> dict[int, list[int]]:
        """Removes the nodes that crash in round `round_`, and keeps their durable state.

        Returns the crashed nodes that each node watches or, for programs with `on_round`, is connected to.
        """
        crashed = self._given.crashes.starting.get(round_)
        if not crashed:
            return {}
        for name, one in self._plan.appended.items():
            if not one.is_durable:
                rows.appended[name] = [row for row in rows.appended[name] if row[0] not in crashed]
        for at in crashed:
            if at in self.nodes:
                program = self.nodes.pop(at).program
                self._contexts.pop(at, None)
                self._wakes.pop(at, None)
                self.down[at] = {name: getattr(program, name) for name in self._plan.durable}
                if (status := self._plan.program.down_status) is not None:
                    rows.statuses.append((at, round_, status))
        whole, found = self._plan.is_whole, {}
        for at, node in sorted(self.nodes.items()):
            notices = node.program.is_connected if whole else node.internal.watched.__contains__
            found[at] = [peer for peer in sorted(crashed) if notices(peer)]
        return {at: peers for at, peers in found.items() if peers}

    def _reports(self, at: int, crashed: Iterable[int]) -> Context:
        ctx = Context(at, self.round, self._given.settings, self.nodes[at].internal)
        for peer in crashed:
            self._report(ctx, peer)
        return ctx

    def _report(self, ctx: Context, peer: int) -> None:
        if not self._plan.is_watching:
            raise ProgramError(f"{self._where(ctx)}: the node watches node {peer} and has no handler on_down; add one")
        name = self._plan.program.detection
        if (delay := self._given.settings.get(name)) is None:
            raise ProgramError(f"{self._where(ctx)}: the failure detector needs setting {name!r}; add it")
        ctx.send(ctx.node, NodeDown(peer), after=max(1, int(delay) + ctx.watched[peer].latency_rounds))

    def _recover(self, round_: int) -> set[int]:
        recovered = {at for at in self._given.crashes.ending.get(round_, ()) if at in self.down}
        for at in recovered:
            program = self._plan.program()
            program.set(self.down.pop(at))
            self.nodes[at] = RunningNode(program, Internal(started_round=round_))
        return recovered

    def _change_links(self, round_: int, recovered: Iterable[int]) -> dict[int, LinkChange]:
        """Replaces the links that end in round `round_`. Returns the changes that the program handles, by node."""
        changes = self._links.change(round_)
        if changes:
            self._view = replace(self._view, links=dict(self._links.now))
        if not self._plan.program.notices_links:
            return {}
        for at in recovered:
            for neighbour in self._view.neighbours(at):
                changes[neighbour].recovered.add(at)
        return {at: change for at, change in changes.items() if at in self.nodes}

    def _set_wake(self, at: int, node: RunningNode) -> None:
        """Records the round in which node `at` handles its next timer: after a pause, if the node is paused then."""
        wake = node.internal.wake_round
        pause = None if wake is None else self._given.pauses.at(at, wake)
        wake = wake if pause is None else pause.end_round
        if wake is not None:
            self._wakes[at] = wake
        else:
            self._wakes.pop(at, None)

    def _take(self, ctx: Context, node: RunningNode, calls: Sequence[Call], rows: HistoryRows) -> None:
        """Adds the actions of a node in a round, except its sent messages, to the history rows `rows`."""
        at, round_ = ctx.node, ctx.round
        if ctx.deliveries:
            rows.delivered += [(at, round_, one) for one in ctx.deliveries]
        if ctx.statuses:
            rows.statuses += [(at, round_, status) for status in ctx.statuses]
        if calls or ctx.issued:
            due = [call.source_seq for call in calls]
            issued = ctx.issued if self._plan.program.holds_calls else due
            rows.calls += [(at, seq, round_, "held") for seq in due if seq not in issued]
            rows.calls += [(at, seq, round_, "issued") for seq in issued]
        if ctx.confirmed:
            rows.calls += [(at, seq, round_, "confirmed") for seq in ctx.confirmed]
        if self._plan.appended:
            self.take_appended(at, node, rows)
        for peer in ctx.connected:
            if peer not in self.nodes and peer in ctx.watched:
                self._report(ctx, peer)

    def take_appended(self, at: int, node: RunningNode, rows: HistoryRows) -> None:
        """Moves the appended rows of node `at` to the history rows `rows`."""
        for name in self._plan.appended:
            if added := getattr(node.program, name):
                rows.appended[name] += [(at, row) for row in added]
                setattr(node.program, name, [])

    def numbered(self, contexts: Sequence[Context]) -> list[Flight]:
        """Returns the messages that `contexts` send, with ids that ascend by sender and order of sending."""
        factor = 2 if self._given.may_duplicate else 1
        counts: dict[int, int] = defaultdict(int)
        flights: list[Flight] = []
        kinds, latencies = self._plan.kind_by_class, self._links.now
        for ctx in sorted(contexts, key=_NODE):
            src, round_, group = ctx.node, ctx.round, ctx.node // _GROUP
            number = (round_ << 40) + (group << 30) + factor * counts[group]
            for dst, message, latency in ctx.sent:
                number += factor
                if (kind := kinds.get(type(message))) is None:
                    raise self._refused(ctx, repr(message), f"a message of {', '.join(kinds.values())}")
                if latency is None:
                    if (latency := latencies.get((src, dst))) is None:
                        allowed = "a neighbour, or any node with after=ROUNDS"
                        raise self._refused(ctx, f"{kind} to node {dst!r}, to which it has no link", allowed)
                elif dst not in self.nodes and dst not in self.down:
                    raise self._refused(ctx, f"{kind} to node {dst!r}, which does not exist", "the id of a node")
                flights.append(_flight(Flight, (number, kind, src, dst, round_, round_ + latency, None, message)))
            counts[group] += len(ctx.sent)
        return flights

    def _refused(self, ctx: Context, sent: str, allowed: str) -> ProgramError:
        return ProgramError(f"{self._where(ctx)}: the node sends {sent}; allowed: {allowed}")

    def _where(self, ctx: Context) -> str:
        return f"run {self._given.run}, node {ctx.node}, round {ctx.round}"

    def put(self, flights: list[Flight]) -> None:
        """Puts sent messages in flight, with the due rounds and fates that result from the faults of the run.

        Link faults apply first. A message that is due during a pause of its receiver becomes due at the end of the
        pause. A message that is due while its receiver is down is lost.
        """
        given = self._given
        if given.strike is not None:
            flights = given.strike(flights)
        elif given.pauses.first_round is None and given.crashes.first_round is None:
            for one in flights:
                self._due[one.due_round].append(one)
            return
        for one in flights:
            pause = given.pauses.at(one.dst, one.due_round)
            if pause is not None and pause.end_round is not None:
                one = one._replace(due_round=pause.end_round)
            if one.fate is None and given.crashes.at(one.dst, one.due_round) is not None:
                one = one._replace(fate="lost_crash")
            self._fly(one)

    def _fly(self, one: Flight) -> None:
        if one.fate is None:
            self._due[one.due_round].append(one)
        else:
            self._lost.append(one)
