"""Generated overlays: their shape, their size, and that the seed alone decides."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from pipelines.contract.run_inputs import Overlay
from pipelines.errors import InputError
from pipelines.inputs.overlay import generators
from pipelines.inputs.overlay.build import build_overlay
from pipelines.scenario.overlay import OverlaySpec

RANDOM = [
    {"kind": "random_tree", "nodes": 40},
    {"kind": "random_tree", "nodes": 40, "max_degree": 3},
    {"kind": "erdos_renyi", "nodes": 40, "probability": 0.12},
    {"kind": "barabasi_albert", "nodes": 40, "attach": 3},
    {"kind": "watts_strogatz", "nodes": 40, "neighbours": 4, "probability": 0.3},
]


def make(seed: int = 0, *, needs_tree: bool = False, **generate: Any) -> Overlay:
    spec = OverlaySpec.model_validate({"generate": generate})
    return build_overlay(spec, seed=seed, round_ms=10.0, needs_tree=needs_tree, beside=None)


def graph(overlay: Overlay) -> nx.Graph:
    made = nx.Graph()
    made.add_nodes_from(range(len(overlay.names)))
    made.add_edges_from(zip(overlay.a.tolist(), overlay.b.tolist(), strict=True))
    return made


def pairs(overlay: Overlay) -> list[tuple[int, int]]:
    return list(zip(overlay.a.tolist(), overlay.b.tolist(), strict=True))


@pytest.mark.parametrize("n", [1, 2, 7, 25])
def test_fixed_shapes_equal_those_of_networkx(n: int) -> None:
    assert nx.utils.graphs_equal(graph(make(kind="line", nodes=n)), nx.path_graph(n))
    assert nx.utils.graphs_equal(graph(make(kind="star", nodes=n)), nx.star_graph(n - 1))
    assert nx.utils.graphs_equal(graph(make(kind="balanced_tree", nodes=n, branching=3)), nx.full_rary_tree(3, n))
    if n > 2:
        assert nx.utils.graphs_equal(graph(make(kind="ring", nodes=n)), nx.cycle_graph(n))


def test_grid_of_rows_and_columns_equals_that_of_networkx() -> None:
    expected = nx.convert_node_labels_to_integers(nx.grid_2d_graph(3, 5))
    assert nx.utils.graphs_equal(graph(make(kind="grid", rows=3, columns=5)), expected)


@pytest.mark.parametrize("n", range(1, 30))
def test_grid_of_nodes_has_so_many_and_is_connected(n: int) -> None:
    grid = graph(make(kind="grid", nodes=n))
    assert len(grid) == n
    assert nx.is_connected(grid)
    assert nx.is_bipartite(grid)


@pytest.mark.parametrize("settings", RANDOM, ids=lambda s: "-".join(map(str, s.values())))
def test_random_kinds_are_connected_simple_sorted_and_decided_by_the_seed(settings: dict[str, Any]) -> None:
    seen = set()
    for seed in range(20):
        overlay = make(seed, **settings)
        assert pairs(overlay) == pairs(make(seed, **settings))
        assert pairs(overlay) == sorted(set(pairs(overlay)))
        assert (overlay.a < overlay.b).all()
        assert nx.is_connected(graph(overlay))
        assert len(overlay.names) == 40
        assert (overlay.latency_rounds == 1).all()
        seen.add(tuple(pairs(overlay)))
    assert len(seen) == 20


def test_a_seed_gives_the_same_overlay_for_ever() -> None:
    assert pairs(make(3, kind="random_tree", nodes=6)) == [(0, 1), (0, 2), (0, 4), (1, 5), (2, 3)]


def test_names_are_numbered_from_one_after_the_prefix() -> None:
    assert make(kind="line", nodes=3, prefix="broker-").names == ("broker-1", "broker-2", "broker-3")


@pytest.mark.parametrize("max_degree", [2, 3, 5, None])
def test_random_tree_keeps_to_its_degree(max_degree: int | None) -> None:
    largest = 0
    for seed in range(30):
        tree = graph(make(seed, kind="random_tree", nodes=60, max_degree=max_degree))
        assert nx.is_tree(tree)
        largest = max(largest, *(degree for _, degree in tree.degree))
    assert largest == max_degree if max_degree is not None else largest > 5


def test_random_tree_draws_every_earlier_node_as_parent_alike() -> None:
    children = [make(seed, kind="random_tree", nodes=5) for seed in range(4000)]
    parents = [int(overlay.a[overlay.b == 4][0]) for overlay in children]
    assert np.allclose(np.bincount(parents) / 4000, 0.25, atol=0.03)


def test_erdos_renyi_has_as_many_links_as_its_probability_says() -> None:
    links = [len(make(seed, kind="erdos_renyi", nodes=100, probability=0.1).a) for seed in range(50)]
    assert abs(np.mean(links) / (4950 * 0.1) - 1) < 0.03
    assert len(make(kind="erdos_renyi", nodes=30, probability=1.0).a) == 435


def test_erdos_renyi_links_every_pair_alike() -> None:
    count = np.zeros((8, 8))
    for seed in range(2000):
        overlay = make(seed, kind="erdos_renyi", nodes=8, probability=0.6)
        count[overlay.a, overlay.b] += 1
    share = count[np.triu_indices(8, 1)] / 2000
    assert share.min() > 0.55
    assert share.max() < 0.67


def test_barabasi_albert_adds_its_links_for_each_node_and_prefers_the_well_linked() -> None:
    overlay = make(3, kind="barabasi_albert", nodes=2000, attach=2)
    assert len(overlay.a) == 2 + 2 * (2000 - 3)
    degree = np.bincount(np.concatenate([overlay.a, overlay.b]))
    assert degree.min() >= 1
    assert degree.max() > 40


def test_watts_strogatz_is_a_ring_lattice_without_rewiring_and_keeps_its_links_with() -> None:
    lattice = make(kind="watts_strogatz", nodes=20, neighbours=4, probability=0.0)
    assert nx.utils.graphs_equal(graph(lattice), nx.watts_strogatz_graph(20, 4, 0.0))
    moved = make(kind="watts_strogatz", nodes=20, neighbours=4, probability=1.0)
    assert len(moved.a) == 40
    assert len(set(pairs(moved)) & set(pairs(lattice))) < 25


@pytest.mark.parametrize("settings", RANDOM, ids=lambda s: s["kind"])
def test_a_protocol_that_needs_a_tree_gets_one(settings: dict[str, Any]) -> None:
    overlay = make(1, needs_tree=True, **settings)
    assert nx.is_tree(graph(overlay))
    assert set(pairs(overlay)) <= set(pairs(make(1, **settings)))


@pytest.mark.parametrize(
    ("settings", "field", "words"),
    [
        ({"kind": "erdos_renyi", "nodes": 50, "probability": 0.01}, "probability", "ln n / n"),
        ({"kind": "erdos_renyi", "nodes": 5, "probability": 0.0}, "probability", "none is connected"),
        ({"kind": "erdos_renyi", "nodes": 1_000_000, "probability": 0.5}, "nodes", "at most 5,000,000"),
        ({"kind": "barabasi_albert", "nodes": 1_000_000, "attach": 9}, "nodes", "at most 5,000,000"),
        ({"kind": "watts_strogatz", "nodes": 9, "neighbours": 3, "probability": 0.1}, "neighbours", "even"),
    ],
)
def test_what_cannot_be_generated_is_told_at_its_setting(settings: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        make(**settings)
    assert [problem.path for problem in caught.value.problems] == [("overlay", "generate", field)]


def test_a_rewired_ring_that_stays_in_parts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generators, "MAX_TRIES", 1)
    with pytest.raises(InputError, match=r"of 1 rewired rings .* take more neighbours"):
        make(2, kind="watts_strogatz", nodes=5000, neighbours=2, probability=1.0)


def test_thousands_of_trees_and_one_huge_tree_are_trees() -> None:
    assert all(make(seed, kind="random_tree", nodes=50, max_degree=4).is_tree for seed in range(5000))
    assert make(kind="random_tree", nodes=100_000, max_degree=4).is_tree
