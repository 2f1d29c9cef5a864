"""Missing messages of two nodes that connect, called partners (section 4.3.2, rule G9).

Partners compare the ids of the messages that they have received. A partner sends missing messages in its answer: a
LostMessageRequest, LostMessages or TopicJoined. If a message has left the partner's buffer, the answer lacks its body.
The thesis only sketches this case (section 4.3.2.3). Here the receiver stores the answer in table ``parked``, and
floods an Exception, which reaches the publisher. The publisher sends the message again in a Repeat. When no body is
missing any more, the receiver handles the stored answer as if the partner's buffer had contained all messages. Messages
that arrive earlier wait, because they would overtake a total-order message of the stored answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from udfs.ginger import messages as ms
from udfs.ginger.buffer import Event, MissingSets
from udfs.ginger.garbage_collection import Reports
from udfs.ginger.messages import Incarnation
from udfs.ginger.node import Role
from udfs.ginger.ordering import Ordering
from udfs.ginger.records import Gap, Parked
from udfs.ginger.topics import Topics
from udfs.nodes.records import kind_of

MAX_ASKED = 50
"""Number of Exceptions that a node sends for a missing message before it gives up the message."""
TIMER = "gap"
"""The timer that ends the pause between two Exceptions."""
OPEN, GIVEN_UP = "open", "given_up"
Answer = ms.LostMessageRequest | ms.LostMessages | ms.TopicJoined
_ANSWERS = {kind_of(one): one for one in (ms.LostMessageRequest, ms.LostMessages)}


class LostMessageSearch:
    """The search of one node for the bodies of missing messages, and the stored answers that lack these bodies."""

    def __init__(self, role: Role, topics: Topics, reports: Reports) -> None:
        self._role = role
        self._topics = topics
        self._node = role.node
        self._reports = reports

    def drop_collected(self, answer: MissingSets) -> MissingSets:
        """Drops the messages that a partner reports as garbage-collected in its `answer`. Returns `answer`."""
        for topic, runs in sorted(answer.collected.items()):
            self._reports.collect(topic, runs)
        return answer

    def missing_of(self, theirs: MissingSets) -> MissingSets:
        """Returns the events that a partner with the messages `theirs` lacks, and the ids of this node's messages."""
        node = self._node
        failed = node.repair.dead if node.repair.role == "client" else node.failed
        answer = MissingSets(failed={one: node.last_failed(one) for one in sorted(failed)})
        for name in sorted(theirs.passed):
            events = [event for event in self._topics.of(name).events if not theirs.has(event)]
            answer.events += [self.with_body(event) for event in events]
            self._topics.of(name).tell(answer)
        return answer

    def filled(self, partner: int, m: Answer) -> MissingSets | None:
        """Returns the content of answer `m` of a partner, with the bodies of all messages that the node needs.

        While a needed body is missing, stores the answer in table ``parked`` and returns None.
        """
        raw = m.told or MissingSets()
        told = self.drop_collected(raw)
        told = replace(told, events=[self.with_body(event) for event in told.events])
        lacking = [event for event in told.events if not event.message.has_body and self._needs(partner, event)]
        new = [event.message for event in lacking if not self._topics.of(event.message.topic).has(event)]
        gaps = self._node.gap
        unknown = [one for one in new if not (one.id in gaps and gaps[one.id].status == GIVEN_UP)]
        if not unknown:
            self._done(partner)
            return told
        is_new = partner not in self._node.parked
        topic = m.topic if isinstance(m, ms.TopicJoined) else None
        self._node.parked[partner] = Parked(partner, kind_of(type(m)), topic, raw)
        for message in unknown:
            self._node.gap.setdefault(message.id, Gap(*message, OPEN))
        if is_new:
            self._node.repair.n_asked = 0
            self._ask_publishers()
        return None

    def _needs(self, partner: int, event: Event) -> bool:
        """Returns whether the node needs the body of the message of `event`, which `partner` sent without the body.

        A client needs messages of topics that it subscribes to. A broker needs a message if a neighbour other than
        `partner` must receive the message from it. A new neighbour whose exchange is not complete does not count,
        because it requests the message itself.
        """
        topic, node = self._topics.of(event.message.topic), self._node
        others = (topic.brokers | topic.clients) - (node.awaited.keys() - node.parked.keys()) - {partner}
        return bool(others) or topic.name in node.subscribed

    def with_body(self, event: Event) -> Event:
        """Returns `event` with the body of its message, if a Repeat or a table contains it; else `event` itself."""
        if event.message.has_body:
            return event
        gap = self._node.gap.get(event.message.id)
        if gap is not None and gap.message.has_body:
            return event._replace(message=gap.message)
        pending = self._topics.of(event.message.topic).pending.get(event.message.id)
        return event if pending is None else event._replace(message=pending.message)

    def _done(self, partner: int) -> None:
        self._node.parked.pop(partner, None)
        if not self._node.parked:
            for gap in [*self._open()]:
                del self._node.gap[gap.id]

    def _open(self) -> Iterator[Gap]:
        return (gap for gap in self._node.gap.values() if gap.status == OPEN)

    def _ask_publishers(self) -> None:
        node = self._node
        node.repair.n_asked += 1
        for gap in [*self._open()]:
            if not gap.message.has_body:
                node.ask_publisher(ms.Lacking(*gap.message, node.id))
        node.ctx.set_timer(TIMER, rounds=node.patience(node.id))

    def on_timer(self) -> None:
        """Sends the Exceptions again. After `MAX_ASKED` times, handles the stored answers without the bodies."""
        if not self._node.parked:
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
        """Stores the message of a Repeat. If no other message is missing, handles the stored answers."""
        gap = self._node.gap.get(m.message.id)
        if gap is not None and gap.status == OPEN:
            self._node.gap[gap.id] = Gap(*m.message, OPEN)
            if all(one.message.has_body for one in self._open()):
                self._resume_all()

    def _resume_all(self) -> None:
        for parked in self._node.parked.values():
            topic, told = parked.topic, parked.told
            answer = _ANSWERS[parked.kind](told) if topic is None else ms.TopicJoined(topic, told)
            self._role.handle(answer, parked.partner)

    def forget(self, partner: int) -> None:
        """Drops the stored answer of the failed `partner`."""
        if partner in self._node.parked:
            self._done(partner)


