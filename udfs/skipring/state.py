"""The tables of a node: its state as a subscriber and as a supervisor of each topic, and all supervisors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Annotated

from udfs.nodes.calls import Call
from udfs.nodes.hashing import uniform
from udfs.nodes.records import record
from udfs.skipring.labels import Key, Label

Entries = dict[Label, int | None]
"""The subscriber of each label in a database. None if the tuple is corrupted and has no subscriber."""


@dataclass(slots=True, unsafe_hash=True)
class Contact:
    """A reference to a subscriber with a label."""

    node: Annotated[int, "id of the subscriber"]
    label: Annotated[Label, "label of the subscriber"]

    @property
    def key(self) -> Key:
        """The sort key of the subscriber: the value of its label, then its id."""
        return self.label.value, self.node


@dataclass(slots=True)
class Neighbour(Contact):
    """A neighbour on the ring, with its label as this node knows it."""

    silent: Annotated[int, "Timeouts since the neighbour last introduced itself"] = 0


@record(key="topic")
class Subscription:
    """The ring state that a node has for one topic (section 3.2)."""

    topic: Annotated[str, "topic of the ring"]
    wants: Annotated[bool, "whether the application has subscribed to the topic"] = False
    label: Annotated[Label | None, "label of the node; null: the node has no label"] = None
    left: Annotated[Neighbour | None, "nearest node before this node in the order of labels, with its label"] = None
    right: Annotated[Neighbour | None, "nearest node after this node in the order of labels, with its label"] = None
    ring: Annotated[
        Neighbour | None, "neighbour over the edge that closes the ring; only the first and the last node have it"
    ] = None
    short: Annotated[
        dict[Label, int | None], "for each shortcut label, the node in its slot; null: the slot is empty"
    ] = field(default_factory=dict)

    def on_ring(self) -> list[Neighbour]:
        """Returns the neighbours ``left``, ``right`` and ``ring`` that exist. Two of them may be the same node."""
        return [one for one in (self.left, self.right, self.ring) if one is not None]

    def ring_nodes(self) -> list[int]:
        """Returns the distinct ids of the neighbours on the ring."""
        return list(dict.fromkeys(one.node for one in self.on_ring()))

    def neighbours(self) -> list[int]:
        """Returns the distinct ids of all neighbours: first ring neighbours, then nodes in slots, ordered by label."""
        short = (node for _, node in sorted(self.short.items()) if node is not None)
        return list(dict.fromkeys([*self.ring_nodes(), *short]))

    def clear(self) -> None:
        """Deletes the node's label, edges and slots."""
        self.label = self.left = self.right = self.ring = None
        self.short = {}

    def drop_invalid_labels(self) -> None:
        """Deletes the node's label if it is invalid, and all edges and slots with invalid labels (rule K21)."""
        if self.label is not None and not self.label.is_valid:
            self.label = None
        self.left, self.right, self.ring = (
            None if one is not None and not one.label.is_valid else one for one in (self.left, self.right, self.ring)
        )
        if not all(label.is_valid for label in self.short):
            self.short = {label: node for label, node in self.short.items() if label.is_valid}

    def delete(self, node: int) -> None:
        """Deletes the edges to `node`, and empties the slots that contain it."""
        self.left, self.right, self.ring = (
            None if one is not None and one.node == node else one for one in (self.left, self.right, self.ring)
        )
        self.short = {label: None if held == node else held for label, held in self.short.items()}


@record(key="subscription_id")
class Interest:
    """An active subscription of the application."""

    subscription_id: Annotated[int, "id of the subscription"]
    topic: Annotated[str, "topic of the subscription"]


@record(key="topic")
class Database:
    """A supervisor's database of a topic (section 3.1)."""

    topic: Annotated[str, "topic of the ring"]
    next: Annotated[
        int, "index of the last subscriber to which Timeout sent its configuration, in round-robin order"
    ] = -1
    entries: Annotated[
        Entries, "tuples of the database: for each label its subscriber; null: the tuple is corrupted"
    ] = field(default_factory=dict)


@record(key="node")
class Crashed:
    """A subscriber whose crash the failure detector has reported to this supervisor (section 3.3)."""

    node: Annotated[int, "id of the subscriber"]


@record(key="node")
class Supervisor:
    """A supervisor. Every node knows all supervisors (section 1.1, rule K14)."""

    node: Annotated[int, "id of the supervisor"]
    point: Annotated[float, "position of the supervisor on [0, 1), which determines its topics"]


@cache
def point_of(name: str) -> float:
    """Returns the position of a topic or supervisor on [0, 1): a hash of `name`."""
    return uniform(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big"))


def responsible(topic: str, supervisors: Iterable[Supervisor]) -> int:
    """Returns the id of the supervisor of `topic`: the first one clockwise from the topic's position (rule K14)."""
    start = point_of(topic)
    return min(supervisors, key=lambda one: (one.point < start, one.point, one.node)).node


def sides(own: Key, before: Contact | None, after: Contact | None) -> tuple[Contact | None, ...]:
    """Returns the neighbours ``left``, ``right`` and ``ring`` of the node with sort key `own` in a configuration."""
    left = before if before is not None and before.key < own else None
    right = after if after is not None and after.key > own else None
    ring = after if left is not None and right is None else before if left is None else None
    return left, right, ring


def are_valid(*labels: Label | Contact | None) -> bool:
    """Returns whether all `labels` are valid (rules K1, K21). A contact stands for its label, and None is valid."""
    found = (one.label if isinstance(one, Contact) else one for one in labels)
    return all(label is None or label.is_valid for label in found)


def topic_of(call: Call) -> str:
    """Returns the topic of `call`.

    Raises:
        ValueError: The call names no topic.
    """
    if call.topic is None:
        raise ValueError(f"call {call.source_seq} ({call.kind}) names no topic; every call of a skip ring is about one")
    return call.topic
