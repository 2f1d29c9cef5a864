"""Which way is up: a tree of brokers seen from its root."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from udfs.ginger.batches import as_batch, schema_of

NEIGHBOURS = (
    ("run_id", "bigint"), ("node_id", "bigint"), ("peer", "bigint"), ("relationship", "string"), ("n_up", "bigint"),
    ("n_down", "bigint"), ("latency_rounds", "bigint"),
)  # fmt: skip
"""Columns of what `rooted` returns, with their SQL types."""
_OUT = schema_of(NEIGHBOURS)


def rooted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns every node's neighbours, and what else it sees of the tree: its ancestors and siblings (section 4.2.2).

    Args:
        batches: One row a run: ``run_id``, the ``root``, ``max_hops``, and ``links``, structs ``src, dst,
            latency_rounds, src_role, dst_role``, both directions of each.

    Yields:
        One row a node and neighbour (``parent``, ``child``, ``client`` or ``edge``) or broker of its view
        (``ancestor`` or ``sibling``), columns `NEIGHBOURS`; from the other one comes to the node by ``n_up`` steps
        upwards and ``n_down`` steps downwards.
    """
    for batch in batches:
        rows: list[tuple[Any, ...]] = []
        for run in batch.to_pylist():
            tree = _Tree(run["root"], run["links"])
            rows += [(run["run_id"], *row) for row in (*tree.neighbours(), *tree.views(run["max_hops"]))]
        yield as_batch(rows, _OUT)


class _Tree:
    """A tree of brokers with clients, seen from its root."""

    def __init__(self, root: int, links: list[dict[str, Any]]) -> None:
        self.root = root
        around: dict[int, list[int]] = {}
        self.latency: dict[tuple[int, int], int] = {}
        self.clients: set[int] = set()
        for link in links:
            around.setdefault(link["src"], []).append(link["dst"])
            self.latency[link["src"], link["dst"]] = link["latency_rounds"]
            if link["src_role"] != "broker":
                self.clients.add(link["src"])
        self.parent: dict[int, int] = {}
        self.children: dict[int, list[int]] = {root: []}
        self.order = [root]
        for node in self.order:
            for other in around.get(node, ()):
                if other not in self.children:
                    self.parent[other] = node
                    self.children[node].append(other)
                    self.children[other] = []
                    self.order.append(other)

    def neighbours(self) -> Iterator[tuple[Any, ...]]:
        """Yields every link, in both directions."""
        for node, above in self.parent.items():
            is_client = node in self.clients
            yield node, above, "edge" if is_client else "parent", 0, 1, self.latency[above, node]
            yield above, node, "client" if is_client else "child", 1, 0, self.latency[node, above]

    def views(self, max_hops: int) -> Iterator[tuple[Any, ...]]:
        """Yields what nodes see beyond their neighbours."""
        view: dict[int, dict[int, tuple[int, int, int]]] = {self.root: {}}
        for node in self.order[1:]:
            above = self.parent[node]
            seen = dict(view[above])
            if above in self.parent:
                seen[self.parent[above]] = (0, 1, self.latency[self.parent[above], above])
            for other in self.children[above]:
                if other != node and other not in self.clients:
                    seen[other] = (1, 0, self.latency[other, above])
            step = self.latency[above, node]
            stepped = {other: (up, down + 1, latency + step) for other, (up, down, latency) in seen.items()}
            view[node] = {
                other: place
                for other, place in stepped.items()
                if sum(place[:2]) <= max_hops and (place[0] == 0 or place[:2] == (1, 1) or place[0] == 1 < place[1])
            }
            for other, (up, down, latency) in view[node].items():
                yield node, other, "sibling" if (up, down) == (1, 1) else "ancestor", up, down, latency


BROKEN = (("run_id", "bigint"), ("node_id", "bigint"), ("detail", "string"))
"""Columns of what `broken_trees` returns, with their SQL types."""
_BROKEN = schema_of(BROKEN)


def broken_trees(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Finds brokers that hang on no root, and roots beyond the first.

    Args:
        batches: One row a run: ``run_id``, and ``nodes``, structs ``node_id, parent``; no parent: a root.

    Yields:
        One row a broker that is wrong, columns `BROKEN`.
    """
    for batch in batches:
        rows: list[tuple[int, int, str]] = []
        for run in batch.to_pylist():
            parent = {node["node_id"]: node["parent"] for node in run["nodes"]}
            rows += [(run["run_id"], *found) for found in _wrong_nodes(parent)]
        yield as_batch(rows, _BROKEN)


def _wrong_nodes(parent: dict[int, int | None]) -> Iterator[tuple[int, str]]:
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
