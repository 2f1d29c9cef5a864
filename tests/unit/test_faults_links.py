"""Faults of links as rows: which links, when, in which direction, and when a link is bad."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
from pydantic import TypeAdapter
from support.overlays import tree

from pipelines.contract.run_inputs import Faults, Overlay
from pipelines.errors import InputError
from pipelines.inputs.faults.build import build_faults
from pipelines.inputs.faults.links import bad_times
from pipelines.inputs.faults.timeline import FOR_GOOD
from pipelines.rounds.schedule import links_ever, next_of
from pipelines.scenario.faults import Burst, Fault
from pipelines.scenario.times import TimeSpec
from udfs.nodes.link_faults import RunLinkFaults
from udfs.nodes.world import Flight

FAULTS: TypeAdapter[list[Fault]] = TypeAdapter(list[Fault])
PURPOSE = "test"


def line(nodes: int) -> Overlay:
    ends = np.array(nx.path_graph(nodes).edges, dtype=np.int64)
    names = tuple(f"N{node}" for node in range(nodes))
    return Overlay(names, ends[:, 0], ends[:, 1], np.ones(nodes - 1, dtype=np.int64))


def built(where: Overlay, *faults: dict[str, Any], seed: int = 0, horizon: int = 1000) -> Faults:
    wanted = FAULTS.validate_python(faults)
    return build_faults(
        wanted, overlay=where, linked=where, seed=seed, time=TimeSpec(rounds=horizon), beside=None, kinds=["PUB", "SUB"]
    )


def loss(**settings: Any) -> dict[str, Any]:
    return {"kind": "loss", "rate": 0.5, **settings}


def columns(table: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in table.to_pylist()]


def test_a_loss_without_links_is_one_row_for_any_pair_of_nodes() -> None:
    found = built(line(4), loss(kinds=["PUB"]))
    where = columns(found.link_fault, "effect", "src", "dst", "round", "end_round", "kinds", "rate")
    assert where == [("lose", None, None, 0, FOR_GOOD, ["PUB"], 0.5)]
    assert columns(found.fault_event, *found.fault_event.column_names) == [(0, "loss", None, None, None)]


def test_a_loss_strikes_both_directions_or_the_one_that_is_written() -> None:
    both = built(line(4), loss(links=[["N2", "N1"]], round=5, until=9))
    assert columns(both.link_fault, "src", "dst", "round", "end_round") == [(2, 1, 5, 9), (1, 2, 5, 9)]
    forward = built(line(4), loss(links=[["N2", "N1"]], round=5, until=9, direction="forward"))
    assert columns(forward.link_fault, "src", "dst", "round", "end_round") == [(2, 1, 5, 9)]
    events = columns(forward.fault_event, "round", "kind", "src", "dst")
    assert events == [(5, "loss", 2, 1), (9, "loss_end", 2, 1)]


def test_what_comes_after_the_horizon_or_never_strikes_is_left_out() -> None:
    found = built(line(3), loss(round=6), loss(rate=0.0), loss(round=2, until=7), horizon=5)
    assert columns(found.link_fault, "round", "end_round") == [(2, 7)]
    assert columns(found.fault_event, "round", "kind") == [(2, "loss")]


def test_faults_draw_on_their_own_and_by_the_seed() -> None:
    salts = [
        salt
        for seed in (0, 1)
        for (salt,) in columns(built(line(3), loss(), loss(rate=0.1), seed=seed).link_fault, "salt")
    ]
    assert len(set(salts)) == 4
    assert columns(built(line(3), loss(rate=0.2)).link_fault, "salt") == [(salts[0],)]


def test_bad_times_are_apart_within_the_rounds_and_as_long_as_they_should_be() -> None:
    burst = Burst(good=40.0, bad=10.0)
    link, start, end = bad_times(burst, np.arange(200), (100, 2100), 3, PURPOSE)
    assert (start < end).all()
    assert start.min() >= 100
    assert end.max() == 2100
    is_next = link[1:] == link[:-1]
    assert (start[1:][is_next] > end[:-1][is_next]).all()
    share = (end - start).sum() / (200 * 2000)
    assert abs(share - 0.2) < 0.01
    whole = (start > 100) & (end < 2100)
    assert abs((end - start)[whole].mean() - 10.0) < 0.5
    assert abs((start == 100).mean() * len(start) / 200 - 0.2) < 0.1


def test_bad_times_of_a_link_do_not_depend_on_other_links() -> None:
    burst = Burst(good=5.0, bad=2.0)
    link, start, end = bad_times(burst, np.arange(6), (0, 500), 3, PURPOSE)
    alone = bad_times(burst, np.array([4]), (0, 500), 3, PURPOSE)
    chosen = link == 4
    assert np.array_equal(np.stack(alone), np.stack([link[chosen], start[chosen], end[chosen]]))
    shorter = bad_times(burst, np.array([4]), (0, 50), 3, PURPOSE)
    assert shorter[1].tolist() == [round_ for round_ in alone[1].tolist() if round_ < 50]


def test_bursts_cover_each_direction_of_each_link_and_the_time_between_at_the_good_rate() -> None:
    found = built(tree(5), loss(burst={"good": 20.0, "bad": 5.0, "good_rate": 0.01}, round=10, until=300))
    rows = columns(found.link_fault, "src", "dst", "round", "end_round", "rate")
    assert len({row[:2] for row in rows}) == 8
    for pair in {row[:2] for row in rows}:
        spans = sorted(row[2:] for row in rows if row[:2] == pair)
        assert spans[0][0] == 10
        assert spans[-1][1] == 300
        assert all(one[1] == other[0] and one[2] != other[2] for one, other in pairwise(spans))
        assert {rate for *_, rate in spans} == {0.5, 0.01}
    bad = {row[:3] for row in rows if row[4] == 0.5}
    begun = columns(found.fault_event, "src", "dst", "round", "kind")
    assert {event[:3] for event in begun if event[3] == "burst"} == bad


def test_a_message_meets_the_faults_of_its_round() -> None:
    draw = random.Random(1)
    rows: list[tuple[Any, ...]] = [
        (draw.choice([None, 1]), 2, begin := draw.randrange(30), begin + draw.randint(1, 20), "lose",
         draw.choice([None, ["A"]]), 1.0, salt, 0, 0, begin, begin)
        for salt in range(60)
    ]  # fmt: skip
    rows = [(src, dst if src else None, *rest) for src, dst, *rest in rows]
    faults = RunLinkFaults(rows, ())
    for round_ in range(60):
        for kind in "AB":
            for src in (1, 3):
                flight = Flight(0, kind, src, 2, round_, round_ + 1, None, None)
                assert sorted(fault.salt for fault in faults._met(flight)) == [
                    salt for at, _, begin, end, _, kinds, _, salt, *_ in rows
                    if at in (None, src) and begin <= round_ < end and (kinds is None or kind in kinds)
                ]  # fmt: skip


def test_a_partition_has_the_sides_of_all_that_split_at_the_time() -> None:
    found = built(
        line(4),
        {"kind": "partition", "groups": [["N0", "N2"], ["N1"]], "round": 5, "until": 9},
        {"kind": "partition", "groups": [["N2", "N3"]], "round": 7, "until": 12},
    )
    times: dict[tuple[int, int], list[int]] = {}
    for node, low, high, side in columns(found.side, "node_id", "round", "end_round", "side"):
        times.setdefault((low, high), []).append(side)
        assert len(times[low, high]) == node + 1
    parts = {
        time: {frozenset(np.flatnonzero(np.array(sides) == side)) for side in sides} for time, sides in times.items()
    }
    assert parts == {
        (5, 7): {frozenset({0, 2}), frozenset({1}), frozenset({3})},
        (7, 9): {frozenset({0}), frozenset({1}), frozenset({2}), frozenset({3})},
        (9, 12): {frozenset({0, 1}), frozenset({2, 3})},
    }
    assert len(found.link_fault) == 0


def test_a_partition_of_nodes_without_links_is_recorded() -> None:
    where = Overlay(("supervisor1", "N1", "N2"), *[np.zeros(0, dtype=np.int64)] * 3)
    faults = FAULTS.validate_python([
        {"kind": "partition", "groups": [["N1"]], "round": 5, "until": 9},
        {"kind": "partition", "groups": [["N2"]], "round": 7, "until": 12},
    ])  # fmt: skip
    found = build_faults(
        faults, overlay=where, linked=None, seed=0, time=TimeSpec(rounds=20), beside=None, kinds=()
    )  # fmt: skip
    events = columns(found.fault_event, *found.fault_event.column_names)
    assert events == [(5, "partition", None, None, None), (12, "partition_end", None, None, None)]


def test_a_partition_names_the_links_that_the_protocol_uses() -> None:
    ring = Overlay(("N0", "N1", "N2"), *(np.array(of, dtype=np.int64) for of in ([0, 0, 1], [1, 2, 2], [1, 1, 1])))
    fault = FAULTS.validate_python([{"kind": "partition", "groups": [["N0"]], "round": 5}])
    found = build_faults(fault, overlay=line(3), linked=ring, seed=0, time=TimeSpec(rounds=20), beside=None, kinds=())
    assert columns(found.fault_event, "src", "dst") == [(0, 1), (0, 2), (1, 0), (2, 0)]


def test_bursts_need_links() -> None:
    where = Overlay(("supervisor1", "N1", "N2"), *[np.zeros(0, dtype=np.int64)] * 3)
    with pytest.raises(InputError, match="the overlay has no links, so none can be bad"):
        built(where, loss(burst={"good": 9, "bad": 2}))


def test_a_delay_concerns_what_has_to_wait_behind_it() -> None:
    found = built(line(2), {"kind": "delay", "rounds": [1, 5], "round": 3, "until": 8})
    names = ("effect", "round", "end_round", "low", "high", "first_round", "last_round")
    assert columns(found.link_fault, *names) == [("delay", 3, 13, 1, 5, 3, 7)]
    reorder = built(line(2), {"kind": "delay", "rounds": [1, 5], "round": 3, "until": 8, "reorder": True})
    assert columns(reorder.link_fault, "effect", "round", "end_round") == [("reorder", 3, 8)]
    assert columns(reorder.fault_event, "round", "kind") == [(3, "reorder"), (8, "reorder_end")]
    assert len(built(line(2), {"kind": "delay", "rounds": [0, 0]}).link_fault) == 0


def test_faults_that_overlap_have_one_start_and_one_end() -> None:
    """Audits count the faults that have begun and not ended, also if two begin in one round."""
    found = built(
        line(2), loss(round=3, until=9), loss(round=3, until=20), loss(round=20, until=25), loss(round=30),
        loss(links=[["N0", "N1"]], direction="forward", round=5, until=8),
    )  # fmt: skip
    assert columns(found.fault_event, "round", "kind", "src") == [
        (3, "loss", None), (5, "loss", 0), (8, "loss_end", 0), (25, "loss_end", None), (30, "loss", None),
    ]  # fmt: skip
    assert columns(found.link_fault, "round", "end_round")[:3] == [(3, 9), (3, 20), (20, 25)]


def test_a_late_copy_overtakes() -> None:
    kinds = [columns(built(line(2), {"kind": "duplicate", "rate": 0.1, "after": after}).fault_event, "kind")
             for after in ([0, 0], [0, 2])]  # fmt: skip
    assert kinds == [[("duplicate",)], [("duplicate",), ("reorder",)]]


def test_pauses_are_made_one_where_they_meet_and_end_with_a_crash() -> None:
    def pause(node: str, round_: int, until: int) -> dict[str, Any]:
        return {"kind": "pause", "node": node, "round": round_, "until": until}

    crash = {"kind": "crash", "node": "N1", "round": 20, "until": 25}
    found = built(
        line(3),
        pause("N1", 22, 30),
        pause("N0", 3, 8),
        pause("N0", 8, 9),
        pause("N1", 10, 22),
        pause("N2", 21, 24),
        crash,
    )
    assert columns(found.pause, "node_id", "round", "end_round") == [(0, 3, 9), (1, 10, 20), (2, 21, 24)]
    assert columns(found.fault_event, "round", "kind", "node_id")[:2] == [(3, "pause", 0), (9, "pause_end", 0)]
    later = built(line(3), pause("N1", 22, 30), crash)
    assert columns(later.pause, "node_id", "round", "end_round") == [(1, 25, 30)]
    for_good = built(line(3), {"kind": "pause", "node": "N0", "round": 7})
    assert columns(for_good.fault_event, "round", "kind", "node_id") == [(7, "pause", 0)]


def test_generators_make_what_is_wanted_and_keep_it_apart() -> None:
    settings = {"count": 6, "rounds": [5, 300], "down": [4, 9]}
    for kind in ("break", "pause"):
        generator = {"generate": {"kind": kind, **settings}}
        found = [built(tree(6), generator, seed=seed) for seed in range(5)]
        assert found == [built(tree(6), generator, seed=seed) for seed in range(5)]
        for faults in found:
            if kind == "break":
                place = {row[:2]: [] for row in columns(faults.link_fault, "src", "dst")}
                for row in columns(faults.link_fault, "src", "dst", "round", "end_round"):
                    place[row[:2]].append(row[2:])
                assert len(faults.link_fault) == 12
                assert all(place[src, dst] == place[dst, src] for src, dst in place)
            else:
                place = {row: [] for row in columns(faults.pause, "node_id")}
                for row in columns(faults.pause, "node_id", "round", "end_round"):
                    place[row[:1]].append(row[1:])
                assert len(faults.pause) == 6
            for times in place.values():
                assert all(5 <= low <= 300 and 4 <= high - low <= 9 for low, high in times)
                assert all(one[1] < other[0] for one, other in pairwise(sorted(times)))


def replaced(link: str, by: str, round_: int, **settings: Any) -> dict[str, Any]:
    return {"kind": "replace", "link": list(link), "by": list(by), "round": round_, **settings}


def test_no_link_breaks_in_an_overlay_without_links() -> None:
    """As protocols have it whose nodes make the links."""
    none = np.zeros(0, dtype=np.int64)
    drawn = {"generate": {"kind": "break", "count": 1, "rounds": [5, 9]}}
    with pytest.raises(InputError, match=r"^faults\.0\.generate\.kind: the overlay has no links, so none can break; "):
        built(Overlay(("N1", "N2"), none, none, none), drawn)


def test_a_replaced_link_breaks_and_the_other_comes_later() -> None:
    where = Overlay(tuple("ABCD"), np.array([0, 1, 2]), np.array([1, 2, 3]), np.array([1, 2, 3]))
    found = built(where, replaced("CB", "AD", 9, after=4), replaced("DA", "BC", 20), horizon=100)
    names = ("round", "old_a", "old_b", "a", "b", "latency_rounds")
    assert columns(found.replacement, *names) == [(13, 2, 1, 0, 3, 2), (20, 3, 0, 1, 2, 2)]
    where_lost = columns(found.link_fault, "effect", "src", "dst", "round", "end_round", "rate")
    assert where_lost == [("lose", 2, 1, 9, 13, 1.0), ("lose", 1, 2, 9, 13, 1.0)]
    events = columns(found.fault_event, "round", "kind", "src", "dst")
    assert events == [
        (9, "break", 1, 2), (9, "break", 2, 1), (13, "break_end", 1, 2), (13, "break_end", 2, 1),
        (13, "link", 0, 3), (13, "link", 3, 0), (13, "unlink", 1, 2), (13, "unlink", 2, 1),
        (20, "link", 1, 2), (20, "link", 2, 1), (20, "unlink", 0, 3), (20, "unlink", 3, 0),
    ]  # fmt: skip


def test_table_link_has_every_link_of_some_round_once() -> None:
    ends = {"run_id": [0, 0, 0, 0, 1, 1], "src": [0, 1, 1, 2, 0, 1], "dst": [1, 0, 2, 1, 1, 0]}
    link = pa.table({**ends, "latency_rounds": [1] * 6})
    swaps = [(0, 5, 0, 1, 0, 2, 7), (0, 9, 2, 0, 1, 0, 1)]
    names = ["run_id", "round", "old_a", "old_b", "a", "b", "latency_rounds"]
    replacement = pa.table(dict(zip(names, map(list, zip(*swaps, strict=True)), strict=True)))
    found = links_ever(replacement, link)
    assert sorted(tuple(row.values()) for row in found.to_pylist()) == [
        (0, 0, 1, 1), (0, 0, 2, 7), (0, 1, 0, 1), (0, 1, 2, 1), (0, 2, 0, 7), (0, 2, 1, 1), (1, 0, 1, 1), (1, 1, 0, 1),
    ]  # fmt: skip
    assert [next_of(replacement["round"].to_numpy(), after) for after in (0, 5, 9)] == [5, 9, None]
    assert links_ever(replacement.slice(0, 0), link) is link


def test_generated_replacements_leave_a_tree_after_each() -> None:
    generator = {"generate": {"kind": "replace", "count": 12, "rounds": [3, 40], "after": [0, 9]}}
    for seed in range(5):
        found = built(tree(9), generator, seed=seed, horizon=60)
        assert found == built(tree(9), generator, seed=seed, horizon=60)
        graph = nx.Graph(zip(tree(9).a.tolist(), tree(9).b.tolist(), strict=True))
        assert len(found.replacement) == 12
        for old_a, old_b, a, b in columns(found.replacement, "old_a", "old_b", "a", "b"):
            graph.add_edge(a, b)
            graph.remove_edges_from([(old_a, old_b)] if {old_a, old_b} != {a, b} else [])
        assert nx.is_tree(graph)
        assert sorted(graph) == list(range(9))


def test_no_link_begins_before_the_one_with_its_ends_is_replaced() -> None:
    generator = {"generate": {"kind": "replace", "count": 12, "rounds": [2, 40], "after": [0, 9]}}
    for seed in range(30):
        found = built(tree(3), generator, seed=seed, horizon=60)
        now = {frozenset(ends) for ends in zip(tree(3).a.tolist(), tree(3).b.tolist(), strict=True)}
        for old_a, old_b, a, b in columns(found.replacement, "old_a", "old_b", "a", "b"):
            now.remove(frozenset((old_a, old_b)))
            assert {a, b} not in now
            now.add(frozenset((a, b)))


def test_generated_partitions_split_off_nodes_that_hang_together() -> None:
    where = tree(12)
    graph = nx.Graph(zip(where.a.tolist(), where.b.tolist(), strict=True))
    generator = {"generate": {"kind": "partition", "count": 3, "down": [4, 9], "share": 0.25}}
    for seed in range(5):
        sides: dict[int, list[tuple[int, int]]] = {}
        for node, low, side in columns(built(where, generator, seed=seed).side, "node_id", "round", "side"):
            sides.setdefault(low, []).append((side, node))
        assert len(sides) == 3
        for of_nodes in sides.values():
            groups = [[node for side, node in of_nodes if side == number] for number in {side for side, _ in of_nodes}]
            small = min(groups, key=len)
            assert [len(groups), len(small)] == [2, 3]
            assert nx.is_connected(graph.subgraph(small))
