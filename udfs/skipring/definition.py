"""The skip ring by its definition (section 2.1), for the detector of legitimate states and for audits.

The module checks the node program, so the two share no code. Here labels are strings of digits, and SR(n) is built
level by level. The node program represents labels as numbers, and computes shortcuts from ring neighbours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Set as AbstractSet
from functools import lru_cache
from typing import NamedTuple


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


def supervisor_of(topic: str, points: Mapping[int, float]) -> int | None:
    """Returns the supervisor of `topic`: the first supervisor clockwise from the topic's position (rule K14).

    Returns None if the run has no supervisor.

    Args:
        topic: Name of the topic.
        points: The position of each supervisor by node id.
    """
    start = point_of(topic)
    return min(points, key=lambda node: ((points[node] - start) % 1, node), default=None)


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
    """Returns the neighbours of each node in the graph `edges`, without the direction of edges.

    Args:
        edges: The nodes that each node refers to. All of them must be keys of `edges`.
    """
    both = {node: set(near) for node, near in edges.items()}
    for node, near in edges.items():
        for other in near:
            both[other].add(node)
    return both


def eccentricities(edges: Edges) -> dict[int, int | None]:
    """Returns the eccentricity of each node: its number of hops to the farthest node.

    A node that does not reach all other nodes gets None. The sets of reached nodes are bit sets, so extending all of
    them by one hop costs one union for each edge.

    Args:
        edges: A graph from `undirected`.
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
    """Returns the length of the longest shortest path between two nodes; None if the graph is not connected.

    Args:
        edges: A graph from `undirected`.
    """
    found = list(eccentricities(edges).values())
    known = [one for one in found if one is not None]
    return max(known, default=0) if len(known) == len(found) else None


def broken(edges: Edges) -> Iterator[tuple[int, str]]:
    """Checks the number of edges, the degrees and the diameter of a graph of n subscribers against SR(n).

    Yields the id of a node and a description for each property that differs.

    Args:
        edges: The subscribers that each subscriber refers to.
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
