"""Flooding costs what closed forms say: copies, duplicates, latencies, and copies of bridges that remember nothing."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from typing import Any

import networkx as nx
import numpy as np
import pytest

from pipelines.errors import InputError
from pipelines.experiment.build import build_run
from pipelines.testing import run_configs, scenario
from udfs.flooding import Flooding
from udfs.nodes.local import LocalNetwork
from udfs.nodes.network import HistoryRows

TOPIC = "t"
SOURCE = 0
ISSUED = 3
LONG = 300


def graph(seed: int) -> nx.Graph:
    """Returns a connected graph with cycles and drawn latencies."""
    draw = random.Random(seed)
    n = draw.randint(4, 14)
    found = nx.Graph(nx.random_labeled_tree(n, seed=seed))
    pairs = [(a, b) for a in range(n) for b in range(a) if not found.has_edge(a, b)]
    found.add_edges_from(draw.sample(pairs, draw.randint(1, min(len(pairs), n))))
    for a, b in found.edges:
        found.edges[a, b]["latency"] = draw.randint(1, 5)
    return found


def network(of: nx.Graph, **settings: Any) -> LocalNetwork:
    """Returns a network in which every node subscribes."""
    links = {(a, b): of.edges[a, b].get("latency", 1) for a, b in of.edges}
    made = LocalNetwork(Flooding, links=links, settings=settings)
    for node in sorted(of):
        made.call(node, "subscribe", 0, subscription_id=node, topic=TOPIC)
    return made


def played(of: nx.Graph, **settings: Any) -> HistoryRows:
    """Returns the rows of a run in which one node publishes."""
    made = network(of, **settings)
    made.call(SOURCE, "publish", ISSUED, topic=TOPIC, matches=tuple(sorted(of)))
    return made.play(LONG)


def walks(of: nx.Graph, longest: int) -> list[Counter[int]]:
    """Returns how many walks from the source end at each node, by length from 1, that never turn back at once.

    They are counted with the matrix of Hashimoto, whose rows and columns are directed links.
    """
    arcs = [*of.edges, *((b, a) for a, b in of.edges)]
    follows = np.array([[b == c and a != d for (c, d) in arcs] for (a, b) in arcs], dtype=np.int64)
    count = np.array([a == SOURCE for a, _ in arcs], dtype=np.int64)
    found = []
    for _ in range(longest):
        found.append(Counter[int]())
        for (_, end), n in zip(arcs, count.tolist(), strict=True):
            found[-1][end] += n
        count = count @ follows
    return found


@pytest.mark.parametrize("seed", range(30))
def test_copies_and_duplicates(seed: int) -> None:
    """Every node sends over all its links but one, the source over all: 2|E| - (n - 1) copies, n - 1 are first ones."""
    of = graph(seed)
    n, n_links = len(of), of.number_of_edges()
    rows = played(of)
    assert Counter(one.fate for one in rows.handled) == {
        "delivered": n - 1, "duplicate": 2 * n_links - 2 * (n - 1)
    }  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_the_first_copy_takes_the_fastest_way(seed: int) -> None:
    of = graph(seed)
    fastest = nx.single_source_dijkstra_path_length(of, SOURCE, weight="latency")
    rows = played(of)
    assert {node: one.latency_rounds for node, _, one in rows.delivered} == fastest
    assert len(rows.delivered) == len(of)
    for node, _, one in rows.delivered:
        ways = nx.all_shortest_paths(of, SOURCE, node, weight="latency")
        assert one.hops in {len(way) - 1 for way in ways}


def test_five_nodes_in_a_ring() -> None:
    rows = played(nx.cycle_graph(5))
    assert Counter(one.fate for one in rows.handled) == {"delivered": 4, "duplicate": 2}


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("max_hops", [1, 3, 6])
def test_bridges_without_memory_follow_all_walks(seed: int, max_hops: int) -> None:
    """A copy for each walk of at most max_hops links that never turns back at once, and a delivery for each copy."""
    of = nx.Graph(graph(seed).edges)
    rows = played(of, max_hops=max_hops)
    by_length = walks(of, max_hops)
    assert len(rows.handled) == sum(map(Counter.total, by_length))
    assert {one.fate for one in rows.handled} == {"delivered"}
    ends = sum(by_length, Counter[int]())
    assert Counter(node for node, _, _ in rows.delivered) == ends + Counter([SOURCE])


def test_a_loop_of_three_bridges_never_ends_by_itself() -> None:
    """Two copies circulate, one in each direction, one link a round, until max_hops."""
    rows = played(nx.cycle_graph(3), max_hops=30)
    assert len(rows.handled) == 2 * 30
    assert Counter(node for node, _, _ in rows.delivered) == {0: 1 + 20, 1: 20, 2: 20}


@pytest.mark.parametrize(("max_hops", "overlay"), [(7, "complete"), (1000, "ring"), (1000, "tree")])
def test_hops_that_multiply_publications_without_end_are_refused(max_hops: int, overlay: str) -> None:
    """In a complete overlay of 10 nodes, 9 x 8^(h - 1) copies travel over h links; in a ring two, in a tree few."""
    nodes = [f"N{node}" for node in range(10)]
    links = {
        "complete": [list(pair) for pair in itertools.combinations(nodes, 2)],
        "ring": [list(pair) for pair in zip(nodes, [*nodes[1:], nodes[0]], strict=True)],
        "tree": [["N0", node] for node in nodes[1:]],
    }[overlay]

    def built(hops: int) -> None:
        parts = scenario(
            protocol={"name": "flooding", "max_hops": hops},
            overlay={"links": links},
            workload={"publications": [{"at": "N1", "round": 3, "topic": "a"}]},
        )
        build_run(run_configs([parts])[0], None)

    built(max_hops)
    if overlay == "complete":
        n_copies = sum(9 * 8**hops for hops in range(8))
        told = rf"^protocol.max_hops: over 8 links, .* to {n_copies:,} copies, .*; allowed: 1 to 7 for this"
        with pytest.raises(InputError, match=told):
            built(20)


def test_a_tree_needs_no_memory() -> None:
    of = nx.random_labeled_tree(12, seed=1)
    assert len(played(of, max_hops=12).delivered) == len(played(of).delivered) == 12


def test_a_node_remembers_over_a_crash_what_it_had() -> None:
    """C gets the copy of B, crashes, is up again, and drops the copy that comes over the slow link."""
    of = nx.Graph()
    of.add_edge(0, 1, latency=1)
    of.add_edge(1, 2, latency=1)
    of.add_edge(0, 2, latency=20)
    made = network(of)
    made.call(SOURCE, "publish", ISSUED, topic=TOPIC, matches=(0, 1, 2))
    made.crash(2, 10, 15)
    rows = made.play(LONG)
    assert [round_ for node, round_, _ in rows.delivered if node == 2] == [ISSUED + 2]
    assert [(one.due_round, one.fate) for one in rows.handled if (one.src, one.dst) == (0, 2)] == [
        (ISSUED + 20, "duplicate")
    ]


def test_a_crash_that_cuts_nobody_off_costs_nobody_anything() -> None:
    made = network(nx.cycle_graph(6))
    made.call(SOURCE, "publish", ISSUED, topic=TOPIC, matches=tuple(range(6)))
    made.crash(1, 2)
    rows = made.play(LONG)
    assert {node: one.latency_rounds for node, _, one in rows.delivered} == {0: 0, 5: 1, 4: 2, 3: 3, 2: 4}


def test_a_subscription_that_has_ended_gets_nothing() -> None:
    made = network(nx.path_graph(3))
    made.call(2, "unsubscribe", 10, subscription_id=2)
    made.call(SOURCE, "publish", 9, topic=TOPIC, matches=(0, 1, 2))
    assert {node for node, _, _ in made.play(LONG).delivered} == {0, 1}
