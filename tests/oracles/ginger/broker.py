"""A broker that handles one message at a time, as in the table on the protocol's page; `repair` handles failures."""

from __future__ import annotations

from collections.abc import Iterable

from oracles.ginger.messages import APPLICATION, Event, Message, Publication
from oracles.ginger.parent_search import Seeker
from oracles.ginger.ports import Links
from oracles.ginger.topic import Pending, Topic


class Broker(Seeker):
    """A broker: its position in the tree, its topics, and its handling of application messages."""

    def __init__(self, links: Links, node: int, parent: int | None, members: dict[str, frozenset[int]]) -> None:
        super().__init__(links, node)
        self.parent = parent
        self.is_root = parent is None
        self.members = members
        self.children: set[int] = set()
        self.clients: set[int] = set()
        self.topics: dict[str, Topic] = {}
        self.failed: set[int] = set()
        self.awaits: set[int] = set()
        self.hold: list[tuple[int, Message]] = []

    def receive(self, src: int, message: Message) -> None:
        if message.kind not in APPLICATION:
            getattr(self, f"on_{message.kind}")(src, message)
        elif self.is_waiting:
            self.hold.append((src, message))
        else:
            self.handle(src, message)

    @property
    def is_waiting(self) -> bool:
        return bool(self.awaits or self.hold)

    def handle(self, src: int, message: Message) -> None:
        getattr(self, f"on_{message.kind}")(src, message)

    def send(self, dst: int, kind: str, m: Publication | None = None, covered: Iterable[int] = ()) -> None:
        self.links.send(self.node, dst, Message(kind, m, frozenset(covered)))

    def on_publish(self, src: int, message: Message) -> None:
        topic = self.topics[message.m.topic]
        if message.m.id not in topic.seen and all(m != message.m for _, m in topic.entry):
            topic.entry.append((src, message.m))
            self.run_pass(topic)

    def run_pass(self, topic: Topic) -> None:
        while (entry := topic.next_entry()) is not None:
            client, m = entry
            if m.id not in topic.seen:
                (self.take_total if m.is_total else self.take)(topic, client, m, frozenset())

    def take(self, topic: Topic, src: int, m: Publication, _: frozenset[int]) -> None:
        """Forwards an eventual or causal message to the sub-tree, except its sender, and delivers it to all clients."""
        if m.id in topic.seen:
            return
        topic.seen.add(m.id)
        topic.history.append(Event("passed", m))
        for broker in sorted(topic.brokers - {src}):
            self.send(broker, "metadata", m)
        for client in sorted(topic.clients):
            self.send(client, "deliver", m)

    def on_metadata(self, src: int, message: Message) -> None:
        topic, m = self.topics[message.m.topic], message.m
        (self.take_total if m.is_total else self.take)(topic, src, m, message.covered)

    def take_total(self, topic: Topic, src: int, m: Publication, covered: frozenset[int]) -> None:
        """Handles metadata of a total-order message: closes its keys, and records the nodes that have closed them."""
        if m.id in topic.processed:
            return
        if m.id not in topic.pending:
            topic.seen.add(m.id)
            topic.history.append(Event("passed", m))
            topic.pending[m.id] = Pending(m, src != self.parent, {self.node, *topic.clients})
            for child in sorted(self.sub_children(topic) - {src}):
                self.send(child, "metadata", m)
        elif src == self.parent:
            topic.pending[m.id].sent, topic.pending[m.id].is_from_below = None, False
        self.acknowledge(topic, src, m, covered)

    def sub_children(self, topic: Topic) -> set[int]:
        return topic.brokers & self.children

    def acknowledge(self, topic: Topic, src: int, m: Publication, covered: frozenset[int]) -> None:
        pending = topic.pending[m.id]
        pending.covered |= covered
        if src in self.children:
            pending.acked.add(src)
        self.try_all(topic)

    def on_total_ack(self, src: int, message: Message) -> None:
        topic = self.topics[message.m.topic]
        if message.m.id in topic.pending:
            self.acknowledge(topic, src, message.m, message.covered)

    def try_all(self, topic: Topic) -> None:
        """Acknowledges each ready message to the parent or processes it, until no message is ready."""
        if self.is_waiting:
            return
        ready = True
        while ready:
            ready = any(self.try_one(topic, pending) for pending in list(topic.pending.values()))

    def try_one(self, topic: Topic, pending: Pending) -> bool:
        earlier = list(topic.pending.values())
        earlier = [p for p in earlier[: earlier.index(pending)] if p.m.shares(pending.m)]
        if not pending.acked >= self.sub_children(topic):
            return False
        if self.is_topic_root(topic):
            if earlier or not self.members[pending.m.topic] <= pending.covered | self.failed:
                return False
            self.process(topic, None, pending.m)
            return True
        if self.parent is None or pending.sent == pending.covered or any(p.sent is None for p in earlier):
            return False
        kind = "metadata" if pending.sent is None and pending.is_from_below else "total_ack"
        pending.sent = frozenset(pending.covered)
        self.send(self.parent, kind, pending.m, pending.covered)
        return True

    def is_topic_root(self, topic: Topic) -> bool:
        return self.is_root or (self.parent is not None and self.parent not in topic.brokers)

    def on_total_processed(self, src: int, message: Message) -> None:
        topic = self.topics[message.m.topic]
        if message.m.id not in topic.processed:
            self.process(topic, src, message.m)
            self.try_all(topic)

    def process(self, topic: Topic, src: int | None, m: Publication) -> None:
        """Opens the keys of a message, delivers it, forwards the processing, and handles the messages that waited."""
        topic.pending.pop(m.id, None)
        topic.seen.add(m.id)
        topic.processed.add(m.id)
        topic.history.append(Event("processed", m))
        for client in sorted(topic.clients):
            self.send(client, "deliver", m)
        for broker in sorted(topic.brokers - {src}):
            self.send(broker, "total_processed", m)
        self.run_pass(topic)
