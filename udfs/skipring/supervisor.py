"""The supervisor's part of BuildSR (sections 3.1, 3.3 and 4.1)."""

from __future__ import annotations

from collections.abc import Collection

from udfs.nodes.context import Context
from udfs.skipring.labels import Label, index_of, label_of, ring_neighbours
from udfs.skipring.messages import SetData, send
from udfs.skipring.state import Contact, Database

_NO_INDEX = 1 << 63
"""Above all indices."""


class Supervision:
    """The database of a topic while a supervisor acts on it; it is repaired first (rule K7)."""

    def __init__(self, database: Database, crashed: Collection[int], ctx: Context) -> None:
        """Repairs the database.

        Args:
            database: The database; it changes.
            crashed: The subscribers that have crashed.
            ctx: The supervisor in this round.
        """
        self._database = database
        self._crashed = crashed
        self._ctx = ctx
        database.entries = repaired(database.entries, crashed)

    def timeout(self) -> None:
        """Sends the next subscriber in turn its configuration."""
        if self._database.entries:
            self._database.next = (self._database.next + 1) % len(self._database.entries)
            self._configure(label_of(self._database.next), "round_robin")

    def integrate(self, subscriber: int, reason: str) -> None:
        """Records a subscriber, if it is not, and sends it its configuration (Subscribe, GetConfiguration)."""
        if subscriber in self._crashed:
            return
        label = self._label(subscriber)
        if label is None:
            label = label_of(len(self._database.entries))
            self._database.entries[label] = subscriber
        self._configure(label, reason)

    def request_for(self, subscriber: int) -> None:
        """Sends a subscriber its configuration, or that it has none (RequestFor)."""
        if subscriber in self._crashed:
            return
        label = self._label(subscriber)
        if label is None:
            self._dismiss(subscriber, "request")
        else:
            self._configure(label, "request")

    def unsubscribe(self, subscriber: int) -> None:
        """Removes a subscriber, moves the last one to its label, and gives permission to leave (Unsubscribe)."""
        if subscriber in self._crashed:
            return
        entries = self._database.entries
        label, last = self._label(subscriber), label_of(len(entries) - 1)
        if label is not None:
            moved = entries.pop(last)
            if label != last:
                entries[label] = moved
                self._configure(label, "moved")
        self._dismiss(subscriber, "leave")

    def _label(self, subscriber: int) -> Label | None:
        return next((label for label, node in self._database.entries.items() if node == subscriber), None)

    def _configure(self, label: Label, reason: str) -> None:
        entries, topic = self._database.entries, self._database.topic
        node = entries[label]
        if node is not None:
            before, after = configuration(entries, label)
            send(self._ctx, node, SetData(topic, before, label, after, reason))

    def _dismiss(self, subscriber: int, reason: str) -> None:
        send(self._ctx, subscriber, SetData(self._database.topic, None, None, None, reason))


def configuration(entries: dict[Label, int | None], label: Label) -> tuple[Contact | None, Contact | None]:
    """Returns the predecessor and the successor of a label by a database without corruptions (rule K10)."""
    index = index_of(label)
    beside = None if index is None else ring_neighbours(index, len(entries))
    if beside is None:
        return None, None
    before, after = (_contact(entries, label_of(one)) for one in beside)
    return before, after


def _contact(entries: dict[Label, int | None], label: Label) -> Contact | None:
    node = entries[label]
    return None if node is None else Contact(node, label)


def repaired(entries: dict[Label, int | None], crashed: Collection[int]) -> dict[Label, int | None]:
    """Returns a database without the four corruptions (3.1, rule K7).

    Tuples without a subscriber go, then all but the lowest label of each subscriber; the lowest missing label goes to
    the subscriber with the highest one that is too high, and so on.
    """
    lowest: dict[int, Label] = {}
    for label in sorted(entries, key=_rank):
        node = entries[label]
        if node is not None and node not in crashed:
            lowest.setdefault(node, label)
    kept: dict[Label, int | None] = {label: node for node, label in lowest.items()}
    right = {label_of(index): index for index in range(len(kept))}
    missing = [label for label in right if label not in kept]
    surplus = [label for label in kept if label not in right]
    for label, high in zip(missing, reversed(surplus), strict=True):
        kept[label] = kept.pop(high)
    return kept


def _rank(label: Label) -> tuple[int, Label]:
    """Returns the index of a label; labels that are no l(x) are above all others."""
    index = index_of(label)
    return _NO_INDEX if index is None else index, label
