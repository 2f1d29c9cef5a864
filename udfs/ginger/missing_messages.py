"""What a broker lacks and what its partners lack: a difference of ids, both ways (section 4.3.2, rule G9)."""

from __future__ import annotations

from udfs.ginger import messages as ms
from udfs.ginger.buffer import Event
from udfs.ginger.buffers import Buffers
from udfs.ginger.hold_queue import HoldQueue
from udfs.ginger.lost_messages import LostMessages
from udfs.ginger.missing_sets import MissingSets
from udfs.ginger.node import Node
from udfs.ginger.ordering import Ordering
from udfs.ginger.queue import Message
from udfs.ginger.topics import Topics


class MissingMessages:
    """The messages that one broker has, beside those that partners have."""

    def __init__(
        self, node: Node, topics: Topics, buffers: Buffers, ordering: Ordering, hold: HoldQueue, lost: LostMessages
    ) -> None:
        """Compares what a broker has."""
        self._node = node
        self._topics = topics
        self._buffers = buffers
        self._ordering = ordering
        self._hold = hold
        self._lost = lost

    def note_known(self, known: MissingSets, name: str) -> None:
        """Adds the ids of what the broker has had of a topic."""
        buffer = self._buffers.of(name)
        known.name(name)
        known.passed[name] |= buffer.seen
        known.processed[name] |= buffer.processed
        if buffer.collected:
            known.collected[name] = buffer.collected

    def missing_of(self, theirs: MissingSets) -> MissingSets:
        """Returns the messages of the named topics that the other node lacks."""
        failed = set(self._node.state.failed)
        answer = MissingSets(failed=failed, back=failed - self._node.repair.dead)
        for name in sorted(theirs.passed):
            events = [event for event in self._buffers.of(name).events if not theirs.has(event)]
            answer.events += [self._lost.with_body(event) for event in events]
            self.note_known(answer, name)
        return answer

    def apply(self, sender: int, missing: MissingSets) -> None:
        """Handles what was missing as if it had come in order."""
        for what, message, hops in missing.events:
            topic = self._topics.of(message.topic)
            if not message.has_body:
                self._take_id(Event(what, message, hops + 1))
            elif what == "passed":
                self._ordering.take(topic, sender, message, hops + 1, ())
            elif message.id not in topic.processed:
                self._ordering.process(topic, sender, message, hops + 1)
        for broker in sorted(missing.failed):
            self._hold.on_failed(sender, broker, is_down=broker not in missing.back)

    def _take_id(self, event: Event) -> None:
        """Notes a message of which no more than the id is there."""
        if not self._buffers.of(event.message.topic).has(event):
            self._buffers.add(event.message.topic, event)

    def own_copy(self, message: Message) -> Message:
        """Returns a message that is pending, and so at hand, whether it has left the buffer or not."""
        pending = self._topics.of(message.topic).pending.get(message.id)
        return message if pending is None else pending.message

    def needs(self, partner: int, event: Event) -> bool:
        """Returns whether the body of a message is needed: there is somebody to pass it on to.

        New neighbours ask for themselves.
        """
        state, topic = self._node.state, self._topics.of(event.message.topic)
        return bool((topic.brokers | topic.clients) - (state.awaited.keys() - state.parked.keys()) - {partner})

    def ask_publisher(self, message: Message, lacking: int, sender: int | None) -> None:
        """Sends an Exception on, until it is at the client's edge broker, which hands it to the client."""
        exception = ms.Lacking(*message, lacking)
        if message.source in self._node.clients:
            self._node.send(message.source, exception)
        else:
            self._node.flood(exception, sender)

    def on_exception(self, m: ms.Lacking, sender: int) -> None:
        """Somebody lacks a message."""
        self.ask_publisher(m.message, m.lacking, sender)

    def on_repeat(self, m: ms.Repeat, sender: int) -> None:
        """Brings a message to the node that lacks it."""
        if m.lacking == self._node.id:
            self._lost.on_repeat(m)
        elif m.lacking in self._node.clients:
            self._node.send(m.lacking, m)
        else:
            self._node.flood(m, sender)