class MissingMessages(LostMessageSearch):
    """Compares the messages that one broker has received with the messages that its partners have received."""

    def __init__(self, role: Role, topics: Topics, reports: Reports, ordering: Ordering) -> None:
        super().__init__(role, topics, reports)
        self._ordering = ordering

    def take(self, sender: int, m: Answer) -> MissingSets | None:
        """Handles the events and failures in answer `m` one by one, like messages that arrive from `sender`.

        Returns the content of `m` with the bodies of its messages. While the body of a needed message is missing,
        records only the failures (rule G29), and returns None (`filled`).
        """
        for one in m.told.failed.items() if m.told else ():
            self._node.note_down(Incarnation(*one))
        missing = self.filled(sender, m)
        if missing is None:
            return None
        for what, message, hops in missing.events:
            topic = self._topics.of(message.topic)
            if not message.has_body:
                event = Event(what, message, hops + 1)
                if not topic.has(event):
                    topic.note(event)
            elif what == "passed":
                self._ordering.take(topic, sender, message, hops + 1, ())
            elif not topic.has_processed(message.id):
                self._ordering.process(topic, sender, message, hops + 1)
        for broker in sorted(missing.failed):
            self._ordering.on_failed(sender, broker)
        return missing

    def pass_repeat(self, m: ms.Repeat, sender: int) -> None:
        """Stores the message of a Repeat if this broker requested it. Else forwards it towards node `m.lacking`."""
        if m.lacking == self._node.id:
            self.on_repeat(m)
        elif m.lacking in self._node.clients:
            self._node.send(m.lacking, m)
        else:
            self._node.flood(m, sender)
