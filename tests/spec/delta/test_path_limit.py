"""The limit on the paths of up to δ+1 hops that the brokers of protocol delta store."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from pipelines.contract.run_inputs import Overlay
from pipelines.protocols import delta

_UNUSED: Any = None


def overlay(tree: nx.Graph) -> Overlay:
    ends = np.array(sorted(map(sorted, tree.edges)), dtype=np.int64)
    names = tuple(f"N{node}" for node in range(len(tree)))
    return Overlay(names, ends[:, 0], ends[:, 1], np.ones(len(ends), dtype=np.int64))


@pytest.mark.parametrize("seed", range(5))
def test_walks_without_turning_back_are_the_paths_of_a_tree(seed: int) -> None:
    tree = nx.random_labeled_tree(30, seed=seed)
    distances = [hops for _, found in nx.all_pairs_shortest_path_length(tree) for hops in found.values()]
    assert list(islice(overlay(tree).n_walks(np.ones(30)), 6)) == [distances.count(hops) for hops in range(1, 7)]


def test_a_hub_with_too_many_neighbours_is_refused() -> None:
    """Each pair of the hub's neighbours has a path of two hops: such a run would need a terabyte."""
    star = overlay(nx.star_graph(50_000))
    (problem,) = delta.problems(SimpleNamespace(delta=1), star, _UNUSED, _UNUSED)
    assert problem.path == ("protocol", "delta")
    assert "2,500,100,001 paths have up to 2 hops, allowed: 100,000,000; reduce δ, or the degree" in problem.message
    assert problem.message.endswith("which is up to 50,000")
    assert not [*delta.problems(SimpleNamespace(delta=0), star, _UNUSED, _UNUSED)]
