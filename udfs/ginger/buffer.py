"""metadataBuffer: the newest events of a topic whole, and the ids of those that have left it (section 4.3.2)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import NamedTuple

from udfs.ginger.queue import Message

Id = tuple[int, int]


class Event(NamedTuple):
    """An entry of a buffer: a message ``passed`` at a broker, or was ``processed`` there; ``hops`` to get there."""

    what: str
    message: Message
    hops: int


@dataclass
class Buffer:
    """What a node has had of a topic, in the order in which it had it.

    Attributes:
        topic: The topic.
        left: The events that have left the buffer; of their messages the ids alone are known.
        whole: Those that are in the buffer, by their places.
        seen: Ids of all messages that passed.
        processed: Ids of all messages that were processed.
        mark: Place of the last event that left.
        has_changed: Whether any left in this round.
    """

    topic: str
    left: list[Event] = field(default_factory=list)
    whole: dict[int, Event] = field(default_factory=dict)
    seen: set[Id] = field(default_factory=set)
    processed: set[Id] = field(default_factory=set)
    mark: int = -1
    has_changed: bool = False

    @property
    def events(self) -> list[Event]:
        """All of them, in order."""
        return [*self.left, *self.whole.values()]

    def has(self, event: Event) -> bool:
        """Tells whether it had an event."""
        return event.message.id in (self.seen if event.what == "passed" else self.processed)

    def add(self, place: int, event: Event) -> None:
        """Adds an event at the end."""
        self.whole[place] = event
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

    def read(self, mark: int, details: str | None) -> None:
        """Reads what `text` gave, and the mark; events are added after it."""
        self.mark = mark
        for what, source, seq, hops in json.loads(details or "[]"):
            event = Event(what, Message(self.topic, source, seq, "", (), 0), hops)
            self.left.append(event)
            self._know(event)

    def text(self) -> str:
        """Gives what has left as JSON: what, source, number and hops of each."""
        return json.dumps([[what, *message.id, hops] for what, message, hops in self.left])
