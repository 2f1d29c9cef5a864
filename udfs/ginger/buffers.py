"""The buffers of a node, one a topic, as tables ``metadata_buffer`` and ``discarded`` keep them (section 4.3.2)."""

from __future__ import annotations

from collections.abc import Iterable

from udfs.ginger.buffer import Buffer, Event, Runs
from udfs.ginger.node import Node
from udfs.ginger.records import BufferedEvent, Discarded

PUBLISHED = "published"
"""The event of a client's own message, which is in no buffer of deliveries."""


class Buffers:
    """What a node has had; only where the tree may be mended anything is kept."""

    def __init__(self, node: Node) -> None:
        """Reads the tables of a node."""
        self._node = node
        self._state = node.state
        self._of: dict[str, Buffer] = {}
        for topic, row in self._state.discarded.items():
            self._of[topic] = Buffer(topic, list(row.left), {}, row.collected, row.position)
        for position, event in self._state.metadata_buffer.items():
            if event.event != PUBLISHED:
                self.of(event.topic).add(position, Event(event.event, event.message, event.hops or 0))

    def of(self, topic: str) -> Buffer:
        """Returns the buffer of a topic."""
        found = self._of.get(topic)
        if found is None:
            found = self._of[topic] = Buffer(topic)
        return found

    def all(self) -> list[Buffer]:
        """Returns the buffers of all topics."""
        return [buffer for _, buffer in sorted(self._of.items())]

    def add(self, topic: str, event: Event) -> None:
        """Puts an event into a buffer; the oldest ones leave it when it is full."""
        if not self._node.is_mended:
            return
        buffer, position = self.of(topic), self._node.next_position()
        if buffer.add(position, event):
            self._state.metadata_buffer[position] = BufferedEvent(*event.message, position, event.what, event.hops)
        self._drop(buffer, buffer.shrink(self._node.setting("buffer_size")))

    def collect(self, topic: str, runs: Runs) -> None:
        """Forgets messages that everybody has had (section 6.1)."""
        buffer = self.of(topic)
        self._drop(buffer, buffer.collect(runs))
        self._keep(buffer)

    def _drop(self, buffer: Buffer, gone: Iterable[int]) -> None:
        for position in gone:
            del self._state.metadata_buffer[position]
            self._keep(buffer)

    def _keep(self, buffer: Buffer) -> None:
        row = Discarded(buffer.topic, buffer.mark, buffer.left, buffer.collected)
        self._state.discarded[buffer.topic] = row
