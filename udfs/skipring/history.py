"""The explicit state of nodes in every round: a row for each change of a node's state of a topic (rule K18).

The start state of a run has round -1; an empty start state has no row. Labels are strings, as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from udfs.nodes.records import record

if TYPE_CHECKING:
    from udfs.skipring.labels import Label
    from udfs.skipring.state import Entries, Neighbour, Subscription

SIDES = ("left", "right", "ring")
Explicit = tuple[Any, ...]
Tuple = tuple[int | None]
"""The subscriber of a tuple of a database; None: the tuple has none."""


@dataclass(frozen=True, slots=True)
class RingPeer:
    """A neighbour on the ring, as the history has it.

    Attributes:
        node: The neighbour.
        label: The label that it is believed to have.
    """

    node: int
    label: str


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of a shortcut, as the history has it.

    Attributes:
        label: Its label.
        node: The node in it; None: it is empty.
    """

    label: str
    node: int | None


@record(key="topic, round")
class ConfigurationChange:
    """A round in which a node's state of a topic's ring has changed.

    Attributes:
        topic: The topic.
        round: The round; -1: before the first one.
        wants: Whether the application has subscribed to it.
        label: The node's label; None: it has none.
        left: The nearest node before it in the order.
        right: The nearest node after it in the order.
        ring: At the minimum the maximum, and vice versa.
        slots: Its shortcuts.
    """

    topic: str
    round: int
    wants: bool
    label: str | None
    left: RingPeer | None
    right: RingPeer | None
    ring: RingPeer | None
    slots: tuple[Slot, ...]

    @property
    def on_ring(self) -> tuple[RingPeer | None, RingPeer | None, RingPeer | None]:
        """The neighbours ``left``, ``right`` and ``ring``."""
        return self.left, self.right, self.ring

    @property
    def neighbours(self) -> set[int]:
        """All nodes that it refers to."""
        return {one.node for one in (*self.on_ring, *self.slots) if one is not None and one.node is not None}


@record(key="topic, round, label")
class DatabaseChange:
    """A round in which a tuple of a supervisor's database has changed.

    Attributes:
        topic: The topic.
        round: The round; -1: before the first one.
        label: The label.
        subscriber: The subscriber that has it from this round on; None: no subscriber.
        is_tuple: Whether there is a tuple with this label; without a subscriber it is a corruption.
    """

    topic: str
    round: int
    label: str
    subscriber: int | None
    is_tuple: bool


def explicit(own: Subscription) -> Explicit:
    """Returns the explicit state of a node, to be compared for changes."""
    beside = (None if one is None else (one.node, one.label) for one in (own.left, own.right, own.ring))
    return own.wants, own.label, *beside, dict(own.short)


def configuration_change(own: Subscription, round_: int) -> ConfigurationChange:
    """Returns the row of a node's explicit state."""
    slots = tuple(Slot(str(label), node) for label, node in sorted(own.short.items()))
    label = None if own.label is None else str(own.label)
    return ConfigurationChange(
        own.topic, round_, own.wants, label, _held(own.left), _held(own.right), _held(own.ring), slots
    )


def _held(one: Neighbour | None) -> RingPeer | None:
    return None if one is None else RingPeer(one.node, str(one.label))


def database_changes(
    topic: str, round_: int, before: Mapping[Label, Tuple | None], now: Entries
) -> Iterator[DatabaseChange]:
    """Yields a row for each tuple that has changed, by label.

    Args:
        topic: The topic.
        round_: The round.
        before: The tuples that may have changed, as they were; None: it did not exist.
        now: The database.
    """
    for label, old in sorted(before.items()):
        if old != ((now[label],) if label in now else None):
            yield DatabaseChange(topic, round_, str(label), now.get(label), label in now)


def configuration_from(row: Mapping[str, Any]) -> ConfigurationChange:
    """Returns the state in a row of `ConfigurationChange`, given as a dictionary."""
    left, right, ring = (
        None if row[side] is None else RingPeer(row[side]["node"], row[side]["label"]) for side in SIDES
    )
    slots = tuple(Slot(one["label"], one["node"]) for one in row["slots"] or ())
    return ConfigurationChange(row["topic"], row["round"], row["wants"], row["label"], left, right, ring, slots)
