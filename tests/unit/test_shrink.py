"""Shrinking without an engine: the remainder of a list, and of a scenario."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from pipelines.hunting.shrink import KINDS, Atom, atoms_of, minimise, with_streams, without
from pipelines.scenario.model import Scenario

PARTS: dict[str, Any] = {
    "name": "parts",
    "protocol": {"name": "delta"},
    "overlay": {
        "links": [["A", "B"], ["B", "C", 3], ["B", "D"], ["D", "E"]],
        "clients": [{"name": "U", "at": "B"}, {"name": "V", "at": "E", "latency": 2}],
    },
    "workload": {
        "subscriptions": [{"at": "U", "round": 0, "topic": "a"}, {"at": "V", "round": 0, "topic": "a"}],
        "publications": [{"at": "A", "round": 30, "topic": "a"}, {"at": "B", "round": 31, "topic": "a"}],
    },
    "faults": [
        {"kind": "crash", "node": "D", "round": 20, "until": 25},
        {"kind": "loss", "rate": 0.1, "links": [["A", "B"], ["B", "D"]]},
        {"kind": "partition", "groups": [["B"], ["C", "E"]], "round": 5, "until": 6},
        {"kind": "break", "links": [["D", "E"]], "round": 7, "until": 8},
    ],
    "time": {"rounds": 100},
}


def fails_with(needed: set[int], asked: list[int]) -> Callable[[Sequence[frozenset[int]]], list[bool]]:
    """Returns a test that fails as long as nothing of what is needed is gone."""

    def fails(removed: Sequence[frozenset[int]]) -> list[bool]:
        asked.append(len(removed))
        return [not (gone & needed) for gone in removed]

    return fails


@pytest.mark.parametrize("seed", range(20))
def test_what_is_needed_is_left(seed: int) -> None:
    draw = random.Random(seed)
    items = list(range(draw.randint(1, 200)))
    needed = set(draw.sample(items, draw.randint(0, min(5, len(items)))))
    asked: list[int] = []
    assert set(items) - minimise(items, fails_with(needed, asked), 16) == needed
    assert max(asked, default=0) <= 16
    assert len(asked) <= 120


def test_few_jobs_find_one_of_a_thousand() -> None:
    asked: list[int] = []
    assert set(range(1000)) - minimise(range(1000), fails_with({617}, asked), 64) == {617}
    assert len(asked) <= 20


def test_no_single_item_can_go_where_they_depend_on_each_other() -> None:
    """It fails with an even number of items, and with item 3."""

    def fails(removed: Sequence[frozenset[int]]) -> list[bool]:
        return [3 not in gone and len(gone) % 2 == 0 for gone in removed]

    left = set(range(10)) - minimise(range(10), fails, 8)
    assert left == {3, *left}
    assert all(not fails([frozenset(range(10)) - left | {one}])[0] for one in left)


def test_a_node_is_contracted_into_its_nearest_neighbour() -> None:
    overlay = without(PARTS, {Atom("node", "B")})["overlay"]  # type: ignore[index]
    assert sorted(map(sorted, (link[:2] for link in overlay["links"]))) == [["A", "C"], ["A", "D"], ["D", "E"]]
    assert {tuple(link) for link in overlay["links"]} == {("A", "C", 4), ("A", "D", 2), ("D", "E")}
    assert overlay["clients"][0] == {"name": "U", "at": "A"}


def test_a_link_keeps_the_latency_of_each_direction() -> None:
    """B is nearer to C (2 + 2 rounds) than to A (1 + 5). The way over B is A to C 1 + 2, C to A 2 + 5."""
    parts = {"overlay": {"links": [["A", "B", 1, 5], ["B", "C", 2], ["C", "D", 1, 3]]}}
    overlay = without(parts, {Atom("node", "B")})["overlay"]  # type: ignore[index]
    assert overlay["links"] == [["A", "C", 3, 7], ["C", "D", 1, 3]]


def test_calls_and_faults_go_with_their_nodes_and_links() -> None:
    left = without(PARTS, {Atom("node", "D"), Atom("node", "V")})
    assert left is not None
    assert left["workload"] == {
        "subscriptions": PARTS["workload"]["subscriptions"][:1],
        "publications": PARTS["workload"]["publications"],
    }
    assert [fault["kind"] for fault in left["faults"]] == ["loss", "partition"]
    assert left["faults"][0]["links"] == [["A", "B"]]


def test_faults_draw_the_same_without_those_before_them() -> None:
    left = without(with_streams(PARTS), {Atom("fault", 0)})
    assert left is not None
    assert left["faults"][0] == {**PARTS["faults"][1], "stream": 1}


def test_ids_keep_their_order() -> None:
    parts = {**PARTS, "overlay": {"links": [["A", "B"], ["B", "C"], ["A", "D"]], "order": ["D", "C", "B", "A"]}}
    left = without({**parts, "workload": {}, "faults": []}, {Atom("node", "C")})
    assert left is not None
    assert left["overlay"]["order"] == ["D", "B", "A"]


@pytest.mark.parametrize("seed", range(30))
def test_what_is_left_is_a_scenario(seed: int) -> None:
    draw = random.Random(seed)
    atoms = [atom for kind in KINDS for atom in atoms_of(PARTS, kind)]
    left = without(PARTS, set(draw.sample(atoms, draw.randint(0, len(atoms)))))
    assert left is None or Scenario.model_validate(left).overlay.links


def test_of_numbered_nodes_the_last_ones_can_go() -> None:
    parts = {"overlay": {"nodes": {"count": 3, "prefix": "X"}}, "workload": {}, "faults": []}
    assert [atom.key for atom in atoms_of(parts, "node")] == ["X1", "X2", "X3"]
    left = without(parts, {Atom("node", "X3"), Atom("node", "X2")})
    assert left is not None
    assert left["overlay"]["nodes"]["count"] == 1
    assert without(parts, {Atom("node", "X1")}) is None


def test_what_is_of_a_supervisor_stays() -> None:
    faults = [{"kind": "crash", "node": "supervisor1", "round": 3}, {"kind": "crash", "node": "X2", "round": 3}]
    left = without({"overlay": {"nodes": {"count": 2, "prefix": "X"}}, "faults": faults}, {Atom("node", "X2")})
    assert left == {"overlay": {"nodes": {"count": 1, "prefix": "X"}}, "faults": faults[:1]}


def test_a_single_node_keeps_its_calls() -> None:
    parts = {**PARTS, "overlay": {"generate": {"kind": "line", "nodes": 1}}, "faults": []}
    parts["workload"] = {"publications": [{"at": "N1", "round": round_, "topic": "a"} for round_ in (3, 4)]}
    left = without(parts, {Atom("publication", 0)})
    assert left is not None
    assert left["workload"] == {"publications": [{"at": "N1", "round": 4, "topic": "a"}]}


def test_nodes_are_removed_in_an_order_of_their_own() -> None:
    """The latency of the new link depends on the order in which nodes are contracted."""
    links = [["A", "B", 2], ["B", "C", 3], ["C", "D", 4], ["D", "E", 5], ["B", "D", 1]]
    parts = {"overlay": {"links": links}}
    found = [without(parts, [Atom("node", name) for name in names]) for names in ("BCD", "DCB", "CBD")]
    assert found[0] == found[1] == found[2]
