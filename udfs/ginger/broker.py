"""A broker: eventual and causal messages flow through, total-order ones lock their keys (chapter 3).

A lock closes the entry, not the broker: it stops what clients bring. What comes over a broker's link while a key is
locked is older than the total-order message on that link, so it passes, and TotalAck is a flush marker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from udfs.ginger.buffer import Buffer, Event, Id
from udfs.ginger.garbage_collection import GarbageCollector
from udfs.ginger.items import Item
from udfs.ginger.queue import Message, next_admitted


@dataclass
class Pending:
    """A total-order message whose keys are locked here (``linearT``).

    Attributes:
        message: The message.
        arrival: When it came, among the node's positions.
        is_from_below: Whether a client or a child brought it, so that the parent has not got it yet.
        hops: Links it travelled over.
        covered: The nodes known to have locked its keys.
        acked: The children that acknowledged it (``childrenAcks``).
        sent: What was told the parent of the covered; None: nothing.
    """

    message: Message
    arrival: int
    is_from_below: bool
    hops: int
    covered: set[int]
    acked: set[int] = field(default_factory=set)
    sent: set[int] | None = None


@dataclass
class Waiting:
    """A client's message in the entry queue."""

    message: Message
    arrival: int
    client: int
    hops: int


@dataclass
class Topic:
    """What a broker knows of a topic: its subscribers among brokers and clients, buffer, queue, pending messages."""

    buffer: Buffer
    brokers: set[int] = field(default_factory=set)
    clients: set[int] = field(default_factory=set)
    queue: list[Waiting] = field(default_factory=list)
    pending: dict[Id, Pending] = field(default_factory=dict)
    members: set[int] = field(default_factory=set)

    @property
    def seen(self) -> set[Id]:
        """The messages that have passed."""
        return self.buffer.seen

    @property
    def processed(self) -> set[Id]:
        """The messages that have been processed."""
        return self.buffer.processed

    @property
    def locked(self) -> set[str]:
        """The locked key items."""
        return {key for pending in self.pending.values() for key in pending.message.keys}


