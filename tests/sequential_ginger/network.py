"""Links that keep order, and two ways to choose what happens next: at random, or by rounds as the engine does."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sequential_ginger.broker import Broker
from sequential_ginger.client import Client
from sequential_ginger.messages import Message, Publication
from sequential_ginger.topic import Topic


@dataclass(frozen=True)
class Setup:
    """A tree (``parent`` of each broker, None for the root), clients at edge brokers, and who subscribes to what."""

    parent: Mapping[int, int | None]
    edge: Mapping[int, int]
    subscribers: Mapping[str, frozenset[int]]
    publications: Sequence[Publication]

    def up(self, broker: int) -> list[int]:
        """The broker and its ancestors, root last."""
        path = [broker]
        while (above := self.parent[path[-1]]) is not None:
            path.append(above)
        return path

    def members(self, topic: str) -> frozenset[int]:
        """The brokers of the topic's sub-tree: those between the edge brokers of its subscribers, and these."""
        paths = [self.up(self.edge[client]) for client in sorted(self.subscribers[topic])]
        shared = set(paths[0]).intersection(*paths)
        root = max(shared, key=lambda b: len(self.up(b)))
        return frozenset(b for path in paths for b in path[: path.index(root) + 1])


class Network:
    """All nodes, and what is on its way."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.subscribers = {topic: set(nodes) for topic, nodes in setup.subscribers.items()}
        members = {topic: setup.members(topic) | setup.subscribers[topic] for topic in setup.subscribers}
        self.brokers = {b: Broker(self, b, above, members) for b, above in setup.parent.items()}
        self.clients = {c: Client(self, c, edge) for c, edge in setup.edge.items()}
        for b, above in setup.parent.items():
            if above is not None:
                self.brokers[above].children.add(b)
        for topic in setup.subscribers:
            self._lay(topic)
        for c, edge in setup.edge.items():
            self.brokers[edge].clients.add(c)

    def _lay(self, topic: str) -> None:
        members = self.setup.members(topic)
        for b in members:
            broker = self.brokers[b]
            near = {*broker.children, broker.parent} & members
            clients = {c for c in self.setup.subscribers[topic] if self.setup.edge[c] == b}
            broker.topics[topic] = Topic(brokers=set(near), clients=clients)

    def live_brokers(self) -> Iterable[Broker]:
        return self.brokers.values()

    def node(self, node: int) -> Broker | Client:
        return self.brokers[node] if node in self.brokers else self.clients[node]

    def timer(self, node: int, partner: int, attempt: int) -> None:
        raise NotImplementedError

    def send(self, src: int, dst: int, message: Message) -> None:
        raise NotImplementedError


class RandomNetwork(Network):
    """Any link's oldest message, or any client's next publication, may come next."""

    def __init__(self, setup: Setup, draw: random.Random) -> None:
        super().__init__(setup)
        self.draw = draw
        self.links: dict[tuple[int, int], deque[Message]] = {}
        self.waiting = {c: deque(m for m in setup.publications if m.client == c) for c in setup.edge}

    def send(self, src: int, dst: int, message: Message) -> None:
        self.links.setdefault((src, dst), deque()).append(message)

    def run(self) -> None:
        while self.step():
            pass

    def step(self) -> bool:
        busy = [link for link, queue in self.links.items() if queue]
        ready = [c for c, queue in self.waiting.items() if queue]
        if not busy and not ready:
            return False
        if ready and (not busy or self.draw.random() < 0.2):
            client = self.draw.choice(ready)
            self.clients[client].publish(self.waiting[client].popleft())
        else:
            src, dst = self.draw.choice(busy)
            self.node(dst).receive(src, self.links[src, dst].popleft())
        return True


class TimedNetwork(Network):
    """By rounds: messages of a round in the order of (sent round, sender, place), then the clients' publications."""

    def __init__(
        self, setup: Setup, latency: Mapping[frozenset[int], int], calls: Iterable[tuple[int, Publication]]
    ) -> None:
        super().__init__(setup)
        self.latency = latency
        self.now = 0
        self.n_sent = 0
        self.due: list[tuple[int, int, int, int, int, Message | Publication]] = []
        for number, (round_, m) in enumerate(calls):
            heapq.heappush(self.due, (round_, 1 << 60, m.client, number, m.client, m))

    def send(self, src: int, dst: int, message: Message) -> None:
        self.n_sent += 1
        at = self.now + self.latency[frozenset((src, dst))]
        heapq.heappush(self.due, (at, self.now, src, self.n_sent, dst, message))

    def run(self) -> None:
        while self.due:
            self.now, _, src, _, dst, what = heapq.heappop(self.due)
            if isinstance(what, Publication):
                self.clients[src].publish(what)
            else:
                self.node(dst).receive(src, what)
