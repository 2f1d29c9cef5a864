"""Crashes that are listed, counted, in chains, by rates, and within a number of nodes: what each setting promises."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
from pydantic import TypeAdapter
from support.overlays import overlay, tree

from pipelines.contract.run_inputs import Overlay
from pipelines.errors import InputError, ScenarioError
from pipelines.experiment.build import build_inputs
from pipelines.experiment.plan import build, check, combinations
from pipelines.experiment.prepared import prepare
from pipelines.inputs.faults.build import build_faults, describe
from pipelines.inputs.faults.timeline import Outage, Room, Timeline, renewal_times
from pipelines.scenario.faults import Exponential, Fault, LogNormal, Times, Weibull
from pipelines.scenario.load import RunConfig
from pipelines.scenario.model import Scenario
from pipelines.scenario.times import TimeSpec

FAULTS: TypeAdapter[list[Fault]] = TypeAdapter(list[Fault])
NEVER = 10**9
SEEDS = range(25)

Row = tuple[int, int, int | None]


def crashes(where: Overlay, *faults: dict[str, Any], seed: int = 0, horizon: int = 1000) -> list[Row]:
    wanted = FAULTS.validate_python(faults)
    found = build_faults(
        wanted, overlay=where, linked=where, seed=seed, time=TimeSpec(rounds=horizon), beside=None, kinds=()
    )
    rows = [tuple(row.values()) for row in found.crash.to_pylist()]
    assert rows == sorted(rows, key=lambda row: (row[1], row[0]))
    times = defaultdict(list)
    for node, start, until in rows:
        times[node].append((start, NEVER if until is None else until))
    for of_node in times.values():
        assert all(start < end for start, end in of_node)
        assert all(earlier[1] < later[0] for earlier, later in pairwise(sorted(of_node)))
    return rows


def generate(**settings: Any) -> dict[str, Any]:
    return {"generate": {"kind": "crash", **settings}}


def crash(node: str, round_: int, until: int | None = None) -> dict[str, Any]:
    return {"kind": "crash", "node": node, "round": round_, "until": until}


def not_operational(rows: list[Row], recovery: int, horizon: int = 1000) -> int:
    """Returns the largest number of nodes that are not operational in a round, counted round by round."""
    down = np.zeros((horizon + 1, 1 + max((row[0] for row in rows), default=0)), dtype=bool)
    for node, start, until in rows:
        down[start : NEVER if until is None else until + recovery, node] = True
    return int(down.sum(axis=1).max())


def problem(where: Overlay, *faults: dict[str, Any], horizon: int = 1000) -> tuple[tuple[str | int, ...], str]:
    with pytest.raises(InputError) as caught:
        crashes(where, *faults, horizon=horizon)
    (found,) = caught.value.problems
    return found.path, found.message


def test_listed_crashes_are_as_they_are_listed_in_any_order() -> None:
    listed = [crash("N2", 30), crash("N1", 12, 40), crash("N2", 5, 9), crash("N0", 12, 13)]
    expected = [(2, 5, 9), (0, 12, 13), (1, 12, 40), (2, 30, None)]
    assert crashes(tree(4), *listed) == crashes(tree(4), *reversed(listed)) == expected


def test_the_table_of_all_runs_is_sorted_by_run_round_and_node() -> None:
    parts = {
        "name": "t", "protocol": {"name": "delta"}, "overlay": {"links": [["A", "B"], ["B", "C"]]},
        "faults": [crash("C", 9), crash("A", 9, 20), generate(count=1, nodes=["B"], rounds=[3, 3], down=[2, 2])],
    }  # fmt: skip
    runs = [RunConfig(run, 7, Scenario.model_validate(parts), {}) for run in range(2)]
    rows = [tuple(row.values()) for row in build_inputs(runs, None).crash.to_pylist()]
    assert rows == [(run, *row) for run in range(2) for row in [(1, 3, 5), (0, 9, 20), (2, 9, None)]]


def test_what_comes_after_the_horizon_is_left_out() -> None:
    always = {"kind": "exponential", "mean": 1e-6}
    generator = generate(rate={"up": always, "down": always}, rounds=[0, 10], nodes=["N0"])
    assert crashes(tree(4), generator, horizon=6) == [(0, 1, 2), (0, 3, 4), (0, 5, 6)]
    assert crashes(tree(4), generator, horizon=5) == [(0, 1, 2), (0, 3, 4), (0, 5, None)]


def test_exactly_so_many_crash_in_the_rounds_and_for_the_times_given() -> None:
    found = [crashes(tree(12), generate(count=9, rounds=[10, 50], down=[5, 30]), seed=seed) for seed in SEEDS]
    assert {len(rows) for rows in found} == {9}
    flat = [row for rows in found for row in rows]
    assert {start for _, start, _ in flat} == set(range(10, 51))
    assert {until - start for _, start, until in flat if until is not None} == set(range(5, 31))
    assert {node for node, _, _ in flat} == set(range(12))
    assert len({tuple(rows) for rows in found}) == len(SEEDS)
    assert found == [crashes(tree(12), generate(count=9, rounds=[10, 50], down=[5, 30]), seed=seed) for seed in SEEDS]


def test_without_a_down_time_nodes_stay_down() -> None:
    rows = crashes(tree(12), generate(count=12))
    assert {until for _, _, until in rows} == {None}
    assert {node for node, _, _ in rows} == set(range(12))


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("form", ["count", "chains", "rate"])
def test_never_more_nodes_than_at_most_are_not_operational(most: int, form: str) -> None:
    short = {"kind": "weibull", "shape": 0.7, "scale": 30.0}
    settings = {
        "count": {"count": 12, "down": [3, 20]},
        "chains": {"count": 6, "down": [3, 20], "consecutive": most, "stagger": 1},
        "rate": {"rate": {"up": short, "down": short}},
    }[form]
    listed = [crash("N3", 40, 90), crash("N5", 300)] if most > 1 else []
    generator = generate(at_most=most, recovery=15, rounds=[20, 400], **settings)
    found = [crashes(tree(16), *listed, generator, seed=seed) for seed in SEEDS]
    assert {not_operational(rows, 15) for rows in found} <= set(range(most + 1))
    assert max(not_operational(rows, 15) for rows in found) == most
    if form == "count":
        assert {len(rows) for rows in found} == {12 + len(listed)}
    if form == "rate":
        free = crashes(tree(16), *listed, generate(rate=settings["rate"], rounds=[20, 400]))
        assert not_operational(free, 15) > most


def test_a_node_that_came_back_counts_for_twenty_latencies() -> None:
    slow = overlay(nx.path_graph(6), latency=3)
    for seed in SEEDS:
        rows = crashes(slow, generate(count=4, at_most=1, down=[5, 5], rounds=[0, 700]), seed=seed)
        assert not_operational(rows, 60) == 1


def test_a_node_may_crash_again_while_it_recovers() -> None:
    generator = generate(count=5, at_most=1, recovery=50, down=[1, 1], rounds=[0, 30])
    found = [crashes(tree(8), generator, seed=seed) for seed in SEEDS]
    assert {len({node for node, _, _ in rows}) for rows in found} == {1}
    assert {len(rows) for rows in found} == {5}


def test_later_generators_keep_within_what_earlier_ones_left() -> None:
    first = generate(count=4, at_most=1, recovery=5, down=[5, 9], rounds=[0, 200])
    second = generate(count=4, at_most=2, recovery=5, down=[5, 9], rounds=[0, 200])
    for seed in SEEDS:
        rows = crashes(tree(9), first, second, seed=seed)
        assert (len(rows), not_operational(rows, 5) <= 2) == (8, True)
        assert set(crashes(tree(9), first, seed=seed)) <= set(rows)


@pytest.mark.parametrize(("length", "stagger"), [(2, 0), (3, 1), (4, 7)])
def test_chains_are_paths_of_neighbours(length: int, stagger: int) -> None:
    graph: nx.Graph[int] = nx.connected_watts_strogatz_graph(20, 4, 0.3, seed=3)
    for seed in SEEDS:
        generator = generate(count=1, consecutive=length, stagger=stagger, down=[40, 90], rounds=[5, 60], spare=["N4"])
        rows = crashes(overlay(graph), generator, seed=seed)
        assert len(rows) == length
        nodes = [node for node, _, _ in rows]
        assert 4 not in nodes
        assert nx.is_path(graph, nodes) if stagger else nx.is_connected(graph.subgraph(nodes))
        assert [start - rows[0][1] for _, start, _ in rows] == [place * stagger for place in range(length)]
        assert len({until - start for _, start, until in rows if until is not None}) == 1
        assert rows[-1][1] <= 60


def test_several_chains_are_counted_as_chains() -> None:
    rows = crashes(tree(30), generate(count=4, consecutive=3, down=[2, 9]))
    assert len(rows) == 12


def test_all_the_room_that_there_is_is_found() -> None:
    # Two nodes down for 5 rounds and up for 1 by turns: ceil(491 / 6) = 82 crashes each.
    settings = {"rounds": [10, 500], "down": [5, 30], "at_most": 2}
    assert len(crashes(tree(40), generate(count=164, **settings))) == 164
    path, message = problem(tree(40), generate(count=165, **settings))
    assert path == ("faults", 0, "generate", "count")
    for words in ("165 crashes", "room for 164", "from round 10 to 500", "40 nodes", "5 rounds", "at most 2", "20"):
        assert words in message


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"count": 13}, "room for 12"),
        ({"count": 9, "nodes": ["N1", "N2"], "rounds": [5, 8], "down": [1, 1]}, "room for 4"),
        ({"count": 1, "consecutive": 13}, "1 chains of 13 neighbours are requested"),
        ({"count": 3, "at_most": 2}, "room for 2"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_more_crashes_than_have_room_are_refused_with_the_numbers(settings: dict[str, Any], words: str) -> None:
    path, message = problem(tree(12), generate(**settings))
    assert path[-1] == "count"
    assert words in message
    assert "allowed: a smaller count" in message
    assert ("a larger at_most" in message) == ("at_most" in settings)


def test_only_the_nodes_that_may_crash_do() -> None:
    star = overlay(nx.star_graph(6))
    short = {"kind": "exponential", "mean": 5.0}
    for form in ({"count": 8, "down": [1, 3]}, {"rate": {"up": short, "down": short}}):
        for choice, allowed in (
            ({"spare": ["N0", "N3"]}, {1, 2, 4, 5, 6}),
            ({"nodes": ["N5", "N2"]}, {2, 5}),
            ({"nodes": "leaves", "spare": ["N6"]}, {1, 2, 3, 4, 5}),
        ):
            found = [crashes(star, generate(**form, **choice), seed=seed, horizon=300) for seed in SEEDS]
            assert {node for rows in found for node, _, _ in rows} == allowed


def test_the_order_of_names_and_the_names_themselves_do_not_matter() -> None:
    here, listed = tree(9), [crash("N8", 3, 9), crash("N7", 4, 8)]
    there = Overlay(tuple(f"M{i}" for i in range(9)), here.a, here.b, here.latency_rounds)
    one, other = (generate(count=5, down=[2, 9], nodes=nodes) for nodes in (["N1", "N4", "N6"], ["N6", "N1", "N4"]))
    renamed = generate(count=5, down=[2, 9], nodes=["M1", "M4", "M6"])
    for seed in SEEDS:
        assert crashes(here, one, seed=seed) == crashes(here, other, seed=seed) == crashes(there, renamed, seed=seed)
        assert crashes(here, *listed, one, seed=seed) == crashes(here, one, *reversed(listed), seed=seed)


def test_sparing_a_node_leaves_the_rates_of_the_others_alone() -> None:
    times = {"kind": "lognormal", "mu": 3.0, "sigma": 1.0}
    everyone = crashes(tree(9), generate(rate={"up": times, "down": times}))
    spared = crashes(tree(9), generate(rate={"up": times, "down": times}, spare=["N4"]))
    assert spared == [row for row in everyone if row[0] != 4]
    assert len(spared) < len(everyone)


def test_two_generators_draw_differently() -> None:
    alone = generate(count=3, down=[2, 2], rounds=[0, 900])
    rows, both = crashes(tree(30), alone), crashes(tree(30), alone, alone)
    assert set(rows) < set(both)
    assert len(both) == 6


@pytest.mark.parametrize(
    ("up", "down", "mean_up", "mean_down"),
    [
        ({"kind": "exponential", "mean": 80.0}, {"kind": "exponential", "mean": 20.0}, 80.0, 20.0),
        ({"kind": "weibull", "shape": 0.5, "scale": 40.0}, {"kind": "weibull", "shape": 2.0, "scale": 20.0}, 80, 17.72),
        ({"kind": "lognormal", "mu": 4.0, "sigma": 1.0}, {"kind": "lognormal", "mu": 3.0, "sigma": 0.5}, 90.0, 22.76),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
def test_times_by_rates_have_the_means_of_their_distributions(
    up: dict[str, Any], down: dict[str, Any], mean_up: float, mean_down: float
) -> None:
    horizon = 100_000
    rows = crashes(tree(40), generate(rate={"up": up, "down": down}), horizon=horizon)
    lengths = [until - start for _, start, until in rows if until is not None]
    assert np.mean(lengths) == pytest.approx(mean_down, rel=0.05)
    expected = 40 * horizon / (mean_up + mean_down)
    assert len(rows) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize(
    ("times", "median"),
    [
        (Exponential(kind="exponential", mean=1000.0), 1000 * np.log(2)),
        (Weibull(kind="weibull", shape=0.48, scale=1000.0), 1000 * np.log(2) ** (1 / 0.48)),
        (LogNormal(kind="lognormal", mu=7.0, sigma=2.0), np.exp(7.0)),
    ],
    ids=lambda value: getattr(value, "kind", ""),
)
def test_the_medians_of_drawn_times_are_those_of_their_distributions(times: Times, median: float) -> None:
    drawn = renewal_times(times, 5, "test", np.arange(40_000))
    assert np.median(drawn) == pytest.approx(median, rel=0.05)
    assert drawn.min() >= 1


def test_a_rate_without_recovery_takes_each_node_down_once() -> None:
    rows = crashes(tree(9), generate(rate={"up": {"kind": "exponential", "mean": 5.0}}))
    assert sorted(node for node, _, _ in rows) == list(range(9))
    assert {until for _, _, until in rows} == {None}


def test_a_node_that_a_list_and_a_rate_take_down_is_down_as_long_as_either_says() -> None:
    always = {"kind": "exponential", "mean": 1e-6}
    generator = generate(rate={"up": always, "down": always}, rounds=[0, 12], nodes=["N0"])
    assert crashes(tree(2), crash("N0", 4, 9), generator) == [(0, 1, 2), (0, 3, 10), (0, 11, 12)]


def test_a_rate_that_never_ends_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.inputs.faults.timeline.MAX_OUTAGES", 10_000)
    always = {"kind": "exponential", "mean": 1e-6}
    path, message = problem(tree(9), generate(rate={"up": always, "down": always}), horizon=1_000_000)
    assert path == ("faults", 0, "generate", "rate")
    assert "more than 10000 crashes" in message


def test_room_is_what_counting_round_by_round_says() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        rows: list[Row] = []
        schedule, room = Timeline[int](), Room([], 3, 4)
        for node, start, length in rng.integers([0, 0, 1], [8, 60, 12], size=(40, 3)).tolist():
            outage = Outage(node, start, start + length)
            fits = not_operational([*rows, tuple(outage)], 4, horizon=100) <= 3
            assert room.take([outage]) == fits
            if fits:
                rows.append(tuple(outage))
                schedule.add(*outage)
        merged: list[Row] = [tuple(outage) for outage in schedule.outages()]
        assert not_operational(merged, 4, horizon=100) == not_operational(rows, 4, horizon=100) == 3


def test_draws_are_the_same_on_every_machine() -> None:
    path = overlay(nx.path_graph(9))
    times = {"kind": "lognormal", "mu": 3.0, "sigma": 1.0}
    assert crashes(path, generate(count=2, rounds=[10, 50], down=[5, 30]), seed=3) == [(2, 11, 20), (0, 30, 49)]
    assert crashes(path, generate(rate={"up": times, "down": times}, nodes=["N2"]), seed=3, horizon=90) == [
        (2, 10, 26),
        (2, 43, 48),
    ]


def test_a_plan_counts_crashes_for_each_value_of_the_grid(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "name: t\nprotocol: {name: delta}\noverlay: {generate: {kind: line, nodes: 9}}\nfaults:\n"
        "  - {kind: crash, node: N4, round: 3}\n"
        "  - {generate: {kind: crash, count: 1, consecutive: 2, spare: [N4], down: [2, 3]}}\n"
        "runs: {grid: {faults.1.generate.count: [0, 1, 3], faults.0.until: [null, 9]}}\n"
    )
    assert [row.n_crashes for row in combinations(prepare(path))] == [1, 1, 3, 3, 7, 7]


def test_errors_of_a_build_come_with_their_places_and_all_at_once(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "name: t\nprotocol: {name: delta}\noverlay: {generate: {kind: line, nodes: 3}}\ntime: {rounds: 50}\nfaults:\n"
        "  - {kind: crash, node: N4, round: 3}\n"
        "  - {generate: {kind: crash, count: 4}}\n"
        "  - {generate: {kind: crash, count: 1, spare: [N1, N2, N3]}}\n"
        "  - {generate: {kind: crash, count: 1, spare: [N1, M2]}}\n"
        "  - {generate: {kind: crash, count: 1, nodes: [N1, M3]}}\n"
        "  - {generate: {kind: crash, trace: {path: no/such.tab}}}\n"
        "runs: {seeds: [3, 4]}\n"
    )
    prepared = prepare(path)
    for act in (check, build):
        with pytest.raises(ScenarioError) as caught:
            act(prepared)
        places = [problem.split(": ")[0].removeprefix(f"{path}:") for problem in caught.value.problems]
        assert places == ["6:25", "7:37", "8:47", "9:52", "10:52", "11:44"]
        assert "the run of seed 3 has room for 3" in caught.value.problems[1]
        assert "all 3 nodes" in caught.value.problems[2]
        assert all(name in caught.value.problems[3] for name in ("'M2'", "N1, N2, N3"))


def test_each_kind_has_its_line() -> None:
    assert [name for name, _ in describe()] == [
        "crash", "pause", "loss", "break", "partition", "delay", "duplicate", "replace",
        "generate crash count", "generate crash rate", "generate crash trace",
        "generate break", "generate pause", "generate partition", "generate replace",
    ]  # fmt: skip