class Broker(GarbageCollector):
    """A broker in a round."""

    def __init__(self, node: int, round_: int, state: Sequence[Item]) -> None:
        """Reads its state.

        As in `Asker`, and ``subscriber``, ``member``, ``pending``, ``entry_queue``, ``discarded``, ``history``.
        """
        self.topics: dict[str, Topic] = {}
        self.failed: set[int] = set()
        super().__init__(node, round_, state)
        self.is_root = bool(self.recall("is_root", self.parent is None))

    def _read_subscriber(self, row: Item) -> None:
        topic = self.topic(row.topic)
        (topic.clients if row.kind == "client" else topic.brokers).add(row.peer)  # type: ignore[arg-type]

    def _read_pending(self, row: Item) -> None:
        sent = None if row.sent is None else set(row.sent)
        pending = Pending(
            row.message, row.position, row.kind == "below", row.hops or 0, set(row.covered), set(row.acked), sent
        )  # fmt: skip
        self.topic(row.topic).pending[pending.message.id] = pending

    def _read_entry_queue(self, row: Item) -> None:
        waiting = Waiting(row.message, row.position, row.peer or 0, row.hops or 0)
        self.topic(row.topic).queue.append(waiting)

    def _read_member(self, row: Item) -> None:
        self.topic(row.topic).members = set(row.covered)

    def buffer(self, topic: str | None) -> Buffer:
        """Returns the buffer of a topic."""
        return self.topic(topic).buffer

    def buffers(self) -> list[Buffer]:
        """Returns the buffers of all topics."""
        return [topic.buffer for _, topic in sorted(self.topics.items())]

    @property
    def is_waiting(self) -> bool:
        """Whether the broker is being reconfigured, so that application messages are held."""
        return False

    def topic(self, name: str | None) -> Topic:
        """Returns what it knows of a topic."""
        return self.topics.setdefault(name or "", Topic(Buffer(name or "")))

    def handle(self, item: Item) -> None:
        """Handles one application message."""
        topic, message, sender, hops = self.topic(item.topic), item.message, item.peer or 0, item.hops or 0
        if item.kind == "TotalAck":
            self.on_total_ack(topic, sender, message, item.covered or ())
        elif item.kind == "TotalProcessed":
            self.on_total_processed(topic, sender, message, hops)
        elif sender in self.clients:
            self.on_publish(topic, sender, message, hops)
        else:
            self.on_metadata(topic, sender, message, hops, item.covered or ())

    def on_publish(self, topic: Topic, client: int, message: Message, hops: int) -> None:
        """A client brings a message; one that it sends again may be known."""
        if message.id not in topic.seen and all(waiting.message.id != message.id for waiting in topic.queue):
            topic.queue.append(Waiting(message, self.next_position(), client, hops))
            self.run_pass(topic)

    def run_pass(self, topic: Topic) -> None:
        """Lets in the messages of the entry queue that may enter; those whose keys a processed one unlocks too."""
        while (position := next_admitted([waiting.message for waiting in topic.queue], topic.locked)) is not None:
            entered = topic.queue.pop(position)
            if entered.message.id in topic.seen:
                continue
            self.on_metadata(topic, entered.client, entered.message, entered.hops, ())

    def on_metadata(self, topic: Topic, sender: int, message: Message, hops: int, covered: Sequence[int]) -> None:
        """Passes a message on; one in total order locks its keys first."""
        if not message.is_total:
            self._pass_on(topic, sender, message, hops)
        elif message.id not in topic.processed:
            self._lock(topic, sender, message, hops)
            self._acknowledge(topic, sender, message, covered)

    def _note(self, topic: Topic, what: str, message: Message, hops: int) -> None:
        self.buffered(topic.buffer, Event(what, message, hops))

    def _pass_on(self, topic: Topic, sender: int, message: Message, hops: int) -> None:
        if message.id in topic.seen:
            return
        self._note(topic, "passed", message, hops)
        for neighbour in sorted((topic.brokers | topic.clients) - ({sender} & topic.brokers)):
            self.send(neighbour, "Metadata", message, hops + 1)

    def _lock(self, topic: Topic, sender: int, message: Message, hops: int) -> None:
        if message.id in topic.pending:
            if sender == self.parent:
                topic.pending[message.id].sent = None
                topic.pending[message.id].is_from_below = False
            return
        self._note(topic, "passed", message, hops)
        covered = {self.node, *topic.clients}
        pending = Pending(message, self.next_position(), sender != self.parent, hops, covered)
        topic.pending[message.id] = pending
        for child in sorted((topic.brokers & self.children) - {sender}):
            self.send(child, "Metadata", message, hops + 1)

    def _acknowledge(self, topic: Topic, sender: int, message: Message, covered: Sequence[int]) -> None:
        pending = topic.pending[message.id]
        pending.covered.update(covered)
        if sender in self.children:
            pending.acked.add(sender)
        self.try_all(topic)

    def on_total_ack(self, topic: Topic, sender: int, message: Message, covered: Sequence[int]) -> None:
        """A child says that its part of the sub-tree has locked the keys."""
        if message.id in topic.pending:
            self._acknowledge(topic, sender, message, covered)

    def try_all(self, topic: Topic) -> None:
        """Sends the parent what is ready, or processes it, in the order of arrival."""
        if self.is_waiting:
            return
        while any(self._try(topic, pending) for pending in list(topic.pending.values())):
            pass

    def is_topic_root(self, topic: Topic) -> bool:
        """Returns whether the sub-tree of a topic goes on upward."""
        return self.is_root or (self.parent is not None and self.parent not in topic.brokers)

    def _try(self, topic: Topic, pending: Pending) -> bool:
        if not pending.acked >= topic.brokers & self.children:
            return False
        earlier = [
            other
            for other in topic.pending.values()
            if other.arrival < pending.arrival and other.message.shares(pending.message)
        ]
        if self.is_topic_root(topic):
            if earlier or not topic.members <= pending.covered | self.failed:
                return False
            self.process(topic, None, pending.message, pending.hops)
            return True
        if self.parent is None or pending.sent == pending.covered or any(other.sent is None for other in earlier):
            return False
        kind = "Metadata" if pending.sent is None and pending.is_from_below else "TotalAck"
        pending.sent = set(pending.covered)
        self.send(self.parent, kind, pending.message, pending.hops + 1, pending.covered)
        return True

    def on_total_processed(self, topic: Topic, sender: int, message: Message, hops: int) -> None:
        """The topic's root has seen all acknowledgements."""
        if message.id not in topic.processed:
            self.process(topic, sender, message, hops)
            self.try_all(topic)

    def process(self, topic: Topic, sender: int | None, message: Message, hops: int) -> None:
        """Unlocks the keys, delivers the message, passes the news on, and lets in what waited."""
        topic.pending.pop(message.id, None)
        self._note(topic, "processed", message, hops)
        for client in sorted(topic.clients):
            self.send(client, "Metadata", message, hops + 1)
        for neighbour in sorted(topic.brokers - {sender}):
            self.send(neighbour, "TotalProcessed", message, hops + 1)
        self.run_pass(topic)

    def leave(self) -> None:
        """Leaves queues and pending messages behind for the next rounds."""
        for topic in self.topics.values():
            for waiting in topic.queue:
                self.keep(
                    "entry_queue", waiting.message, waiting.arrival, peer=waiting.client, hops=waiting.hops
                )  # fmt: skip
            for pending in topic.pending.values():
                self.keep(
                    "pending", pending.message, pending.arrival, kind="below" if pending.is_from_below else "above",
                    hops=pending.hops, covered=sorted(pending.covered), acked=sorted(pending.acked),
                    sent=None if pending.sent is None else sorted(pending.sent),
                )  # fmt: skip
