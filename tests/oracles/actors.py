"""The δ protocol without failures as a program of SimPy actors: a process and a Store for each broker.

Brokers behave as in `oracles.delta` and in protocol ``delta`` (Algorithm 1; settled rules 2 and 12). A SUB floods the
tree, and its confirmation starts at the leaves. A PUB is sent towards the ``from`` of each matching entry. Routing
information changes when a message is confirmed. A broker knows the tree within δ+1 hops. No broker fails, so messages
are sent to neighbours only, and a neighbour's Conf confirms all recipients behind the neighbour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import simpy

Path = tuple[int, ...]
Key = tuple[int, int]


class Call(NamedTuple):
    """A call of the application at a node; ``number`` is the index of the call among the calls of the node."""

    round: int
    node: int
    number: int
    kind: str
    topic: str
    subscription: int = -1


class Message(NamedTuple):
    """A copy of a SUB or a PUB. For a SUB, ``origin_path`` is the path from the receiver back to the ``from``."""

    kind: str
    source: int
    number: int
    topic: str
    subscription: int = -1
    origin_path: Path = ()

    @property
    def key(self) -> Key:
        """The identity of the message, which is equal in all its copies."""
        return self.source, self.number


class Envelope(NamedTuple):
    """The content of a transmission over a link: a message, or the Conf of the message with key ``confirmed``."""

    sender: int
    message: Message | None
    confirmed: Key | None = None


@dataclass
class Outcome:
    """The outcome of a run.

    Attributes:
        deliveries: Subscriber, source, call number and round of each delivery.
        confirmed: Maps source and number of each confirmed call to the round of the Conf.
        n_messages: The number of messages put on links.
        messages: Kind, sender, receiver, round of sending, due round, and source and number of the call, for each
            message; None if messages are not recorded.
    """

    deliveries: list[tuple[int, int, int, int]] = field(default_factory=list)
    confirmed: dict[Key, int] = field(default_factory=dict)
    n_messages: int = 0
    messages: list[tuple[str, int, int, int, int, int, int]] | None = None


@dataclass(slots=True)
class Item:
    """An entry of ProcessingList: a message, the peers that have not confirmed it, and the receivers of its Conf."""

    message: Message
    out: set[int]
    senders: list[int]


class Broker:
    """A broker; its process handles the items in its Store one after another."""

    def __init__(self, env: simpy.Environment, name: int, delta: int, outcome: Outcome) -> None:
        self.env, self.name, self.delta, self.outcome = env, name, delta, outcome
        self.inbox: simpy.Store = simpy.Store(env)
        self.links: dict[int, tuple[Broker, int]] = {}
        self.paths: dict[int, Path] = {}
        self.entries: defaultdict[str, dict[int, int]] = defaultdict(dict)
        self.own: defaultdict[str, set[int]] = defaultdict(set)
        self.recent: dict[int, int] = {}
        self.processing: dict[Key, Item] = {}

    def look_around(self) -> None:
        """Computes the paths to all brokers within δ+1 hops."""
        self.paths, edge = {self.name: (self.name,)}, [self]
        for _ in range(self.delta + 1):
            edge = [peer for broker in edge for peer, _ in broker.links.values() if self._reach(broker, peer)]

    def _reach(self, broker: Broker, peer: Broker) -> bool:
        if peer.name in self.paths:
            return False
        self.paths[peer.name] = (*self.paths[broker.name], peer.name)
        return True

    def run(self) -> Generator[simpy.Event, Any, None]:
        """Handles messages, Confs and calls in the order of arrival."""
        while True:
            what = yield self.inbox.get()
            if isinstance(what, Call):
                self._issue(what)
            elif what.message is None:
                self._confirmation(what.sender, what.confirmed)
            else:
                self._receive(what.sender, what.message)

    def apply(self, calls: Sequence[Call]) -> Generator[simpy.Event, Any, None]:
        """The process of the application: issues each call in its round."""
        for call in calls:
            yield self.env.timeout(call.round - self.env.now)
            yield self.inbox.put(call)

    def _send(self, peer: int, what: Envelope) -> None:
        """Puts ``what`` on the link to ``peer``; it arrives in the peer's Store after the latency of the link."""
        broker, latency = self.links[peer]
        self.outcome.n_messages += 1
        if self.outcome.messages is not None:
            kind, key = ("CONF", what.confirmed) if what.message is None else (what.message.kind, what.message.key)
            now = int(self.env.now)
            self.outcome.messages.append((kind, self.name, peer, now, now + latency, *key))
        self.env.timeout(latency, what).callbacks.append(broker.arrive)

    def arrive(self, event: simpy.Event) -> None:
        """Puts a transmission that has arrived over a link into the Store."""
        self.inbox.put(event.value)

    def _issue(self, call: Call) -> None:
        kind, path = ("SUB", (self.name,)) if call.kind == "subscribe" else ("PUB", ())
        message = Message(kind, self.name, call.number, call.topic, call.subscription, path)
        self._accept(message, None)

    def _receive(self, sender: int, message: Message) -> None:
        """Algorithm 1, lines 1 to 9: accepts a first copy; the sender of a later copy waits, or receives a Conf."""
        if message.number > self.recent.get(message.source, -1):
            self._accept(message, sender)
        elif message.key in self.processing:
            self.processing[message.key].senders.append(sender)
        else:
            self._send(sender, Envelope(self.name, None, message.key))

    def _accept(self, message: Message, sender: int | None) -> None:
        """Algorithm 1, lines 10 to 18: computes the recipients; sends a copy to each neighbour towards a recipient."""
        self.recent[message.source] = message.number
        recipients = self.paths if message.kind == "SUB" else set(self.entries[message.topic].values())
        out = {self.paths[x][1] for x in recipients if x != self.name} - {sender}
        for peer in sorted(out):
            back = (peer, *message.origin_path)[: self.delta + 2] if message.kind == "SUB" else ()
            self._send(peer, Envelope(self.name, message._replace(origin_path=back)))
        if message.kind == "PUB" and self.own[message.topic]:
            self.outcome.deliveries.append((self.name, message.source, message.number, int(self.env.now)))
        item = self.processing[message.key] = Item(message, out, [] if sender is None else [sender])
        self._settle(item)

    def _confirmation(self, sender: int, key: Key) -> None:
        """Handles a Conf: all recipients for which the peer was responsible are confirmed (line 22)."""
        item = self.processing[key]
        item.out.discard(sender)
        self._settle(item)

    def _settle(self, item: Item) -> None:
        """Algorithm 1, lines 25 to 31, if all peers have confirmed the message."""
        message = item.message
        if item.out:
            return
        del self.processing[message.key]
        if message.kind == "SUB":
            self.entries[message.topic][message.subscription] = message.origin_path[-1]
            if message.source == self.name:
                self.own[message.topic].add(message.subscription)
        for sender in item.senders:
            self._send(sender, Envelope(self.name, None, message.key))
        if message.source == self.name:
            self.outcome.confirmed[message.key] = int(self.env.now)


def simulate(
    links: dict[tuple[int, int], int], calls: Sequence[Call], delta: int, *, keeps_messages: bool = False
) -> Outcome:
    """Plays a run until no event is left.

    Args:
        links: Maps the two ends of each link of a tree to its latency in rounds.
        calls: The subscriptions and publications.
        delta: δ.
        keeps_messages: Whether the outcome records all messages.
    """
    env, outcome = simpy.Environment(), Outcome(messages=[] if keeps_messages else None)
    brokers = {name: Broker(env, name, delta, outcome) for name in sorted({x for ends in links for x in ends})}
    for (a, b), latency in links.items():
        brokers[a].links[b] = brokers[b], latency
        brokers[b].links[a] = brokers[a], latency
    of_node: defaultdict[int, list[Call]] = defaultdict(list)
    for call in sorted(calls, key=lambda call: (call.round, call.number)):
        of_node[call.node].append(call)
    for name, broker in brokers.items():
        broker.look_around()
        env.process(broker.run())
        env.process(broker.apply(of_node[name]))
    env.run()
    return outcome
