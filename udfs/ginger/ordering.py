"""The order of messages at a broker: entry queues, locks on key items, and the hold queue (chapter 3, section 4.3.1).

Before a broker forwards a total-order message, it locks the key items of the message. A locked key item delays only
messages from clients, which wait in the entry queue. It does not delay a message from another broker, because that
broker forwarded the message before it locked the key item. So TotalAck follows all earlier messages on its link, like a
flush marker. A broker under repair puts application messages into its hold queue, and handles them in order after its
exchange.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from typing import Any

from udfs.ginger import messages as ms
from udfs.ginger.buffer import Event, Message, next_admitted
from udfs.ginger.messages import Incarnation
from udfs.ginger.node import Node
from udfs.ginger.records import Coverage, EntryQueue, FailedBroker, Hold, Pending
from udfs.ginger.topics import Topic, Topics
from udfs.nodes.records import kind_of

BELOW, ABOVE = "below", "above"
"""Values of `Pending.came_from`: the message came from a client or child, or from the parent."""


APPLICATION = (ms.Metadata, ms.TotalAck, ms.TotalProcessed, ms.Failed, ms.Current)
"""The types of application messages. A broker under repair holds these messages, and handles all other messages."""
_CLASSES: Mapping[str, Any] = {kind_of(one): one for one in APPLICATION}


def held(m: Any, sender: int) -> Hold:  # noqa: ANN401 - any of `APPLICATION`
    """Returns message `m` as a row of table ``hold``."""
    values = {one.name: getattr(m, one.name) for one in fields(m) if one.name != "incarnation"}
    return Hold(kind_of(type(m)), sender, **values)


def held_message(row: Hold) -> Any:  # noqa: ANN401 - any of `APPLICATION` except Failed
    """Returns the message of `row`, a row of table ``hold`` that is not about a Failed message."""
    cls = _CLASSES[row.kind]
    return cls(**{one.name: getattr(row, one.name) for one in fields(cls)})


class Ordering:
    """The entry queues, locks and hold queue of one broker (sections 3.3, 3.5 and 4.3.1)."""

    def __init__(self, node: Node, topics: Topics) -> None:
        self._node = node
        self._topics = topics

    def on_metadata(self, m: ms.Metadata, sender: int) -> None:
        """Adds a message from a client to the entry queue. Passes a message from a broker to `take`."""
        topic, message = self._topics.of(m.topic), m.message
        if sender in self._node.clients:
            queue, key = self._node.entry_queue, (topic.name, *message.id)
            if not topic.has_passed(message.id) and key not in queue:
                queue[key] = EntryQueue(*message, self._node.next_position(), sender, m.hops)
                self.run_pass(topic)
        else:
            self.take(topic, sender, message, m.hops, m.covered)

    def on_total_ack(self, m: ms.TotalAck, sender: int) -> None:
        """Records that all members in the sub-tree below child `sender` have locked the message's key items."""
        topic, message = self._topics.of(m.topic), m.message
        if message.id in topic.pending:
            self._acknowledge(topic, sender, message, m.covered)

    def on_total_processed(self, m: ms.TotalProcessed, sender: int) -> None:
        """Unlocks the key items of a message, delivers it, and forwards TotalProcessed, unless it has done so."""
        topic, message = self._topics.of(m.topic), m.message
        if not topic.has_processed(message.id):
            self.process(topic, sender, message, m.hops)
            self.try_all(topic)

    def run_pass(self, topic: Topic) -> None:
        """Lets messages enter the tree from the entry queue, until no waiting message may enter (rules G1 and G34)."""
        while (queue := topic.queue()) and self.is_current(topic):
            position = next_admitted([waiting.message for waiting in queue], topic.locked)
            if position is None:
                return
            entered = queue[position]
            del self._node.entry_queue[topic.name, entered.source, entered.source_seq]
            if not topic.has_passed(entered.id):
                self.take(topic, entered.client, entered.message, entered.hops, ())

    def is_current(self, topic: Topic) -> bool:
        """Returns whether the broker knows all total-order messages of `topic` that its clients may lack (rule G34).

        A current broker is a first member, or a current neighbour has sent it Current. If all brokers that were first
        members have failed, every broker is current.
        """
        if self.is_first_member(topic) or topic.is_told_current:
            return True
        first = topic.first_brokers
        return bool(first) and first <= self._node.failed.keys()

    def is_first_member(self, topic: Topic) -> bool:
        """Returns whether the broker has been a member of `topic` since the subscriptions, and has not failed."""
        return self._node.id in topic.members and not self._node.repair.is_new

    def on_current(self, m: ms.Current, sender: int) -> None:
        """Records that this broker is current, and forwards Current to its neighbours in the sub-tree (rule G34)."""
        topic = self._topics.of(m.topic)
        if not self.is_current(topic):
            topic.search().is_current = True
            self.tell_current(topic, topic.brokers - {sender})
            self.run_pass(topic)

    def tell_current(self, topic: Topic, neighbours: Iterable[int]) -> None:
        """Sends Current to `neighbours` if this broker is current (rule G34). Omits first members."""
        if self.is_current(topic):
            for neighbour in sorted(neighbours):
                if neighbour not in topic.members or self._node.latest(neighbour).incarnation > 0:
                    self._node.send(neighbour, ms.Current(topic.name))

    def tell_current_topics(self, neighbour: int) -> None:
        """Sends Current to `neighbour` for each topic whose sub-tree contains it, after an exchange (rule G34)."""
        for topic in self._topics:
            if neighbour in topic.brokers:
                self.tell_current(topic, {neighbour})

    def take(self, topic: Topic, sender: int, message: Message, hops: int, covered: Iterable[int]) -> None:
        """Forwards an eventual or causal message, or locks the key items of a total-order message.

        The message comes from broker `sender` or from the entry queue, over `hops` links. As far as `sender` knows, the
        nodes `covered` have locked its key items.
        """
        if not message.is_total:
            self._forward(topic, sender, message, hops)
        elif not topic.has_processed(message.id):
            self._lock(topic, sender, message, hops)
            self._acknowledge(topic, sender, message, covered)

    def _forward(self, topic: Topic, sender: int, message: Message, hops: int) -> None:
        if topic.has_passed(message.id):
            return
        topic.note(Event("passed", message, hops))
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
        topic.note(Event("passed", message, hops))
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
            if covered and self._node.repair.is_mended:
                self._report(topic, pending, sender, set(covered))
        self.try_all(topic)

    def _report(self, topic: Topic, pending: Pending, child: int, covered: set[int]) -> None:
        """Replaces the last report of `child` about `pending` by `covered`, or deletes it if `covered` is empty (G33).

        If a node is missing in all reports after the replacement, it no longer counts as a node that has locked the key
        items. This broker and its clients are exceptions.
        """
        key = topic.name, pending.source, pending.source_seq
        reported = self._node.coverage.setdefault(key, Coverage(*key)).reported
        former = {child, *reported.pop(child, ())}
        if covered:
            reported[child] = covered
        elif not reported:
            del self._node.coverage[key]
        pending.covered -= former.difference(*reported.values()) - topic.clients - {self._node.id}

    def try_all(self, topic: Topic) -> None:
        """Reports to the parent those pending messages that all children have acknowledged, in the order of arrival.

        The root of the topic's sub-tree processes these messages instead. A broker under repair does nothing.
        """
        if not self._node.is_waiting:
            # Processing a message may call this method again, which may process later messages.
            for pending in list(topic.pending.values()):
                if pending.id in topic.pending:
                    self._try(topic, pending)

    def try_topics(self) -> None:
        """Calls `run_pass` and `try_all` for all topics. A broker under repair does nothing."""
        for topic in self._topics:
            if not self._node.is_waiting:
                self.run_pass(topic)
                self.try_all(topic)

    def is_topic_root(self, topic: Topic) -> bool:
        """Returns whether the broker is the root of the topic's sub-tree: its parent is outside the sub-tree (G2)."""
        parent = self._node.parent
        return self._node.repair.is_root or (parent is not None and parent not in topic.brokers)

    def _try(self, topic: Topic, pending: Pending) -> None:
        node, is_root = self._node, self.is_topic_root(topic)
        # The parent must not wait for other children of this broker before it learns that a report has been withdrawn.
        is_withdrawn = not is_root and pending.sent is not None and not pending.sent <= pending.covered
        if not is_withdrawn and not pending.acked >= topic.brokers & node.children:
            return
        message, keys, arrival = pending.message, set(pending.keys), pending.arrival
        before = (other for other in topic.pending.values() if other.arrival < arrival)
        earlier = [other for other in before if not keys.isdisjoint(other.keys)]
        if is_root:
            missing = topic.members - pending.covered - node.failed.keys()
            if missing:
                # Neighbours of a failed member may have failed, too, so the root watches members (rule G35).
                for broker in sorted(missing & topic.first_brokers - node.ctx.watched.keys()):
                    node.ctx.watch(broker, node.rounds_from(broker))
            elif not earlier:
                self.process(topic, None, message, pending.hops)
            return
        if node.parent is None or pending.sent == pending.covered or any(other.sent is None for other in earlier):
            return
        kind = ms.Metadata if pending.sent is None and pending.came_from == BELOW else ms.TotalAck
        pending.sent = set(pending.covered)
        node.send(node.parent, kind(*message, pending.hops + 1, tuple(sorted(pending.covered))))

    def process(self, topic: Topic, sender: int | None, message: Message, hops: int) -> None:
        """Unlocks the key items of `message`, sends `message` to clients, and sends TotalProcessed to brokers.

        Then lets messages enter the tree from the entry queue (`run_pass`). Neighbour `sender` has sent TotalProcessed;
        None if this broker decided to process the message.
        """
        topic.unlock(message.id)
        topic.note(Event("processed", message, hops))
        for client in sorted(topic.clients):
            self._node.send(client, ms.Metadata(*message, hops + 1))
        for neighbour in sorted(topic.brokers - {sender}):
            self._node.send(neighbour, ms.TotalProcessed(*message, hops + 1))
        self.run_pass(topic)

    # ---- the hold queue (Alg. 9), and the failures of brokers

    def receive(self, m: Any, sender: int) -> None:  # noqa: ANN401 - any of `APPLICATION`
        """Handles an application message, or holds it while the broker is under repair (Alg. 9, rule G8).

        Drops a message from a node that is not a neighbour. Records the failure in a Failed message at once, because
        the search for a parent needs it (rule G29).
        """
        node = self._node
        if sender != node.parent and sender not in node.children and sender not in node.clients:
            return
        if isinstance(m, ms.Failed):
            node.note_down(Incarnation(m.failed, m.incarnation))
        self._handle(m, sender)

    def _handle(self, m: Any, sender: int) -> None:  # noqa: ANN401
        if self._node.is_waiting:
            self._node.hold.append(held(m, sender))
        elif isinstance(m, ms.Failed):
            self.on_failed(sender, m.failed)
        else:
            _HANDLERS[type(m)](self, m, sender)

    def lost(self, one: Incarnation) -> None:
        """Records that incarnation `one` has failed, and handles a Failed message about it.

        While this broker is under repair, the Failed message waits at the end of the hold queue.
        """
        self._node.note_down(one)
        self._handle(ms.Failed(*one), self._node.id)

    def on_failed(self, sender: int | None, broker: int) -> None:
        """Handles the first Failed message about `broker`, which `sender` sent: records the failure, and floods Failed.

        Then reports or processes the pending messages that waited only for a lock at `broker`.
        """
        if broker in self._node.failed:
            return
        self._node.failed[broker] = FailedBroker(broker)
        self._node.flood(ms.Failed(broker, self._node.last_failed(broker)), sender)
        self.try_topics()

    def release(self) -> None:
        """Handles the held messages in order, until none remains or the broker is under repair again (Alg. 9)."""
        hold = self._node.hold
        while hold and not self._node.is_incomplete:
            row = hold.pop(0)
            if row.failed is not None:
                self.on_failed(row.sender, row.failed)
            else:
                message = held_message(row)
                _HANDLERS[type(message)](self, message, row.sender)
        self.try_topics()

    def drop(self, partner: int) -> None:
        """Drops the held messages of the failed `partner`, because their predecessors are missing (rule G23)."""
        self._node.hold = [row for row in self._node.hold if row.sender != partner or row.kind == "Failed"]

    def withdraw(self, child: int) -> None:
        """Withdraws the reports of the failed `child` about locked key items, and drops the held reports (rule G33)."""
        for topic in self._topics:
            for pending in topic.pending.values():
                self._report(topic, pending, child, set())
        rows = [row for row in self._node.hold if row.sender != child or row.kind != "TotalAck"]
        self._node.hold = [replace(row, covered=()) if row.sender == child and row.covered else row for row in rows]


# Bound methods in an attribute would form a reference cycle.
_HANDLERS: Mapping[type, Callable[[Ordering, Any, int], None]] = {
    ms.Metadata: Ordering.on_metadata,
    ms.TotalAck: Ordering.on_total_ack,
    ms.TotalProcessed: Ordering.on_total_processed,
    ms.Current: Ordering.on_current,
}
