"""Computes node positions for an overlay: on a map, as a tree, as a ring, or by a spring layout.

The positions are deterministic: equal overlays have equal positions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import count

import networkx as nx
import numpy as np

Point = tuple[float, float]
MAP, TREE, RING, SPRINGS = "map", "tree", "ring", "springs"
_MOST_SPRINGS = 400
_WIDE_TREE = 24
_APART = 1e-6
_MIN_DISTANCE = 0.045
"""The minimum distance between two nodes of a map; the picture has width and height 1."""
_PUSHES = 30
_MOST_PUSHED = 250


def layout(
    n_nodes: int, links: Sequence[tuple[int, int]], places: Mapping[int, Point],
    held: Sequence[tuple[int, int, bool]] = (),
) -> tuple[str, list[Point]]:  # fmt: skip
    """Returns the type of the layout and the position of each node, from (0, 0) at the top left to (1, 1).

    1. If at least half of the nodes have coordinates, the layout is a map. A node without coordinates is placed beside
       a neighbour.
    2. A tree is drawn by levels from its centre. If it has many leaves, it is drawn around its centre.
    3. A cycle, or an overlay without links, is drawn as a ring. If the overlay has no links and the edges in ``held``
       form a cycle at the end of the run, this cycle is the ring. A node that left the cycle is placed beside a member
       to which it held an edge. All other nodes are placed inside the ring.
    4. Other overlays are drawn by a spring layout, or, if they are large, as a tree of shortest paths.

    Args:
        n_nodes: The number of nodes; their ids are 0 to n_nodes - 1.
        links: The undirected links.
        places: Longitude and latitude of nodes, in degrees.
        held: If the protocol builds the overlay, the edges that nodes held, in chronological order, which replace the
            links: the node, its peer, and whether the node holds the edge at the end of the run.
    """
    kept = {(node, peer) for node, peer, is_last in held if is_last}
    mutual = [(node, peer) for node, peer in sorted(kept) if (peer, node) in kept]
    graph: nx.Graph[int] = nx.Graph()
    graph.add_nodes_from(range(n_nodes))
    graph.add_edges_from(links)
    if 2 * len(places) >= n_nodes > 0:
        return MAP, _fitted(_set_apart(_fitted(_beside(graph, _on_map(places)))))
    if not links and mutual:
        ring: nx.Graph[int] = nx.Graph(mutual)
        if _is_cycle(ring):
            order = _joined(ring, held)
            within = sorted(set(graph) - set(order))
            return RING, _fitted(_circle(order, 1.0) | _circle(within, 0.0 if len(within) == 1 else 0.25))
        graph.add_edges_from(mutual)
    if not graph.number_of_edges() or _is_cycle(graph):
        order = sorted(graph) if not graph.number_of_edges() else list(nx.dfs_preorder_nodes(graph, min(graph)))
        return RING, _fitted(_circle(order, 1.0))
    if nx.is_forest(graph) or n_nodes > _MOST_SPRINGS:
        return (TREE if nx.is_forest(graph) else SPRINGS), _fitted(_tree(graph))
    found = nx.spring_layout(graph, seed=0, iterations=200)
    return SPRINGS, _fitted({node: (float(x), float(y)) for node, (x, y) in found.items()})


def _fitted(points: Mapping[int, Point]) -> list[Point]:
    """Scales each axis so that all points fit into the unit square."""
    xs, ys = zip(*points.values(), strict=True) if points else ((0.0,), (0.0,))
    low_x, low_y = min(xs), min(ys)
    wide, high = max(xs) - low_x or 1.0, max(ys) - low_y or 1.0
    return [
        (round((x - low_x) / wide, 4), round((y - low_y) / high, 4))
        for x, y in (points[node] for node in sorted(points))
    ]


def _on_map(places: Mapping[int, Point]) -> dict[int, Point]:
    """Projects longitude and latitude, true to scale at the mean latitude; shifts nodes of equal coordinates apart."""
    middle = math.radians(sum(latitude for _, latitude in places.values()) / len(places))
    found: dict[int, Point] = {}
    taken: dict[Point, int] = {}
    for node, (longitude, latitude) in sorted(places.items()):
        number = taken[longitude, latitude] = taken.get((longitude, latitude), -1) + 1
        shift = 0.4 * number
        found[node] = (longitude * math.cos(middle) + shift, -latitude + shift)
    return found


def _set_apart(points: Sequence[Point]) -> dict[int, Point]:
    at = np.array(points)
    least = min(_MIN_DISTANCE, 0.4 / math.sqrt(len(points)))
    for _ in range(_PUSHES if len(points) <= _MOST_PUSHED else 0):
        gaps = at[:, None] - at[None]
        far = np.hypot(gaps[..., 0], gaps[..., 1])
        push = np.where(far < least, (least - far) / 2, 0) / np.maximum(far, _APART)
        at += (gaps * push[..., None]).sum(axis=1)
    return {node: (float(x), float(y)) for node, (x, y) in enumerate(at)}


def _joined(ring: nx.Graph[int], held: Sequence[tuple[int, int, bool]]) -> list[int]:
    """Returns the nodes of ``ring`` in its order; a former member follows a node to which it held an edge."""
    order = list(nx.dfs_preorder_nodes(ring, min(ring)))
    for node, peer, _ in reversed(held):
        if node not in order and peer in order:
            order.insert(order.index(peer) + 1, node)
    return order


def _beside(graph: nx.Graph[int], points: dict[int, Point]) -> dict[int, Point]:
    """Adds positions for nodes without coordinates: beside a neighbour that has some, or in the middle of the map."""
    xs, ys = zip(*points.values(), strict=True)
    radius = 0.05 * max(max(xs) - min(xs), max(ys) - min(ys), _APART)
    middle = (sum(xs) / len(xs), sum(ys) / len(ys))
    known = dict(points)
    for node in sorted(set(graph) - set(known)):
        near = [other for other in sorted(graph[node]) if other in points]
        x, y = points[near[0]] if near else middle
        angle = 2.4 * node  # the golden angle: nodes placed beside one neighbour get different directions
        known[node] = (x + radius * math.cos(angle), y + radius * math.sin(angle))
    return known


def _is_cycle(graph: nx.Graph[int]) -> bool:
    return len(graph) > 2 and nx.is_connected(graph) and all(degree == 2 for _, degree in graph.degree)


def _circle(order: Sequence[int], radius: float) -> dict[int, Point]:
    """Places nodes on a circle, in their order from the top."""
    turn = 2 * math.pi / max(len(order), 1)
    return {
        node: (radius * math.sin(turn * number), -radius * math.cos(turn * number)) for number, node in enumerate(order)
    }


def _tree(graph: nx.Graph[int]) -> dict[int, Point]:
    """Lays out each connected component as the tree of shortest paths from its centre; components are side by side."""
    found: dict[int, Point] = {}
    start = 0.0
    for members in sorted(nx.connected_components(graph), key=min):
        # The middle of a long shortest path, which two breadth-first searches find; in a tree, it is the centre.
        way = _farthest(graph, _farthest(graph, min(members))[-1])
        slots, depth = _slots(graph, way[(len(way) - 1) // 2])
        width = max(slots.values()) + 1
        found |= {node: (start + slots[node], float(depth[node])) for node in members}
        start += width
    if start <= _WIDE_TREE or nx.number_connected_components(graph) > 1:
        return found
    turn = 2 * math.pi / start
    return {node: (y * math.sin(turn * x), -y * math.cos(turn * x)) for node, (x, y) in found.items()}


def _farthest(graph: nx.Graph[int], start: int) -> list[int]:
    ways = nx.single_source_shortest_path(graph, start)
    return max(ways.values(), key=lambda way: (len(way), -way[-1]))


def _slots(graph: nx.Graph[int], root: int) -> tuple[dict[int, float], dict[int, int]]:
    """Returns the column and the level of each node in a tree; parents are centred above their children."""
    tree = nx.bfs_tree(graph, root, sort_neighbors=sorted)
    depth = dict(nx.single_source_shortest_path_length(tree, root))
    slots: dict[int, float] = {}
    columns = count()
    for node in nx.dfs_postorder_nodes(tree, root):
        below = [slots[child] for child in tree[node]]
        slots[node] = (below[0] + below[-1]) / 2 if below else float(next(columns))
    return slots, depth
