"""A client: it publishes and delivers, and replaces a failed edge broker by another broker (section 4.2.3.1)."""

from __future__ import annotations

from udfs.ginger import messages as ms, missing_messages, parent_search
from udfs.ginger.buffer import Event, Message
from udfs.ginger.garbage_collection import Reports
from udfs.ginger.missing_messages import LostMessageSearch
from udfs.ginger.node import Node, Role
from udfs.ginger.ordering import held, held_message
from udfs.ginger.parent_search import ParentSearch
from udfs.ginger.records import BufferedEvent, Delivered, Exceptional
from udfs.ginger.topics import PUBLISHED, Topics


class Client(Role):
    """A client. If a broker crashes or joins in the run, clients keep buffers of their deliveries and publications."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self._topics = Topics(node)
        self._reports = Reports(node, self._topics)
        self._lost = LostMessageSearch(self, self._topics, self._reports)
        self._search = ParentSearch(self, self._topics)
        self.handlers = {
            ms.Metadata: self._on_metadata,
            ms.Subscribed: lambda m, _: node.ctx.confirm(m.source_seq),
            ms.Lacking: self._on_exception,
            ms.Repeat: lambda m, _: self._lost.on_repeat(m),
            ms.ParentResponse: self._search.on_response,
            ms.Disconnect: lambda _, src: self.neighbour_down(src),
            ms.ParentBuffer: self._on_parent_buffer,
            ms.LostMessages: self._on_lost_messages,
            ms.TreeViewUpdate: self._search.on_tree_view_update,
            ms.Collect: self._reports.on_collect,
        }

    def on_timer(self, name: str, key: int) -> None:
        """Passes the expiry of a timer to the part of the client that set the timer."""
        if name == parent_search.TIMER:
            self._search.on_timer()
        elif name == missing_messages.TIMER:
            self._lost.on_timer()

    # ---- calls (sections 3.3 and 3.4)

    def subscribe(self, topic: str, subscription_id: int, source_seq: int) -> None:
        """Sends Subscribe to the edge broker. A client without an edge broker sends nothing."""
        if self.node.parent is not None:
            self.node.send(self.node.parent, ms.Subscribe(self.node.id, source_seq, topic, subscription_id))

    def publish(self, message: Message) -> None:
        """Sends `message` to the edge broker. A client under repair sends `message` when the repair ends."""
        node = self.node
        if node.repair.is_mended:
            position = node.next_position()
            self.node.metadata_buffer[position] = BufferedEvent(*message, position, PUBLISHED, None)
        if node.repair.is_level and node.parent is not None:
            node.send(node.parent, ms.Metadata(*message, 1))

    # ---- deliveries

    def _on_metadata(self, m: ms.Metadata, sender: int) -> None:
        if self.node.parked:
            self.node.hold.append(held(m, sender))
        else:
            self._deliver(m.message, m.hops)

    def _deliver(self, message: Message, hops: int) -> None:
        node, topic = self.node, self._topics.of(message.topic)
        if topic.has_passed(message.id):
            return
        node.ctx.deliver(message.source, message.source_seq, message.issued_round, hops)
        position = node.next_position()
        node.delivered.append(Delivered(position, message.topic, message.source, message.source_seq))
        topic.note(Event("processed" if message.is_total else "passed", message, 0))

    def _on_exception(self, m: ms.Lacking, _: int) -> None:
        """Records the Exception, and sends the requested publication again (section 4.3.2.3).

        Does not send a garbage-collected publication: all members have received it, and the Exception is late.
        """
        told = Exceptional(m.topic, m.source, m.source_seq, m.lacking)
        self.node.exception[m.source, m.source_seq, m.lacking] = told
        for own in self._topics.published:
            if self.node.parent is not None and own.id == m.message.id:
                self.node.send(self.node.parent, ms.Repeat(*own.message, m.lacking))

    # ---- another edge broker (section 4.2.3.1)

    def neighbour_down(self, neighbour: int) -> None:
        """Alg. 3: if the edge broker failed, empties the hold queue, and searches for a new edge broker."""
        if neighbour != self.node.parent:
            return
        failed = self.node.latest(neighbour)
        self.node.disconnect(neighbour)
        self.node.repair.is_level = False
        self._lost.forget(neighbour)
        self.node.reported.clear()  # the next edge broker gets complete reports
        self.node.hold = []
        self.lost(failed)
        self._search.seek()

    # ---- missing messages (section 4.3.2)

    def _on_parent_buffer(self, m: ms.ParentBuffer, sender: int) -> None:
        """Alg. 11: sends the delivered messages that the new edge broker lacks, and the ids of all deliveries."""
        if sender != self.node.parent:
            return
        theirs = self._lost.drop_collected(m.told)
        self.node.send(sender, ms.LostMessageRequest(self._lost.missing_of(theirs)))

    def _on_lost_messages(self, m: ms.LostMessages, sender: int) -> None:
        """Delivers the missed messages, and then the messages in the hold queue.

        Then sends the client's own publications again, except those that it has delivered (rule G14).
        """
        told = self._lost.filled(sender, m) if sender == self.node.parent else None
        if told is None:
            return
        for what, message, hops in told.events:
            is_final = what == ("processed" if message.is_total else "passed")
            if is_final and message.has_body and message.topic in self.node.subscribed:
                self._deliver(message, hops + 1)
        self.node.repair.is_level = True
        hold, self.node.hold = self.node.hold, []
        for waiting in map(held_message, hold):
            self._deliver(waiting.message, waiting.hops)
        for own in self._topics.published:
            if not self._topics.of(own.topic).has_passed(own.id):
                self.node.send(sender, ms.Metadata(*own.message, 1))

    # ---- garbage collection (section 6.1)

    def end_round(self) -> None:
        """Sends the edge broker a Received for each topic with at least ``collect_every`` new deliveries."""
        for topic in self._reports.topics:
            if topic.name in self.node.subscribed:
                self._reports.tell_parent(topic.name, set(topic.seen), [self.node.id])
