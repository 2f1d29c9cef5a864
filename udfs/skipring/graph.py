"""What the edges of SR(n) are held to: their number, degrees and diameter (section 2.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set as AbstractSet

from udfs.skipring.definition import n_levels

Edges = Mapping[int, AbstractSet[int]]


def n_edges(n: int) -> int:
    """Returns the number of edges of SR(n), without directions."""
    return max(0, 2 * n - 3)


def max_degree(n: int) -> int:
    """Returns the largest degree in SR(n)."""
    if n == 1:
        return 0
    top = n_levels(n)
    return 2 * top - 1 if 4 * n > 3 << top else 2 * top - 2


def undirected(edges: Edges) -> dict[int, set[int]]:
    """Returns the edges without directions: each at both of its nodes.

    Args:
        edges: The neighbours of each node; all of them are among the nodes.
    """
    both = {node: set(near) for node, near in edges.items()}
    for node, near in edges.items():
        for other in near:
            both[other].add(node)
    return both


def hops(edges: Edges) -> dict[int, int | None]:
    """Returns the hops from each node to the farthest one; None: it does not reach all.

    Whom a node reaches is a set of bits, so that a hop of all nodes is one union for each edge.

    Args:
        edges: As `undirected` returns them.
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
    """Returns the most hops between two nodes; None: some do not reach each other.

    Args:
        edges: As `undirected` returns them.
    """
    found = list(hops(edges).values())
    known = [one for one in found if one is not None]
    return max(known, default=0) if len(known) == len(found) else None


def broken(edges: Edges) -> Iterator[tuple[int, str]]:
    """Yields what a graph has that SR(n) has not: a node, and what is wrong, in words.

    Args:
        edges: The neighbours of each subscriber; all of them are subscribers.
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
    for node, far in hops(both).items():
        if far is None or far > n_levels(n):
            how = "it does not reach all others" if far is None else f"it has {far} hops to another one"
            yield node, f"{how}, and in SR({n}) {n_levels(n)} are enough"
            return
