"""Plays one round of a single node of `ginger`: its state, its inputs, and its messages and state after the round.

Function `play` takes the parts of the state and the inputs in any order; the other functions build or read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields
from typing import Any

from udfs.ginger import messages as ms, records
from udfs.ginger.buffer import Event, Id, Message, MissingSets
from udfs.ginger.program import Ginger
from udfs.ginger.tree import relationship
from udfs.nodes.calls import Call
from udfs.nodes.context import Context, Internal, Watched
from udfs.nodes.program import NodeDown, Plan
from udfs.nodes.run import RunView
from udfs.nodes.world import Flight, RoundDue, RunningNode, step

ROUND = 7
SETTINGS = {
    "total_degree": 5, "max_hops": 3, "timer_rounds": 12, "buffer_size": 100, "collect_every": 0, "detection_rounds": 5,
}  # fmt: skip
PLAN = Plan.of(Ginger)
TABLES = {declared.record: name for name, declared in Ginger.declared.items()}
NOW: Any = object()
"""An input of `play`: the broker recovers in this round."""


@dataclass(frozen=True)
class Mode:
    """Settings that differ from `SETTINGS`."""

    settings: Mapping[str, int]


@dataclass(frozen=True)
class Memory:
    """The node's state of repairs and elections: values of fields of the two records."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class Got:
    """An input of `play`: a message that is due in this round, ``rounds`` rounds after it was sent."""

    sender: int
    message: Any
    rounds: int = 1


@dataclass(frozen=True)
class Ran:
    """An input of `play`: a timer that expires in this round."""

    name: str
    key: int = 0


@dataclass
class Outcome:
    """A node after a round. If it is passed to `play`, it is the state before the next round."""

    program: Ginger
    ctx: Context
    internal: Internal
    settings: dict[str, int] = field(default_factory=dict)


def message(seq: int, guarantee: str = "total", *keys: str, source: int = 9, topic: str = "t") -> Message:
    return Message(topic, source, seq, guarantee, tuple(keys) or ("k",), 1)


def metadata(about: Message, hops: int = 0, *covered: int) -> ms.Metadata:
    return ms.Metadata(*about, hops, covered)


def ack(about: Message, *covered: int) -> ms.TotalAck:
    return ms.TotalAck(*about, 0, covered)


def processed(about: Message, hops: int = 0) -> ms.TotalProcessed:
    return ms.TotalProcessed(*about, hops)


def pending(about: Message, came_from: str = "above", hops: int = 2, **others: Any) -> records.Pending:
    covered = {**{"covered": {1}}, **others}
    return records.Pending(*about, 5, came_from, hops, **covered)


def mode(**settings: int) -> Mode:
    return Mode(settings)


def memory(**values: Any) -> Memory:
    return Memory(values)


def around(
    parent: int | None = None, children: Iterable[int] = (), clients: Iterable[int] = (), latency: int = 1
) -> list[records.Neighbour]:
    """Returns the neighbours of a broker; links have ``latency`` rounds, the link to the parent one round more."""
    rows = [records.Neighbour(node, "child", latency) for node in children]
    rows += [records.Neighbour(node, "client", latency) for node in clients]
    return rows + ([] if parent is None else [records.Neighbour(parent, "parent", latency + 1)])


def sub_tree(
    brokers: Iterable[int] = (), clients: Iterable[int] = (), members: Iterable[int] | None = None, topic: str = "t"
) -> list[Any]:
    """Returns the neighbours of broker 1 in the sub-tree of a topic, and its members: by default 1 and the brokers."""
    rows: list[Any] = [records.Subscriber(topic, node, "broker") for node in brokers]
    rows += [records.Subscriber(topic, node, "client") for node in clients]
    inside = {1, *brokers} if members is None else set(members)
    return [*rows, records.Member(topic, inside, clients=inside & set(clients))]


def view(**places: tuple[int, int]) -> list[records.TreeView]:
    """Returns a view of the tree; ``n4=(0, 2)`` is grandparent 4; all nodes are four rounds away."""
    return [records.TreeView(int(name[1:]), relationship(*at), *at, 4) for name, at in places.items()]


