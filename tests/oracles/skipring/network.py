"""A run: rounds, channels, crashes, and the initial state."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from oracles.skipring.labels import nth, skip_ring
from oracles.skipring.moment import BEFORE, Delivery, Message, Moment, Publication, share
from oracles.skipring.ring import Edge, Ring
from oracles.skipring.subscriber import Subscriber
from oracles.skipring.supervisor import Database, Supervisor, configuration

DOWN, TIMEOUT = "NODE_DOWN", "Timeout"
_PHASES = (
    (DOWN,), ("Subscribe", "GetConfiguration", "RequestFor", "Unsubscribe"), ("subscribe", "unsubscribe"), ("Remove",),
    ("SetData",), ("Introduce",), ("IntroduceShortcut",), ("publish",),
    ("PublishNew", "Publish", "CheckTrie", "CheckAndPublish"), (TIMEOUT,),
)  # fmt: skip
"""The phases of a node's round (K16)."""


class Call(NamedTuple):
    """A call of a node's application; ``number`` is its number among the calls of the node, from 1."""

    node: int
    round: int
    number: int
    kind: str
    topic: str
    subscription: int | None = None


class Crash(NamedTuple):
    """A crash, and the round in which the node recovers; None if it does not recover."""

    node: int
    round: int
    end_round: int | None = None


@dataclass
class Start:
    """The initial state of a run.

    Attributes:
        orders: For each topic whose ring is legitimate, its subscribers in the order of labels.
        rings: The subscribers' states of all other rings.
        databases: The databases of the other rings, and of nodes that are not the topic's supervisor, by node and
            topic.
        crashed: The verdicts of each supervisor: the nodes that it considers crashed.
        interests: The subscriptions before the start, by node and number.
        publications: The publications in tries, by node and topic.
        messages: The messages in channels.
    """

    orders: dict[str, list[int]] = field(default_factory=dict)
    rings: list[Ring] = field(default_factory=list)
    databases: dict[tuple[int, str], Database] = field(default_factory=dict)
    crashed: dict[int, set[int]] = field(default_factory=dict)
    interests: dict[int, dict[int, str]] = field(default_factory=dict)
    publications: dict[tuple[int, str], list[Publication]] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)


@dataclass
class Setup:
    """The inputs of a run: supervisors with their names, subscribers, settings, calls and crashes."""

    supervisors: dict[int, str]
    subscribers: Sequence[int]
    settings: Mapping[str, Any]
    calls: Sequence[Call] = ()
    crashes: Sequence[Crash] = ()


def responsible(topic: str, supervisors: Mapping[int, str]) -> int:
    """Returns the supervisor of a topic: the first supervisor clockwise of the topic's place on [0, 1) (K14)."""
    place = _place(topic)
    return min(supervisors, key=lambda one: ((_place(supervisors[one]) - place) % 1, one))


def _place(name: str) -> float:
    return share(hashlib.sha256(name.encode()).digest())


