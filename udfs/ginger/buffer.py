"""metadataBuffer (section 4.3.2): the newest events of a topic, and the message ids of discarded events.

An event is the passage of a message through a node (``passed``), or its processing in total order (``processed``). When
two nodes connect, each sends the other one a `MissingSets` with the ids of the messages that the sender has received.
Except in ParentBuffer, it also contains the events that the receiver lacks.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple


class Id(NamedTuple):
    """The identity of a message within its run: its publisher, and its number among the publisher's calls."""

    source: int
    source_seq: int


class Message(NamedTuple):
    """A published message."""

    topic: str
    source: int  # the client that published it
    source_seq: int  # its number among the client's calls
    guarantee: str  # eventual, causal or total; empty if only the topic and the id are known
    keys: tuple[str, ...]  # the key items, sorted
    issued_round: int  # the round in which the client issued it

    @property
    def id(self) -> Id:
        """The id of the message within its run."""
        return Id(self.source, self.source_seq)

    @property
    def has_body(self) -> bool:
        """Whether the guarantee, key items and round are known, not only the topic and the id."""
        return self.guarantee != ""

    @property
    def is_total(self) -> bool:
        """Whether the message is delivered in total order."""
        return self.guarantee == "total"


def next_admitted(queue: Sequence[Message], locked: Collection[str]) -> int | None:
    """Returns the index of the first message in `queue` that may enter the tree; None if all must wait (rule G1).

    A message waits while an earlier message in `queue` shares a key item with it. An eventual or causal message also
    waits while one of its key items is locked.

    Args:
        queue: The messages of a topic that wait at a broker, in the order of arrival.
        locked: The locked key items of the topic.
    """
    blocked: set[str] = set()
    for position, message in enumerate(queue):
        is_free = message.is_total or not any(key in locked for key in message.keys)
        if is_free and blocked.isdisjoint(message.keys):
            return position
        blocked.update(message.keys)
    return None


Runs = dict[int, list[list[int]]]
"""A set of message ids: for each source, intervals of consecutive numbers as [first, last], ascending."""


class Event(NamedTuple):
    """An entry of a buffer: a message that passed a node, or that the node processed.

    `what` is ``passed`` or ``processed``. `hops` counts the links that `message` has traversed.
    """

    what: str
    message: Message
    hops: int


class Departed(NamedTuple):
    """An event that has left a buffer. Only the id of its message and the number of traversed links remain."""

    event: str
    source: int
    source_seq: int
    hops: int


def in_runs(runs: Mapping[int, list[list[int]]], of: Id) -> bool:
    """Returns whether message id `of` lies in one of the intervals `runs`."""
    own = runs.get(of[0])
    if not own:
        return False
    position = bisect_right(own, of[1], key=lambda run: run[0]) - 1
    return position >= 0 and of[1] <= own[position][1]


def joined(runs: Runs, others: Iterable[tuple[int, list[list[int]]]]) -> Runs:
    """Returns the union of `runs` and `others`, whose intervals may overlap."""
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
    """Returns message ids as intervals of consecutive numbers."""
    return joined({}, ((source, [[seq, seq]]) for source, seq in sorted(ids)))


class Known(set[Id]):
    """A set of message ids, which also contains the ids of messages that its buffer has garbage-collected.

    Iteration and length omit the garbage-collected messages.
    """

    def __init__(self, buffer: Buffer) -> None:
        super().__init__()
        self._buffer = buffer

    def __contains__(self, of: object) -> bool:
        """Returns whether id `of` is in the set, or the buffer has garbage-collected the message with this id."""
        return super().__contains__(of) or in_runs(self._buffer.collected, of)  # type: ignore[arg-type]


@dataclass
class Buffer:
    """The events of a topic at a node, in the order in which they happened.

    Attributes:
        topic: The topic of all events in the buffer.
        left: The events that have left the buffer. Only the ids of their messages are known.
        whole: The events in the buffer, by position.
        collected: The ids of garbage-collected messages: all members have received them, and their events are dropped.
        mark: The position up to which all events have left the buffer or were dropped.
        seen: The ids of messages that passed the node.
        processed: The ids of messages that the node processed in total order.
    """

    topic: str
    left: list[Departed] = field(default_factory=list)
    whole: dict[int, Event] = field(default_factory=dict)
    collected: Runs = field(default_factory=dict)
    mark: int = -1

    def __post_init__(self) -> None:
        """Computes `seen` and `processed` from `left` and `whole`."""
        self.seen = Known(self)
        self.processed = Known(self)
        for event, source, seq, _ in self.left:
            self._know(event, Id(source, seq))
        for what, message, _ in self.whole.values():
            self._know(what, message.id)

    @property
    def events(self) -> list[Event]:
        """The events in `left` and in `whole`, in the order in which they happened.

        The messages of events in `left` have no body.
        """
        left = [Event(what, Message(self.topic, source, seq, "", (), 0), hops) for what, source, seq, hops in self.left]
        return [*left, *self.whole.values()]

    def has(self, event: Event) -> bool:
        """Returns whether `event` happened at the node, even if it has left the buffer."""
        return event.message.id in (self.seen if event.what == "passed" else self.processed)

    def add(self, position: int, event: Event) -> bool:
        """Adds `event` at `position` unless its message was garbage-collected. Returns whether `event` was added."""
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
        """Moves the oldest events to `left` until at most `size` (bufferSize) remain. Returns the moved positions."""
        n_gone = len(self.whole) - size
        gone = list(islice(self.whole, n_gone)) if n_gone > 0 else []
        for position in gone:
            what, message, hops = self.whole.pop(position)
            self.left.append(Departed(what, *message.id, hops))
            self.mark = position
        return gone

    def collect(self, runs: Runs) -> list[int]:
        """Drops the events of the messages with ids in `runs`, and adds these ids to `collected` (section 6.1).

        Returns the positions of the dropped events.
        """
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
    """The content of ParentBuffer, LostMessageRequest, LostMessages and TopicJoined.

    Attributes:
        events: Events that the receiver lacks, in the order of the sender's buffers. An event that has left its buffer
            has a message without body. A ParentBuffer contains no events.
        passed: The ids of messages that passed the sender, by topic.
        processed: The ids of messages that the sender processed in total order, by topic.
        failed: For each broker that has failed at least once, the latest incarnation that has failed, as far as the
            sender knows.
        collected: The ids of messages that all members have received, by topic.
        members: The members of each topic. Only a ParentBuffer for a joining broker contains them.
        clients: The clients in `members`, by topic.
    """

    events: list[Event] = field(default_factory=list)
    passed: dict[str, set[Id]] = field(default_factory=dict)
    processed: dict[str, set[Id]] = field(default_factory=dict)
    failed: dict[int, int] = field(default_factory=dict)
    collected: dict[str, Runs] = field(default_factory=dict)
    members: dict[str, set[int]] = field(default_factory=dict)
    clients: dict[str, set[int]] = field(default_factory=dict)

    def add_ids(self, buffer: Buffer) -> None:
        """Adds the ids of all messages that `buffer`, a buffer of the sender, contains or has contained."""
        self.passed.setdefault(buffer.topic, set()).update(buffer.seen)
        self.processed.setdefault(buffer.topic, set()).update(buffer.processed)
        if buffer.collected:
            self.collected[buffer.topic] = buffer.collected

    def has(self, event: Event) -> bool:
        """Returns whether `event` happened at the node that sent these sets."""
        known = self.passed if event.what == "passed" else self.processed
        topic, of = event.message.topic, event.message.id
        return of in known.get(topic, ()) or in_runs(self.collected.get(topic, {}), of)
