"""metadataBuffer: the newest events of a topic whole, and the ids of those that have left it (section 4.3.2)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from udfs.ginger.queue import Id, Message

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


class Left(NamedTuple):
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
    """Ids that a node has had, beside those that everybody has had."""

    def __init__(self, buffer: Buffer) -> None:
        """Starts with what everybody has had."""
        super().__init__()
        self._buffer = buffer

    def __contains__(self, of: object) -> bool:
        """Returns whether the node has had an id."""
        return super().__contains__(of) or in_runs(self._buffer.collected, of)  # type: ignore[arg-type]


@dataclass
class Buffer:
    """What a node has had of a topic, in the order in which it had it.

    Attributes:
        topic: The topic.
        left: The events that have left the buffer; of their messages the ids alone are known.
        whole: Those that are in the buffer, by their positions.
        collected: The messages that everybody has had, so that there is nothing else left of them.
        mark: No event up to this position is in the buffer.
    """

    topic: str
    left: list[Left] = field(default_factory=list)
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
        """Adds an event at the end; returns whether it did, for what everybody has had is over."""
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
            self.left.append(Left(what, *message.id, hops))
            self.mark = position
        return gone

    def collect(self, runs: Runs) -> list[int]:
        """Forgets messages that everybody has had but for their ids (section 6.1); returns the positions of events."""
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
