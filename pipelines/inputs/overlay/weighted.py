"""Graphs with latencies in milliseconds: what every source of overlays yields."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from pipelines.contract.run_inputs import Ints
from pipelines.contract.settings import nfc
from pipelines.errors import plural

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
        notes: How links and names of the source were taken, a sentence each.
        back_ms: Latency of each link from ``b`` to ``a``; shape (links,). None: that from ``a`` to ``b``.
    """

    names: tuple[str, ...]
    a: Ints
    b: Ints
    ms: Floats | None = None
    latency_note: str = ""
    notes: tuple[str, ...] = ()
    back_ms: Floats | None = None

    def __post_init__(self) -> None:
        """Makes the arrays read-only: graphs are shared between runs."""
        for array in (self.a, self.b, self.ms, self.back_ms):
            if array is not None:
                array.flags.writeable = False

    @property
    def weights(self) -> Floats:
        """The latencies, the mean of both directions, or ones where every link takes one round."""
        if self.ms is None:
            return np.ones(len(self.a))
        return self.ms if self.back_ms is None else (self.ms + self.back_ms) / 2.0

    def links(self, kept: npt.NDArray[np.bool_] | Ints) -> WeightedGraph:
        """Returns the graph on the same nodes with some of its links (a mask, or sorted positions)."""
        ms, back_ms = (None if of is None else of[kept] for of in (self.ms, self.back_ms))
        return replace(self, a=self.a[kept], b=self.b[kept], ms=ms, back_ms=back_ms)


def unique_names(labels: Iterable[str | None], ids: Iterable[str]) -> tuple[str, ...]:
    """Returns a name for each node: its label, ``label#2`` where it is taken, its id where it has no label.

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
    names: tuple[str, ...],
    ends: Sequence[tuple[int, int]] | Ints,
    ms: Floats | None = None,
    latency_note: str = "",
    *,
    notes: Sequence[str] = (),
    is_directed: bool = False,
) -> WeightedGraph:
    """Returns the graph without self-loops, with the shortest of parallel links; a note counts both.

    Args:
        names: One name a node.
        ends: The two ends of each link, shape (links, 2), in any order and direction.
        ms: The latency of each.
        latency_note: As in `WeightedGraph`.
        notes: As in `WeightedGraph`.
        is_directed: Whether links have a direction; then one in each direction are not parallel.
    """
    given = np.asarray(ends, dtype=np.int64).reshape(-1, 2)
    pairs = np.sort(given, axis=1)
    weights = np.zeros(len(pairs)) if ms is None else ms
    order = np.lexsort((weights, pairs[:, 1], pairs[:, 0]))
    order = order[pairs[order, 0] != pairs[order, 1]]
    pairs = pairs[order]
    first = np.ones(len(pairs), dtype=bool)
    first[1:] = np.any(pairs[1:] != pairs[:-1], axis=1)
    kept = None if ms is None else ms[order][first]
    is_back = given[order, 0] > given[order, 1] if is_directed else np.zeros(len(order), dtype=bool)
    told = _merge_note(len(given) - len(order), np.cumsum(first) - 1, is_back, weights[order], is_directed=is_directed)
    return WeightedGraph(
        names, pairs[first, 0], pairs[first, 1], kept, latency_note, (*notes, told) if told else tuple(notes)
    )


def _merge_note(n_loops: int, link: Ints, is_back: npt.NDArray[np.bool_], ms: Floats, *, is_directed: bool) -> str:
    """Returns how many links of a source were dropped and merged, or an empty string.

    Args:
        n_loops: Links of a node to itself.
        link: The link that each other one is merged into; shape (given links,).
        is_back: Whether it goes from the larger end to the smaller one; shape (given links,).
        ms: Its latency; shape (given links,).
        is_directed: Whether links have a direction.
    """
    n_links = int(link.max(initial=-1)) + 1
    counts, least = np.zeros((2, n_links), dtype=np.int64), np.full((2, n_links), np.inf)
    np.add.at(counts, (is_back.astype(np.int64), link), 1)
    np.minimum.at(least, (is_back.astype(np.int64), link), ms)
    n_parallel = int(np.maximum(counts - 1, 0).sum())
    has_both = (counts > 0).all(axis=0)
    apart = np.abs(least[0, has_both] - least[1, has_both])
    parts = []
    if n_loops:
        parts.append(f"{plural(n_loops, 'self-loop')} dropped")
    if n_parallel:
        parts.append(f"{plural(n_parallel, 'parallel link')} merged into the shortest")
    if is_directed and 0 < has_both.sum() < n_links:
        n_one = n_links - int(has_both.sum())
        parts.append(f"{n_one:,} of {plural(n_links, 'link')} given in one direction and taken for both")
    if (apart > 0).any():
        parts.append(
            f"{int((apart > 0).sum()):,} of {plural(n_links, 'link')} differ by direction, by up to {apart.max():g} "
            "ms, and take the shorter latency (overlay.latency.pairs with per_direction: true keeps both)"
        )
    return "; ".join(parts)


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
    whole = graph.links(kept)
    return replace(whole, names=names, a=new_id[whole.a], b=new_id[whole.b])


def split_message(graph: WeightedGraph) -> str | None:
    """Returns why a graph is not connected, with an unreachable node of each part, or None."""
    label = component_labels(len(graph.names), graph.a, graph.b)
    heads = np.flatnonzero(label == np.arange(len(label)))
    if len(heads) == 1:
        return None
    shown = ", ".join(repr(graph.names[head]) for head in heads[1:6]) + (", ..." if len(heads) > 6 else "")
    return f"the overlay falls into {len(heads)} parts: from {graph.names[0]!r} there is no path to {shown}"
