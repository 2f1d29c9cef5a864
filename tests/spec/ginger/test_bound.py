"""The bound of ginger in cases computed by hand from faults, tree and views."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from udfs.ginger.bound import ScenarioRun, beyond_runs, reasons

PARENT = {1: 0, 2: 0, 3: 2}
EDGE = {4: 1, 5: 2, 6: 3}
NAMES = {0: "R", 1: "A", 2: "B", 3: "D", 4: "CA", 5: "CB", 6: "CD"}


def given(
    crashes: Sequence[tuple[int, int]], parent: dict[int, int] = PARENT, edge: dict[int, int] = EDGE
) -> ScenarioRun:
    """Returns a run in which all clients subscribe to t; a link takes one round, and timers have 24 rounds."""
    pairs = [*parent.items(), *edge.items()]
    links = {way: 1 for a, b in pairs for way in ((a, b), (b, a))}
    return ScenarioRun(
        root=0, brokers=frozenset({0, *parent}), links=links, max_hops=3, timer_rounds=24, detection_rounds=5,
        crashes=crashes, subscriptions=[(client, "t", 0) for client in edge], names=NAMES,
    )  # fmt: skip


def told(what: ScenarioRun) -> list[str]:
    return [reason for _, reason in reasons(what)]


def test_a_survivor_that_nobody_is_left_beside_is_within_the_bound() -> None:
    """R and A fail. The survivors B and D below them form one tree, and CA sees B."""
    assert told(given([(208, 0), (218, 1)])) == []


def test_a_client_has_to_see_somebody() -> None:
    """The view of CA has R and B only."""
    assert told(given([(208, 0), (210, 1), (212, 2)])) == ["all brokers that CA sees failed"]
    assert told(given([(208, 0), (210, 1), (212, 2)], edge={5: 2, 6: 3})) == []


def test_parts_of_the_tree_have_to_see_each_other() -> None:
    """The views of the children of A have R, B and each other, but not D."""
    tree = {1: 0, 2: 0, 3: 2, 7: 1, 8: 1}
    assert told(given([(208, 0), (210, 1)], tree, {})) == []
    assert told(given([(208, 0), (210, 1), (212, 2)], tree, {})) == [
        "D and 7 are in parts of the tree that do not see each other"
    ]
    assert told(given([(208, 0), (210, 1), (212, 3)], tree, {})) == []


def test_a_chain_above_is_borne_as_far_as_its_end_is_seen() -> None:
    chain = {1: 0, 2: 1, 3: 2, 7: 3}
    assert told(given([(208, 2), (208, 3)], chain, {6: 7})) == []
    assert told(given([(208, 1), (208, 2), (208, 3)], chain, {6: 7})) == [
        "R and 7 are in parts of the tree that do not see each other"
    ]
    assert told(given([(208, 0), (208, 1), (208, 2), (208, 3)], chain, {6: 7})) == []
    assert told(replace(given([(208, 3)], chain, {6: 7}), max_hops=1)) == [
        "R and 7 are in parts of the tree that do not see each other"
    ]


def test_when_the_tree_is_mended_failures_are_borne_one_by_one() -> None:
    tree = {1: 0, 2: 0, 3: 2, 7: 1, 8: 1}
    mend = given([]).mend_rounds
    one_by_one = [(208 + number * mend, broker) for number, broker in enumerate((0, 1, 2))]
    assert told(given(one_by_one, tree, {5: 3})) == []
    assert told(given([*one_by_one, (210 + 2 * mend, 7)], tree, {5: 3})) == [
        "2 brokers failed before the previous repair ended"
    ]


def test_locks_are_lost_with_all_brokers_of_a_sub_tree() -> None:
    """CB and CD subscribe, so B and D are the sub-tree."""
    edge = {5: 2, 6: 3}
    assert told(given([(208, 2), (210, 3)], edge=edge)) == [
        "all brokers of the sub-tree of t failed before a repair ended"
    ]
    assert told(given([(208, 2)], edge=edge)) == []
    assert told(given([(208, 2)], edge={5: 2})) == []


def test_nothing_is_borne_before_the_sub_trees_stand() -> None:
    """The farthest broker from CD is A, four rounds away, so subscriptions are confirmed after eight rounds."""
    assert told(given([(7, 1)])) == ["a node crashed before all subscriptions were confirmed"]
    assert told(given([(8, 1)])) == []


def test_links_with_a_slow_direction_confirm_subscriptions_later() -> None:
    """The link from A to R takes 30 rounds, so the answer of A to CD takes 33."""
    run = given([(36, 1)])
    slow = replace(run, links={**run.links, (1, 0): 30})
    assert told(slow) == ["a node crashed before all subscriptions were confirmed"]
    assert told(replace(slow, crashes=[(37, 1)])) == []


def test_a_fault_may_hold_a_subscription_until_it_is_confirmed_before_the_first_publication() -> None:
    """Without the fault, the subscription of CD is confirmed eight rounds after its call."""
    run = replace(given([]), late=[(6, "t", 42, 50), (6, "u", 43, 50), (6, "v", 60, 51)])
    assert [*reasons(run)] == [(50, "a fault held the subscription of CD to u until a publication on it")]
    assert told(replace(run, late=run.late[:1])) == []


def test_some_broker_has_to_be_left() -> None:
    assert "all brokers are down" in told(given([(208, 0), (210, 1), (212, 2), (214, 3)]))


def test_who_comes_back_needs_a_neighbour_that_stays() -> None:
    """B is the only neighbour of D. Without the joining neighbour R is the only neighbour of A."""
    back = replace(given([(208, 3), (230, 2)]), recoveries=[(220, 3)])
    assert "D recovers, and none of its neighbours is up" in told(back)
    assert told(replace(given([(208, 3), (240, 1)]), recoveries=[(220, 3)])) == []


def test_who_joins_needs_its_join_point() -> None:
    """The join point must be up, unless the join was confirmed earlier."""
    failing = given([(208, 2)], edge={4: 1})
    late = replace(failing, joins=[(3, 2, 205)])
    assert told(late) == ["D joins at B, which is down"]
    assert told(replace(failing, joins=[(3, 2, None)])) == []


MEND = 5 + 3 + 4 * (2 * 3 + 3 * 24)
"""320 rounds: the failure detector, the news over three hops, four partners there and back with three timers each."""
WIDE = {1: 0, 2: 0, 3: 2, 7: 1, 8: 1}
PAIR = {1: 0}
CHAIN = {1: 0, 2: 1, 3: 2}
LATER = "2 brokers failed before the previous repair ended"
LOCKS = "all brokers of the sub-tree of t failed before a repair ended"
CLIENT = "all brokers that CD sees failed"
PARTS = "D and 7 are in parts of the tree that do not see each other"
NONE_LEFT = "all brokers are down"


def test_a_repair_takes_as_long_as_four_partners_in_vain_over_the_slowest_links() -> None:
    """With a link of four rounds: 5 for detection, 12 for the news, four times 24 for a request and 72 for timers."""
    slow = given([])
    assert slow.mend_rounds == MEND
    assert replace(slow, links={**slow.links, (2, 3): 4}).mend_rounds == 5 + 12 + 4 * (24 + 72)
    assert replace(slow, max_hops=2).mend_rounds == 5 + 2 + 4 * (4 + 72)


@pytest.mark.parametrize(
    ("crashes", "expected"),
    [
        ([(208, 0), (207 + MEND, 1), (206 + 2 * MEND, 2)], [PARTS]),
        ([(208, 0), (208 + MEND, 1), (208 + 2 * MEND, 2)], []),
        ([(208, 0), (207 + MEND, 1), (207 + 2 * MEND, 2)], []),
        ([(208, 0), (208 + MEND, 1), (207 + 2 * MEND, 2)], [LATER]),
        ([(208, 2), (208 + MEND, 1), (208 + MEND, 0)], [LATER]),
        ([(208 + MEND, 0), (208, 1), (208 + MEND, 2)], [LATER]),
    ],
)  # fmt: skip
def test_failures_less_than_a_repair_apart_are_one_burst(crashes: list[tuple[int, int]], expected: list[str]) -> None:
    """The distance counts from the previous failure: the first burst of the first case takes almost two repairs.

    A first burst may have R and A, but not R, A and B. A later burst may have a single failure.
    """
    assert told(given(crashes, WIDE, {6: 3})) == expected


def test_what_is_too_much_is_told_with_the_first_round_of_its_burst() -> None:
    assert [*reasons(given([(208, 0), (208 + MEND, 1), (213 + MEND, 2)], WIDE, {6: 3}))] == [(208 + MEND, LATER)]
    assert [*reasons(given([(6, 7), (5, 8)], WIDE, {6: 3}))] == [
        (5, "a node crashed before all subscriptions were confirmed")
    ]


def test_who_does_not_see_the_parent_of_its_parent_bears_no_second_failure() -> None:
    """7 and 8 have no children, so the first burst of the two is within the bound for any view."""
    leaves = given([(208, 7), (208 + MEND, 8)], WIDE, {6: 3})
    assert told(replace(leaves, max_hops=2)) == []
    assert told(replace(leaves, max_hops=1)) == [LATER.replace("2", "1")]


@pytest.mark.parametrize(
    ("round_", "subscriptions", "links", "is_early"),
    [
        (10, [(6, "t", 0), (4, "t", 3)], {}, True),
        (11, [(6, "t", 0), (4, "t", 3)], {}, False),
        (10, [(4, "t", 3), (6, "t", 0)], {}, True),
        (15, [(6, "t", 0)], {(2, 3): 5, (3, 2): 5}, True),
        (16, [(6, "t", 0)], {(2, 3): 5, (3, 2): 5}, False),
        (8, [(6, "t", 0)], {(1, 4): 9, (4, 1): 9}, False),
        (0, [], {}, False),
    ],
)
def test_a_sub_tree_stands_when_the_farthest_broker_has_answered(
    round_: int, subscriptions: list[tuple[int, str, int]], links: dict[tuple[int, int], int], *, is_early: bool
) -> None:
    """D is four links from CA, and A is four links from CD. Clients without subscriptions do not count."""
    run = given([(round_, 1)])
    run = replace(run, subscriptions=subscriptions, links={**run.links, **links})
    assert (told(run) == ["a node crashed before all subscriptions were confirmed"]) == is_early


def test_subscriptions_are_not_confirmed_by_who_joins_later() -> None:
    run = given([(8, 1)])
    links = {**run.links, (1, 9): 7, (9, 1): 7}
    assert told(replace(run, links=links, brokers=run.brokers | {9}, joins=[(9, 1, None)])) == []


@pytest.mark.parametrize(
    ("tree", "edge", "max_hops", "failed", "expected"),
    [
        (CHAIN, 3, 1, (3,), [CLIENT]),
        (CHAIN, 3, 2, (3,), []),
        (CHAIN, 3, 2, (2,), []),
        (CHAIN, 3, 2, (3, 2), [CLIENT]),
        (CHAIN, 3, 3, (3, 2), []),
        (CHAIN, 3, 3, (3, 2, 1), [CLIENT, LOCKS]),
        (CHAIN, 3, 4, (3, 2, 1), [LOCKS]),
        ({1: 0, 2: 1, 3: 1}, 3, 2, (3, 1), [CLIENT]),
        ({1: 0, 2: 1, 3: 1}, 3, 3, (3, 1), []),
        ({1: 0, 2: 1, 3: 1}, 3, 3, (3, 1, 0), [LOCKS]),
        (CHAIN, 1, 2, (1, 0), []),
        (CHAIN, 1, 1, (1, 0), [CLIENT]),
    ],
)
def test_clients_see_ancestors_and_the_children_of_each_within_the_hops(
    tree: dict[int, int], edge: int, max_hops: int, failed: tuple[int, ...], expected: list[str]
) -> None:
    """Rule G12: within two hops CD sees the parent of its broker, and within three also the children of that parent."""
    run = given([(208, broker) for broker in failed], tree, {6: edge})
    assert told(replace(run, max_hops=max_hops)) == expected


@pytest.mark.parametrize(("max_hops", "is_one"), [(1, False), (2, True)])
def test_children_of_a_root_are_one_tree_if_they_see_each_other(max_hops: int, *, is_one: bool) -> None:
    """Rule G16: with a view of one hop A and B see no broker, and each becomes a root."""
    run = replace(given([(208, 0)], {1: 0, 2: 0}, {4: 1, 5: 2}), max_hops=max_hops)
    assert told(run) == ([] if is_one else ["A and B are in parts of the tree that do not see each other"])


@pytest.mark.parametrize(
    ("edge", "failed", "expected"),
    [
        ({4: 7}, [7], []),
        ({4: 7}, [7, 3], []),
        ({4: 7}, [7, 3, 8], [LOCKS]),
        ({4: 1}, [7, 3, 8], []),
        ({4: 7, 5: 8}, [7, 8], []),
        ({4: 7, 5: 8}, [7, 8, 1], [LOCKS]),
        ({4: 7, 5: 1}, [7], []),
        ({4: 7, 5: 1}, [7, 1], [LOCKS]),
        ({4: 7, 5: 1}, [3, 1], []),
    ],
)
def test_the_locks_of_a_sub_tree_are_with_its_brokers_and_with_one_that_took_its_clients_in(
    edge: dict[int, int], failed: list[int], expected: list[str]
) -> None:
    """The failure of a sub-tree of one broker loses no locks: its clients know all messages.

    The second of three failures may be the broker that accepted the clients. The sub-tree of 7 and 8 ends at A, where
    their paths meet, and does not include R.
    """
    assert told(given([(208, broker) for broker in failed], WIDE, edge)) == expected


def test_sub_trees_that_lost_brokers_in_an_earlier_burst_have_moved() -> None:
    """The sub-tree of CA is 7 alone. After the first burst another broker has it, so one more failure is tolerated."""
    first = (208, 7)
    later = [(208 + MEND, 8), (208 + MEND, 3)]
    assert told(given([first, *later], WIDE, {4: 7})) == [LATER, LOCKS]
    assert told(given([first, *later], WIDE, {4: 1})) == [LATER]
    assert told(given([first, later[0]], WIDE, {4: 7})) == []
    assert told(given([first, (208 + MEND, 1)], WIDE, {4: 7, 5: 1})) == []
    two = replace(given([(208, 7), (208, 1)], WIDE, {4: 7, 5: 1, 6: 3}), subscriptions=[
        (4, "u", 0), (5, "u", 0), (4, "t", 0), (5, "t", 0), (6, "s", 0),
    ])  # fmt: skip
    assert told(two) == [LOCKS, LOCKS.replace("of t ", "of u ")]


ALONE = "{} recovers, and none of its neighbours is up"


@pytest.mark.parametrize(
    ("tree", "crashes", "recoveries", "expected"),
    [
        (PAIR, [(208, 0), (608, 1)], [], [NONE_LEFT]),
        (PAIR, [(208, 0), (300 + MEND, 1)], [(300, 0)], []),
        (PAIR, [(208, 0), (299 + MEND, 1)], [(300, 0)], [NONE_LEFT, ALONE.format("R")]),
        (PAIR, [(208, 1), (1000, 0), (2000, 1)], [(300, 1), (1100, 0), (2100, 1)], []),
        (PAIR, [(208, 1), (1000, 0), (2000, 1)], [(300, 1), (2100, 1)], [NONE_LEFT, ALONE.format("A")]),
        ({1: 0, 2: 0}, [(208, 0), (4500, 1), (5000, 2)], [(600, 1)], [NONE_LEFT, ALONE.format("A")]),
        ({1: 0, 2: 0}, [(208, 0), (528, 1), (920, 2)], [(600, 1)], [ALONE.format("A")]),
    ],
)  # fmt: skip
def test_who_is_back_counts_when_it_has_been_taken_in_again(
    tree: dict[int, int], crashes: list[tuple[int, int]], recoveries: list[tuple[int, int]], expected: list[str]
) -> None:
    """A recovered broker counts as live from one repair after its recovery until its next failure."""
    assert told(replace(given(crashes, tree, {4: 1}), recoveries=recoveries)) == expected


@pytest.mark.parametrize(
    ("crash", "back", "is_there"),
    [
        (499 + MEND, None, False),
        (500 + MEND, None, True),
        (100, 500 - MEND, True),
        (100, 501 - MEND, False),
    ],
)
def test_a_neighbour_or_join_point_has_to_be_there_and_to_stay(crash: int, back: int | None, *, is_there: bool) -> None:
    """D recovers or joins in round 500 at B. B must stay up for one repair, or the join must be confirmed before."""
    failing = given([(crash, 2)], edge={4: 1})
    failing = replace(failing, recoveries=[] if back is None else [(back, 2)])
    joining = replace(failing, joins=[(3, 2, 500)])
    assert (told(joining) == []) == is_there
    recovering = replace(failing, crashes=sorted([(50, 3), (crash, 2)]), recoveries=[*failing.recoveries, (500, 3)])
    assert ("D recovers, and none of its neighbours is up" not in told(recovering)) == is_there


def test_neighbours_are_brokers_that_were_there_from_the_start() -> None:
    """B is down when D recovers. CD is a client and 9 joins at D, so neither can accept D."""
    run = given([(208, 2), (208, 3)])
    links = {**run.links, (3, 9): 1, (9, 3): 1}
    run = replace(run, links=links, brokers=run.brokers | {9}, joins=[(9, 3, None)], recoveries=[(220, 3)])
    assert (220, "D recovers, and none of its neighbours is up") in [*reasons(run)]


@pytest.mark.parametrize("root", [None, "A"])
def test_runs_are_read_as_their_stores_have_them(root: str | None) -> None:
    """R and A fail. If R is the root, CA at A sees B within three hops; if A is the root, CA sees R alone.

    A recovers while R is down, and D joins at A in the next round.
    """
    names = {2: "B", 1: "A", 0: "R", 3: "D", 4: "CA"}
    pairs = [(0, 1), (0, 2), (1, 3), (1, 4)]
    settings = {"root": root, "max_hops": 3, "timer_rounds": 24, "detection_rounds": 5}
    faults = [(208, "crash", 0), (208, "crash", 1), (400, "recovery", 1)]
    run: dict[str, Any] = {
        "run_id": 3,
        "parameters": json.dumps({f"protocol.{name}": value for name, value in settings.items()}),
        "nodes": [
            {"node_id": node, "name": name, "role": "client" if node == 4 else "broker"} for node, name in names.items()
        ],
        "links": [{"src": src, "dst": dst, "latency_rounds": 1} for a, b in pairs for src, dst in ((a, b), (b, a))],
        "faults": [{"round": at, "kind": kind, "node_id": node} for at, kind, node in faults],
        "subscriptions": [{"subscriber": 4, "topic": "t", "issued_round": 0}],
        "joins": [{"node_id": 3, "contact": 1, "issued_round": 401}],
        "late": [{"subscriber": 4, "topic": "t", "held_until_round": 495, "published_round": 500}],
    }
    (out,) = beyond_runs([pa.RecordBatch.from_pylist([run])])
    assert [tuple(row.values()) for row in out.to_pylist()] == [
        (3, 500, "a fault held the subscription of CA to t until a publication on it"),
        *([] if root is None else [(3, 208, "all brokers that CA sees failed")]),
        (3, 400, "A recovers, and none of its neighbours is up"),
        (3, 401, "D joins at A, which is down"),
    ]
