"""Builds small overlays."""

from __future__ import annotations

import networkx as nx
import numpy as np

from pipelines.contract.run_inputs import Overlay


def overlay(graph: nx.Graph[int], latency: int = 1) -> Overlay:
    """Returns a graph as an overlay in which all links have latency ``latency``."""
    ends = sorted(sorted(edge) for edge in graph.edges)
    a, b = np.array(ends, dtype=np.int64).T
    return Overlay(tuple(f"N{node}" for node in sorted(graph)), a, b, np.full(len(a), latency, dtype=np.int64))


def tree(nodes: int, seed: int = 1) -> Overlay:
    """Returns a random tree."""
    return overlay(nx.random_labeled_tree(nodes, seed=seed))
