"""Labels and the skip ring SR(n): Figure 1 and the figures that follow from the definition (section 2.1)."""

from __future__ import annotations

from fractions import Fraction

import networkx as nx
import pytest
from support.skipring import edges, slots

from udfs.skipring.labels import (
    MAX_BITS,
    Label,
    chain,
    index_of,
    is_between,
    label_at,
    label_of,
    levels,
    ring_neighbours,
)

FIGURE_1 = """
0 0 0; 1 1 1/2; 2 01 1/4; 3 11 3/4; 4 001 1/8; 5 011 3/8; 6 101 5/8; 7 111 7/8; 8 0001 1/16; 9 0011 3/16;
10 0101 5/16; 11 0111 7/16; 12 1001 9/16; 13 1011 11/16; 14 1101 13/16; 15 1111 15/16
"""
TABLE = {
    2: (1, 1, 1, 1), 3: (3, 2, 2, 1), 4: (5, 3, 3, 2), 8: (13, 5, 5, 3), 16: (29, 7, 7, 4), 64: (125, 11, 11, 6),
    100: (197, 13, 12, 6), 1000: (1997, 19, 18, 10), 1024: (2045, 19, 19, 10),
}  # fmt: skip
"""Edges, largest degree, degree of the node 0, diameter."""
SLOTS_16 = {
    "0": "001 01 1 11 111", "1": "0 01 011 101 11", "01": "0 001 011 1", "11": "0 1 101 111", "001": "0 01",
    "011": "01 1", "101": "1 11", "111": "0 11",
}  # fmt: skip
TOUCHED = {
    "0": [9, 16], "001": [9, 10], "01": [10, 11], "011": [11, 12], "1": [12, 13], "101": [13, 14], "11": [14, 15],
    "111": [15, 16],
}  # fmt: skip


def label(digits: str) -> Label:
    return Label(len(digits), int(digits, 2))


def skip_ring(n: int) -> nx.Graph:
    graph = nx.Graph()
    graph.add_nodes_from(label_of(index) for index in range(n))
    graph.add_edges_from((one, other) for _, one, other in edges(n))
    return graph


def test_labels_of_figure_1() -> None:
    rows = [row.split() for row in FIGURE_1.replace("\n", " ").split(";")]
    assert [(str(index), str(label_of(index)), label_of(index).value) for index in range(16)] == [
        (index, digits, Fraction(value) * (1 << MAX_BITS)) for index, digits, value in rows
    ]


def test_every_label_is_in_the_order_of_its_index() -> None:
    found = [label_of(index) for index in range(3000)]
    assert found == sorted(found)
    assert [index_of(one) for one in found] == list(range(3000))
    assert [label_at(one.value) for one in found] == found


@pytest.mark.parametrize("digits", ["00", "10", "0110"])
def test_labels_with_trailing_zeros_have_no_index(digits: str) -> None:
    assert index_of(label(digits)) is None


def test_arcs_of_the_ring() -> None:
    assert is_between((1, 0), (2, 0), (3, 0))
    assert not is_between((1, 0), (3, 0), (3, 0))
    assert is_between((3, 0), (4, 0), (1, 0))
    assert is_between((3, 0), (0, 0), (1, 0))
    assert not is_between((3, 0), (2, 0), (1, 0))


@pytest.mark.parametrize("n", TABLE)
def test_edges_degrees_and_diameter(n: int) -> None:
    graph = skip_ring(n)
    degrees = dict(graph.degree)
    found = (graph.number_of_edges(), max(degrees.values()), degrees[label_of(0)], nx.diameter(graph))
    assert found == TABLE[n]
    assert found[0] == 2 * n - 3
    assert sum(degrees.values()) / n == pytest.approx(4 - 6 / n)


def test_edges_and_largest_degree_of_all_sizes() -> None:
    for n in (*range(3, 200), *range(755, 1025, 10)):
        degrees, depth = dict(skip_ring(n).degree), levels(n)
        assert sum(degrees.values()) == 2 * (2 * n - 3)
        assert max(degrees.values()) == 2 * depth - (1 if n > 3 * 2 ** (depth - 2) else 2)


def test_the_diameter_is_at_most_the_number_of_levels() -> None:
    assert all(nx.diameter(skip_ring(n)) <= levels(n) for n in range(2, 130))


def test_neighbours_on_the_ring() -> None:
    for n in (2, 3, 5, 8, 21, 64, 100):
        ring = sorted(range(n), key=lambda index: label_of(index).value)
        beside = {index: (ring[place - 1], ring[(place + 1) % n]) for place, index in enumerate(ring)}
        assert {index: ring_neighbours(index, n) for index in range(n)} == beside
    assert ring_neighbours(0, 1) is None


def test_shortcuts_computed_from_ring_neighbours_are_those_of_the_definition() -> None:
    for n in range(2, 301):
        expected, local = slots(n), set()
        for index in range(n):
            own, beside = label_of(index), [label_of(one) for one in ring_neighbours(index, n) or ()]
            found = {slot for one in beside for slot in chain(own, one)}
            assert found == expected[own]
            local |= {frozenset((own, other)) for other in (*found, *beside)}
        assert local == {frozenset((one, other)) for _, one, other in edges(n)}


def test_the_example_of_section_3_2_2() -> None:
    assert [str(one) for one in chain(label("01"), label("0011"))] == ["001", "0"]


def test_slots_of_sr_16() -> None:
    found = {str(own): {str(one) for one in others} for own, others in slots(16).items() if others}
    assert found == {own: set(others.split()) for own, others in SLOTS_16.items()}


def test_old_subscribers_are_touched_by_two_inserts_each() -> None:
    touched: dict[str, list[int]] = {}
    for n in range(9, 17):
        for index in range(8):
            if ring_neighbours(index, n) != ring_neighbours(index, n - 1):
                touched.setdefault(str(label_of(index)), []).append(n)
    assert touched == TOUCHED


def test_a_subscribe_adds_two_edges_and_loses_none() -> None:
    for n in range(3, 200):
        before, after = ({frozenset(edge) for edge in skip_ring(one).edges} for one in (n - 1, n))
        assert before < after
        assert len(after - before) == 2
