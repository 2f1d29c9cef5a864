"""The explicit state of nodes in every round: a row when what a node holds of a topic has changed (rule K18).

The state in which a run begins has round -1; empty states have no row. Labels are texts, as in the paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from udfs.nodes.records import record
from udfs.skipring.labels import Label
from udfs.skipring.state import Neighbour, Subscription

Explicit = tuple[Any, ...]
Entries = dict[Label, int | None]


@dataclass(frozen=True, slots=True)
class Held:
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
    """A round in which what a node holds of a topic's ring has changed.

    Attributes:
        topic: The topic.
        round: The round; -1: before the first one.
        wants: Whether the application has subscribed to it.
        label: The node's label; None: it has none.
        left: The nearest node before it in the order.
        right: The nearest node after it in the order.
        ring: At the minimum the maximum, and the other way round.
        slots: Its shortcuts.
    """

    topic: str
    round: int
    wants: bool
    label: str | None
    left: Held | None
    right: Held | None
    ring: Held | None
    slots: tuple[Slot, ...]


@record(key="topic, round, label")
class DatabaseChange:
    """A round in which a tuple of a supervisor's database has changed.

    Attributes:
        topic: The topic.
        round: The round; -1: before the first one.
        label: The label.
        subscriber: The subscriber that has it from then on; None: nobody.
        is_tuple: Whether there is a tuple with this label; without a subscriber it is a corruption.
    """

    topic: str
    round: int
    label: str
    subscriber: int | None
    is_tuple: bool


def explicit(own: Subscription) -> Explicit:
    """Returns what counts as explicit state of a node; two are equal if nothing of it has changed."""
    beside = (None if one is None else (one.node, one.label) for one in (own.left, own.right, own.ring))
    return own.wants, own.label, *beside, dict(own.short)


def configuration_change(own: Subscription, round_: int) -> ConfigurationChange:
    """Returns the row of a node's explicit state."""
    slots = tuple(Slot(str(label), node) for label, node in sorted(own.short.items()))
    label = None if own.label is None else str(own.label)
    return ConfigurationChange(
        own.topic, round_, own.wants, label, _held(own.left), _held(own.right), _held(own.ring), slots
    )


def _held(one: Neighbour | None) -> Held | None:
    return None if one is None else Held(one.node, str(one.label))


def database_changes(topic: str, round_: int, before: Entries, now: Entries) -> Iterator[DatabaseChange]:
    """Yields a row for each tuple that has changed, by label."""
    for label in sorted({*before, *now}):
        if (label in before, before.get(label)) != (label in now, now.get(label)):
            yield DatabaseChange(topic, round_, str(label), now.get(label), label in now)


def label_from(text: str | None) -> Label | None:
    """Returns the label that a text shows."""
    return None if text is None else Label(len(text), int(text, 2))


def subscription_from(row: Mapping[str, Any]) -> Subscription:
    """Returns what a node holds by a row of `ConfigurationChange`, as a dictionary."""
    left, right, ring = (_neighbour_from(row[side]) for side in ("left", "right", "ring"))
    short = {label: one["node"] for one in row["slots"] or () if (label := label_from(one["label"])) is not None}
    return Subscription(row["topic"], row["wants"], label_from(row["label"]), left, right, ring, short)


def _neighbour_from(row: Mapping[str, Any] | None) -> Neighbour | None:
    label = None if row is None else label_from(row["label"])
    return None if row is None or label is None else Neighbour(row["node"], label)
