"""The sequential program of the skip ring: what the paper and the page print, and a legitimate state that stays."""

from __future__ import annotations

from collections import Counter

import pytest
from oracles.skipring.labels import index, nth, skip_ring
from oracles.skipring.moment import Publication
from oracles.skipring.network import Network, Setup, Start
from oracles.skipring.supervisor import configuration, repaired
from oracles.skipring.trie import Trie

SLOTS_16 = {
    "0": "001 01 1 11 111", "1": "0 01 011 101 11", "01": "0 001 011 1", "11": "0 1 101 111", "001": "0 01",
    "011": "01 1", "101": "1 11", "111": "0 11",
}  # fmt: skip
EDGES = {2: 1, 3: 3, 4: 5, 8: 13, 16: 29, 64: 125, 100: 197}
INTERVAL = 5


def test_labels() -> None:
    assert [nth(x) for x in range(10)] == ["0", "1", "01", "11", "001", "011", "101", "111", "0001", "0011"]
    assert [index(nth(x)) for x in range(100)] == list(range(100))
    assert index("10") is index("00") is None


def test_shortcuts_of_sixteen() -> None:
    found = {label: place.shortcuts for label, place in skip_ring(16).items() if place.shortcuts}
    assert found == {label: {*slots.split()} for label, slots in SLOTS_16.items()}


@pytest.mark.parametrize("n", EDGES)
def test_edges(n: int) -> None:
    ring = skip_ring(n)
    ends = {(label, other) for label, place in ring.items() for other in (place.before, place.after, *place.shortcuts)}
    assert len({frozenset(edge) for edge in ends}) == EDGES[n]


def test_configurations() -> None:
    assert configuration([7], 7) == (None, "0", None)
    assert configuration([7, 8], 8) == ((7, "0"), "1", (7, "0"))
    assert configuration([7, 8, 9], 7) == ((8, "1"), "0", (9, "01"))


def test_repair_of_all_four_corruptions() -> None:
    entries = {"0": 1, "01": None, "11": 2, "001": 1, "111": 3, "10": 4}
    assert repaired(entries, {9}) == [1, 4, 3, 2]
    assert repaired(entries, {1}) == [4, 3, 2]


def test_tries_of_figure_2() -> None:
    tries = {name: Trie(32) for name in "uv"}
    for name, keys in (("u", "000 010 100 101"), ("v", "000 010 100")):
        for key in keys.split():
            tries[name].insert(Publication(key, 1, 1, 0, 0))
    assert set(tries["u"].nodes) == {"", "0", "000", "010", "10", "100", "101"}
    assert set(tries["v"].nodes) == {"", "0", "000", "010", "100"}
    assert tries["u"].nodes["0"] == tries["v"].nodes["0"]
    assert tries["u"].root != tries["v"].root
    assert tries["v"].below("10") == "100"


@pytest.mark.parametrize("n", [2, 3, 5, 8, 12])
def test_the_legitimate_state_stays_and_costs_what_the_page_says(n: int) -> None:
    settings = {
        "seed": n, "timeout_interval": INTERVAL, "min_delay": 1, "max_delay": INTERVAL, "detection_rounds": 3,
        "silence_intervals": 8, "key_bits": 16, "hash_bits": 32,
    }  # fmt: skip
    nodes = list(range(1, n + 1))
    network = Network(
        Setup({-1: "S"}, nodes, settings), Start({"t": nodes}, interests={node: {node: "t"} for node in nodes})
    )
    before, kinds = _edges(network), Counter[str]()
    for round_ in range(40 * INTERVAL):
        network.play(round_)
        if round_ >= INTERVAL:
            kinds.update(one.kind for one in network.sent)
        assert _edges(network) == before
    assert {kind: kinds[kind] / 39 for kind in ("Introduce", "IntroduceShortcut", "CheckTrie")} == {
        "Introduce": 2 * n, "IntroduceShortcut": 2 * (n - 2), "CheckTrie": n,
    }  # fmt: skip
    assert set(kinds) <= {"Introduce", "IntroduceShortcut", "CheckTrie", "SetData", "GetConfiguration"}


def _edges(network: Network) -> dict[int, tuple[object, ...]]:
    """Returns labels, edges and slots of all subscribers."""
    rings = {node: one.ring("t") for node, one in network.subscribers.items()}
    return {
        node: (one.label, *((edge.node, edge.label) for edge in one.edges()), *sorted(one.short.items()))
        for node, one in rings.items()
    }
