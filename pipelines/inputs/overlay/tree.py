"""Overlays cut down to spanning trees."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import networkx as nx
import numpy as np

from pipelines.inputs.overlay.weighted import WeightedGraph


@lru_cache(maxsize=64)
def minimum_tree(graph: WeightedGraph) -> WeightedGraph:
    """Returns the spanning tree of the least total latency.

    Of links with equal latency the one with the smaller node ids (a, then b) is taken: links are
    weighted by their rank in that order, which makes the tree unique.

    Args:
        graph: Connected.
    """
    ranked: nx.Graph[int] = nx.Graph()
    order = np.lexsort((graph.b, graph.a, graph.weights)).tolist()
    a, b = graph.a.tolist(), graph.b.tolist()
    ranked.add_weighted_edges_from((a[i], b[i], rank) for rank, i in enumerate(order))
    kept = [order[data["weight"]] for _, _, data in nx.minimum_spanning_edges(ranked, algorithm="kruskal", data=True)]
    return graph.links(np.sort(np.array(kept, dtype=np.int64)))


@lru_cache(maxsize=64)
def shortest_path_tree(graph: WeightedGraph, root: int) -> WeightedGraph:
    """Returns the tree of least-latency paths from a root (Dijkstra).

    Where several paths are equally short, a node hangs on the neighbour with the smallest id.

    Args:
        graph: Connected.
        root: A node id.
    """
    weighted: nx.Graph[int] = nx.Graph()
    a, b = graph.a.tolist(), graph.b.tolist()
    weighted.add_nodes_from(range(len(graph.names)))
    weighted.add_weighted_edges_from(zip(a, b, graph.weights.tolist(), strict=True))
    before: dict[int, list[int]]
    distance: dict[int, float]
    before, distance = nx.dijkstra_predecessor_and_distance(weighted, root)
    position: dict[tuple[int, int], int] = {pair: i for i, pair in enumerate(zip(a, b, strict=True))}
    kept = [position[_sorted(_parent(node, before[node], distance), node)] for node in before if node != root]
    return graph.links(np.sort(np.array(kept, dtype=np.int64)))


def first_cycle(links: list[tuple[str, str]]) -> tuple[int, list[str]]:
    """Returns the position of the first link that closes a cycle, and the cycle's nodes in order.

    Args:
        links: Without self-loops and repeated links.

    Raises:
        ValueError: There is no cycle.
    """
    forest: nx.Graph[str] = nx.Graph()
    parts: Any = nx.utils.UnionFind()
    for i, (src, dst) in enumerate(links):
        if parts[src] == parts[dst]:
            return i, [str(node) for node in nx.shortest_path(forest, src, dst)]
        parts.union(src, dst)
        forest.add_edge(src, dst)
    raise ValueError("the links have no cycle")


def _sorted(a: int, b: int) -> tuple[int, int]:
    return (a, b) if a < b else (b, a)


def _parent(node: int, before: list[int], distance: dict[int, float]) -> int:
    """Returns the smallest nearer predecessor; links of latency 0 have none, and the first one reached is taken.

    Both were settled before the node, so no cycle can arise.
    """
    nearer = [other for other in before if distance[other] < distance[node]]
    return min(nearer) if nearer else before[0]