class Network:
    """A run, played round by round."""

    def __init__(self, setup: Setup, start: Start) -> None:
        self.setup = setup
        nodes = [*setup.supervisors, *setup.subscribers]
        self.supervisors = {node: self._supervisor(node) for node in nodes}
        self.subscribers = {node: self._subscriber(node) for node in nodes}
        self.in_flight = list(start.messages)
        self.sent: list[Message] = []
        self.delivered: list[Delivery] = []
        interval = setup.settings["timeout_interval"]
        self._timeouts = {node: int(Moment(node, BEFORE, setup.settings).draw("phase") * interval) for node in nodes}
        self._begin(start)

    def _supervisor(self, node: int) -> Supervisor:
        supervisors = self.setup.supervisors
        watched = self.setup.subscribers if node in supervisors else ()
        return Supervisor(watched, supervisors, lambda topic: responsible(topic, supervisors) == node)

    def _subscriber(self, node: int) -> Subscriber:
        return Subscriber(
            node, lambda topic: responsible(topic, self.setup.supervisors), self.setup.settings["hash_bits"]
        )

    def _begin(self, start: Start) -> None:
        for node, interests in start.interests.items():
            self.subscribers[node].interests = dict(interests)
        for ring in start.rings:
            self.subscribers[ring.v].rings[ring.topic] = ring
        for (node, topic), database in start.databases.items():
            self.supervisors[node].databases[topic] = database
        for node, crashed in start.crashed.items():
            self.supervisors[node].crashed = crashed
        for topic, order in start.orders.items():
            self._form(topic, order)
        for (node, topic), publications in start.publications.items():
            for one in publications:
                self.subscribers[node].trie(topic).insert(one)

    def _form(self, topic: str, order: list[int]) -> None:
        """Sets the states of supervisor and subscribers to the skip ring of ``order``, by its definition."""
        supervisor = responsible(topic, self.setup.supervisors)
        entries: dict[str, int | None] = {nth(x): node for x, node in enumerate(order)}
        self.supervisors[supervisor].databases[topic] = Database(entries)
        for node in order:
            before, label, after = configuration(order, node)
            ring = self.subscribers[node].ring(topic)
            ring.label = label
            ring.short = {slot: entries[slot] for slot in skip_ring(len(order))[label].shortcuts}
            for side, contact, is_end in (
                ("left", before, label == "0"),
                ("right", after, _is_last(label, len(order))),
            ):
                if contact is not None:
                    setattr(ring, "ring" if is_end else side, Edge(*contact))

    # ---- rounds

    def play(self, round_: int) -> None:
        """Plays a round; then ``sent`` and ``delivered`` contain the messages and deliveries of the round."""
        self.sent, self.delivered = [], []
        self._crash(round_)
        due = [one for one in self.in_flight if one.due_round == round_]
        self.in_flight = [one for one in self.in_flight if one.due_round > round_]
        for node in sorted(self.subscribers):
            now = Moment(node, round_, self.setup.settings)
            self._step(now, [one for one in due if one.dst == node])
            self.sent += now.sent
            self.delivered += now.delivered
        self.in_flight += self.sent

    def _crash(self, round_: int) -> None:
        """Crashes and recovers nodes.

        Supervisors receive a report of each crash after the detection time; recovered nodes have an empty state.
        """
        for one in sorted(self.setup.crashes):
            if one.round == round_:
                del self.subscribers[one.node], self.supervisors[one.node], self._timeouts[one.node]
                due = round_ + self.setup.settings["detection_rounds"]
                for node in self.setup.supervisors:
                    self.sent.append(Message(round_, node, BEFORE, DOWN, node, due, (one.node,)))
            if one.end_round == round_:
                self.subscribers[one.node] = self._subscriber(one.node)
                self.supervisors[one.node] = self._supervisor(one.node)

    def _step(self, now: Moment, due: Sequence[Message]) -> None:
        """Plays the phases of a node's round; in a phase, messages are handled in the order of sending."""
        calls = [one for one in self.setup.calls if (one.node, one.round) == (now.node, now.round)]
        for kinds in _PHASES:
            for message in sorted(one for one in due if one.kind in kinds):
                self._receive(now, message)
            for call in sorted(one for one in calls if one.kind in kinds):
                if call.node in self.subscribers:
                    self.subscribers[call.node].call(now, call.kind, call.number, call.topic, call.subscription)
        if self._timeouts.get(now.node) == now.round:
            self._timeouts[now.node] += self.setup.settings["timeout_interval"]
            self.supervisors[now.node].timeout(now)
            self.subscribers[now.node].timeout(now)

    def _receive(self, now: Moment, one: Message) -> None:
        if one.kind == DOWN:
            self.supervisors[one.dst].report(one.body[0])
        elif one.kind in _PHASES[1]:
            self.supervisors[one.dst].receive(now, one.kind, one.src, *one.body)
        else:
            self.subscribers[one.dst].receive(now, one.kind, one.src, *one.body)


def _is_last(label: str, n: int) -> bool:
    """Returns whether a label has the largest value in SR(n)."""
    return skip_ring(n)[label].after == "0"
