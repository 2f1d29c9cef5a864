"""The limit on the paths of up to δ+1 hops that the brokers of protocol delta store."""

from __future__ import annotations

from itertools import islice
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest

from pipelines.contract.run_inputs import Overlay
from pipelines.experiment.plan import build, combinations
from pipelines.experiment.prepared import prepare
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
    wanted = "within 2 hops; the overlay has 2,500,100,001 such paths, allowed: 100,000,000; reduce δ, or the degree"
    assert wanted in problem.message
    assert problem.message.endswith("which is up to 50,000")
    assert not [*delta.problems(SimpleNamespace(delta=0), star, _UNUSED, _UNUSED)]


def test_the_paths_around_a_hub_count_as_state() -> None:
    """The paths are a part of the estimated memory, and they limit the number of runs in a batch."""
    found = {}
    for name in ("delta", "flooding"):
        overlay = {"generate": {"kind": "star", "nodes": 1000}}
        prepared = prepare({"name": "t", "protocol": {"name": name}, "overlay": overlay, "time": {"rounds": 9}})
        (found[name],) = {build(prepared).n_state_rows, combinations(prepared)[0].n_state_rows}
    n_paths = 1000 + 2 * 999 + 999 * 998
    assert found["delta"] == found["flooding"] + n_paths // 5
