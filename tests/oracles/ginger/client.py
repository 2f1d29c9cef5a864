"""A client: it publishes, records its deliveries in order, and connects to another broker if its broker fails."""

from __future__ import annotations

from oracles.ginger.messages import Event, Id, Message, Publication
from oracles.ginger.parent_search import Seeker
from oracles.ginger.ports import Links
from oracles.ginger.repair import Known, Missing, Request


class Client(Seeker):
    """A client; ``log`` contains its publications and deliveries: ``publish`` or ``deliver``, and the message."""

    def __init__(self, links: Links, node: int, edge: int, subscribed: frozenset[str], topics: frozenset[str]) -> None:
        super().__init__(links, node)
        self.parent: int | None = edge
        self.subscribed, self.topics = subscribed, topics
        self.is_level = True
        self.log: list[tuple[str, Publication]] = []
        self.delivered: dict[Id, Publication] = {}
        self.published: list[Publication] = []
        self.earlier: set[int] = set()

    def publish(self, m: Publication) -> None:
        self.log.append(("publish", m))
        self.published.append(m)
        if self.is_level:
            self.links.send(self.node, self.parent, Message("publish", m))

    def receive(self, src: int, message: Message) -> None:
        getattr(self, f"on_{message.kind}")(src, message)

    def on_deliver(self, _: int, message: Message) -> None:
        self.deliver(message.m)

    def deliver(self, m: Publication) -> None:
        if m.id not in self.delivered:
            self.delivered[m.id] = m
            self.log.append(("deliver", m))

    def on_neighbor_down(self, src: int, _: Message) -> None:
        if src == self.parent:
            self.parent, self.is_level = None, False
            self.lost(src)
            self.seek()

    def on_tree_view_update(self, src: int, message: Message) -> None:
        if src == self.parent:
            self.earlier |= self.view.keys()
        super().on_tree_view_update(src, message)

    def candidates(self) -> list[int]:
        """Returns the candidates in the current view; if all have failed, the candidates in earlier views."""
        return super().candidates() or sorted(self.earlier - self.dead)

    def request(self) -> Request:
        return Request(self.topics, self.break_degree, is_client=True, subscribed=self.subscribed)

    def attached(self, parent: int) -> None:
        """Does nothing; the client continues when ParentBuffer arrives."""

    def on_parent_buffer(self, src: int, message: Message) -> None:
        if src != self.parent:
            return
        events = {name: [e for e in self.events(name) if not theirs.has(e)] for name, theirs in message.body.items()}
        known = {}
        for name in self.subscribed:
            total = frozenset(m.id for m in self.delivered.values() if m.topic == name and m.is_total)
            known[name] = Known(frozenset(self.delivered), total)
        self.links.send(
            self.node, src, Message("lost_message_request", body=Missing(events, known, frozenset(self.dead)))
        )

    def events(self, topic: str) -> list[Event]:
        return [Event("processed" if m.is_total else "passed", m) for m in self.delivered.values() if m.topic == topic]

    def on_lost_messages(self, src: int, message: Message) -> None:
        if src != self.parent:
            return
        for events in message.body.events.values():
            for what, m in events:
                if what == ("processed" if m.is_total else "passed"):
                    self.deliver(m)
        self.is_level = True
        for m in self.published:
            if m.id not in self.delivered:
                self.links.send(self.node, src, Message("publish", m))
