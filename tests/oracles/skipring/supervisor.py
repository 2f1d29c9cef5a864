"""The supervisor: a database for each topic, round-robin configurations, repair (sections 3.1, 3.3, 4.1)."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from oracles.skipring.labels import index, nth, skip_ring
from oracles.skipring.moment import Contact, Moment


@dataclass
class Database:
    """The subscriber of each label, and the index of the subscriber that last received its configuration in turn."""

    entries: dict[str, int | None] = field(default_factory=dict)
    next: int = -1


class Supervisor:
    """The supervisor part of a node; a node that is not a supervisor is responsible for no topic."""

    def __init__(self, watched: Collection[int], others: Collection[int], is_mine: Callable[[str], bool]) -> None:
        self.databases: dict[str, Database] = {}
        self.crashed: set[int] = set()
        self.watched = set(watched)
        self._others = set(others)
        self._is_mine = is_mine

    def report(self, node: int) -> None:
        """Stores the failure detector's verdict about a node, and repairs the databases (K8)."""
        self.watched.discard(node)
        self.crashed.add(node)
        for topic in filter(self._is_mine, self.databases):
            self._repaired(topic)

    def receive(self, now: Moment, kind: str, src: int, topic: str, *rest: int | str) -> None:
        """Handles a request. If its subscriber has crashed, only the database is repaired (K7, K8)."""
        if not self._is_mine(topic):
            return
        order = self._repaired(topic)
        subscriber = rest[0] if kind == "RequestFor" else src
        assert isinstance(subscriber, int)
        if subscriber in self.crashed:
            return
        if kind == "RequestFor":
            self._tell(now, topic, order, subscriber, "request")
        elif kind == "Unsubscribe":
            self._unsubscribe(now, topic, order, subscriber)
        else:
            if subscriber not in order:
                order.append(subscriber)
            self._record(topic, order)
            self._tell(now, topic, order, subscriber, "subscribe" if kind == "Subscribe" else "request")

    def _unsubscribe(self, now: Moment, topic: str, order: list[int], subscriber: int) -> None:
        if subscriber in order:
            last = order.pop()
            if last != subscriber:
                order[order.index(subscriber)] = last
                self._tell(now, topic, order, last, "moved")
            self._record(topic, order)
        now.send(subscriber, "SetData", topic, None, None, None, "leave")

    def timeout(self, now: Moment) -> None:
        """Sends the next subscriber of each topic its configuration; removes databases of other supervisors (K21)."""
        self._correct_verdicts()
        self.databases = {topic: one for topic, one in self.databases.items() if self._is_mine(topic)}
        for topic in sorted(self.databases):
            order = self._repaired(topic)
            if order:
                database = self.databases[topic]
                database.next = (database.next + 1) % len(order)
                self._tell(now, topic, order, order[database.next], "round_robin")

    def _tell(self, now: Moment, topic: str, order: list[int], subscriber: int, reason: str) -> None:
        """Sends a subscriber its configuration; an empty one if the subscriber is not in the database."""
        if subscriber not in order:
            now.send(subscriber, "SetData", topic, None, None, None, reason)
            return
        before, label, after = configuration(order, subscriber)
        now.send(subscriber, "SetData", topic, before, label, after, reason)

    def _repaired(self, topic: str) -> list[int]:
        """Repairs a database; returns the subscribers in the order of their labels l(0), l(1), ..."""
        self._correct_verdicts()
        database = self.databases.setdefault(topic, Database())
        order = repaired(database.entries, self.crashed)
        self._record(topic, order)
        return order

    def _correct_verdicts(self) -> None:
        """Removes the verdicts that the failure detector has not given (K21)."""
        self.crashed -= self.watched | self._others

    def _record(self, topic: str, order: list[int]) -> None:
        self.databases[topic].entries = {nth(x): node for x, node in enumerate(order)}


def configuration(order: list[int], subscriber: int) -> tuple[Contact | None, str, Contact | None]:
    """Returns predecessor, label and successor of a subscriber; a single subscriber has no neighbours (K10)."""
    label = nth(order.index(subscriber))
    node = {nth(x): one for x, one in enumerate(order)}
    place = skip_ring(len(order))[label]
    before, after = (None if one is None else (node[one], one) for one in (place.before, place.after))
    return before, label, after


def repaired(entries: dict[str, int | None], crashed: Collection[int]) -> list[int]:
    """Returns the subscribers of a database in the order of their labels, after the repair of corruptions (K7)."""
    label_of: dict[int, str] = {}
    for label in sorted(entries, key=_rank):
        node = entries[label]
        if node is not None and node not in crashed and node not in label_of:
            label_of[node] = label
    right = [nth(x) for x in range(len(label_of))]
    found = {label: node for node, label in label_of.items() if label in right}
    surplus = sorted((label for label in label_of.values() if label not in right), key=_rank, reverse=True)
    node_of = {label: node for node, label in label_of.items()}
    missing = [label for label in right if label not in found]
    for label, high in zip(missing, surplus, strict=True):
        found[label] = node_of[high]
    return [found[label] for label in right]


def _rank(label: str) -> tuple[bool, int, int, str]:
    """Returns a sort key: labels l(x) are ordered by x; all other labels follow, ordered by length and digits."""
    x = index(label)
    return x is None, x or 0, len(label), label
