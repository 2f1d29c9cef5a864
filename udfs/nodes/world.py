"""The nodes of a run: their state before the first round, and one of them in a round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from udfs.nodes.calls import Call
from udfs.nodes.context import Context, Internal
from udfs.nodes.program import TIMERS, NodeProgram, Plan
from udfs.nodes.run import UNCHANGED, LinkChange, RunView

BEFORE = -1
"""The round before the first one: in it nodes start, and messages that are on links at the start were sent."""


@dataclass(frozen=True)
class NodeInfo:
    """A node of the overlay.

    Attributes:
        node: Its id.
        name: Its name in the scenario.
        role: Its role.
    """

    node: int
    name: str
    role: str


@dataclass
class RunningNode:
    """A node of a run that is up.

    Attributes:
        program: Its state.
        internal: The harness's state of it.
    """

    program: NodeProgram
    internal: Internal = field(default_factory=Internal)


@dataclass
class World:
    """A run before its first round.

    Attributes:
        nodes: The nodes by id.
        links: The latency of each directed link, by its ends.
        calls: All application calls, by node.
        settings: The protocol's settings, and ``seed``.
        has_crashes: Whether a node crashes at some time; otherwise state for crashes is not needed.
        predicates: The predicate of each subscription.
        at: The state of each node, to be set.
    """

    nodes: Mapping[int, NodeInfo]
    links: Mapping[tuple[int, int], int]
    calls: Mapping[int, Sequence[Call]]
    settings: Mapping[str, Any]
    has_crashes: bool = False
    predicates: Mapping[int, str] = field(default_factory=dict)
    at: dict[int, RunningNode] = field(default_factory=dict)

    def neighbours(self, node: int) -> dict[int, int]:
        """Returns the latency of each link that leaves a node, by its other end."""
        return self._neighbours.get(node, {})

    def program(self, node: int) -> Any:  # noqa: ANN401 - the author's own class
        """Returns the program of a node."""
        return self.at[node].program

    def context(self, node: int) -> Context:
        """Returns a context of a node before the first round; its messages are in flight at the start."""
        if node not in self._contexts:
            run = RunView(self.links)
            self._contexts[node] = Context(node, BEFORE, self.settings, self.at[node].internal, run)
        return self._contexts[node]

    def __post_init__(self) -> None:
        """Starts without messages."""
        self._contexts: dict[int, Context] = {}
        self._neighbours: dict[int, dict[int, int]] = {}
        for (src, dst), latency in sorted(self.links.items()):
            self._neighbours.setdefault(src, {})[dst] = latency

    @property
    def contexts(self) -> list[Context]:
        """The contexts that were used, by node."""
        return [self._contexts[node] for node in sorted(self._contexts)]


def begin(program: type[NodeProgram], world: World) -> World:
    """Makes the state of all nodes of a run before its first round."""
    world.at = {node: RunningNode(program()) for node in sorted(world.nodes)}
    program.start(world)
    return world


class ProgramError(Exception):
    """A handler of a node program has failed."""

    @classmethod
    def of(cls, plan: Plan, run: int, ctx: Context, what: str, error: Exception) -> ProgramError:
        """Returns an error that names the place.

        Args:
            plan: The program.
            run: The run.
            ctx: The node and the round.
            what: The handled event.
            error: The exception of its handler.
        """
        return cls(
            f"protocol {plan.program.name or plan.program.__name__}, run {run}, node {ctx.node}, round {ctx.round},"
            f" {what}: {type(error).__name__}: {error}"
        )


class Flight(NamedTuple):
    """A message on a link, and at its receiver; columns as in table ``message``.

    Attributes:
        message_id: Its id.
        kind: Its kind.
        src: Its sender.
        dst: Its receiver.
        sent_round: The round in which it was sent.
        due_round: The round in which it is due.
        fate: Its fate; None: it is delivered.
        message: Its content.
    """

    message_id: int
    kind: str
    src: int
    dst: int
    sent_round: int
    due_round: int
    fate: str | None
    message: Any


Timer = tuple[str, int]
Due = Flight | Call | Timer


class RoundDue(NamedTuple):
    """All that is due at a node in a round.

    Attributes:
        received: The messages, in the order of their ids.
        calls: The calls, in the order in which they are issued.
        timers: The timers that have run out, by name and key.
        crashed: The nodes that crash in the round and that this one is connected to.
        is_recovered: Whether the node is up again in this round.
        is_paused: Whether the node pauses: it handles faults only.
        links: The changes of its links, for programs that notice them (`NodeProgram.notices_links`).
    """

    received: Sequence[Flight]
    calls: Sequence[Call]
    timers: Sequence[Timer]
    crashed: Sequence[int]
    is_recovered: bool
    is_paused: bool
    links: LinkChange


_MESSAGE_ID, _SEQ = itemgetter(0), attrgetter("source_seq")
_tuple = tuple.__new__


def step(
    plan: Plan, run: int, node: RunningNode, ctx: Context, received: Sequence[Flight], calls: Sequence[Call],
    is_recovered: bool = False, crashed: Sequence[int] = (), is_paused: bool = False, links: LinkChange | None = None,
) -> None:  # fmt: skip
    """Runs the handlers of a node for its due events.

    Args:
        plan: The program.
        run: The run, for errors.
        node: The node; its state changes.
        ctx: Collects its actions.
        received: The due messages, in any order.
        calls: The due calls, in any order.
        is_recovered: Whether the node is up again in this round.
        crashed: The nodes that crash in the round, for programs with `on_round`.
        is_paused: Whether the node pauses, for programs with `on_round`.
        links: The changes of its links, for programs with `on_round`; None: no change.

    Raises:
        ProgramError: A handler has failed.
    """
    program: NodeProgram = node.program
    what: Due | str = "recovery"
    try:
        if plan.is_whole:
            what = "round"
            timers = _ended_timers(node, ctx) if node.internal.timers else ()
            by_id = sorted(received, key=_MESSAGE_ID) if len(received) > 1 else received
            in_turn = sorted(calls, key=_SEQ) if len(calls) > 1 else calls
            due = (by_id, in_turn, timers, crashed, is_recovered, is_paused, links or UNCHANGED)
            program.on_round(_tuple(RoundDue, due), ctx)
            return
        if is_recovered:
            program.on_recover(ctx)
        for _, _, what in _agenda(plan, node, ctx, received, calls):
            if isinstance(what, Flight):
                _receive(plan, node, ctx, what)
            elif isinstance(what, Call):
                getattr(program, f"call_{what.kind}")(what, ctx)
            else:
                _wake(node, ctx, what)
        what = "end of the round"
        program.on_round_end(ctx)
    except Exception as error:
        raise ProgramError.of(plan, run, ctx, _described(what), error) from error


def _ended_timers(node: RunningNode, ctx: Context) -> list[Timer]:
    """Removes the timers that have run out, and returns them in order."""
    timers = node.internal.timers
    over = sorted(timer for timer, at in timers.items() if at <= ctx.round)
    for timer in over:
        del timers[timer]
    return over


def _agenda(
    plan: Plan, node: RunningNode, ctx: Context, received: Sequence[Flight], calls: Sequence[Call]
) -> list[tuple[int, Any, Due]]:
    """Returns the due events in order: phase, order within the phase, event."""
    phase, timers = plan.phase, node.internal.timers
    due: list[tuple[int, Any, Due]] = [(phase[one.kind], one.message_id, one) for one in received]
    if calls:
        due += [(phase[call.kind], call.source_seq, call) for call in calls]
    if timers:
        over = [(phase[TIMERS], (at, *timer), timer) for timer, at in timers.items() if at <= ctx.round]
        due += over
    if len(due) > 1:
        due.sort(key=itemgetter(0, 1))
    return due


def _receive(plan: Plan, node: RunningNode, ctx: Context, one: Flight) -> None:
    ctx.message_id, ctx.sent_round = one.message_id, one.sent_round
    if one.kind == plan.program.down_kind:
        _report(node, ctx, one)
    else:
        plan.handlers[one.kind](node.program, one.message, one.src, ctx)
    ctx.message_id = ctx.sent_round = None


def _report(node: RunningNode, ctx: Context, one: Flight) -> None:
    """Reports a crash, unless the node has crashed itself since, or the connection is another one by now."""
    peer = one.message.peer
    watch = node.internal.watched.get(peer)
    if watch is None or one.sent_round < max(watch.round, node.internal.started_round):
        ctx.drop("lost_crash")
        return
    del node.internal.watched[peer]
    node.program.on_down(peer, ctx)


def _wake(node: RunningNode, ctx: Context, timer: Timer) -> None:
    timers = node.internal.timers
    if timers.get(timer, ctx.round + 1) <= ctx.round:
        del timers[timer]
        node.program.on_timer(*timer, ctx)


def _described(what: Due | str) -> str:
    if isinstance(what, Flight):
        return f"message {what.kind} {what.message_id} from node {what.src}"
    if isinstance(what, Call):
        return f"call {what.kind} {what.source_seq}"
    return what if isinstance(what, str) else f"timer {what[0]!r} {what[1]}"
