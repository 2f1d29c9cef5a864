"""SR(n) by its definition (section 2.1), and the detector of legitimate states of a topic (section 5, rule K9).

The module checks the node program, so the two share no code. Here labels are strings of digits, and SR(n) is built
level by level. The node program represents labels as numbers, and computes shortcuts from ring neighbours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Set as AbstractSet
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from udfs.nodes.world import Flight
from udfs.skipring.history import ConfigurationChange


class LabelNeighbours(NamedTuple):
    """The neighbours of one label in SR(n), the skip ring of n labels.

    Attributes:
        before: The previous label on the ring. None if n is 1.
        after: The next label on the ring. None if n is 1.
        shortcuts: The labels that shortcuts connect to the label.
    """

    before: str | None
    after: str | None
    shortcuts: frozenset[str]

    def sides(self, label: str) -> tuple[str | None, str | None, str | None]:
        """Returns these neighbours, which belong to `label`, as (left, right, ring).

        Neighbour ``ring`` is connected by the edge that closes the ring. A missing neighbour is ``None``.
        """
        if self.before is None or self.after is None:
            return None, None, None
        is_minimum, is_maximum = label == nth(0), self.after == nth(0)
        left = None if is_minimum else self.before
        right = None if is_maximum else self.after
        ring = self.before if is_minimum else self.after if is_maximum else None
        return left, right, ring


def nth(x: int) -> str:
    """Returns l(x), the label of subscriber `x`: the binary digits of `x` with the leading digit moved to the end."""
    digits = f"{x:b}"
    return digits[1:] + digits[0]


def n_levels(n: int) -> int:
    """Returns the number of levels of SR(n): the logarithm of `n` to base 2, rounded up."""
    return max(0, n - 1).bit_length()


@lru_cache(16)
def skip_ring(n: int) -> dict[str, LabelNeighbours]:
    """Returns the neighbours of each label of SR(n).

    SR(n) consists of one ring for each level. The ring of the top level contains all n labels. The ring of a lower
    level k contains the labels of at most k digits.
    """
    labels = [nth(x) for x in range(n)]
    if n <= 1:
        return {label: LabelNeighbours(None, None, frozenset()) for label in labels}
    beside = _ring(labels)
    shortcuts: dict[str, set[str]] = {label: set() for label in labels}
    for level in range(1, n_levels(n)):
        for label, others in _ring([one for one in labels if len(one) <= level]).items():
            shortcuts[label] |= {one for one, nearest in zip(others, beside[label], strict=True) if one != nearest}
    return {label: LabelNeighbours(*beside[label], frozenset(shortcuts[label])) for label in labels}


def _ring(labels: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Returns the predecessor and the successor of each label on the ring of `labels`."""
    order = sorted(labels, key=lambda label: label.ljust(64, "0"))
    return {label: (order[at - 1], order[(at + 1) % len(order)]) for at, label in enumerate(order)}


def point_of(name: str) -> float:
    """Returns the position of a topic or supervisor on [0, 1): the first 53 bits of SHA-256 of `name`."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) // 2**11 / 2**53


def supervisor_of(topic: str, points: Mapping[int, float]) -> int:
    """Returns the supervisor of `topic`: the first of the positions `points` clockwise from the topic's (rule K14)."""
    start = point_of(topic)
    return min(points, key=lambda node: ((points[node] - start) % 1, node))


Edges = Mapping[int, AbstractSet[int]]


def n_edges(n: int) -> int:
    """Returns the number of undirected edges of SR(n)."""
    return max(0, 2 * n - 3)


def max_degree(n: int) -> int:
    """Returns the largest degree of a node of SR(n)."""
    if n == 1:
        return 0
    top = n_levels(n)
    return 2 * top - 1 if 4 * n > 3 << top else 2 * top - 2


def undirected(edges: Edges) -> dict[int, set[int]]:
    """Returns the neighbours of each node in graph `edges`, whose keys are all nodes, without edge directions."""
    both = {node: set(near) for node, near in edges.items()}
    for node, near in edges.items():
        for other in near:
            both[other].add(node)
    return both


