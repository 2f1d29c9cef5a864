"""The history of explicit state: one row for each change of the state that a node has for a topic (rule K18).

Explicit state is the label, edges and slots of a node, and the database of a supervisor. Rows of round -1 contain the
initial state of a run, unless it is empty. Labels are strings of digits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from udfs.nodes.records import record

if TYPE_CHECKING:
    from udfs.skipring.labels import Label
    from udfs.skipring.state import Entries, Subscription

Explicit = tuple[Any, ...]
Tuple = tuple[int | None]
"""The subscriber of a database tuple; None if the tuple is corrupted and has no subscriber."""


@dataclass(frozen=True, slots=True)
class RingPeer:
    """A neighbour of a node on the ring."""

    node: Annotated[int, "id of the neighbour"]
    label: Annotated[str, "the neighbour's label as the node knows it"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A shortcut slot of a node."""

    label: Annotated[str, "label of the shortcut"]
    node: Annotated[int | None, "id of the node in the slot; null: the slot is empty"]


@record(key="topic, round")
class ConfigurationChange:
    """A change of the ring state that a node has for a topic. The row contains the state from round ``round`` on."""

    topic: Annotated[str, "topic of the ring"]
    round: Annotated[int, "round of the change; -1: the initial state"]
    wants: Annotated[bool, "whether the application has subscribed to the topic"]
    label: Annotated[str | None, "label of the node; null: the node has no label"]
    left: Annotated[RingPeer | None, "nearest node before this node in the order of labels, with its label"]
    right: Annotated[RingPeer | None, "nearest node after this node in the order of labels, with its label"]
    ring: Annotated[
        RingPeer | None, "neighbour over the edge that closes the ring; only the first and the last node have it"
    ]
    slots: Annotated[tuple[Slot, ...], "label and node of each shortcut slot"]

    @property
    def on_ring(self) -> tuple[RingPeer | None, RingPeer | None, RingPeer | None]:
        """The neighbours ``left``, ``right`` and ``ring``."""
        return self.left, self.right, self.ring

    @property
    def neighbours(self) -> set[int]:
        """Ids of all nodes that the node refers to."""
        return {one.node for one in (*self.on_ring, *self.slots) if one is not None and one.node is not None}


@record(key="topic, round, label")
class DatabaseChange:
    """A change of one tuple in a supervisor's database."""

    topic: Annotated[str, "topic of the database"]
    round: Annotated[int, "round of the change; -1: the initial state"]
    label: Annotated[str, "label of the tuple"]
    subscriber: Annotated[int | None, "subscriber with the label after the change; null: no subscriber"]
    is_tuple: Annotated[bool, "whether the tuple exists after the change; a tuple without subscriber is corrupted"]


def explicit(own: Subscription) -> Explicit:
    """Returns a copy of the explicit state of a node for a topic, for comparison with a later state."""
    beside = (None if one is None else (one.node, one.label) for one in (own.left, own.right, own.ring))
    return own.wants, own.label, *beside, dict(own.short)


def configuration_change(own: Subscription, round_: int) -> ConfigurationChange:
    """Returns the history row that records the explicit state of a node in round `round_`."""
    slots = tuple(Slot(str(label), node) for label, node in sorted(own.short.items()))
    label = None if own.label is None else str(own.label)
    sides = (None if one is None else RingPeer(one.node, str(one.label)) for one in (own.left, own.right, own.ring))
    left, right, ring = sides
    return ConfigurationChange(own.topic, round_, own.wants, label, left, right, ring, slots)


def database_changes(
    topic: str, round_: int, before: Mapping[Label, Tuple | None], now: Entries
) -> Iterator[DatabaseChange]:
    """Yields a row for each tuple of database `now` that differs from its tuple `before`, in the order of labels.

    In `before`, None stands for a label without a tuple. Labels whose tuples have not changed may be missing.
    """
    for label, old in sorted(before.items()):
        if old != ((now[label],) if label in now else None):
            yield DatabaseChange(topic, round_, str(label), now.get(label), label in now)
