"""What ginger promises to bear, by hand: it follows from faults, tree and views alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from udfs.ginger.bound import Given, reasons

PARENT = {1: 0, 2: 0, 3: 2}
EDGE = {4: 1, 5: 2, 6: 3}
NAMES = {0: "R", 1: "A", 2: "B", 3: "D", 4: "CA", 5: "CB", 6: "CD"}


def given(crashes: Sequence[tuple[int, int]], parent: dict[int, int] = PARENT, edge: dict[int, int] = EDGE) -> Given:
    """All clients subscribe to t; every link takes a round, timers run out after 24."""
    pairs = [*parent.items(), *edge.items()]
    links = {way: 1 for a, b in pairs for way in ((a, b), (b, a))}
    return Given(
        root=0, brokers=frozenset({0, *parent}), links=links, max_hops=3, timer_rounds=24, detection_rounds=5,
        crashes=crashes, subscriptions=[(client, "t", 0) for client in edge], names=NAMES,
    )  # fmt: skip


def told(what: Given) -> list[str]:
    return [reason for _, reason in reasons(what)]


def test_a_survivor_that_nobody_is_left_beside_is_within_the_bound() -> None:
    """R and A fail: B and D below it are one tree, and CA sees B."""
    assert told(given([(208, 0), (218, 1)])) == []


def test_a_client_has_to_see_somebody() -> None:
    """CA sees R and B."""
    assert told(given([(208, 0), (210, 1), (212, 2)])) == ["all brokers that CA sees failed"]
    assert told(given([(208, 0), (210, 1), (212, 2)], edge={5: 2, 6: 3})) == []


def test_parts_of_the_tree_have_to_see_each_other() -> None:
    """The children of A see R, B and each other, but not D."""
    tree = {1: 0, 2: 0, 3: 2, 7: 1, 8: 1}
    assert told(given([(208, 0), (210, 1)], tree, {})) == []
    assert told(given([(208, 0), (210, 1), (212, 2)], tree, {})) == [
        "D and 7 are left in parts of the tree that do not see each other"
    ]
    assert told(given([(208, 0), (210, 1), (212, 3)], tree, {})) == []


def test_a_chain_above_is_borne_as_far_as_its_end_is_seen() -> None:
    chain = {1: 0, 2: 1, 3: 2, 7: 3}
    assert told(given([(208, 2), (208, 3)], chain, {6: 7})) == []
    assert told(given([(208, 1), (208, 2), (208, 3)], chain, {6: 7})) == [
        "R and 7 are left in parts of the tree that do not see each other"
    ]
    assert told(given([(208, 0), (208, 1), (208, 2), (208, 3)], chain, {6: 7})) == []
    assert told(replace(given([(208, 3)], chain, {6: 7}), max_hops=1)) == [
        "R and 7 are left in parts of the tree that do not see each other"
    ]


def test_when_the_tree_is_mended_failures_are_borne_one_by_one() -> None:
    tree = {1: 0, 2: 0, 3: 2, 7: 1, 8: 1}
    mend = given([]).mend_rounds
    one_by_one = [(208 + number * mend, broker) for number, broker in enumerate((0, 1, 2))]
    assert told(given(one_by_one, tree, {5: 3})) == []
    assert told(given([*one_by_one, (210 + 2 * mend, 7)], tree, {5: 3})) == [
        "2 brokers failed before the tree was mended once more"
    ]


def test_locks_are_lost_with_all_brokers_of_a_sub_tree() -> None:
    """CB and CD subscribe; B and D are the sub-tree."""
    edge = {5: 2, 6: 3}
    assert told(given([(208, 2), (210, 3)], edge=edge)) == [
        "all brokers of the sub-tree of t failed before it was mended"
    ]
    assert told(given([(208, 2)], edge=edge)) == []
    assert told(given([(208, 2)], edge={5: 2})) == []


def test_nothing_is_borne_before_the_sub_trees_stand() -> None:
    """The farthest broker from CD is A, four rounds away."""
    assert told(given([(7, 1)])) == ["a node crashed before all subscriptions were confirmed"]
    assert told(given([(8, 1)])) == []


def test_some_broker_has_to_be_left() -> None:
    assert "no broker is left" in told(given([(208, 0), (210, 1), (212, 2), (214, 3)]))


def test_who_comes_back_needs_a_neighbour_that_stays() -> None:
    """D has no neighbour but B; without the neighbour that joins A has R alone."""
    back = replace(given([(208, 3), (230, 2)]), recoveries=[(220, 3)])
    assert "D recovers, and none of its neighbours is there" in told(back)
    assert told(replace(given([(208, 3), (240, 1)]), recoveries=[(220, 3)])) == []


def test_who_joins_needs_its_join_point() -> None:
    """Unless it has been in the tree: then it has found somebody."""
    failing = given([(208, 2)], edge={4: 1})
    late = replace(failing, joins=[(3, 2, 205)])
    assert told(late) == ["D joins at B, which is not there"]
    assert told(replace(failing, joins=[(3, 2, None)])) == []
