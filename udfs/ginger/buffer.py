"""metadataBuffer (section 4.3.2): the newest events of a topic whole, and the ids of events that have left it.

An `Id` names a message within its run. Two nodes exchange a `MissingSets` when they connect: the ids that they have,
and the messages that the other lacks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple


class Id(NamedTuple):
    """The identity of a message within its run.

    Attributes:
        source: The client that published it.
        source_seq: Its number among the client's calls.
    """

    source: int
    source_seq: int


class Message(NamedTuple):
    """A message of a client, as brokers pass it on.

    Attributes:
        topic: Its topic.
        source: The client.
        source_seq: Its number among the client's calls.
        guarantee: ``eventual``, ``causal`` or ``total``; nothing where only the id is known.
        keys: Its key items, sorted.
        issued_round: The round in which the client issued it.
    """

    topic: str
    source: int
    source_seq: int
    guarantee: str
    keys: tuple[str, ...]
    issued_round: int

    @property
    def id(self) -> Id:
        """Identifies it within its run."""
        return Id(self.source, self.source_seq)

    @property
    def has_body(self) -> bool:
        """Whether more than the id is known of it."""
        return self.guarantee != ""

    @property
    def is_total(self) -> bool:
        """Whether it is delivered in total order."""
        return self.guarantee == "total"


def next_admitted(queue: Sequence[Message], locked: Collection[str]) -> int | None:
    """Finds the first message that may enter, in one pass that carries the set of blocked keys.

    A message waits while one before it in the queue waits for one of its keys; an eventual or causal one also while one
    of its keys is locked.

    Args:
        queue: The queue of a topic, in the order of arrival.
        locked: The locked key items of the topic.

    Returns:
        The position of the message, or None.
    """
    blocked: set[str] = set()
    for position, message in enumerate(queue):
        is_free = message.is_total or not any(key in locked for key in message.keys)
        if is_free and blocked.isdisjoint(message.keys):
            return position
        blocked.update(message.keys)
    return None


Runs = dict[int, list[list[int]]]
"""Ids by source: the first and the last number of each run of numbers, ascending."""


class Event(NamedTuple):
    """An entry of a buffer.

    Attributes:
        what: ``passed`` at a broker, or ``processed`` there.
        message: The message.
        hops: Links that it travelled over to get there.
    """

    what: str
    message: Message
    hops: int


class Departed(NamedTuple):
    """The remainder of an event that has left a buffer.

    Attributes:
        event: What it was.
        source: The client that published the message.
        source_seq: Its number among the client's calls.
        hops: Links that it travelled over.
    """

    event: str
    source: int
    source_seq: int
    hops: int


def in_runs(runs: Mapping[int, list[list[int]]], of: Id) -> bool:
    """Returns whether an id is in one of the runs."""
    own = runs.get(of[0])
    if not own:
        return False
    position = bisect_right(own, of[1], key=lambda run: run[0]) - 1
    return position >= 0 and of[1] <= own[position][1]


def joined(runs: Runs, others: Iterable[tuple[int, list[list[int]]]]) -> Runs:
    """Returns runs with those of others, which may overlap."""
    found: Runs = {source: [list(run) for run in own] for source, own in runs.items()}
    for source, own in others:
        merged: list[list[int]] = []
        for first, last in sorted([*found.get(source, []), *own]):
            if merged and first <= merged[-1][1] + 1:
                merged[-1][1] = max(merged[-1][1], last)
            else:
                merged.append([first, last])
        found[source] = merged
    return found


def runs_of(ids: Collection[Id]) -> Runs:
    """Returns ids as runs."""
    return joined({}, ((source, [[seq, seq]]) for source, seq in sorted(ids)))


class Known(set[Id]):
    """Ids that a node has had, without collected ones."""

    def __init__(self, buffer: Buffer) -> None:
        """Starts with the collected ids."""
        super().__init__()
        self._buffer = buffer

    def __contains__(self, of: object) -> bool:
        """Returns whether the node has had an id."""
        return super().__contains__(of) or in_runs(self._buffer.collected, of)  # type: ignore[arg-type]


@dataclass
class Buffer:
    """The events of a topic at a node, in their order.

    Attributes:
        topic: The topic.
        left: The events that have left the buffer; only the ids of their messages are known.
        whole: The events in the buffer, by their positions.
        collected: The messages that all members have had; only these ids remain.
        mark: No event up to this position is in the buffer.
    """

    topic: str
    left: list[Departed] = field(default_factory=list)
    whole: dict[int, Event] = field(default_factory=dict)
    collected: Runs = field(default_factory=dict)
    mark: int = -1

    def __post_init__(self) -> None:
        """Knows the ids of its events: ``seen`` passed here, ``processed`` were processed."""
        self.seen = Known(self)
        self.processed = Known(self)
        for event, source, seq, _ in self.left:
            self._know(event, Id(source, seq))
        for what, message, _ in self.whole.values():
            self._know(what, message.id)

    @property
    def events(self) -> list[Event]:
        """All of them, in order."""
        left = [Event(what, Message(self.topic, source, seq, "", (), 0), hops) for what, source, seq, hops in self.left]
        return [*left, *self.whole.values()]

    def has(self, event: Event) -> bool:
        """Returns whether it had an event."""
        return event.message.id in (self.seen if event.what == "passed" else self.processed)

    def add(self, position: int, event: Event) -> bool:
        """Adds an event at the end, unless it was collected because every node has had it; returns whether it did."""
        if in_runs(self.collected, event.message.id):
            return False
        self.whole[position] = event
        self._know(event.what, event.message.id)
        return True

    def _know(self, what: str, of: Id) -> None:
        self.seen.add(of)
        if what == "processed":
            self.processed.add(of)

    def shrink(self, size: int) -> list[int]:
        """Lets the oldest events leave, until no more than ``size`` (bufferSize) are in it; returns their positions."""
        n_gone = len(self.whole) - size
        gone = list(islice(self.whole, n_gone)) if n_gone > 0 else []
        for position in gone:
            what, message, hops = self.whole.pop(position)
            self.left.append(Departed(what, *message.id, hops))
            self.mark = position
        return gone

    def collect(self, runs: Runs) -> list[int]:
        """Drops messages that all members have had, except their ids (section 6.1); returns the events' positions."""
        self.collected = joined(self.collected, runs.items())
        last = max(self.whole, default=self.mark)
        self.left = [event for event in self.left if not in_runs(self.collected, Id(event.source, event.source_seq))]
        gone = [position for position, event in self.whole.items() if in_runs(self.collected, event.message.id)]
        for position in gone:
            del self.whole[position]
        for ids in (self.seen, self.processed):
            ids.difference_update([of for of in ids if in_runs(self.collected, of)])
        self.mark = max(self.mark, next(iter(self.whole)) - 1 if self.whole else last)
        return gone