def down(node: int, rounds: int = 6) -> Got:
    """Returns a report of the failure detector that ``node`` is down."""
    return Got(-1, NodeDown(node), rounds)


def passed(seq: int, guarantee: str = "causal", what: str = "passed") -> Event:
    return Event(what, message(seq, guarantee), 3)


def bare(seq: int) -> Event:
    """Returns an event of a message that was removed from a buffer, so that only its id is known."""
    return Event("passed", Message("t", 9, seq, "", (), 0), 3)


def had(position: int, event: Event) -> records.BufferedEvent:
    """Returns an event at a position in the node's buffer."""
    return records.BufferedEvent(*event.message, position, event.what, event.hops)


def missing(*events: Event, **known: Any) -> MissingSets:
    """Returns the events that the other node lacks, and the messages of topic t that this node had."""
    return MissingSets(list(events), **{"passed": {"t": set()}, "processed": {"t": set()}, **known})


def ids(*seqs: int) -> dict[str, set[Id]]:
    """Returns ids of messages of client 9 on topic t."""
    return {"t": {Id(9, seq) for seq in seqs}}


def asks(*, break_degree: bool = False, **others: Any) -> ms.ParentRequest:
    """Returns the ParentRequest of an orphan in the sub-tree of topic t."""
    return ms.ParentRequest(**{"topics": ("t",), "break_degree": break_degree, **others})


def play(node: int, *given: Any, round_: int = ROUND) -> Outcome:
    """Plays one round of a node, and returns the outcome; ``given`` are parts of its state and inputs of the round."""
    pieces = [piece for one in given for piece in (one if isinstance(one, list) else [one])]
    program, internal, settings = Ginger(), Internal(), dict(SETTINGS)
    events = (Got, Ran, Call)
    program.repair.is_present = NOW not in pieces and not any(isinstance(piece, Call) for piece in pieces)
    for piece in pieces:
        if isinstance(piece, Outcome):
            for name in Ginger.declared:
                setattr(program, name, deepcopy(getattr(piece.program, name)))
            internal, settings = deepcopy(piece.internal), dict(piece.settings)
        elif not isinstance(piece, events) and piece is not NOW:
            _lay(program, settings, piece)
    program.delivered = []
    _finish(program, internal, pieces)
    received = [piece for piece in pieces if isinstance(piece, Got)]
    senders = [node if isinstance(one.message, NodeDown) else one.sender for one in received]
    inbox = [
        Flight(
            place, PLAN.kind_by_class[type(one.message)], sender, node, round_ - one.rounds, round_, None, one.message
        )
        for place, (sender, one) in enumerate(zip(senders, received, strict=True))
    ]
    ctx = Context(node, round_, settings, internal, _Neighbourhood(links=_latencies(node, program, received)))
    internal.timers |= {(piece.name, piece.key): round_ for piece in pieces if isinstance(piece, Ran)}
    calls = [piece for piece in pieces if isinstance(piece, Call)]
    step(PLAN, 0, RunningNode(program, internal), ctx, RoundDue(inbox, calls, is_recovered=NOW in pieces))
    return Outcome(program, ctx, internal, settings)


class _Latencies(dict[tuple[int, int], int]):
    def __missing__(self, link: tuple[int, int]) -> int:
        return 1


class _Neighbourhood(RunView):
    """A run in which a node has no links, and a path of one step to any other node."""

    def neighbours(self, node: int) -> dict[int, int]:
        return {}

    def path(self, src: int, dst: int) -> list[int]:
        return [src, dst]


def _latencies(node: int, program: Ginger, received: Iterable[Got]) -> _Latencies:
    """Returns the latencies of a node to others: those that its tables tell, and those of received messages."""
    known = {one.sender: one.rounds for one in received} | program.repair.seen
    known |= {entrant.node: entrant.latency_rounds for entrant in program.entrant}
    for table in (program.contact, program.tree_view, program.neighbour):
        known |= {other: row.latency_rounds for other, row in table.items()}
    return _Latencies({(node, other): rounds for other, rounds in known.items()})


