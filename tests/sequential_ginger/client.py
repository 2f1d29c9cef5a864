"""A client: it publishes, and keeps what it delivers in order."""

from __future__ import annotations

from sequential_ginger.broker import Links
from sequential_ginger.messages import Id, Message, Publication


class Client:
    """``log`` holds what happened here: ``publish`` and ``deliver``, with the message."""

    def __init__(self, links: Links, node: int, edge: int) -> None:
        self.links, self.node = links, node
        self.parent: int | None = edge
        self.log: list[tuple[str, Publication]] = []
        self.delivered: dict[Id, Publication] = {}
        self.published: list[Publication] = []

    def publish(self, m: Publication) -> None:
        self.log.append(("publish", m))
        self.published.append(m)
        if self.parent is not None:
            self.links.send(self.node, self.parent, Message("publish", m))

    def receive(self, src: int, message: Message) -> None:
        getattr(self, f"on_{message.kind}")(src, message)

    def on_deliver(self, _: int, message: Message) -> None:
        self.deliver(message.m)

    def deliver(self, m: Publication) -> None:
        if m.id not in self.delivered:
            self.delivered[m.id] = m
            self.log.append(("deliver", m))
