"""Trees cut out of overlays, against networkx, and the refusal of cycles where a tree is needed."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest

from pipelines.contract.run_inputs import Overlay
from pipelines.errors import InputError
from pipelines.inputs.overlay.build import build_overlay
from pipelines.inputs.overlay.weighted import (
    WeightedGraph,
    merge_parallel,
    minimum_tree,
    shortest_path_tree,
)
from pipelines.scenario.overlay import OverlaySpec


def build(spec: dict[str, Any], *, needs_tree: bool = True) -> Overlay:
    return build_overlay(OverlaySpec.model_validate(spec), seed=0, round_ms=10.0, needs_tree=needs_tree, beside=None)


def random_graph(seed: int, *, ties: bool) -> WeightedGraph:
    made = nx.connected_watts_strogatz_graph(40, 6, 0.4, seed=seed)
    draw = np.random.default_rng(seed)
    size = made.number_of_edges()
    ms = draw.integers(0, 4, size).astype(float) if ties else draw.uniform(0.5, 40.0, size)
    return merge_parallel(tuple(f"n{i}" for i in range(40)), list(made.edges), ms)


def as_networkx(graph: WeightedGraph) -> nx.Graph:
    made = nx.Graph()
    made.add_weighted_edges_from(zip(graph.a.tolist(), graph.b.tolist(), graph.weights.tolist(), strict=True))
    return made


def relabelled(graph: WeightedGraph, order: np.ndarray) -> WeightedGraph:
    """The same graph with its links listed in another order and direction."""
    ends = np.stack([graph.b, graph.a], axis=1)[order]
    return merge_parallel(graph.names, ends, graph.weights[order])


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_minimum_tree_weighs_what_networkx_says(seed: int, ties: bool) -> None:
    graph = random_graph(seed, ties=ties)
    tree = as_networkx(minimum_tree(graph))
    assert nx.is_tree(tree)
    assert len(tree) == 40
    assert tree.size("weight") == pytest.approx(nx.minimum_spanning_tree(as_networkx(graph)).size("weight"))


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_shortest_path_tree_keeps_all_distances_from_its_root(seed: int, ties: bool) -> None:
    graph = random_graph(seed, ties=ties)
    tree = as_networkx(shortest_path_tree(graph, 5))
    assert nx.is_tree(tree)
    distances = nx.single_source_dijkstra_path_length
    assert distances(tree, 5) == pytest.approx(distances(as_networkx(graph), 5))


@pytest.mark.parametrize("seed", range(5))
def test_trees_do_not_depend_on_the_order_of_links(seed: int) -> None:
    graph = random_graph(seed, ties=True)
    other = relabelled(graph, np.random.default_rng(seed).permutation(len(graph.a)))
    for cut in (minimum_tree, lambda g: shortest_path_tree(g, 0)):
        one, two = cut(graph), cut(other)
        assert one.a.tolist() == two.a.tolist()
        assert one.b.tolist() == two.b.tolist()


def test_ties_go_to_the_smaller_node_ids() -> None:
    square = merge_parallel(("a", "b", "c", "d"), [(0, 1), (1, 2), (2, 3), (0, 3)], np.ones(4))
    assert list(zip(minimum_tree(square).a.tolist(), minimum_tree(square).b.tolist(), strict=True)) == [
        (0, 1),
        (0, 3),
        (1, 2),
    ]
    tree = shortest_path_tree(square, 0)
    assert list(zip(tree.a.tolist(), tree.b.tolist(), strict=True)) == [(0, 1), (0, 3), (1, 2)]


def test_the_cut_is_by_the_latencies_of_the_run_before_rounding(tmp_path: Any) -> None:
    (tmp_path / "net.csv").write_text("src,dst,ms\nA,B,9\nB,C,8\nA,C,7\n")
    path = str(tmp_path / "net.csv")
    by_ms = build({"file": {"path": path, "latency": "ms"}})
    assert [(by_ms.names[a], by_ms.names[b]) for a, b in zip(by_ms.a, by_ms.b, strict=True)] == [("A", "C"), ("B", "C")]
    flat = build({"file": {"path": path, "latency": "ms"}, "latency": {"ms": 3.0}})
    assert list(zip(flat.a.tolist(), flat.b.tolist(), strict=True)) == [(0, 1), (0, 2)]


def test_links_are_kept_as_they_are_given() -> None:
    overlay = build({"links": [["P1", "N1"], ["N2", "N1", 3], ["S1", "N2"]]})
    assert overlay.names == ("P1", "N1", "N2", "S1")
    assert overlay.a.tolist() == [0, 1, 2]
    assert overlay.b.tolist() == [1, 2, 3]
    assert overlay.latency_rounds.tolist() == [1, 3, 1]
    assert overlay.is_tree


@pytest.mark.parametrize("round_ms", [0.1, 0.3, 0.7, 1.1, 7.3, 10.0, 1e6])
def test_latencies_in_rounds_stay_what_they_are_at_any_round_length(round_ms: float) -> None:
    wanted = [*range(1, 200), 999_999, 1_000_000]
    links = [[f"n{i}", f"n{i + 1}", rounds] for i, rounds in enumerate(wanted)]
    spec = OverlaySpec.model_validate({"links": links})
    overlay = build_overlay(spec, seed=0, round_ms=round_ms, needs_tree=True, beside=None)
    assert overlay.latency_rounds.tolist() == wanted


def test_a_cycle_in_the_links_is_named_where_a_tree_is_needed() -> None:
    links = [["A", "B"], ["B", "C"], ["C", "D"], ["D", "B"], ["D", "E"]]
    with pytest.raises(InputError) as caught:
        build({"links": links})
    (problem,) = caught.value.problems
    assert problem.path == ("overlay", "links", 3)
    assert "closes the cycle D - C - B - D" in problem.message
    assert "remove one of these 3 links" in problem.message
    assert len(build({"links": links}, needs_tree=False).a) == 5


def test_a_long_cycle_is_shortened_in_the_message() -> None:
    names = [f"n{i}" for i in range(100)]
    with pytest.raises(InputError, match=r"n99 - n98 .* - \.\.\. - n0 - n99.* 100 links") as caught:
        build({"links": [*map(list, pairwise(names)), ["n99", "n0"]]})
    assert len(str(caught.value)) < 400


def test_the_root_must_be_a_node() -> None:
    spec = {"generate": {"kind": "ring", "nodes": 5, "tree": "shortest_path", "root": "N55"}}
    with pytest.raises(InputError, match="has no node 'N55'; did you mean 'N5'") as caught:
        build(spec)
    assert caught.value.problems[0].path == ("overlay", "generate", "root")


def test_the_root_decides_the_shortest_path_tree() -> None:
    ring = {"kind": "ring", "nodes": 5, "tree": "shortest_path"}
    for root in range(5):
        tree = build({"generate": {**ring, "root": f"N{root + 1}"}})
        far = sorted(((root + 2) % 5, (root + 3) % 5))  # the link opposite to the root is left out
        assert far not in np.stack([tree.a, tree.b], axis=1).tolist()
        assert tree.is_tree
    assert build({"generate": ring}).a.tolist() == build({"generate": {**ring, "root": "N1"}}).a.tolist()


def test_the_join_root_must_be_a_node() -> None:
    spec = {"generate": {"kind": "line", "nodes": 5}, "start": "joining", "join_root": "N22"}
    with pytest.raises(InputError, match="did you mean 'N2'") as caught:
        build(spec)
    assert caught.value.problems[0].path == ("overlay", "join_root")
