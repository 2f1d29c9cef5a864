"""The topics of a node: sub-trees, buffers of events (section 4.3.2), locks, and messages that wait to enter the tree.

Each change updates both the tables of `udfs.ginger.node.State` and their copies in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from udfs.ginger.buffer import Buffer, Event, Id, Message, Runs
from udfs.ginger.node import Node, State
from udfs.ginger.records import BufferedEvent, Discarded, EntryQueue, Member, Pending, Subscriber
from udfs.ginger.repair_records import Coverage, TopicJoin

PUBLISHED = "published"
"""Value of column ``event`` for a client's own publication. Only table ``metadata_buffer`` has these events."""


class Buffers:
    """The buffers of a node by topic. They stay empty unless a broker crashes or joins in the run."""

    def __init__(self, node: Node) -> None:
        """Reads tables ``discarded`` and ``metadata_buffer``."""
        self._node = node
        self._state = node.state
        self._of: dict[str, Buffer] = {}
        for topic, row in self._state.discarded.items():
            self._of[topic] = Buffer(topic, list(row.left), {}, row.collected, row.position)
        for position, event in self._state.metadata_buffer.items():
            if event.event != PUBLISHED:
                self.of(event.topic).add(position, Event(event.event, event.message, event.hops or 0))

    def of(self, topic: str) -> Buffer:
        """Returns the buffer of `topic`, and creates an empty buffer if necessary."""
        found = self._of.get(topic)
        if found is None:
            found = self._of[topic] = Buffer(topic)
        return found

    def all(self) -> list[Buffer]:
        """Returns the buffers of all topics, ordered by the name of the topic."""
        return [buffer for _, buffer in sorted(self._of.items())]

    def add(self, topic: str, event: Event) -> None:
        """Adds `event` to the buffer of `topic`, and discards the oldest events beyond ``buffer_size``."""
        if not self._node.repair.is_mended:
            return
        buffer, position = self.of(topic), self._node.next_position()
        if buffer.add(position, event):
            self._state.metadata_buffer[position] = BufferedEvent(*event.message, position, event.what, event.hops)
        self._drop(buffer, buffer.shrink(self._node.setting("buffer_size")))

    def collect(self, topic: str, runs: Runs) -> None:
        """Drops the messages of `topic` with ids in `runs`, which all members have received (section 6.1)."""
        buffer = self.of(topic)
        self._drop(buffer, buffer.collect(runs))
        self._keep(buffer)

    def _drop(self, buffer: Buffer, gone: Iterable[int]) -> None:
        for position in gone:
            del self._state.metadata_buffer[position]
            self._keep(buffer)

    def _keep(self, buffer: Buffer) -> None:
        self._state.discarded[buffer.topic] = Discarded(buffer.topic, buffer.mark, buffer.left, buffer.collected)


