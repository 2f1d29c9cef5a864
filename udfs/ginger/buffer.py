"""metadataBuffer: the newest events of a topic whole, and the ids of those that have left it (section 4.3.2)."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from udfs.ginger.queue import Message

Id = tuple[int, int]
Runs = dict[str, list[list[int]]]
"""Ids by source (as text, for JSON): the first and the last number of each run of numbers, ascending."""


class Event(NamedTuple):
    """An entry of a buffer: a message ``passed`` at a broker, or was ``processed`` there; ``hops`` to get there."""

    what: str
    message: Message
    hops: int


def in_runs(runs: Mapping[str, list[list[int]]], of: Id) -> bool:
    """Returns whether an id is in one of the runs."""
    own = runs.get(str(of[0]), [])
    position = bisect_right(own, of[1], key=lambda run: run[0]) - 1
    return position >= 0 and of[1] <= own[position][1]


def joined(runs: Runs, others: Iterable[tuple[str, list[list[int]]]]) -> Runs:
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


class Known(set[Id]):
    """Ids that a node has had, beside those that everybody has had."""

    def __init__(self, buffer: Buffer) -> None:
        """Starts with what everybody has had."""
        super().__init__()
        self._buffer = buffer

    def __contains__(self, of: object) -> bool:
        """Returns whether it has had an id."""
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
        has_changed: Whether any left in this round.
    """

    topic: str
    left: list[Event] = field(default_factory=list)
    whole: dict[int, Event] = field(default_factory=dict)
    collected: Runs = field(default_factory=dict)
    mark: int = -1
    has_changed: bool = False

    def __post_init__(self) -> None:
        """Knows no ids yet: ``seen`` passed here, ``processed`` were processed."""
        self.seen = Known(self)
        self.processed = Known(self)

    @property
    def events(self) -> list[Event]:
        """All of them, in order."""
        return [*self.left, *self.whole.values()]

    def has(self, event: Event) -> bool:
        """Returns whether it had an event."""
        return event.message.id in (self.seen if event.what == "passed" else self.processed)

    def add(self, position: int, event: Event) -> None:
        """Adds an event at the end."""
        if not in_runs(self.collected, event.message.id):
            self.whole[position] = event
            self._know(event)

    def _know(self, event: Event) -> None:
        self.seen.add(event.message.id)
        if event.what == "processed":
            self.processed.add(event.message.id)

    def shrink(self, size: int) -> None:
        """Lets the oldest events leave, until no more than ``size`` (bufferSize) are in it."""
        while len(self.whole) > size:
            self.mark = next(iter(self.whole))
            what, message, hops = self.whole.pop(self.mark)
            self.left.append(Event(what, message.without_body(), hops))
            self.has_changed = True

    def collect(self, runs: Mapping[str, list[list[int]]]) -> None:
        """Forgets messages that everybody has had but for their ids (section 6.1)."""
        self.collected = joined(self.collected, runs.items())
        last = max(self.whole, default=self.mark)
        self.left = [event for event in self.left if not in_runs(self.collected, event.message.id)]
        self.whole = {p: event for p, event in self.whole.items() if not in_runs(self.collected, event.message.id)}
        for ids in (self.seen, self.processed):
            ids.difference_update([of for of in ids if in_runs(self.collected, of)])
        self.mark = max(self.mark, next(iter(self.whole)) - 1 if self.whole else last)
        self.has_changed = True

    def read(self, mark: int, details: str | None) -> None:
        """Reads what `text` gave, and the mark; events are added after it."""
        self.mark = mark
        given: dict[str, Any] = json.loads(details or "{}")
        self.collected = given["collected"]
        for what, source, seq, hops in given["left"]:
            event = Event(what, Message(self.topic, source, seq, "", (), 0), hops)
            self.left.append(event)
            self._know(event)

    def text(self) -> str:
        """Returns what has left as JSON: what, source, number and hops of each, and the runs of what is collected."""
        left = [[what, *message.id, hops] for what, message, hops in self.left]
        return json.dumps({"left": left, "collected": self.collected}, sort_keys=True)


def runs_of(ids: Collection[Id]) -> Runs:
    """Returns ids as runs."""
    return joined({}, ((str(source), [[seq, seq]]) for source, seq in sorted(ids)))