def eccentricities(edges: Edges) -> dict[int, int | None]:
    """Returns the number of hops from each node to the farthest node, or None if it does not reach all other nodes.

    Argument `edges` is a graph from `undirected`. The sets of reached nodes are bit sets, so extending all of them by
    one hop costs one union for each edge.
    """
    everyone = (1 << len(edges)) - 1
    reached = {node: 1 << place for place, node in enumerate(edges)}
    found = {node: 0 if bits == everyone else None for node, bits in reached.items()}
    for step in range(1, len(edges)):
        wider = {node: bits for node, bits in reached.items() if bits != everyone}
        for node, bits in wider.items():
            for other in edges[node]:
                bits |= reached[other]
            wider[node] = bits
        if all(bits == reached[node] for node, bits in wider.items()):
            break
        reached |= wider
        found |= {node: step for node, bits in wider.items() if bits == everyone}
    return found


def diameter(edges: Edges) -> int | None:
    """Returns the length of the longest shortest path in a graph from `undirected`; None if it is not connected."""
    found = list(eccentricities(edges).values())
    known = [one for one in found if one is not None]
    return max(known, default=0) if len(known) == len(found) else None


def broken(edges: Edges) -> Iterator[tuple[int, str]]:
    """Checks the number of edges, the degrees and the diameter of the graph of n subscribers against SR(n).

    Argument `edges` has the subscribers that each subscriber refers to. Yields the id of a node and a description for
    each property that differs.
    """
    n = len(edges)
    if not n:
        return
    both = undirected(edges)
    most = max(both, key=lambda node: (len(both[node]), -node))
    found = sum(map(len, both.values())) // 2
    if found != n_edges(n):
        yield most, f"the ring of {n} has {found} edges, and SR({n}) has {n_edges(n)}"
    if len(both[most]) > max_degree(n):
        yield most, f"it has {len(both[most])} neighbours, and in SR({n}) nobody has more than {max_degree(n)}"
    for node, far in eccentricities(both).items():
        if far is None or far > n_levels(n):
            how = "it does not reach all others" if far is None else f"it has {far} hops to another one"
            yield node, f"{how}, and in SR({n}) {n_levels(n)} are enough"
            return


KINDS = ("Introduce", "IntroduceShortcut", "SetData", "Remove", "Subscribe", "Unsubscribe", "GetConfiguration")
"""The kinds of messages whose contents decide whether a state is legitimate.

These messages name a node with its label, or request that a supervisor records or removes a node.
"""


