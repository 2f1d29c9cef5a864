"""What a broker knows of topics: sub-trees, buffers of events, locks, and messages that wait to enter.

Tables ``metadata_buffer`` and ``discarded`` keep the buffers (section 4.3.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from udfs.ginger.buffer import Buffer, Event, Id, Message, Runs
from udfs.ginger.node import Node, State
from udfs.ginger.records import BufferedEvent, Discarded, EntryQueue, Member, Pending, Subscriber

PUBLISHED = "published"
"""The event of a client's own message, which is in no buffer of deliveries."""


class Buffers:
    """The buffers of a node by topic; they store messages only in runs whose tree may be repaired."""

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


class Topic:
    """A topic at a broker.

    Attributes:
        name: Its name.
        buffer: What the broker has had of it.
        brokers: The neighbours in its sub-tree.
        clients: The clients that subscribe to it.
        queue: The messages that wait to enter, in the order of arrival.
        pending: The messages in total order that are not processed yet, in the order of arrival.
    """

    def __init__(self, state: State, name: str, buffer: Buffer) -> None:
        """Starts with no more than the buffer."""
        self._state = state
        self.name = name
        self.buffer = buffer
        self.brokers: set[int] = set()
        self.clients: set[int] = set()
        self.queue: list[EntryQueue] = []
        self.pending: dict[Id, Pending] = {}

    @property
    def seen(self) -> set[Id]:
        """The messages that have passed."""
        return self.buffer.seen

    @property
    def processed(self) -> set[Id]:
        """The messages that have been processed."""
        return self.buffer.processed

    @property
    def members(self) -> set[int]:
        """The nodes that have to lock the key items of its messages."""
        row = self._state.member.get(self.name)
        return set() if row is None else row.members

    def set_members(self, members: set[int]) -> None:
        """Learns who has to lock key items."""
        self._state.member[self.name] = Member(self.name, set(members))

    @property
    def locked(self) -> set[str]:
        """The locked key items."""
        return {key for pending in self.pending.values() for key in pending.keys}

    def add(self, neighbour: int, relationship: str) -> None:
        """Adds a neighbour to the sub-tree, as ``broker`` or ``client``."""
        (self.clients if relationship == "client" else self.brokers).add(neighbour)
        self._state.subscriber[self.name, neighbour] = Subscriber(self.name, neighbour, relationship)

    def discard(self, neighbour: int) -> None:
        """Removes a neighbour from the sub-tree."""
        self.brokers.discard(neighbour)
        self.clients.discard(neighbour)
        self._state.subscriber.pop((self.name, neighbour), None)

    def enqueue(self, message: Message, arrival: int, client: int, hops: int) -> None:
        """Appends a client's message to the entry queue."""
        row = EntryQueue(*message, arrival, client, hops)
        self.queue.append(row)
        self._state.entry_queue[self.name, message.source, message.source_seq] = row

    def dequeue(self, position: int) -> EntryQueue:
        """Removes the message at a position of the entry queue, and returns it."""
        row = self.queue.pop(position)
        del self._state.entry_queue[self.name, row.source, row.source_seq]
        return row

    def lock(self, row: Pending) -> None:
        """Locks the key items of a message."""
        self.pending[row.id] = row
        self._state.pending[self.name, row.source, row.source_seq] = row

    def unlock(self, of: Id) -> None:
        """Unlocks the key items of a message, if they are locked."""
        if self.pending.pop(of, None) is not None:
            del self._state.pending[self.name, of.source, of.source_seq]

    def tell_again(self) -> None:
        """Forgets what the parent was told of pending messages: it is another one now."""
        for pending in self.pending.values():
            pending.sent = None


class Topics:
    """The topics of a broker."""

    def __init__(self, node: Node, buffers: Buffers) -> None:
        """Reads the tables of a broker."""
        self._state = node.state
        self._buffers = buffers
        self._of: dict[str, Topic] = {}
        for (name, neighbour), row in self._state.subscriber.items():
            topic = self.of(name)
            (topic.clients if row.relationship == "client" else topic.brokers).add(neighbour)
        for waiting in sorted(self._state.entry_queue.values(), key=lambda row: row.arrival):
            self.of(waiting.topic).queue.append(waiting)
        for pending in sorted(self._state.pending.values(), key=lambda row: row.arrival):
            self.of(pending.topic).pending[pending.id] = pending

    def of(self, name: str) -> Topic:
        """Returns a topic."""
        found = self._of.get(name)
        if found is None:
            found = self._of[name] = Topic(self._state, name, self._buffers.of(name))
        return found

    def __iter__(self) -> Iterator[Topic]:
        """Returns all that the broker knows anything of, by name."""
        names = {*self._of, *(buffer.topic for buffer in self._buffers.all()), *self._state.member}
        return iter([self.of(name) for name in sorted(names)])
