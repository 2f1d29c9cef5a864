"""The rooted tree without an engine: neighbours, views (section 4.2.2), and broken trees.

B0 - B1 - B3 - B4        clients: C8 at B3, C9 at B0; B2 is the other child of B0
"""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import pyarrow as pa
import pytest

from udfs.ginger.tree import Tree, broken_trees

LATENCY = {(0, 1): 2, (0, 2): 3, (1, 3): 5, (3, 4): 7, (3, 8): 11, (0, 9): 13}
CLIENTS = {8, 9}


Row = tuple[int, *tuple[Any, ...]]


def tree(root: int = 0) -> Tree:
    return Tree(root, {way: latency for pair, latency in LATENCY.items() for way in (pair, pair[::-1])}, CLIENTS)


def near(of: Tree, *nodes: int) -> list[Row]:
    """Returns nodes, their neighbours, and the relationship and latency of each neighbour."""
    return sorted((node, *astuple(row)[:3]) for node, row in of.neighbours() if node in nodes)


def far(max_hops: int, *nodes: int) -> list[Row]:
    """Returns nodes with the rows of their views."""
    return sorted((node, *astuple(row)) for node in nodes for row in tree().view(node, max_hops))


def test_every_link_is_seen_from_both_ends() -> None:
    """A client has an edge broker."""
    assert near(tree(), 0, 3, 8) == [
        (0, 1, "child", 2), (0, 2, "child", 3), (0, 9, "client", 13), (3, 1, "parent", 5), (3, 4, "child", 7),
        (3, 8, "client", 11), (8, 3, "edge", 11),
    ]  # fmt: skip


def test_another_root_turns_the_links_on_the_way_round() -> None:
    assert [row[:3] for row in near(tree(root=1), 0, 1)] == [
        (0, 1, "parent"), (0, 2, "child"), (0, 9, "client"), (1, 0, "child"), (1, 3, "child"),
    ]  # fmt: skip


def test_brokers_see_ancestors_siblings_and_siblings_of_ancestors_within_their_hops() -> None:
    """B4 is three hops from B0 and four from B2. The latency of a path is the sum over its links."""
    assert far(3, 0, 1, 2, 3, 4) == [
        (1, 2, "sibling", 1, 1, 5),
        (2, 1, "sibling", 1, 1, 5),
        (3, 0, "ancestor", 0, 2, 7),
        (3, 2, "ancestor", 1, 2, 10),
        (4, 0, "ancestor", 0, 3, 14),
        (4, 1, "ancestor", 0, 2, 12),
    ]


def test_clients_see_what_a_child_of_their_broker_would_and_nobody_sees_them() -> None:
    assert far(3, 8, 9) == [
        (8, 0, "ancestor", 0, 3, 18),
        (8, 1, "ancestor", 0, 2, 16),
        (8, 4, "sibling", 1, 1, 18),
        (9, 1, "sibling", 1, 1, 15),
        (9, 2, "sibling", 1, 1, 16),
    ]


@pytest.mark.parametrize(("max_hops", "expected"), [(1, []), (2, [0]), (3, [0, 2])])
def test_nobody_sees_farther_than_max_hops(max_hops: int, expected: list[int]) -> None:
    assert [row[1] for row in far(max_hops, 3)] == expected


def test_brokers_without_a_root_are_named_and_every_root_but_the_first() -> None:
    """B3 and B4 are each other's parents, B5 is a child of B3, and the parent of B6 does not exist."""
    parents = {0: None, 1: 0, 7: 1, 2: None, 3: 4, 4: 3, 5: 3, 6: 99}
    run = {"run_id": 4, "nodes": [{"node_id": node, "parent": above} for node, above in parents.items()]}
    whole = {"run_id": 5, "nodes": [{"node_id": 1, "parent": 0}, {"node_id": 0, "parent": None}]}
    (out,) = broken_trees([pa.RecordBatch.from_pylist([run, whole])])
    lost = "its parents do not lead to the root: they come to node"
    assert [tuple(row.values()) for row in out.to_pylist()] == [
        (4, 2, "has no parent, and neither has node 0"),
        (4, 3, f"{lost} 3"),
        (4, 4, f"{lost} 4"),
        (4, 5, f"{lost} 3"),
        (4, 6, f"{lost} 99"),
    ]
