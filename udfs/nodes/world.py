"""The initial state of a run's nodes (`World`), and one node in one round (`step`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple

from udfs.nodes.calls import Call
from udfs.nodes.context import Context, Internal
from udfs.nodes.program import TIMERS, NodeProgram, Plan
from udfs.nodes.run import UNCHANGED, LinkChange

BEFORE = -1
"""The number of the round before the first one. In this round nodes start, and may send messages."""


@dataclass(frozen=True)
class NodeInfo:
    """A node of the overlay: its id, its name in the scenario and its role."""

    node: int
    name: str
    role: str


@dataclass
class RunningNode:
    """A node that is up. `program` holds the state of the protocol, `internal` the timers and watches."""

    program: NodeProgram
    internal: Internal = field(default_factory=Internal)


@dataclass
class World:
    """The input of a run, and its nodes, whose initial state `NodeProgram.start` sets.

    Attributes:
        nodes: The nodes by id.
        links: The latency of each directed link in rounds, by (src, dst).
        calls: All application calls by node.
        settings: The settings of the protocol, and ``seed``.
        has_crashes: Whether the scenario schedules a crash. Without crashes, nodes need no state for recoveries.
        predicates: The predicate of each subscription.
        at: The running nodes by id.
        contexts: The context of each node, through which the node acts before the first round.
    """

    nodes: Mapping[int, NodeInfo]
    links: Mapping[tuple[int, int], int]
    calls: Mapping[int, Sequence[Call]]
    settings: Mapping[str, Any]
    has_crashes: bool = False
    predicates: Mapping[int, str] = field(default_factory=dict)
    at: dict[int, RunningNode] = field(default_factory=dict)
    contexts: dict[int, Context] = field(default_factory=dict)

    def neighbours(self, node: int) -> Mapping[int, int]:
        """Returns the latency of each link from `node` to a neighbour, by the id of the neighbour."""
        return self.context(node).neighbours

    def program(self, node: int) -> Any:  # noqa: ANN401 - the author's own class
        """Returns the program of `node`."""
        return self.at[node].program

    def context(self, node: int) -> Context:
        """Returns the context of `node`."""
        return self.contexts[node]


_MOST_CHARACTERS = 1_000
"""The maximum length of an error message; a value in the message may be longer."""


class ProgramError(Exception):
    """A handler of a node program raised an exception, or the program took an action that is not allowed."""

    def __init__(self, told: str) -> None:
        """Shortens message `told`."""
        super().__init__(told if len(told) <= _MOST_CHARACTERS else f"{told[:_MOST_CHARACTERS]}...")


class Flight(NamedTuple):
    """A message in flight, with columns as in table ``message``. A `fate` of None stands for ``delivered``."""

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
    """The due events of one node in one round, for programs with a handler `on_round`.

    Attributes:
        received: The due messages in the order of their ids.
        calls: The due calls in the order of their issue.
        timers: The expired timers as (name, key), ascending.
        crashed: The nodes that crash in this round and to which this node is connected.
        is_recovered: Whether this node restarts in this round.
        is_paused: Whether this node is paused. A paused node handles only faults.
        links: The changes of this node's links, for programs with `NodeProgram.notices_links`.
    """

    received: Sequence[Flight]
    calls: Sequence[Call]
    timers: Sequence[Timer] = ()
    crashed: Sequence[int] = ()
    is_recovered: bool = False
    is_paused: bool = False
    links: LinkChange = UNCHANGED


_MESSAGE_ID, _SEQ = itemgetter(0), attrgetter("source_seq")


def step(plan: Plan, run: int, node: RunningNode, ctx: Context, due: RoundDue) -> None:
    """Runs the handlers of a node for the events of one round.

    Args:
        plan: The program with its declarations and handlers.
        run: The run id, for errors.
        node: The node; its state changes.
        ctx: The context that collects the actions of the node.
        due: The due events, without timers. The messages and calls have any order.

    Raises:
        ProgramError: A handler raised an exception, or called ``sys.exit``.
        BaseException: A handler raised `KeyboardInterrupt` or another exception that is no `Exception`; a note of the
            exception names the run, the node, the round and the event.
    """
    program: NodeProgram = node.program
    what: Due | str = "recovery"
    try:
        if plan.is_whole:
            what = "round"
            received = sorted(due.received, key=_MESSAGE_ID) if len(due.received) > 1 else due.received
            calls = sorted(due.calls, key=_SEQ) if len(due.calls) > 1 else due.calls
            timers = _expire_timers(node, ctx) if node.internal.timers else ()
            program.on_round(RoundDue(received, calls, timers, *due[3:]), ctx)
            return
        if due.is_recovered:
            program.on_recover(ctx)
        for _, _, what in _agenda(plan, node, ctx, due.received, due.calls):
            if isinstance(what, Flight):
                _receive(plan, node, ctx, what)
            elif isinstance(what, Call):
                getattr(program, f"call_{what.kind}")(what, ctx)
            else:
                _wake(node, ctx, what)
        what = "end of the round"
        program.on_round_end(ctx)
    except BaseException as error:
        error.add_note(f"run {run}, node {ctx.node}, round {ctx.round}, {_described(what)}")
        if not isinstance(error, (Exception, SystemExit)):  # in a test, the Ctrl-C of its user
            raise
        raise program_error(error) from error


def program_error(error: BaseException) -> ProgramError:
    """Returns the error for an exception of a handler; the exception's last note says where the handler ran."""
    return ProgramError(": ".join(filter(None, (error.__notes__[-1], type(error).__name__, str(error)))))


def _expire_timers(node: RunningNode, ctx: Context) -> list[Timer]:
    timers = node.internal.timers
    expired = sorted(timer for timer, at in timers.items() if at <= ctx.round)
    for timer in expired:
        del timers[timer]
    return expired


def _agenda(
    plan: Plan, node: RunningNode, ctx: Context, received: Sequence[Flight], calls: Sequence[Call]
) -> list[tuple[int, Any, Due]]:
    """Returns the due events as (phase, order within the phase, event), sorted."""
    phase, timers = plan.phase, node.internal.timers
    due: list[tuple[int, Any, Due]] = [(phase[one.kind], one.message_id, one) for one in received]
    if calls:
        due += [(phase[call.kind], call.source_seq, call) for call in calls]
    if timers:
        due += [(phase[TIMERS], (at, *timer), timer) for timer, at in timers.items() if at <= ctx.round]
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
    """Calls `on_down` for the failure detector report `one`, and ends the watch.

    Drops a report that was sent before the watch or the present incarnation of the node started.
    """
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