class Topic:
    """A topic at a broker.

    Attributes:
        name: The name of the topic.
        buffer: The events of the topic's messages at the broker.
        seen: The ids of messages that passed the broker.
        processed: The ids of messages that the broker processed in total order.
        brokers: The broker's neighbours in the sub-tree of the topic, without clients.
        clients: The broker's clients that subscribe to the topic.
        queue: The clients' messages that wait to enter the tree, in the order of arrival.
        pending: The total-order messages whose key items are locked, in the order of arrival.
    """

    def __init__(self, state: State, name: str, buffer: Buffer) -> None:
        self._state = state
        self.name = name
        self.buffer = buffer
        self.seen: set[Id] = buffer.seen
        self.processed: set[Id] = buffer.processed
        self.brokers: set[int] = set()
        self.clients: set[int] = set()
        self.queue: list[EntryQueue] = []
        self.pending: dict[Id, Pending] = {}

    @property
    def members(self) -> set[int]:
        """The brokers of the sub-tree and the subscribers. All must lock the key items of the topic's messages."""
        row = self._state.member.get(self.name)
        return set() if row is None else row.members

    @property
    def first_brokers(self) -> set[int]:
        """The brokers that were in the sub-tree after the subscriptions."""
        row = self._state.member.get(self.name)
        return set() if row is None else row.members - row.clients

    def set_members(self, members: set[int], clients: set[int]) -> None:
        """Replaces the members of the topic. Argument `clients` contains those members that are clients."""
        self._state.member[self.name] = Member(self.name, set(members), clients=set(clients))

    @property
    def is_told_current(self) -> bool:
        """Whether a current neighbour has sent the broker Current (rule G34)."""
        row = self._state.topic_join.get(self.name)
        return row is not None and row.is_current

    def search(self) -> TopicJoin:
        """Returns the broker's search for the sub-tree of the topic, and creates its row if necessary."""
        return self._state.topic_join.setdefault(self.name, TopicJoin(self.name))

    @property
    def locked(self) -> set[str]:
        """The key items of the pending messages."""
        return {key for pending in self.pending.values() for key in pending.keys}

    def add(self, neighbour: int, relationship: str) -> None:
        """Adds `neighbour` to the sub-tree as `relationship`: ``broker`` or ``client``."""
        (self.clients if relationship == "client" else self.brokers).add(neighbour)
        self._state.subscriber[self.name, neighbour] = Subscriber(self.name, neighbour, relationship)

    def discard(self, neighbour: int) -> None:
        """Removes `neighbour` from the sub-tree. Without another neighbour in it, the broker is not current (G34)."""
        self.brokers.discard(neighbour)
        self.clients.discard(neighbour)
        self._state.subscriber.pop((self.name, neighbour), None)
        if self.is_told_current and not self.brokers:
            self.search().is_current = False

    def enqueue(self, message: Message, arrival: int, client: int, hops: int) -> None:
        """Appends the message of `client` to the entry queue."""
        row = EntryQueue(*message, arrival, client, hops)
        self.queue.append(row)
        self._state.entry_queue[self.name, message.source, message.source_seq] = row

    def dequeue(self, position: int) -> EntryQueue:
        """Removes the row at index `position` from the entry queue, and returns it."""
        row = self.queue.pop(position)
        del self._state.entry_queue[self.name, row.source, row.source_seq]
        return row

    def lock(self, row: Pending) -> None:
        """Adds `row` to the pending messages, and so locks the key items of the message."""
        self.pending[row.id] = row
        self._state.pending[self.name, row.source, row.source_seq] = row

    def unlock(self, of: Id) -> None:
        """Removes the message with id `of` from the pending messages, and so unlocks its key items.

        Does nothing if the message is not pending.
        """
        if self.pending.pop(of, None) is not None:
            del self._state.pending[self.name, of.source, of.source_seq]
            self._state.coverage.pop((self.name, of.source, of.source_seq), None)

    def report(self, of: Id, child: int, covered: set[int]) -> set[int]:
        """Replaces the last report of `child` about the pending message with id `of`.

        Empty `covered` removes the report. Returns `child` and the nodes of the replaced report, except those that
        reports of other children or the new report contain.
        """
        key = self.name, of.source, of.source_seq
        reported = self._state.coverage.setdefault(key, Coverage(*key)).reported
        former = {child, *reported.pop(child, ())}
        if covered:
            reported[child] = covered
        elif not reported:
            del self._state.coverage[key]
        return former.difference(*reported.values())

    def mark_unsent(self) -> None:
        """Marks all pending messages as not reported to the parent, because the parent changes."""
        for pending in self.pending.values():
            pending.sent = None


class Topics:
    """The topics of a broker by name."""

    def __init__(self, node: Node, buffers: Buffers) -> None:
        """Reads tables ``subscriber``, ``entry_queue`` and ``pending``."""
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
        """Returns topic `name`, and creates an empty topic if necessary."""
        found = self._of.get(name)
        if found is None:
            found = self._of[name] = Topic(self._state, name, self._buffers.of(name))
        return found

    def __iter__(self) -> Iterator[Topic]:
        """Yields all topics with members, neighbours or events, ordered by name."""
        names = {*self._of, *(buffer.topic for buffer in self._buffers.all()), *self._state.member}
        return iter([self.of(name) for name in sorted(names)])
