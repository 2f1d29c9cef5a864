"""Missing messages: a difference of ids, both ways (section 4.3.2, rule G9).

For messages that have left the partner's buffer the thesis has only an idea (section 4.3.2.3): an exception tells the
client that published the message, which may repeat it. A node that lacks one puts the partner's answer aside, and asks
the publisher with an Exception that goes through the whole tree. The publisher answers with a Repeat. After the last
Repeat the node handles the answer as if the buffer had held all messages. Later messages wait for it, eventual ones
too: they would otherwise be on the other side of a total-order message.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from udfs.ginger import messages as ms
from udfs.ginger.buffer import Event, Message, MissingSets
from udfs.ginger.node import Node, Role
from udfs.ginger.ordering import HoldQueue, Ordering
from udfs.ginger.repair_records import Gap, Parked
from udfs.ginger.topics import Buffers, Topics

MAX_ASKED = 50
"""Times that a node asks the publishers of missing messages before it gives these up."""
TIMER = "gap"
"""Timer of the next request to publishers."""
OPEN, GIVEN_UP = "open", "given_up"


class LostMessageSearch:
    """The missing messages of one node, and the parked answers that wait for them."""

    def __init__(self, role: Role) -> None:
        """Tracks the missing messages of a node."""
        self._role = role
        self._node = role.node
        self._state = role.node.state

    def told(self, told: MissingSets) -> MissingSets:
        """Returns the partner's answer; drops messages that it reports as collected."""
        for topic, runs in sorted(told.collected.items()):
            self._role.collect(topic, runs)
        return told

    def filled(self, partner: int, kind: str, raw: MissingSets, topic: str | None = None) -> MissingSets | None:
        """Returns the partner's answer with all bodies; if a needed one is missing, the answer is parked.

        Args:
            partner: The sender.
            kind: The kind of its message.
            raw: The answer.
            topic: The topic that the message is about, if it is one only.
        """
        told = self.told(raw)
        told = replace(told, events=[self.with_body(event) for event in told.events])
        lacking = [event for event in told.events if not event.message.has_body and self._role.needs(partner, event)]
        new = [event.message for event in lacking if not self._role.buffer(event.message.topic).has(event)]
        unknown = [message for message in new if not self._is_given_up(message)]
        if not unknown:
            self._done(partner)
            return told
        is_new = partner not in self._state.parked
        self._state.parked[partner] = Parked(partner, kind, topic, raw)
        for message in unknown:
            self._state.gap.setdefault(message.id, Gap(*message, OPEN))
        if is_new:
            self._node.repair.n_asked = 0
            self._ask_publishers()
        return None

    def _is_given_up(self, message: Message) -> bool:
        gap = self._state.gap.get(message.id)
        return gap is not None and gap.status == GIVEN_UP

    def with_body(self, event: Event) -> Event:
        """Returns an event with its body, if that is anywhere here."""
        if event.message.has_body:
            return event
        gap = self._state.gap.get(event.message.id)
        if gap is not None and gap.message.has_body:
            return event._replace(message=gap.message)
        return event._replace(message=self._role.own_copy(event.message))

    def _done(self, partner: int) -> None:
        self._state.parked.pop(partner, None)
        if not self._state.parked:
            for gap in [*self._open()]:
                del self._state.gap[gap.id]

    def _open(self) -> Iterator[Gap]:
        return (gap for gap in self._state.gap.values() if gap.status == OPEN)

    def _ask_publishers(self) -> None:
        """Sends an Exception for every missing message, and sets the timer of the next request."""
        node = self._node
        node.repair.n_asked += 1
        for gap in [*self._open()]:
            if not gap.message.has_body:
                self._role.ask_publisher(gap.message, node.id, None)
        node.ctx.set_timer(TIMER, rounds=node.patience(node.id))

    def on_timer(self) -> None:
        """Asks again; after many times the messages are given up."""
        if not self._state.parked:
            return
        if self._node.repair.n_asked < MAX_ASKED:
            self._ask_publishers()
            return
        for gap in [*self._open()]:
            if not gap.message.has_body:
                gap.status = GIVEN_UP
        self._node.ctx.status("MESSAGE_LOST")
        self._resume_all()

    def on_repeat(self, m: ms.Repeat) -> None:
        """Handles a Repeat: a missing message has arrived."""
        gap = self._state.gap.get(m.message.id)
        if gap is not None and gap.status == OPEN:
            self._state.gap[gap.id] = Gap(*m.message, OPEN)
            if all(one.message.has_body for one in self._open()):
                self._resume_all()

    def _resume_all(self) -> None:
        for parked in list(self._state.parked.values()):
            self._role.resume(parked)

    def forget(self, partner: int) -> None:
        """Drops the parked answers of a failed partner."""
        if partner in self._state.parked:
            self._done(partner)


class MissingMessages:
    """The messages that one broker has, beside those that partners have."""

    def __init__(
        self, node: Node, topics: Topics, buffers: Buffers, ordering: Ordering, hold: HoldQueue, lost: LostMessageSearch
    ) -> None:
        """Compares the messages of a broker with those of its partners."""
        self._node = node
        self._topics = topics
        self._buffers = buffers
        self._ordering = ordering
        self._hold = hold
        self._lost = lost

    def note_known(self, known: MissingSets, name: str) -> None:
        """Adds the ids of a topic that the broker has had."""
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
        """Handles missing messages as if they had arrived in order."""
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
        """Notes a message that is known by its id only."""
        if not self._buffers.of(event.message.topic).has(event):
            self._buffers.add(event.message.topic, event)

    def own_copy(self, message: Message) -> Message:
        """Returns a message that is pending, so the node has it even if it has left the buffer."""
        pending = self._topics.of(message.topic).pending.get(message.id)
        return message if pending is None else pending.message

    def needs(self, partner: int, event: Event) -> bool:
        """Returns whether the body of a message is needed, because it has further receivers.

        New neighbours ask for the message themselves.
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
        """Handles an Exception: a node lacks a message."""
        self.ask_publisher(m.message, m.lacking, sender)

    def on_repeat(self, m: ms.Repeat, sender: int) -> None:
        """Brings a message to the node that lacks it."""
        if m.lacking == self._node.id:
            self._lost.on_repeat(m)
        elif m.lacking in self._node.clients:
            self._node.send(m.lacking, m)
        else:
            self._node.flood(m, sender)
