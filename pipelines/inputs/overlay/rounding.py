"""What rounding latencies up to whole rounds changes."""

from __future__ import annotations

from itertools import pairwise
from statistics import median
from typing import NamedTuple

import networkx as nx
import numpy as np

from pipelines.contract.run_inputs import Ints
from pipelines.inputs.overlay.weighted import WeightedGraph

MOST_CHANGE = 0.1
"""Share of a path's latency by which rounding may change it without a note."""
_MAX_SOURCES = 10


class _Path(NamedTuple):
    ms: float
    rounded_ms: float
    first: int
    last: int

    @property
    def is_longer(self) -> bool:
        """Whether rounding makes it more than 10 % longer; a path without latency takes a round or more."""
        return self.rounded_ms > self.ms * (1 + MOST_CHANGE) + 1e-9


def rounding_note(graph: WeightedGraph, rounds: Ints, round_ms: float) -> str:
    """Returns how many shortest paths become more than 10 % longer by rounding, with numbers, or an empty string.

    Args:
        graph: The overlay, with latencies in ms; the paths begin at ten nodes at most, evenly spaced.
        rounds: The latency of each link in rounds.
        round_ms: Milliseconds of a round.
    """
    if graph.ms is None or not (rounds * round_ms > graph.ms * (1 + MOST_CHANGE)).any():
        return ""
    found = _paths(graph, rounds, round_ms)
    longer = [path for path in found if path.is_longer]
    if not longer:
        return ""
    worst = max(longer, key=lambda path: (path.rounded_ms - path.ms, path.ms))
    ratios = [path.rounded_ms / path.ms for path in longer if path.ms]
    half = f", half of them {median(ratios):.2g} times as long or more" if ratios else ""
    return (
        f"rounding up to rounds of {round_ms:g} ms makes {len(longer):,} of {len(found):,} paths more than "
        f"{MOST_CHANGE:.0%} longer{half}; {graph.names[worst.first]} to {graph.names[worst.last]} takes "
        f"{worst.ms:.3g} ms, and {worst.rounded_ms:g} ms here; a smaller time.round_ms is more exact"
    )


def _paths(graph: WeightedGraph, rounds: Ints, round_ms: float) -> list[_Path]:
    """Returns the shortest paths by ms from some nodes to all others."""
    network: nx.Graph[int] = nx.Graph()
    for a, b, ms, n_rounds in zip(*(of.tolist() for of in (graph.a, graph.b, graph.weights, rounds)), strict=True):
        network.add_edge(a, b, ms=ms, rounds=n_rounds)
    n_nodes = len(graph.names)
    found = []
    for first in sorted({int(at) for at in np.linspace(0, n_nodes - 1, min(n_nodes, _MAX_SOURCES))}):
        for last, nodes in nx.single_source_dijkstra_path(network, first, weight="ms").items():
            links = [network.edges[link] for link in pairwise(nodes)]
            if links:
                ms, n_rounds = (sum(link[name] for link in links) for name in ("ms", "rounds"))
                found.append(_Path(ms, n_rounds * round_ms, first, last))
    return found
