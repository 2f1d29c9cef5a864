"""Graphs with latencies in milliseconds: what every source of overlays yields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pipelines.inputs.overlay.graph import Ints
from pipelines.spec.base import nfc

Floats = npt.NDArray[np.float64]


class ContentError(ValueError):
    """What a file or a package holds cannot be used as an overlay.

    Attributes:
        field: The setting that is to blame, relative to the source, e.g. ``"path"`` or ``"member"``.
    """

    def __init__(self, message: str, field: str = "path") -> None:
        """Keeps the setting beside the message."""
        self.field = field
        super().__init__(message)


@dataclass(frozen=True, eq=False)
class WeightedGraph:
    """An undirected graph without self-loops and parallel links; compared by identity, so results can be cached.

    Attributes:
        names: One name a node, in the order of the source; a node's id is its index here.
        a: The smaller end of each link; shape (links,), links sorted by (a, b).
        b: The larger end of each link; shape (links,).
        ms: Latency of each link in ms; shape (links,). None: every link takes one round.
        latency_note: What the user should know about latencies that the source does not say; empty: it says all.
    """

    names: tuple[str, ...]
    a: Ints
    b: Ints
    ms: Floats | None = None
    latency_note: str = ""

    def __post_init__(self) -> None:
        """Makes the arrays read-only: graphs are shared between runs."""
        for array in (self.a, self.b, self.ms):
            if array is not None:
                array.flags.writeable = False

    @property
    def weights(self) -> Floats:
        """The latencies, or ones where every link takes one round."""
        return np.ones(len(self.a)) if self.ms is None else self.ms

    def links(self, kept: npt.NDArray[np.bool_] | Ints) -> WeightedGraph:
        """Returns the graph on the same nodes with some of its links (a mask, or sorted positions)."""
        ms = None if self.ms is None else self.ms[kept]
        return WeightedGraph(self.names, self.a[kept], self.b[kept], ms, self.latency_note)


def unique_names(labels: Iterable[str | None], ids: Iterable[str]) -> tuple[str, ...]:
    """Returns a name for each node: its label, ``label#2`` where it is taken, its id where there is none.

    Args:
        labels: In the order of the source; space around them is cut off.
        ids: One for each label.
    """
    taken: set[str] = set()
    count: dict[str, int] = {}
    names: list[str] = []
    for label, node_id in zip(labels, ids, strict=True):
        base = nfc((label or "").strip() or node_id)
        name = base
        while name in taken:
            count[base] = count.get(base, 1) + 1
            name = f"{base}#{count[base]}"
        taken.add(name)
        names.append(name)
    return tuple(names)


def merge_parallel(
    names: tuple[str, ...], ends: Sequence[tuple[int, int]] | Ints, ms: Floats | None = None, latency_note: str = ""
) -> WeightedGraph:
    """Returns the graph without self-loops, with the shortest of parallel links.

    Args:
        names: One name a node.
        ends: The two ends of each link, shape (links, 2), in any order and direction.
        ms: The latency of each.
        latency_note: As in `WeightedGraph`.
    """
    pairs = np.sort(np.asarray(ends, dtype=np.int64).reshape(-1, 2), axis=1)
    weights = np.zeros(len(pairs)) if ms is None else ms
    order = np.lexsort((weights, pairs[:, 1], pairs[:, 0]))
    order = order[pairs[order, 0] != pairs[order, 1]]
    pairs = pairs[order]
    first = np.ones(len(pairs), dtype=bool)
    first[1:] = np.any(pairs[1:] != pairs[:-1], axis=1)
    kept = None if ms is None else ms[order][first]
    return WeightedGraph(names, pairs[first, 0], pairs[first, 1], kept, latency_note)


def component_labels(n_nodes: int, a: Ints, b: Ints) -> Ints:
    """Returns for each node the smallest node id of its connected component (hooking and pointer jumping)."""
    label = np.arange(n_nodes, dtype=np.int64)
    while True:
        low, high = np.minimum(label[a], label[b]), np.maximum(label[a], label[b])
        apart = low != high
        if not apart.any():
            return label
        np.minimum.at(label, high[apart], low[apart])
        while not np.array_equal(label, label[label]):
            label = label[label]


def is_connected(n_nodes: int, a: Ints, b: Ints) -> bool:
    """Returns whether every node can be reached from node 0."""
    if len(a) < n_nodes - 1:
        return False
    degree = np.bincount(a, minlength=n_nodes) + np.bincount(b, minlength=n_nodes)
    if n_nodes > 1 and not degree.all():
        return False
    return not component_labels(n_nodes, a, b).any()


@lru_cache(maxsize=64)
def largest_component(graph: WeightedGraph) -> WeightedGraph:
    """Returns the component with the most nodes; of equally large ones that with the earliest node."""
    label = component_labels(len(graph.names), graph.a, graph.b)
    size = np.bincount(label)
    inside = label == size.argmax()
    if inside.all():
        return graph
    new_id = np.cumsum(inside) - 1
    kept = inside[graph.a]
    names = tuple(name for name, keep in zip(graph.names, inside.tolist(), strict=True) if keep)
    ms = None if graph.ms is None else graph.ms[kept]
    return WeightedGraph(names, new_id[graph.a[kept]], new_id[graph.b[kept]], ms, graph.latency_note)


def split_message(graph: WeightedGraph) -> str | None:
    """Returns what keeps a graph from being connected, with an unreachable node of each part, or None."""
    label = component_labels(len(graph.names), graph.a, graph.b)
    heads = np.flatnonzero(label == np.arange(len(label)))
    if len(heads) == 1:
        return None
    shown = ", ".join(repr(graph.names[head]) for head in heads[1:6]) + (", ..." if len(heads) > 6 else "")
    return f"the overlay falls into {len(heads)} parts: from {graph.names[0]!r} there is no path to {shown}"