@dataclass
class MissingSets:
    """ParentBuffer (ids only), LostMessageRequest and its answer.

    Attributes:
        events: Messages that the receiver lacks, in the order of the sender's buffers; those that have left the buffers
            have no body.
        passed: By topic the ids that passed at the sender.
        processed: By topic the ids that were processed there.
        failed: Brokers whose failure the sender knows.
        back: Failed brokers that have recovered.
        collected: By topic the messages that all members have had.
        members: ParentBuffer for a broker that joins: the members that lock the key items of a topic.
    """

    events: list[Event] = field(default_factory=list)
    passed: dict[str, set[Id]] = field(default_factory=dict)
    processed: dict[str, set[Id]] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    back: set[int] = field(default_factory=set)
    collected: dict[str, Runs] = field(default_factory=dict)
    members: dict[str, set[int]] = field(default_factory=dict)

    def name(self, topic: str) -> None:
        """Says that it is about a topic, known messages or none."""
        self.passed.setdefault(topic, set())
        self.processed.setdefault(topic, set())

    def note(self, event: Event) -> None:
        """Adds the id of an event that the sender has had."""
        self.name(event.message.topic)
        self.passed[event.message.topic].add(event.message.id)
        if event.what == "processed":
            self.processed[event.message.topic].add(event.message.id)

    def has(self, event: Event) -> bool:
        """Returns whether the sender has had an event."""
        known = self.passed if event.what == "passed" else self.processed
        topic, of = event.message.topic, event.message.id
        return of in known.get(topic, ()) or in_runs(self.collected.get(topic, {}), of)
