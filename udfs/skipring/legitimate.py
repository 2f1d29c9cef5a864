"""The detector of legitimate states (section 5, rule K9): all nodes of a topic at once, and its messages in flight."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache

from udfs.nodes.network import Flight
from udfs.skipring.labels import Label, label_of, slots
from udfs.skipring.messages import (
    GetConfiguration,
    Introduce,
    IntroduceShortcut,
    Remove,
    SetData,
    Subscribe,
    Unsubscribe,
)
from udfs.skipring.program import SkipRing
from udfs.skipring.state import Contact, Neighbour, Subscription, responsible, sides
from udfs.skipring.supervisor import configuration

Held = tuple[int, Label] | None
_slots = cache(slots)


class Snapshot:
    """A topic in a round: what all nodes that are up keep of it."""

    def __init__(
        self, topic: str, kept: Mapping[int, Subscription | None], entries: Mapping[Label, int | None],
        crashed: Collection[int],
    ) -> None:  # fmt: skip
        """Takes what nodes keep.

        Args:
            topic: The topic.
            kept: What all nodes that are up keep of its ring; None: nothing.
            entries: The database of its supervisor.
            crashed: The subscribers whose crash has been reported there.
        """
        self._topic = topic
        self._kept = kept
        self._members = {node for node, own in kept.items() if own is not None and own.wants}
        self._entries = dict(entries)
        self._crashed = crashed

    @classmethod
    def of(cls, topic: str, programs: Mapping[int, SkipRing]) -> Snapshot:
        """Looks at the nodes of a run themselves.

        Args:
            topic: The topic.
            programs: All nodes that are up.
        """
        supervisor = programs[responsible(topic, next(iter(programs.values())).supervisor.values())]
        database = supervisor.database.get(topic)
        kept = {node: program.subscription.get(topic) for node, program in programs.items()}
        return cls(topic, kept, {} if database is None else database.entries, supervisor.crashed)

    def explicit_problem(self) -> str | None:
        """Returns why the state of the nodes is not legitimate; None: it is."""
        return next(self._database(), None) or next(self._ring(), None) or next(self._departed(), None)

    def implicit_problem(self, flights: Iterable[Flight]) -> str | None:
        """Returns why the messages in flight are not, where the state of the nodes is legitimate; None: they are."""
        labels = {node: label for label, node in self._entries.items()}
        for flight in flights:
            is_about = flight.fate is None and getattr(flight.message, "topic", None) == self._topic
            if is_about and not self._is_true(flight, labels):
                return f"{flight.kind} {flight.message_id} to node {flight.dst} differs from the database"
        return None

    def _database(self) -> Iterator[str]:
        n = len(self._members)
        if len(self._entries) != n:
            yield f"the database has {len(self._entries)} tuples, and {n} nodes have subscribed"
        for index in range(n):
            label = label_of(index)
            if label not in self._entries:
                yield f"label {label} is missing in the database"
        for label, node in self._entries.items():
            if node not in self._members:
                yield f"label {label} is of node {node}, which has not subscribed or is down"
        if len({*self._entries.values()}) != n:
            yield "a subscriber has several labels"

    def _ring(self) -> Iterator[str]:
        for label, node in self._entries.items():
            own = None if node is None else self._kept[node]
            if own is None or own.label != label:
                yield f"node {node} does not have its label {label}"
            elif [_held(one) for one in (own.left, own.right, own.ring)] != [
                _held(one) for one in sides((label.value, node or 0), *configuration(self._entries, label))
            ]:
                yield f"node {node} has wrong neighbours on the ring"
            elif own.short != {slot: self._entries[slot] for slot in _slots(len(self._entries))[label]}:
                yield f"node {node} has wrong shortcuts"

    def _departed(self) -> Iterator[str]:
        for node, own in self._kept.items():
            if own is not None and not own.wants and own != Subscription(self._topic):
                yield f"node {node} has left and holds a label or edges"

    def _is_true(self, flight: Flight, labels: Mapping[int | None, Label]) -> bool:
        """Returns whether what a message says of nodes is what the database says."""
        m, src, dst = flight.message, flight.src, flight.dst
        if isinstance(m, Introduce):
            return labels.get(m.node) == m.label and m.believed in (None, labels.get(dst))
        if isinstance(m, IntroduceShortcut):
            return labels.get(m.node) == m.label
        if isinstance(m, SetData):
            return self._is_configuration(m, labels.get(dst))
        if isinstance(m, Remove):
            return m.node not in self._members
        if isinstance(m, Unsubscribe):
            return src not in self._members
        if isinstance(m, Subscribe | GetConfiguration):
            return src in self._members or src in self._crashed
        return True

    def _is_configuration(self, m: SetData, label: Label | None) -> bool:
        beside: tuple[Contact | None, Contact | None] = (None, None)
        if label is not None:
            beside = configuration(self._entries, label)
        return (m.predecessor, m.label, m.successor) == (beside[0], label, beside[1])


def _held(one: Neighbour | Contact | None) -> Held:
    return None if one is None else (one.node, one.label)


@dataclass
class Convergence:
    """How a topic converges, as rounds go on.

    Attributes:
        explicit_round: The first round in which the state of the nodes was legitimate.
        clean_round: The first round in which the messages in flight were, too; from it on closure holds.
        problem: Why the last round was not legitimate; None: it was.
        broken_round: The first round after ``clean_round`` in which the state of the nodes was not legitimate.
    """

    explicit_round: int | None = None
    clean_round: int | None = None
    problem: str | None = None
    broken_round: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether messages in flight alone keep it from being clean."""
        return self.explicit_round is not None and self.clean_round is None

    def observe(self, round_: int, snapshot: Snapshot, flights: Iterable[Flight]) -> None:
        """Looks at the end of a round.

        Args:
            round_: The round.
            snapshot: What nodes keep.
            flights: The messages in flight.
        """
        self.problem = snapshot.explicit_problem()
        if self.problem is not None:
            if self.clean_round is not None and self.broken_round is None:
                self.broken_round = round_
            return
        if self.explicit_round is None:
            self.explicit_round = round_
        if self.clean_round is None:
            self.problem = snapshot.implicit_problem(flights)
            self.clean_round = round_ if self.problem is None else None


def has_same_tries(topic: str, programs: Mapping[int, SkipRing]) -> bool:
    """Returns whether all subscribers of a topic have the same publications."""
    wanting = (one for one in programs.values() if topic in one.subscription and one.subscription[topic].wants)
    return len({_trie(topic, one) for one in wanting}) <= 1


def _trie(topic: str, program: SkipRing) -> tuple[str, str] | None:
    """Returns label and hash of the root of a node's trie; None: it is empty."""
    root = program.trie_root.get(topic)
    return None if root is None else (root.label, program.trie_node[topic, root.label].hash)
