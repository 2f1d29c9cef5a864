"""The rooted tree of brokers and clients, the views of nodes, and a check of the last tree of a run (3.1, 4.2.2)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from udfs.batches import rows_of_runs
from udfs.ginger.records import Neighbour, TreeView

SIBLING = "sibling"


class Tree:
    """A rooted tree of brokers and clients.

    Attributes:
        parent: The parent of each node, or the edge broker of a client; the root has no entry.
        brokers: The brokers of the tree.
    """

    def __init__(self, root: int, latency: Mapping[tuple[int, int], int], clients: Collection[int]) -> None:
        """Directs each link away from broker `root`.

        Argument `latency` has the latency of each link in rounds, by its ends, for both directions.
        """
        around: dict[int, list[int]] = {}
        for src, dst in sorted(latency):
            around.setdefault(src, []).append(dst)
        self._latency = latency
        self._clients = clients
        self.parent: dict[int, int] = {}
        self._children: dict[int, list[int]] = {root: []}
        self._order = [root]
        for node in self._order:
            for other in around.get(node, ()):
                if other not in self._children:
                    self.parent[other] = node
                    self._children[node].append(other)
                    self._children[other] = []
                    self._order.append(other)
        self.brokers = {node for node in self._order if node not in clients}

    def up(self, node: int) -> list[int]:
        """Returns `node` and its ancestors, from `node` to the root."""
        path = [node]
        while path[-1] in self.parent:
            path.append(self.parent[path[-1]])
        return path

    def children(self, node: int) -> set[int]:
        """Returns the children of `node` that are brokers."""
        return self.brokers.intersection(self._children[node])

    def members(self, edges: Iterable[int]) -> set[int]:
        """Returns the sub-tree of a topic: the brokers on the paths between the edge brokers `edges`."""
        paths = [self.up(edge)[::-1] for edge in sorted(edges)]
        n_shared = sum(len({*step}) == 1 for step in zip(*paths, strict=False))
        return {broker for path in paths for broker in path[n_shared - 1 :]}

    def confirm_rounds(self, client: int) -> int:
        """Returns the rounds until a subscription of `client` is confirmed: a round trip to the farthest broker."""
        edge = self.parent[client]
        return self._latency[client, edge] + self._latency[edge, client] + self._farthest[edge]

    @cached_property
    def _farthest(self) -> dict[int, int]:
        """The round trip from each broker to the farthest one, an end of the longest path, in rounds."""
        from_root = self._round_trips(self._order[0])
        from_end = self._round_trips(max(from_root, key=from_root.__getitem__))
        from_other = self._round_trips(max(from_end, key=from_end.__getitem__))
        return {broker: max(rounds, from_other[broker]) for broker, rounds in from_end.items()}

    def _round_trips(self, start: int) -> dict[int, int]:
        found, order = {start: 0}, [start]
        for node in order:
            for other in (*self._children[node], self.parent.get(node, node)):
                if other in self.brokers and other not in found:
                    found[other] = found[node] + self._latency[node, other] + self._latency[other, node]
                    order.append(other)
        return found

    def neighbours(self) -> Iterator[tuple[int, Neighbour]]:
        """Yields each node with each of its neighbours."""
        for node, above in self.parent.items():
            up, down = ("edge", "client") if node in self._clients else ("parent", "child")
            yield node, Neighbour(above, up, self._latency[above, node])
            yield above, Neighbour(node, down, self._latency[node, above])

    def view(self, node: int, max_hops: int) -> Iterator[TreeView]:
        """Yields the brokers in the view of `node` (section 4.2.2): ancestors except the parent, and their children.

        A path from a broker in the view to `node` has at most `max_hops` links.
        """
        below, rounds = node, 0
        for n_down in range(1, max_hops + 1):
            above = self.parent.get(below)
            if above is None:
                return
            rounds += self._latency[above, below]
            if n_down > 1:
                yield TreeView(above, relationship(0, n_down), 0, n_down, rounds)
            for other in self.children(above) - {below} if n_down < max_hops else ():
                yield TreeView(other, relationship(1, n_down), 1, n_down, self._latency[other, above] + rounds)
            below = above


def belongs(up: int, down: int, max_hops: int) -> bool:
    """Returns whether a broker is in the view of a node (rule G12).

    The path from the broker to the node has at most `max_hops` links: `up` links upwards, and then `down` downwards.
    """
    return up + down <= max_hops and (up == 0 or (up, down) == (1, 1) or up == 1 < down)


def relationship(up: int, down: int) -> str:
    """Returns ``sibling`` or ``ancestor`` for a broker in the view of a node.

    The path from the broker to the node has `up` links upwards, and then `down` links downwards.
    """
    return SIBLING if (up, down) == (1, 1) else "ancestor"


BROKEN = (("run_id", "bigint"), ("node_id", "bigint"), ("detail", "string"))
"""Columns of the rows of `broken_trees`, with their SQL types."""


@rows_of_runs(BROKEN)
def broken_trees(run: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yields the brokers whose ancestors do not include a root, and all roots except the one with the lowest id.

    Args:
        run: ``nodes``, structs ``node_id, parent``; a root has a null parent.
    """
    parent: dict[int, int | None] = {node["node_id"]: node["parent"] for node in run["nodes"]}
    roots = sorted(node for node, above in parent.items() if above is None)
    for extra in roots[1:]:
        yield extra, f"has no parent, and neither has node {roots[0]}"
    hanging = set(roots)
    for start in sorted(parent):
        way: list[int] = []
        node: int | None = start
        while node is not None and node not in hanging and node not in way and node in parent:
            way.append(node)
            node = parent[node]
        if node in hanging:
            hanging.update(way)
        else:
            yield start, f"its parents do not lead to the root: they come to node {node}"
