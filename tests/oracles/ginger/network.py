"""FIFO links, and two ways to select the next event: at random, or in rounds like the engine."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from oracles.ginger.client import Client
from oracles.ginger.messages import Message, Publication
from oracles.ginger.repair import RepairingBroker
from oracles.ginger.topic import Topic


@dataclass(frozen=True)
class Setup:
    """A tree (``parent`` of each broker, None for the root), clients at edge brokers, subscribers and publications."""

    parent: Mapping[int, int | None]
    edge: Mapping[int, int]
    subscribers: Mapping[str, frozenset[int]]
    publications: Sequence[Publication]
    total_degree: int = 8
    max_hops: int = 3

    def up(self, broker: int) -> list[int]:
        """Returns the broker and its ancestors; the root is last."""
        path = [broker]
        while (above := self.parent[path[-1]]) is not None:
            path.append(above)
        return path

    def members(self, topic: str) -> frozenset[int]:
        """Returns the brokers of the topic's sub-tree: the edge brokers of its subscribers, and those between them."""
        paths = [self.up(self.edge[client]) for client in sorted(self.subscribers[topic])]
        shared = set(paths[0]).intersection(*paths)
        root = max(shared, key=lambda b: len(self.up(b)))
        return frozenset(b for path in paths for b in path[: path.index(root) + 1])


class Network:
    """The nodes of a run; subclasses add links, timers and the order of events."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.subscribers = {topic: set(nodes) for topic, nodes in setup.subscribers.items()}
        members = {topic: setup.members(topic) | setup.subscribers[topic] for topic in setup.subscribers}
        self.max_hops = setup.max_hops
        self.brokers = {b: RepairingBroker(self, b, above, members) for b, above in setup.parent.items()}
        self.clients = {c: self._client(c, edge) for c, edge in setup.edge.items()}
        for b, above in setup.parent.items():
            self.brokers[b].setup(setup.total_degree)
            if above is not None:
                self.brokers[above].children.add(b)
        for topic in setup.subscribers:
            self._lay(topic)
        for c, edge in setup.edge.items():
            self.brokers[edge].clients.add(c)
        self.dead: set[int] = set()
        self._show(next(b for b, above in setup.parent.items() if above is None), {})

    def _client(self, client: int, edge: int) -> Client:
        subscribed = frozenset(topic for topic, of in self.setup.subscribers.items() if client in of)
        used = frozenset(m.topic for m in self.setup.publications if m.client == client)
        return Client(self, client, edge, subscribed, subscribed | used)

    def _show(self, b: int, view: dict[int, tuple[int, int]]) -> None:
        """Sets the initial views of a broker and of all nodes below it."""
        broker = self.brokers[b]
        broker.view = view
        below = dict(view) | ({broker.parent: (0, 1)} if broker.parent is not None else {})
        for child in sorted(broker.children | broker.clients):
            siblings = {other: (1, 0) for other in broker.children if other != child}
            shown = {x: (up, down + 1) for x, (up, down) in (below | siblings).items()}
            seen = {x: place for x, place in shown.items() if broker.belongs(place)}
            if child in self.brokers:
                self._show(child, seen)
            else:
                self.clients[child].view = seen

    def _lay(self, topic: str) -> None:
        members = self.setup.members(topic)
        for b in members:
            broker = self.brokers[b]
            near = {*broker.children, broker.parent} & members
            clients = {c for c in self.setup.subscribers[topic] if self.setup.edge[c] == b}
            broker.topics[topic] = Topic(brokers=set(near), clients=clients)

    def live_brokers(self) -> Iterable[RepairingBroker]:
        return (broker for b, broker in self.brokers.items() if b not in self.dead)

    def node(self, node: int) -> RepairingBroker | Client:
        return self.brokers[node] if node in self.brokers else self.clients[node]

    def timer(self, node: int, partner: int, attempt: int) -> None:
        raise NotImplementedError

    def send(self, src: int, dst: int, message: Message) -> None:
        raise NotImplementedError


class RandomNetwork(Network):
    """A network in which the next event is random: the oldest message of a link, a publication, a timer or a crash."""

    def __init__(self, setup: Setup, draw: random.Random, n_crashes: int = 0) -> None:
        self.links: dict[tuple[int, int], deque[Message]] = {}
        self.timers: list[tuple[int, int, int]] = []
        super().__init__(setup)
        self.draw = draw
        self.waiting = {c: deque(m for m in setup.publications if m.client == c) for c in setup.edge}
        brokers = draw.sample(sorted(setup.parent), min(n_crashes, len(setup.parent) - 1))
        self.crashes = [(draw.randrange(300), b) for b in brokers]
        self.n_steps = 0

    def send(self, src: int, dst: int, message: Message) -> None:
        if src not in self.dead:
            self.links.setdefault((src, dst), deque()).append(message)

    def timer(self, node: int, partner: int, attempt: int) -> None:
        self.timers.append((node, partner, attempt))

    def crash(self, b: int) -> None:
        """Crashes a broker; its sent messages still arrive, and after them each neighbour receives a failure report."""
        broker = self.brokers[b]
        for near in sorted({*broker.neighbours(), *broker.clients}):
            self.links.setdefault((b, near), deque()).append(Message("neighbor_down"))
        self.dead.add(b)

    def run(self) -> None:
        while self.step():
            self.n_steps += 1

    def step(self) -> bool:
        for crash in [crash for crash in self.crashes if crash[0] <= self.n_steps]:
            self.crashes.remove(crash)
            self.crash(crash[1])
        busy = [link for link, queue in self.links.items() if queue]
        ready = [c for c, queue in self.waiting.items() if queue]
        due = [timer for timer in self.timers if self.is_due(timer, is_quiet=not busy and not ready)]
        if not busy and not ready and not due:
            return self.crash_early()
        if due and (self.draw.random() < 0.1 or (not busy and not ready)):
            timer = self.draw.choice(due)
            self.timers.remove(timer)
            node, partner, attempt = timer
            if node not in self.dead:
                self.node(node).on_timer(partner, attempt)
        elif ready and (not busy or self.draw.random() < 0.2):
            client = self.draw.choice(ready)
            self.clients[client].publish(self.waiting[client].popleft())
        elif busy:
            self.carry(*self.draw.choice(busy))
        return True

    def crash_early(self) -> bool:
        """If crashes are scheduled, advances to the next one and returns True; called if no other event is left."""
        if not self.crashes:
            return False
        self.n_steps = min(at for at, _ in self.crashes)
        return True

    def carry(self, src: int, dst: int) -> None:
        message = self.links[src, dst].popleft()
        if dst not in self.dead:
            self.node(dst).receive(src, message)

    def is_due(self, timer: tuple[int, int, int], *, is_quiet: bool) -> bool:
        """Returns whether a timer can expire.

        A timer for an answer expires only if the partner is dead and no message from it is in flight. A timer for a
        retry, whose partner is the node itself, expires only if no other event is possible (``is_quiet``).
        """
        node, partner, _ = timer
        if node == partner:
            return is_quiet
        return partner in self.dead and not self.links.get((partner, node))


class TimedNetwork(Network):
    """A network that plays rounds: messages in the order of (round of sending, sender, number), then publications."""

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
