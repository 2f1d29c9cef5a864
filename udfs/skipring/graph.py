"""What the edges of SR(n) are held to: their number, degrees and diameter (section 2.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set as AbstractSet

from udfs.skipring.labels import levels

Edges = Mapping[int, AbstractSet[int]]


def n_edges(n: int) -> int:
    """Returns the number of edges of SR(n), without directions."""
    return max(0, 2 * n - 3)


def max_degree(n: int) -> int:
    """Returns the largest degree in SR(n)."""
    if n == 1:
        return 0
    top = levels(n)
    return 2 * top - 1 if 4 * n > 3 << top else 2 * top - 2


def broken(edges: Edges) -> Iterator[tuple[int, str]]:
    """Yields what a graph has that SR(n) has not: a node, and what is wrong, in words.

    Args:
        edges: The neighbours of each subscriber; all of them are subscribers.
    """
    n = len(edges)
    if not n:
        return
    both = {node: set(near) for node, near in edges.items()}
    for node, near in edges.items():
        for other in near:
            both[other].add(node)
    most = max(both, key=lambda node: (len(both[node]), -node))
    found = sum(map(len, both.values())) // 2
    if found != n_edges(n):
        yield most, f"the ring of {n} has {found} edges, and SR({n}) has {n_edges(n)}"
    if len(both[most]) > max_degree(n):
        yield most, f"it has {len(both[most])} neighbours, and in SR({n}) nobody has more than {max_degree(n)}"
    for node in both:
        far = _farthest(both, node)
        if far is None or far > levels(n):
            how = "it does not reach all others" if far is None else f"it has {far} hops to another one"
            yield node, f"{how}, and in SR({n}) {levels(n)} are enough"
            return


def _farthest(edges: Edges, start: int) -> int | None:
    """Returns the hops to the farthest node; None: not all are reached."""
    hops, order = {start: 0}, [start]
    for node in order:
        for other in sorted(edges[node]):
            if other not in hops:
                hops[other] = hops[node] + 1
                order.append(other)
    return hops[order[-1]] if len(order) == len(edges) else None