class TopicState:
    """The state of a topic at the end of a round.

    Attributes:
        kept: The ring state of each node that is up and has state for the topic.
        databases: The subscriber of each label, in the database of each node. None if the tuple is corrupted and has no
            subscriber.
        crashed: Subscribers whose crash the failure detector has reported to the supervisor.
    """

    def __init__(self, topic: str, supervisor: int) -> None:
        """Starts with a topic that has no state."""
        self.topic = topic
        self.supervisor = supervisor
        self.kept: dict[int, ConfigurationChange] = {}
        self.databases: dict[int, dict[str, int | None]] = {}
        self.crashed: set[int] = set()

    @property
    def entries(self) -> Mapping[str, int | None]:
        """The database of the topic's supervisor."""
        return self.databases.get(self.supervisor, {})

    @property
    def members(self) -> set[int]:
        """Ids of the subscribers that are up."""
        return {node for node, own in self.kept.items() if own.wants}

    def explicit_problem(self) -> str | None:
        """Returns the first reason why the explicit state is not legitimate, or None if it is legitimate."""
        return next(self._problems(), None)

    def potential(self) -> int:
        """Returns the potential: the number of reasons why the explicit state is not legitimate."""
        return sum(1 for _ in self._problems())

    def _problems(self) -> Iterator[str]:
        yield from self._database()
        yield from self._ring()
        yield from self._departed()
        for node in sorted(node for node, entries in self.databases.items() if entries and node != self.supervisor):
            yield f"node {node} has a database, and is not the topic's supervisor"

    def implicit_problem(self, flights: Iterable[Flight]) -> str | None:
        """Describes the first message in `flights` that contradicts the database; None if no message contradicts it.

        Assumes a legitimate explicit state.
        """
        labels, members = {node: label for label, node in self.entries.items()}, self.members
        for flight in flights:
            if flight.fate is not None or flight.kind not in KINDS:
                continue
            body = flight.message if isinstance(flight.message, dict) else asdict(flight.message)
            if body["topic"] == self.topic and not self._is_true(flight, body, labels, members):
                return f"{flight.kind} {flight.message_id} to node {flight.dst} differs from the database"
        return None

    def _database(self) -> Iterator[str]:
        entries, members = self.entries, self.members
        n = len(members)
        if len(entries) != n:
            yield f"the database has {len(entries)} tuples, and {n} nodes have subscribed"
        for label in map(nth, range(n)):
            if label not in entries:
                yield f"label {label} is missing in the database"
        for label, node in self._tuples():
            if node not in members:
                yield f"label {label} is of node {node}, which has not subscribed or is down"
        if len({*entries.values()}) != n:
            yield "a subscriber has several labels"

    def _tuples(self) -> list[tuple[str, int | None]]:
        return sorted(self.entries.items(), key=lambda item: (len(item[0]), item[0]))

    def _ring(self) -> Iterator[str]:
        entries = self.entries
        places = skip_ring(len(entries))
        for label, node in self._tuples():
            own, place = None if node is None else self.kept.get(node), places.get(label)
            if own is None or own.label != label or place is None:
                yield f"node {node} does not have its label {label}"
                continue
            sides = tuple(None if one is None else (entries.get(one), one) for one in place.sides(label))
            if tuple(None if one is None else (one.node, one.label) for one in own.on_ring) != sides:
                yield f"node {node} has wrong neighbours on the ring"
            elif {one.label: one.node for one in own.slots} != {one: entries.get(one) for one in place.shortcuts}:
                yield f"node {node} has wrong shortcuts"

    def _departed(self) -> Iterator[str]:
        for node, own in self.kept.items():
            if not own.wants and (own.label, *own.on_ring, own.slots) != (None,) * 4 + ((),):
                yield f"node {node} has left and holds a label or edges"

    def _is_true(
        self, flight: Flight, body: Mapping[str, Any], labels: Mapping[int | None, str], members: set[int]
    ) -> bool:  # fmt: skip
        """Returns whether the nodes and labels in a message agree with the database."""
        kind, src, dst = flight.kind, flight.src, flight.dst
        if kind == "SetData":
            return self._is_configuration(body, labels.get(dst))
        if kind == "Remove":
            return body["node"] not in members
        if kind == "Unsubscribe":
            return src not in members
        if kind in ("Subscribe", "GetConfiguration"):
            return src in members or src in self.crashed
        is_believed = body.get("believed") is None or digits(body["believed"]) == labels.get(dst)
        return labels.get(body["node"]) == digits(body["label"]) and is_believed

    def _is_configuration(self, body: Mapping[str, Any], label: str | None) -> bool:
        found = [body.get("predecessor"), body.get("successor")]
        beside = [None if one is None else (one["node"], digits(one["label"])) for one in found]
        entries = self.entries
        place = None if label is None else skip_ring(len(entries)).get(label)
        right = (None, None) if place is None else (place.before, place.after)
        is_own = (None if body.get("label") is None else digits(body["label"])) == label
        return is_own and beside == [None if one is None else (entries.get(one), one) for one in right]


def digits(label: Mapping[str, int]) -> str:
    """Returns the digits of `label`, a dictionary from the body of a message."""
    return f"{label['numerator']:0{label['bits']}b}"


@dataclass
class Convergence:
    """The convergence of a topic, updated round by round.

    Attributes:
        explicit_round: The round since which the explicit state is legitimate, or None if it is not legitimate. After
            `clean_round` the value does not change.
        clean_round: The first round in which the explicit state and the messages in flight are legitimate. From this
            round on, closure must hold.
        problem: The reason why the last round is not legitimate, or None if the last round is legitimate.
        broken_round: The first round after `clean_round` in which the explicit state is not legitimate.
    """

    explicit_round: int | None = None
    clean_round: int | None = None
    problem: str | None = None
    broken_round: int | None = None

    @property
    def is_open(self) -> bool:
        """Whether the explicit state is legitimate, but the messages in flight have not been legitimate yet."""
        return self.explicit_round is not None and self.clean_round is None

    def observe(self, round_: int, state: TopicState, flights: Iterable[Flight]) -> None:
        """Updates the convergence with the state and the messages in flight at the end of round `round_`."""
        self.problem = state.explicit_problem()
        if self.problem is not None:
            if self.clean_round is None:
                self.explicit_round = None
            elif self.broken_round is None:
                self.broken_round = round_
            return
        if self.explicit_round is None:
            self.explicit_round = round_
        if self.clean_round is None:
            self.problem = state.implicit_problem(flights)
            self.clean_round = round_ if self.problem is None else None
