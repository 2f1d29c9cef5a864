"""Graphs with latencies in milliseconds: names of nodes, latencies from distances, and spanning trees."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import networkx as nx
import numpy as np
import numpy.typing as npt
import pandas as pd

from pipelines.contract.run_inputs import Floats, Ints
from pipelines.contract.settings import nfc
from pipelines.errors import DataFileError, plural
from pipelines.scenario.overlay import LatencyUnit
from pipelines.scenario.times import MS_OF

EARTH_RADIUS_KM = 6371.0
FIBRE_KM_PER_MS = 200.0
DETOUR = 1.3
FLOOR_MS = 0.5
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, eq=False)
class WeightedGraph:
    """An undirected graph without self-loops and without parallel links.

    Graphs are compared by identity, so that a graph can be the key of a cache.

    Attributes:
        names: The name of each node, in the order of the source. The id of a node is its index in `names`.
        a: The smaller end of each link; shape (links,). Links are sorted by (a, b).
        b: The larger end of each link; shape (links,).
        ms: Latency of each link from ``a`` to ``b`` in ms; shape (links,). None if every link takes one round.
        latency_note: A note for the user on latencies that the source lacks; empty if the source has all latencies.
        notes: Sentences on dropped and merged links and on the names of nodes.
        back_ms: Latency of each link from ``b`` to ``a`` in ms; shape (links,). None if equal to `ms`.
    """

    names: tuple[str, ...]
    a: Ints
    b: Ints
    ms: Floats | None = None
    latency_note: str = ""
    notes: tuple[str, ...] = ()
    back_ms: Floats | None = None

    def __post_init__(self) -> None:
        """Makes the arrays read-only, because runs share graphs."""
        for array in (self.a, self.b, self.ms, self.back_ms):
            if array is not None:
                array.flags.writeable = False

    @property
    def weights(self) -> Floats:
        """For each link the mean latency of its two directions in ms; 1 for each link if `ms` is `None`."""
        if self.ms is None:
            return np.ones(len(self.a))
        return self.ms if self.back_ms is None else (self.ms + self.back_ms) / 2.0

    def links(self, kept: npt.NDArray[np.bool_] | Ints) -> WeightedGraph:
        """Returns a graph that has all nodes of this graph and only the links `kept` (a mask or sorted indexes)."""
        ms, back_ms = (None if of is None else of[kept] for of in (self.ms, self.back_ms))
        return replace(self, a=self.a[kept], b=self.b[kept], ms=ms, back_ms=back_ms)


def unique_names(labels: Iterable[str | None], ids: Iterable[str]) -> tuple[str, ...]:
    """Returns distinct names. A name is the label, or the id if the label is empty.

    The second and later occurrences of a name get the endings ``#2``, ``#3``, and so on.
    """
    taken: set[str] = set()
    count: dict[str, int] = {}
    names: list[str] = []
    for label, node_id in zip(labels, ids, strict=True):
        base = nfc((label or "").strip() or node_id)
        if _SURROGATE.search(base):
            raise DataFileError(f"the name {base!a} contains a surrogate, which is no character; remove it")
        name = base
        while name in taken:
            count[base] = count.get(base, 1) + 1
            name = f"{base}#{count[base]}"
        taken.add(name)
        names.append(name)
    return tuple(names)


def merge_parallel(
    names: tuple[str, ...],
    ends: Sequence[tuple[int, int]] | Ints,
    ms: Floats | None = None,
    latency_note: str = "",
    *,
    notes: Sequence[str] = (),
    is_directed: bool = False,
) -> WeightedGraph:
    """Returns a graph without self-loops. Of parallel links, it keeps the link with the lowest latency.

    `ends` contains the two ends of each link; shape (links, 2). The last note of the graph counts the omitted
    self-loops and parallel links. If `is_directed`, opposite links are also merged, but do not count as parallel.
    """
    first, second = np.asarray(ends, dtype=np.int64).reshape(-1, 2).T
    links = pd.DataFrame({"a": np.minimum(first, second), "b": np.maximum(first, second)})
    links = links.assign(is_back=(first > second) & is_directed, ms=0.0 if ms is None else ms)[first != second]
    least = links.groupby(["a", "b"])["ms"].min()
    a, b = (least.index.get_level_values(end).to_numpy(np.int64) for end in ("a", "b"))
    told = _merge_note(len(first) - len(links), links, is_directed=is_directed)
    kept = None if ms is None else least.to_numpy()
    return WeightedGraph(names, a, b, kept, latency_note, (*notes, told) if told else tuple(notes))


def _merge_note(n_loops: int, links: pd.DataFrame, *, is_directed: bool) -> str:
    by_direction = links.groupby(["a", "b", "is_back"])["ms"].agg(["size", "min"])
    n_parallel = int((by_direction["size"] - 1).sum())
    pairs = by_direction["min"].groupby(["a", "b"]).agg(["size", "min", "max"])
    n_links, n_both = len(pairs), int((pairs["size"] == 2).sum())
    apart = pairs["max"] - pairs["min"]
    parts = []
    if n_loops:
        parts.append(f"{plural(n_loops, 'self-loop')} dropped")
    if n_parallel:
        parts.append(f"{plural(n_parallel, 'parallel link')} merged into the shortest")
    if is_directed and 0 < n_both < n_links:
        parts.append(f"{n_links - n_both:,} of {plural(n_links, 'link')} given in one direction and used for both")
    if (apart > 0).any():
        parts.append(
            f"{int((apart > 0).sum()):,} of {plural(n_links, 'link')} differ by direction, by up to {apart.max():g} "
            "ms, so both have the shorter latency (overlay.latency.pairs with per_direction: true keeps both)"
        )
    return "; ".join(parts)


def components(graph: WeightedGraph) -> list[list[int]]:
    """Returns the ids of the nodes of each connected component, ascending; the components are in order of their ids."""
    return [sorted(part) for part in nx.connected_components(network(len(graph.names), graph.a, graph.b))]


def network(n_nodes: int, a: Ints, b: Ints, weights: Ints | Floats | None = None) -> nx.Graph[int]:
    """Returns the graph of nodes 0 to ``n_nodes - 1`` with links ``a[i] - b[i]``, which may have weights."""
    found: nx.Graph[int] = nx.empty_graph(n_nodes)
    if weights is None:
        found.add_edges_from(zip(a.tolist(), b.tolist(), strict=True))
    else:
        found.add_weighted_edges_from(zip(a.tolist(), b.tolist(), weights.tolist(), strict=True))
    return found


@lru_cache(maxsize=64)
def largest_component(graph: WeightedGraph) -> WeightedGraph:
    """Returns the connected component with the most nodes; of components of equal size, the one with the lowest id."""
    inside = max(components(graph), key=len)
    if len(inside) == len(graph.names):
        return graph
    new_id = np.full(len(graph.names), -1, dtype=np.int64)
    new_id[inside] = np.arange(len(inside))
    whole = graph.links(new_id[graph.a] >= 0)
    return replace(whole, names=tuple(graph.names[node] for node in inside), a=new_id[whole.a], b=new_id[whole.b])


def great_circle_km(latitude: Floats, longitude: Floats, to_latitude: Floats, to_longitude: Floats) -> Floats:
    """Returns the distances in km between positions on a sphere of the Earth's mean radius (haversine formula).

    Coordinates are in degrees. The distance is NaN if a coordinate is NaN.
    """
    phi, to_phi = np.radians(latitude), np.radians(to_latitude)
    turn = np.radians(to_longitude) - np.radians(longitude)
    chord = np.sin((to_phi - phi) / 2.0) ** 2 + np.cos(phi) * np.cos(to_phi) * np.sin(turn / 2.0) ** 2
    km: Floats = 2.0 * EARTH_RADIUS_KM * np.arcsin(np.sqrt(np.clip(chord, 0.0, 1.0)))
    return km


def propagation_ms(km: Floats) -> Floats:
    """Returns one-way latencies in ms: the time of light, at 200 km/ms, in a fibre of length ``1.3 * km``.

    A latency is at least 0.5 ms. A link without a distance (NaN) takes the median latency of the links with a distance,
    or 0.5 ms if no link has a distance.
    """
    ms = np.maximum(km / FIBRE_KM_PER_MS * DETOUR, FLOOR_MS)
    known = ~np.isnan(ms)
    return np.where(known, ms, np.median(ms[known]) if known.any() else FLOOR_MS)


def in_ms(values: Floats, unit: LatencyUnit) -> Floats:
    """Returns `values`, latencies in `unit`, in milliseconds. Unit ``km`` is the length of a fibre."""
    return values / FIBRE_KM_PER_MS if unit == "km" else values * MS_OF[unit]


@lru_cache(maxsize=64)
def minimum_tree(graph: WeightedGraph) -> WeightedGraph:
    """Returns the spanning tree with the least total latency; `graph` is connected.

    Links of equal latency are ordered by (a, b), which makes the tree unique.
    """
    rank = np.empty(len(graph.a), dtype=np.int64)
    rank[np.lexsort((graph.b, graph.a, graph.weights))] = np.arange(len(rank))
    return _with_links(graph, nx.minimum_spanning_edges(network(len(graph.names), graph.a, graph.b, rank), data=False))


@lru_cache(maxsize=64)
def shortest_path_tree(graph: WeightedGraph, root: int) -> WeightedGraph:
    """Returns the tree of least-latency paths from node `root` to all nodes (Dijkstra); `graph` is connected.

    If a node has several such paths, the tree contains the path through the predecessor with the smallest id.
    """
    before: dict[int, list[int]]
    distance: dict[int, float]
    weighted = network(len(graph.names), graph.a, graph.b, graph.weights)
    before, distance = nx.dijkstra_predecessor_and_distance(weighted, root)
    return _with_links(graph, ((node, _parent(node, before[node], distance)) for node in before if node != root))


def _with_links(graph: WeightedGraph, ends: Iterable[tuple[int, int]]) -> WeightedGraph:
    kept = set(map(frozenset, ends))
    pairs = zip(graph.a.tolist(), graph.b.tolist(), strict=True)
    return graph.links(np.array([frozenset(pair) in kept for pair in pairs], dtype=np.bool_))


def _parent(node: int, before: list[int], distance: dict[int, float]) -> int:
    # If all links from predecessors have latency 0, no predecessor is nearer to the root than `node`. Dijkstra's
    # algorithm settled the first predecessor before `node`, so no cycle arises.
    nearer = [other for other in before if distance[other] < distance[node]]
    return min(nearer) if nearer else before[0]
