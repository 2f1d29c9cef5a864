"""Messages on their way: eventual and causal ones flow through, total-order ones lock their keys (chapter 3).

A lock closes the entry, not the broker: it stops what clients bring. What comes over a broker's link while a key is
locked is older than the total-order message on that link, so it passes, and TotalAck is a flush marker.
"""

from __future__ import annotations

from collections.abc import Iterable

from udfs.ginger import messages as ms
from udfs.ginger.buffer import Event
from udfs.ginger.buffers import Buffers
from udfs.ginger.node import Node
from udfs.ginger.queue import Message, next_admitted
from udfs.ginger.records import Pending
from udfs.ginger.topics import Topic, Topics

BELOW, ABOVE = "below", "above"


class Ordering:
    """The order of messages at one broker."""

    def __init__(self, node: Node, topics: Topics, buffers: Buffers) -> None:
        """Orders the messages of a broker."""
        self._node = node
        self._topics = topics
        self._buffers = buffers

    def on_metadata(self, m: ms.Metadata, sender: int) -> None:
        """A message comes, from a client or from a broker."""
        topic, message = self._topics.of(m.topic), m.message
        if sender in self._node.clients:
            self._publish(topic, sender, message, m.hops)
        else:
            self.take(topic, sender, message, m.hops, m.covered)

    def on_total_ack(self, m: ms.TotalAck, sender: int) -> None:
        """A child says that its part of the sub-tree has locked the keys."""
        topic, message = self._topics.of(m.topic), m.message
        if message.id in topic.pending:
            self._acknowledge(topic, sender, message, m.covered)

    def on_total_processed(self, m: ms.TotalProcessed, sender: int) -> None:
        """The topic's root has seen all acknowledgements."""
        topic, message = self._topics.of(m.topic), m.message
        if message.id not in topic.processed:
            self.process(topic, sender, message, m.hops)
            self.try_all(topic)

    def _publish(self, topic: Topic, client: int, message: Message, hops: int) -> None:
        """A client brings a message; one that it sends again may be known."""
        if message.id not in topic.seen and all(waiting.id != message.id for waiting in topic.queue):
            topic.enqueue(message, self._node.next_position(), client, hops)
            self.run_pass(topic)

    def run_pass(self, topic: Topic) -> None:
        """Lets in the messages of the entry queue that may enter; those whose keys a processed one unlocks too."""
        while topic.queue:
            position = next_admitted([waiting.message for waiting in topic.queue], topic.locked)
            if position is None:
                return
            entered = topic.dequeue(position)
            if entered.id not in topic.seen:
                self.take(topic, entered.client, entered.message, entered.hops, ())

    def take(self, topic: Topic, sender: int, message: Message, hops: int, covered: Iterable[int]) -> None:
        """Passes a message on; one in total order locks its keys first."""
        if not message.is_total:
            self._pass_on(topic, sender, message, hops)
        elif message.id not in topic.processed:
            self._lock(topic, sender, message, hops)
            self._acknowledge(topic, sender, message, covered)

    def note(self, topic: Topic, what: str, message: Message, hops: int) -> None:
        """Puts an event into the buffer."""
        self._buffers.add(topic.name, Event(what, message, hops))

    def _pass_on(self, topic: Topic, sender: int, message: Message, hops: int) -> None:
        if message.id in topic.seen:
            return
        self.note(topic, "passed", message, hops)
        onward = ms.Metadata(*message, hops + 1)
        for neighbour in sorted((topic.brokers - {sender}) | topic.clients):
            self._node.send(neighbour, onward)

    def _lock(self, topic: Topic, sender: int, message: Message, hops: int) -> None:
        node = self._node
        known = topic.pending.get(message.id)
        if known is not None:
            if sender == node.parent:
                known.sent, known.came_from = None, ABOVE
            return
        self.note(topic, "passed", message, hops)
        came_from = ABOVE if sender == node.parent else BELOW
        topic.lock(Pending(*message, node.next_position(), came_from, hops, {node.id, *topic.clients}))
        onward = ms.Metadata(*message, hops + 1)
        for child in sorted((topic.brokers & node.children) - {sender}):
            node.send(child, onward)

    def _acknowledge(self, topic: Topic, sender: int, message: Message, covered: Iterable[int]) -> None:
        pending = topic.pending[message.id]
        pending.covered.update(covered)
        if sender in self._node.children:
            pending.acked.add(sender)
        self.try_all(topic)

    def try_all(self, topic: Topic) -> None:
        """Sends the parent what is ready, or processes it, in the order of arrival.

        Messages wait for earlier ones only; what enters when one is processed tries all itself, so others may be gone.
        """
        if not self._node.is_waiting:
            for pending in list(topic.pending.values()):
                if pending.id in topic.pending:
                    self._try(topic, pending)

    def try_topics(self) -> None:
        """Does so for all topics."""
        for topic in self._topics:
            self.try_all(topic)

    def is_topic_root(self, topic: Topic) -> bool:
        """Returns whether the sub-tree of a topic does not go on upward (rule G2)."""
        parent = self._node.parent
        return self._node.repair.is_root or (parent is not None and parent not in topic.brokers)

    def _try(self, topic: Topic, pending: Pending) -> None:
        node = self._node
        if not pending.acked >= topic.brokers & node.children:
            return
        message, keys, arrival = pending.message, set(pending.keys), pending.arrival
        before = (other for other in topic.pending.values() if other.arrival < arrival)
        earlier = [other for other in before if not keys.isdisjoint(other.keys)]
        if self.is_topic_root(topic):
            if not earlier and topic.members <= pending.covered | node.state.failed.keys():
                self.process(topic, None, message, pending.hops)
            return
        if node.parent is None or pending.sent == pending.covered or any(other.sent is None for other in earlier):
            return
        kind = ms.Metadata if pending.sent is None and pending.came_from == BELOW else ms.TotalAck
        pending.sent = set(pending.covered)
        node.send(node.parent, kind(*message, pending.hops + 1, tuple(sorted(pending.covered))))

    def process(self, topic: Topic, sender: int | None, message: Message, hops: int) -> None:
        """Unlocks the keys, delivers the message, passes the news on, and lets in what waited."""
        topic.unlock(message.id)
        self.note(topic, "processed", message, hops)
        for client in sorted(topic.clients):
            self._node.send(client, ms.Metadata(*message, hops + 1))
        for neighbour in sorted(topic.brokers - {sender}):
            self._node.send(neighbour, ms.TotalProcessed(*message, hops + 1))
        self.run_pass(topic)
