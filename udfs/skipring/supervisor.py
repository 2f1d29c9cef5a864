"""The supervisor's actions of BuildSR (sections 3.1, 3.3 and 4.1)."""

from __future__ import annotations

from collections.abc import Collection

from udfs.nodes.context import Context
from udfs.skipring.history import Tuple
from udfs.skipring.labels import Label, index_of, label_of, ring_neighbours
from udfs.skipring.messages import SetData, send
from udfs.skipring.state import Contact, Database, Entries


class Supervision:
    """The database of a topic at its supervisor, with the supervisor's actions (rule K7).

    The constructor and each Timeout check and repair the whole database. All other actions change single tuples, at a
    cost that does not depend on the number of subscribers.

    Attributes:
        changed: The previous value of each tuple that has changed in this round, by label.
    """

    def __init__(self, database: Database, crashed: Collection[int]) -> None:
        """Repairs the database. To report a crash, callers add the subscriber to `crashed` and call `remove`."""
        self.changed: dict[Label, Tuple | None] = {}
        self._database = database
        self._crashed = crashed
        self._labels: dict[int | None, Label] = {}
        self._entries = database.entries
        self._repair()

    def timeout(self, ctx: Context) -> None:
        """Timeout: checks the database, and sends one subscriber its configuration, in round-robin order."""
        if not _is_repaired(self._entries, self._crashed):
            self._repair()
        if self._entries:
            self._database.next = (self._database.next + 1) % len(self._entries)
            self._configure(label_of(self._database.next), "round_robin", ctx)

    def integrate(self, subscriber: int, reason: str, ctx: Context) -> None:
        """Subscribe, GetConfiguration: sends `subscriber` its configuration.

        If the database lacks the subscriber, first adds it with a new label. Crashed subscribers get no answer.
        """
        if subscriber in self._crashed:
            return
        label = self._labels.get(subscriber)
        if label is None:
            label = label_of(len(self._entries))
            self._set(label, subscriber)
        self._configure(label, reason, ctx)

    def request_for(self, subscriber: int, ctx: Context) -> None:
        """RequestFor: sends `subscriber` its configuration, which is empty if the database lacks the subscriber."""
        if subscriber in self._crashed:
            return
        label = self._labels.get(subscriber)
        if label is None:
            self._dismiss(subscriber, "request", ctx)
        else:
            self._configure(label, "request", ctx)

    def unsubscribe(self, subscriber: int, ctx: Context) -> None:
        """Unsubscribe: removes `subscriber`, and permits it to leave.

        The subscriber with the last label gets the label of `subscriber`.
        """
        if subscriber in self._crashed:
            return
        label = self.remove(subscriber)
        if label is not None:
            self._configure(label, "moved", ctx)
        self._dismiss(subscriber, "leave", ctx)

    def _repair(self) -> None:
        entries = repaired(self._entries, self._crashed)
        for label in {*self._entries, *entries}:
            if label not in entries:
                self._drop(label)
            elif label not in self._entries or self._entries[label] != entries[label]:
                self._note(label)
        self._entries.update(entries)
        self._labels = {node: label for label, node in entries.items()}

    def remove(self, subscriber: int) -> Label | None:
        """Removes `subscriber`, and gives its label to the subscriber with the last label (section 3.3).

        Returns the label if a subscriber has moved to it, else None.
        """
        label = self._labels.pop(subscriber, None)
        if label is None:
            return None
        last = label_of(len(self._entries) - 1)
        moved = self._entries[last]
        self._drop(last)
        if label == last or moved is None:
            return None
        self._set(label, moved)
        return label

    def _set(self, label: Label, subscriber: int) -> None:
        self._note(label)
        self._entries[label] = subscriber
        self._labels[subscriber] = label

    def _drop(self, label: Label) -> None:
        self._note(label)
        del self._entries[label]

    def _note(self, label: Label) -> None:
        if label not in self.changed:
            self.changed[label] = (self._entries[label],) if label in self._entries else None

    def _configure(self, label: Label, reason: str, ctx: Context) -> None:
        node = self._entries[label]
        if node is not None:
            before, after = configuration(self._entries, label)
            send(ctx, node, SetData(self._database.topic, before, label, after, reason))

    def _dismiss(self, subscriber: int, reason: str, ctx: Context) -> None:
        send(ctx, subscriber, SetData(self._database.topic, None, None, None, reason))


def configuration(entries: Entries, label: Label) -> tuple[Contact | None, Contact | None]:
    """Returns the predecessor and the successor of `label` in a repaired database; None if n is 1 (rule K10)."""
    index = index_of(label)
    beside = None if index is None else ring_neighbours(index, len(entries))
    if beside is None:
        return None, None
    before, after = (_contact(entries, label_of(one)) for one in beside)
    return before, after


def _contact(entries: Entries, label: Label) -> Contact | None:
    node = entries[label]
    return None if node is None else Contact(node, label)


def repaired(entries: Entries, crashed: Collection[int]) -> Entries:
    """Returns a copy of the database in which the four corruptions are repaired (section 3.1, rule K7).

    Tuples without a live subscriber are removed. A subscriber with several labels keeps the lowest one. Then the
    subscribers with the highest labels get those of the first n labels that are missing.
    """
    lowest: dict[int, Label] = {}
    for label in sorted(entries, key=lambda label: (not label.is_valid, label)):  # valid labels sort by index
        node = entries[label]
        if node is not None and node not in crashed:
            lowest.setdefault(node, label)
    kept: Entries = {label: node for node, label in lowest.items()}
    right = set(map(label_of, range(len(kept))))
    missing = [label for label in map(label_of, range(len(kept))) if label not in kept]
    surplus = [label for label in kept if label not in right]
    for label, high in zip(missing, reversed(surplus), strict=True):
        kept[label] = kept.pop(high)
    return kept


def _is_repaired(entries: Entries, crashed: Collection[int]) -> bool:
    nodes = set(entries.values())
    has_right_labels = all(label in entries for label in map(label_of, range(len(entries))))
    return has_right_labels and len(nodes) == len(entries) and None not in nodes and nodes.isdisjoint(crashed)
