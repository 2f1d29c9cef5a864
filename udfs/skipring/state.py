"""The tables of nodes: a subscriber per topic, a supervisor per topic, and the known supervisors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

from udfs.nodes.calls import Call
from udfs.nodes.records import record
from udfs.skipring.labels import Key, Label, key_of

Entries = dict[Label, int | None]
"""The subscriber of each label in a database; None: the tuple has no subscriber, which is a corruption."""
_TWO_53 = float(1 << 53)


@dataclass(frozen=True, slots=True)
class Contact:
    """A reference to a subscriber.

    Attributes:
        node: The subscriber.
        label: Its label.
    """

    node: int
    label: Label

    @property
    def key(self) -> Key:
        """Its place in the order."""
        return key_of(self.label, self.node)


@dataclass(slots=True)
class Neighbour:
    """A neighbour on the ring.

    Attributes:
        node: Its id.
        label: The label that it is believed to have.
        silent: Timeouts since it has last introduced itself.
    """

    node: int
    label: Label
    silent: int = 0

    @property
    def key(self) -> Key:
        """Its place in the order."""
        return key_of(self.label, self.node)


@record(key="topic")
class Subscription:
    """A node's state of the ring of a topic (3.2).

    Attributes:
        topic: The topic.
        wants: Whether the application has subscribed to it.
        label: The label; None: it has received none.
        left: The nearest node before it in the order.
        right: The nearest node after it in the order.
        ring: At the minimum the maximum, and vice versa.
        short: Its shortcuts: the node in the slot of each shortcut label; None: the slot is empty.
    """

    topic: str
    wants: bool = False
    label: Label | None = None
    left: Neighbour | None = None
    right: Neighbour | None = None
    ring: Neighbour | None = None
    short: dict[Label, int | None] = field(default_factory=dict)

    def on_ring(self) -> list[Neighbour]:
        """Returns the neighbours in the list and over the closing edge; one node may be both."""
        return [one for one in (self.left, self.right, self.ring) if one is not None]

    def ring_nodes(self) -> list[int]:
        """Returns the distinct neighbours on the ring."""
        return list(dict.fromkeys(one.node for one in self.on_ring()))

    def neighbours(self) -> list[int]:
        """Returns all distinct neighbours: those on the ring, then those in slots, in the order of labels."""
        short = (node for _, node in sorted(self.short.items()) if node is not None)
        return list(dict.fromkeys([*self.ring_nodes(), *short]))

    def clear(self) -> None:
        """Deletes label, edges and slots."""
        self.label = self.left = self.right = self.ring = None
        self.short = {}

    def drop_invalid_labels(self) -> None:
        """Deletes an own label, edges and slots whose labels are invalid (rule K21)."""
        if self.label is not None and not self.label.is_valid:
            self.label = None
        self.left, self.right, self.ring = (
            None if one is not None and not one.label.is_valid else one for one in (self.left, self.right, self.ring)
        )
        if not all(label.is_valid for label in self.short):
            self.short = {label: node for label, node in self.short.items() if label.is_valid}

    def delete(self, node: int) -> None:
        """Deletes all references to a node; its slots stay, empty."""
        self.left, self.right, self.ring = (
            None if one is not None and one.node == node else one for one in (self.left, self.right, self.ring)
        )
        self.short = {label: None if held == node else held for label, held in self.short.items()}


@record(key="subscription_id")
class Interest:
    """An active subscription of the application: one without a later unsubscribe call.

    Attributes:
        subscription_id: The subscription.
        topic: Its topic.
    """

    subscription_id: int
    topic: str


@record(key="topic")
class Database:
    """A supervisor's state of a topic (3.1).

    Attributes:
        topic: The topic.
        next: The index of the subscriber that last got its configuration in round-robin order.
        entries: The subscriber of each label; None: the tuple has no subscriber, which is a corruption.
    """

    topic: str
    next: int = -1
    entries: Entries = field(default_factory=dict)


@record(key="node")
class Crashed:
    """A subscriber whose crash the failure detector has reported to the supervisor (3.3).

    Attributes:
        node: The subscriber.
    """

    node: int


@record(key="node")
class Supervisor:
    """A supervisor, which every node knows (1.1, rule K14).

    Attributes:
        node: Its id.
        point: Its place on [0, 1).
    """

    node: int
    point: float


@cache
def point_of(name: str) -> float:
    """Returns the place of a topic or a supervisor on [0, 1), by its name."""
    return (int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") >> 11) / _TWO_53


def responsible(topic: str, supervisors: Iterable[Supervisor]) -> int:
    """Returns the supervisor of a topic: the first one clockwise of its place (rule K14)."""
    place = point_of(topic)
    return min(supervisors, key=lambda one: (one.point < place, one.point, one.node)).node


def sides(own: Key, before: Contact | None, after: Contact | None) -> tuple[Contact | None, ...]:
    """Returns left, right and ring of a node by its configuration: the ring closes where the order goes round."""
    left = before if before is not None and before.key < own else None
    right = after if after is not None and after.key > own else None
    ring = after if left is not None and right is None else before if left is None else None
    return left, right, ring


def are_valid(*labels: Label | Contact | None) -> bool:
    """Returns whether all labels, and those of all contacts, are valid; None counts as valid (rules K1 and K21)."""
    found = (one.label if isinstance(one, Contact) else one for one in labels)
    return all(label is None or label.is_valid for label in found)


def topic_of(call: Call) -> str:
    """Returns the topic that a call names.

    Raises:
        ValueError: It names none.
    """
    if call.topic is None:
        raise ValueError(f"call {call.source_seq} ({call.kind}) names no topic; every call of a skip ring is about one")
    return call.topic
