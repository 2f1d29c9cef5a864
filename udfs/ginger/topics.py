"""The topics of a node: sub-trees, buffers of events (section 4.3.2), locks, and messages that wait to enter the tree.

Each change updates both the tables of the node and their copies in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

from udfs.ginger.buffer import Departed, Event, Id, Message, MissingSets, Runs, in_runs, joined
from udfs.ginger.node import Node
from udfs.ginger.records import BufferedEvent, Discarded, EntryQueue, Pending, Subscriber, TopicJoin

PUBLISHED = "published"
"""Value of column ``event`` for a client's own publication. Only table ``metadata_buffer`` has these events."""


class Topic:
    """A topic at a node.

    Attributes:
        name: The name of the topic.
        discarded: The events that have left the buffer, and the garbage-collected messages.
        seen: The ids of messages that passed the node, except garbage-collected ones.
        processed: The ids of messages that the node processed in total order, except garbage-collected ones.
        brokers: The broker's neighbours in the sub-tree of the topic, without clients.
        clients: The broker's clients that subscribe to the topic.
        pending: The total-order messages whose key items are locked, in the order of arrival.
    """

    def __init__(self, node: Node, name: str) -> None:
        self._node = node
        self._buffered: dict[int, BufferedEvent] = {}
        self.name = name
        self.discarded = node.discarded.get(name) or Discarded(name, -1, [], {})
        self.seen: set[Id] = set()
        self.processed: set[Id] = set()
        self.brokers: set[int] = set()
        self.clients: set[int] = set()
        self.pending: dict[Id, Pending] = {}
        for event in self.discarded.left:
            self._know(event.event, Id(event.source, event.source_seq))

    # ---- the buffer (section 4.3.2)

    @property
    def events(self) -> list[Event]:
        """The events at the node, in order. The messages of events that have left the buffer have no body."""
        left = [
            Event(what, Message(self.name, source, seq, "", (), 0), hops)
            for what, source, seq, hops in self.discarded.left
        ]
        return [*left, *(Event(row.event, row.message, row.hops or 0) for row in self._buffered.values())]

    def has_passed(self, of: Id) -> bool:
        """Returns whether the message with id `of` passed the node, even if it was garbage-collected."""
        return of in self.seen or in_runs(self.discarded.collected, of)

    def has_processed(self, of: Id) -> bool:
        """Returns whether the node processed the message with id `of`, even if it was garbage-collected."""
        return of in self.processed or in_runs(self.discarded.collected, of)

    def has(self, event: Event) -> bool:
        """Returns whether `event` happened at the node, even if it has left the buffer."""
        return (self.has_passed if event.what == "passed" else self.has_processed)(event.message.id)

    def note(self, event: Event) -> None:
        """Adds `event` to the buffer, if the nodes of the run store messages for repairs.

        Omits an event whose message was garbage-collected. Then discards the oldest events until at most
        ``buffer_size`` events remain.
        """
        node, (what, message, hops) = self._node, event
        if not node.repair.is_mended:
            return
        position = node.next_position()
        if in_runs(self.discarded.collected, message.id):
            return
        row = node.metadata_buffer[position] = BufferedEvent(*message, position, what, hops)
        self.restore(row)
        while len(self._buffered) > node.setting("buffer_size"):
            oldest = next(iter(self._buffered))
            gone = self._drop(oldest)
            self.discarded.left.append(Departed(gone.event, gone.source, gone.source_seq, gone.hops or 0))
            self.discarded.position = oldest

    def restore(self, row: BufferedEvent) -> None:
        """Adds `row`, a row of table ``metadata_buffer``, to the buffer."""
        self._buffered[row.position] = row
        self._know(row.event, row.id)

    def _know(self, what: str, of: Id) -> None:
        self.seen.add(of)
        if what == "processed":
            self.processed.add(of)

    def _drop(self, position: int) -> BufferedEvent:
        self._node.discarded[self.name] = self.discarded
        del self._node.metadata_buffer[position]
        return self._buffered.pop(position)

    def collect(self, runs: Runs) -> None:
        """Drops the events of the messages with ids in `runs`, which all members have received (section 6.1)."""
        discarded = self._node.discarded[self.name] = self.discarded
        collected = discarded.collected = joined(discarded.collected, runs.items())
        last = max(self._buffered, default=discarded.position)
        discarded.left = [one for one in discarded.left if not in_runs(collected, Id(one.source, one.source_seq))]
        for position in [position for position, row in self._buffered.items() if in_runs(collected, row.id)]:
            self._drop(position)
        for ids in (self.seen, self.processed):
            ids.difference_update([of for of in ids if in_runs(collected, of)])
        first = next(iter(self._buffered), last + 1)
        discarded.position = max(discarded.position, first - 1)

    def tell(self, told: MissingSets) -> None:
        """Adds the ids of all messages that passed the node, or that it processed, to `told`."""
        told.passed.setdefault(self.name, set()).update(self.seen)
        told.processed.setdefault(self.name, set()).update(self.processed)
        if self.discarded.collected:
            told.collected[self.name] = self.discarded.collected

    # ---- the sub-tree

    @property
    def members(self) -> set[int]:
        """The brokers of the sub-tree and the subscribers. All must lock the key items of the topic's messages."""
        row = self._node.member.get(self.name)
        return set() if row is None else row.members

    @property
    def first_brokers(self) -> set[int]:
        """The brokers that were in the sub-tree after the subscriptions."""
        row = self._node.member.get(self.name)
        return set() if row is None else row.members - row.clients

    @property
    def is_told_current(self) -> bool:
        """Whether a current neighbour has sent the broker Current (rule G34)."""
        row = self._node.topic_join.get(self.name)
        return row is not None and row.is_current

    def search(self) -> TopicJoin:
        """Returns the broker's search for the sub-tree of the topic, and creates its row if necessary."""
        return self._node.topic_join.setdefault(self.name, TopicJoin(self.name))

    # ---- messages that wait

    @property
    def locked(self) -> set[str]:
        """The key items of the pending messages."""
        return {key for pending in self.pending.values() for key in pending.keys}

    def add(self, neighbour: int, relationship: str) -> None:
        """Adds `neighbour` to the sub-tree as `relationship`: ``broker`` or ``client``."""
        (self.clients if relationship == "client" else self.brokers).add(neighbour)
        self._node.subscriber[self.name, neighbour] = Subscriber(self.name, neighbour, relationship)

    def discard(self, neighbour: int) -> None:
        """Removes `neighbour` from the sub-tree. Without another neighbour in it, the broker is not current (G34)."""
        self.brokers.discard(neighbour)
        self.clients.discard(neighbour)
        self._node.subscriber.pop((self.name, neighbour), None)
        if self.is_told_current and not self.brokers:
            self.search().is_current = False

    def queue(self) -> list[EntryQueue]:
        """Returns the clients' messages that wait to enter the tree, in the order of arrival."""
        rows = (row for row in self._node.entry_queue.values() if row.topic == self.name)
        return sorted(rows, key=lambda row: row.arrival)

    def lock(self, row: Pending) -> None:
        """Adds `row` to the pending messages, and so locks the key items of the message."""
        self.pending[row.id] = row
        self._node.pending[self.name, row.source, row.source_seq] = row

    def unlock(self, of: Id) -> None:
        """Removes message `of` from the pending messages, if it is pending, and so unlocks its key items."""
        if self.pending.pop(of, None) is not None:
            del self._node.pending[self.name, of.source, of.source_seq]
            self._node.coverage.pop((self.name, of.source, of.source_seq), None)

    def mark_unsent(self) -> None:
        """Marks all pending messages as not reported to the parent, because the parent changes."""
        for pending in self.pending.values():
            pending.sent = None