def _lay(program: Ginger, settings: dict[str, int], piece: Any) -> None:
    if isinstance(piece, Mode):
        settings |= piece.settings
        program.repair.is_mended = True
    elif isinstance(piece, Memory):
        for name, value in piece.values.items():
            own = program.repair if hasattr(program.repair, name) else program.election
            setattr(own, name, deepcopy(value))
    else:
        declared = Ginger.declared[TABLES[type(piece)]]
        table = getattr(program, TABLES[type(piece)])
        if declared.form == "keyed":
            table[_key(piece)] = deepcopy(piece)
        else:
            table.append(deepcopy(piece))


def _key(row: Any) -> Any:
    key = tuple(getattr(row, name) for name in type(row).__key__)
    return key[0] if len(key) == 1 else key


def _finish(program: Ginger, internal: Internal, pieces: list[Any]) -> None:
    """Completes the state: a broker without a parent is the root by default, and the node watches its neighbours."""
    is_told = any(isinstance(piece, Outcome) or (isinstance(piece, Memory) and "is_root" in piece.values)
                  for piece in pieces)  # fmt: skip
    above = [row for row in program.neighbour.values() if row.relationship in ("parent", "edge")]
    if any(row.relationship == "edge" for row in above) or program.client_topic:
        program.repair.role = "client"
    elif not above and not is_told and program.repair.is_present:
        program.repair.is_root = True
    for row in program.neighbour.values():
        if row.relationship != "client":
            internal.watched.setdefault(row.neighbour, Watched(row.neighbour, row.latency_rounds, -1))


def sent(outcome: Outcome, *names: str) -> list[tuple[Any, ...]]:
    """Returns kind and receiver of each sent message, in order, and the values of the fields ``names``.

    Name ``rounds`` stands for the latency of the message.
    """
    found = []
    for dst, m, rounds in outcome.ctx.sent:
        values = (rounds if name == "rounds" else getattr(m, name, None) for name in names)
        found.append((PLAN.kind_by_class[type(m)], dst, *values))
    return found


def messages(outcome: Outcome, cls: type) -> list[Any]:
    """Returns the sent messages of a class."""
    return [message for _, message, _ in outcome.ctx.sent if isinstance(message, cls)]


def kept(outcome: Outcome, table: str, *names: str) -> list[Any]:
    """Returns tuples of the columns ``names`` of a table's rows; values instead of tuples for a single column."""
    rows = Ginger.declared[table].rows(getattr(outcome.program, table))
    found = [tuple(getattr(row, name) for name in names) for row in rows]
    return [row[0] for row in found] if len(names) == 1 else found


def timers(outcome: Outcome) -> dict[tuple[str, int], int]:
    """Maps each running timer to the number of rounds until it expires."""
    return {timer: at - outcome.ctx.round for timer, at in outcome.internal.timers.items()}


def repair(outcome: Outcome) -> records.Repair:
    return outcome.program.repair


def election(outcome: Outcome) -> records.Election:
    return outcome.program.election


def remembered(outcome: Outcome) -> Memory:
    """Returns the node's state of repairs and elections, as an input for another round."""
    own = (outcome.program.repair, outcome.program.election)
    return Memory({one.name: getattr(of, one.name) for of in own for one in fields(of)})


def kinds(outcome: Outcome) -> list[str]:
    """Returns the kinds of the sent messages."""
    return [kind for kind, *_ in sent(outcome)]


def paths(rows: Outcome) -> list[tuple[int, list[tuple[int, ...]]]]:
    """Returns the receivers of the sent TreeViewUpdate messages, each with the paths in the message."""
    found = [(dst, message) for dst, message, _ in rows.ctx.sent if type(message) is ms.TreeViewUpdate]
    return [(dst, [tuple(seen[:4]) for seen in message.seen]) for dst, message in found]
