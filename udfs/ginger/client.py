"""A client: it publishes, delivers in order, and looks for another broker when its own fails (section 4.2.3.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from udfs.ginger import messages as ms, missing_messages, parent_search
from udfs.ginger.buffer import Buffer, Event, Id, Message, MissingSets, Runs, in_runs
from udfs.ginger.garbage_collection import Reports
from udfs.ginger.messages import ParentRequest
from udfs.ginger.missing_messages import LostMessageSearch
from udfs.ginger.node import Node, Role
from udfs.ginger.ordering import held
from udfs.ginger.parent_search import ParentSearch
from udfs.ginger.records import BufferedEvent, Delivered
from udfs.ginger.repair_records import Exceptional, Parked
from udfs.ginger.topics import PUBLISHED, Buffers


class Client(Role):
    """A client; if the tree may be repaired, it has buffers of its deliveries and publications."""

    def __init__(self, node: Node) -> None:
        """Puts it together."""
        self.node = node
        self._state = node.state
        self._buffers = Buffers(node)
        self._reports = Reports(node, self._buffers)
        self._lost = LostMessageSearch(self)
        self._search = ParentSearch(self)
        events = self._state.metadata_buffer.items()
        own = [(position, event.message) for position, event in events if event.event == PUBLISHED]
        self._published: dict[Id, tuple[int, Message]] = {m.id: (position, m) for position, m in own}
        self._handlers: Mapping[type, Callable[[Any, int], None]] = {
            ms.Metadata: self._on_metadata,
            ms.Subscribed: self._on_subscribed,
            ms.Lacking: self._on_exception,
            ms.Repeat: lambda m, _: self._lost.on_repeat(m),
            ms.ParentResponse: self._search.on_response,
            ms.ParentBuffer: self._on_parent_buffer,
            ms.LostMessages: self._on_lost_messages,
            ms.TreeViewUpdate: self._on_tree_view_update,
            ms.Collect: self._on_collect,
        }

    def handle(self, m: Any, src: int) -> None:  # noqa: ANN401 - any message
        """Handles a message."""
        self._handlers[type(m)](m, src)

    def on_timer(self, name: str, key: int) -> None:
        """Handles a timer."""
        if name == parent_search.TIMER:
            self._search.on_timer()
        elif name == missing_messages.TIMER:
            self._lost.on_timer()

    # ---- calls (sections 3.3 and 3.4)

    def subscribe(self, topic: str, subscription_id: int, source_seq: int) -> None:
        """Sends a subscription to the edge broker."""
        if self.node.parent is not None:
            self.node.send(self.node.parent, ms.Subscribe(self.node.id, source_seq, topic, subscription_id))

    def _on_subscribed(self, m: ms.Subscribed, _: int) -> None:
        """The subscription stands."""
        self.node.ctx.confirm(m.source_seq)

    def publish(self, message: Message) -> None:
        """Hands a message to the edge broker, if there is one that it is level with."""
        node = self.node
        if node.is_mended:
            position = node.next_position()
            self._published[message.id] = position, message
            self._state.metadata_buffer[position] = BufferedEvent(*message, position, PUBLISHED, None)
        if node.is_level and node.parent is not None:
            node.send(node.parent, ms.Metadata(*message, 1))

    # ---- deliveries

    def _on_metadata(self, m: ms.Metadata, sender: int) -> None:
        """Delivers a message, unless it has to wait for some that have to be repeated."""
        if self._state.parked:
            self._state.hold.append(held(m, sender))
        else:
            self._deliver(m.message, m.hops)

    def _deliver(self, message: Message, hops: int) -> None:
        """Delivers a message, once."""
        node = self.node
        if message.id in self._buffers.of(message.topic).seen:
            return
        node.ctx.deliver(message.source, message.source_seq, message.issued_round, hops)
        position = node.next_position()
        self._state.delivered.append(Delivered(position, message.topic, message.source, message.source_seq))
        self._buffers.add(message.topic, Event("processed" if message.is_total else "passed", message, 0))

    def _on_exception(self, m: ms.Lacking, _: int) -> None:
        """Repeats a message of this client that has left the buffers and that a node lacks (4.3.2.3)."""
        told = Exceptional(m.topic, m.source, m.source_seq, m.lacking)
        self._state.exception[m.source, m.source_seq, m.lacking] = told
        if self.node.parent is not None:
            self.node.send(self.node.parent, ms.Repeat(*self._published[m.message.id][1], m.lacking))

    # ---- another edge broker (section 4.2.3.1)

    def neighbour_down(self, neighbour: int) -> None:
        """The edge broker failed."""
        if neighbour != self.node.parent:
            return
        self.node.disconnect(neighbour)
        self.node.repair.is_level = False
        self._lost.forget(neighbour)
        self._reports.forget()
        self._state.hold = []
        self.lost(neighbour)
        self.seek()

    def lost(self, broker: int) -> None:
        """Notes that a broker failed."""
        self.node.repair.dead.add(broker)

    def _on_tree_view_update(self, m: ms.TreeViewUpdate, sender: int) -> None:
        """Keeps its earlier view: a new edge broker may be cut off before it has a view itself (rule G21)."""
        if sender == self.node.parent:
            seen = {broker: self.node.rounds_to(broker) for broker in self._state.tree_view}
            self.node.repair.seen |= seen
        self._search.on_tree_view_update(m, sender)

    def candidates(self) -> list[int]:
        """Returns the candidates of the client's view; if all have failed, those of earlier views."""
        if found := self.node.candidates():
            return found
        earlier = self.node.repair.seen
        self.node.latency = earlier | self.node.latency
        return sorted(earlier.keys() - self.node.repair.dead)

    def seek(self) -> None:
        """Looks for another broker."""
        self._search.seek()

    def request(self) -> ParentRequest:
        """Names the topics that it works on; among them those that it subscribes to."""
        topics = self._state.client_topic
        subscribed = tuple(topic for topic in topics if self._subscribes(topic))
        return ParentRequest(tuple(topics), self.node.repair.break_degree, is_client=True, subscribed=subscribed)

    def _subscribes(self, topic: str) -> bool:
        row = self._state.client_topic.get(topic)
        return row is not None and row.usage == "subscribed"

    def attached(self) -> None:
        """Waits for the ParentBuffer of its new broker."""

    def came_back(self, broker: int) -> None:
        """Asks a newcomer again later."""
        self._search.declined(broker)

    def view_changed(self) -> None:
        """Does nothing: a client has no children."""

    # ---- missing messages (section 4.3.2)

    def _on_parent_buffer(self, m: ms.ParentBuffer, sender: int) -> None:
        """Sends the delivered messages that the new broker lacks."""
        if sender != self.node.parent:
            return
        theirs = self._lost.told(m.told)
        own = MissingSets(failed=set(self.node.repair.dead))
        for topic in sorted(theirs.passed):
            buffer = self._buffers.of(topic)
            for event in buffer.events:
                own.note(event)
            own.events += [event for event in buffer.events if not theirs.has(event)]
            own.name(topic)
            if buffer.collected:
                own.collected[topic] = buffer.collected
        self.node.send(sender, ms.LostMessageRequest(own))

    def _on_lost_messages(self, m: ms.LostMessages, sender: int) -> None:
        """Delivers missed messages; then resends its own messages that no broker has (rule G14)."""
        told = self._lost.filled(sender, "LostMessages", m.told) if sender == self.node.parent else None
        if told is None:
            return
        for what, message, hops in told.events:
            is_final = what == ("processed" if message.is_total else "passed")
            if is_final and message.has_body and self._subscribes(message.topic):
                self._deliver(message, hops + 1)
        self.node.repair.is_level = True
        hold, self._state.hold = self._state.hold, []
        for row in hold:
            self._deliver(row.message, row.hops or 0)
        for _, message in self._published.values():
            if message.id not in self._buffers.of(message.topic).seen:
                self.node.send(sender, ms.Metadata(*message, 1))

    def buffer(self, topic: str) -> Buffer:
        """Returns the deliveries of a topic."""
        return self._buffers.of(topic)

    def needs(self, partner: int, event: Event) -> bool:
        """Returns whether it subscribes to the topic of a message."""
        return self._subscribes(event.message.topic)

    def own_copy(self, message: Message) -> Message:
        """Returns the message, which the client has in its buffer only."""
        return message

    def resume(self, parked: Parked) -> None:
        """Handles a parked answer."""
        self._on_lost_messages(ms.LostMessages(parked.told), parked.partner)

    def ask_publisher(self, message: Message, lacking: int, sender: int | None) -> None:
        """Sends an Exception to its broker."""
        self.node.flood(ms.Lacking(*message, lacking), sender)

    # ---- garbage collection (section 6.1)

    def _on_collect(self, m: ms.Collect, sender: int) -> None:
        """Handles Collect: drops messages that all members have had."""
        if sender == self.node.parent:
            self.collect(m.topic, m.runs)

    def collect(self, topic: str, runs: Runs) -> None:
        """Drops messages that all members have had, including its own."""
        self._reports.collect(topic, runs)
        for of, (position, message) in list(self._published.items()):
            if message.topic == topic and in_runs(runs, of):
                del self._published[of]
                del self._state.metadata_buffer[position]

    def end_round(self) -> None:
        """Reports its deliveries."""
        for topic in self._reports.topics:
            if self._subscribes(topic):
                self._reports.tell_parent(topic, set(self._buffers.of(topic).seen), [self.node.id])