class Topics:
    """The topics of a node by name. Their buffers stay empty unless a broker crashes or joins in the run."""

    def __init__(self, node: Node) -> None:
        """Reads the tables."""
        self._node = node
        self._of: dict[str, Topic] = {}
        for name in (*node.member, *node.discarded, *(row.topic for row in node.entry_queue.values())):
            self.of(name)
        for event in self._node.metadata_buffer.values():
            if event.event != PUBLISHED:
                self.of(event.topic).restore(event)
        for (name, neighbour), row in self._node.subscriber.items():
            topic = self.of(name)
            (topic.clients if row.relationship == "client" else topic.brokers).add(neighbour)
        for pending in sorted(self._node.pending.values(), key=lambda row: row.arrival):
            self.of(pending.topic).pending[pending.id] = pending

    def of(self, name: str) -> Topic:
        """Returns topic `name`, and creates an empty topic if necessary."""
        found = self._of.get(name)
        if found is None:
            found = self._of[name] = Topic(self._node, name)
        return found

    def __iter__(self) -> Iterator[Topic]:
        """Yields all topics with members, neighbours or events, ordered by name."""
        return iter([topic for _, topic in sorted(self._of.items())])

    @property
    def published(self) -> list[BufferedEvent]:
        """The publications of the node, a client, except garbage-collected ones."""
        return [event for event in self._node.metadata_buffer.values() if event.event == PUBLISHED]
