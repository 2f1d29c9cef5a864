"""The runs of a scenario: every combination of the grid, times every seed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.errors import ScenarioError
from pipelines.scenario.load import RunConfig, expand, load_scenario

HEAD = "name: t\nprotocol: {name: delta}\noverlay: {generate: {kind: line, nodes: 4}}\n"


def runs_of(folder: Path, text: str) -> list[RunConfig]:
    path = folder / "s.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    return expand(load_scenario(path))


def test_a_scenario_without_runs_is_one_run(tmp_path: Path) -> None:
    (run,) = runs_of(tmp_path, "")
    assert (run.run_id, run.seed, run.parameters) == (0, 0, {})
    assert run.scenario.overlay.generate is not None
    assert run.scenario.overlay.generate.nodes == 4


def test_the_grid_comes_first_in_the_order_of_the_file(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, "runs: {seeds: [7, 3], grid: {time.rounds: [30, 20], protocol.delta: [2, 0]}}\n")
    assert all(list(run.parameters) == ["time.rounds", "protocol.delta"] for run in runs)
    assert [(run.run_id, *run.parameters.values(), run.seed) for run in runs] == [
        (0, 30, 2, 7), (1, 30, 2, 3), (2, 30, 0, 7), (3, 30, 0, 3),
        (4, 20, 2, 7), (5, 20, 2, 3), (6, 20, 0, 7), (7, 20, 0, 3),
    ]  # fmt: skip
    for run in runs:
        assert run.scenario.time.rounds == run.parameters["time.rounds"]
        assert run.scenario.protocol.delta == run.parameters["protocol.delta"]


def test_values_take_part_in_the_places_of_the_file(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, "runs: {grid: {overlay.latency.rounds: [2, 5], overlay.generate.kind: [line, star]}}\n")
    seen = [(r.scenario.overlay.latency, r.scenario.overlay.generate) for r in runs]
    assert [(a.rounds, b.kind) for a, b in seen if a and b] == [(2, "line"), (2, "star"), (5, "line"), (5, "star")]


def test_null_takes_a_value_away(tmp_path: Path) -> None:
    runs = runs_of(tmp_path, "runs: {grid: {overlay.generate.tree: [minimum, null]}}\n")
    assert [run.scenario.overlay.generate and run.scenario.overlay.generate.tree for run in runs] == ["minimum", None]


def test_many_runs_share_their_scenarios(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + f"runs: {{seeds: {list(range(5000))}, grid: {{protocol.delta: [0, 1, 2]}}}}\n")
    loaded = load_scenario(path)
    runs = expand(loaded)
    assert [run.run_id for run in runs] == list(range(15000))
    assert len({id(run.scenario) for run in runs}) == 3


def test_a_combination_is_cited_at_the_value_that_breaks_it(tmp_path: Path) -> None:
    text = (
        "workload: {publications: {generate: {kind: topics, rounds: [0, 5]}}}\ntime: {rounds: 20}\n"
        "runs: {grid: {time.rounds: [30, 10], workload.publications.generate.rounds.1: [8, 20]}}\n"
    )
    with pytest.raises(ScenarioError) as caught:
        runs_of(tmp_path, text)
    assert [problem.removeprefix(f"{tmp_path / 's.yaml'}:") for problem in caught.value.problems] == [
        "6:83: rounds: 20 is after the horizon; allowed: 0 to 10, or a larger time.rounds"
    ]


def test_values_that_only_fail_together_are_named_together(tmp_path: Path) -> None:
    text = (
        "runs: {grid: {overlay.latency.uniform.0: [1, 5], overlay.latency.uniform.1: [9, 3]}}\n"
        "# the range of the file is right, and so is each value with it\n"
    )
    path = tmp_path / "s.yaml"
    path.write_text(HEAD.replace("}}", "}, latency: {uniform: [1, 9]}}") + text, encoding="utf-8")
    with pytest.raises(ScenarioError) as caught:
        expand(load_scenario(path))
    (problem,) = caught.value.problems
    assert problem.startswith(f"{path}:4:81: with overlay.latency.uniform.0 = 5, overlay.latency.uniform.1 = 3: ")
    assert problem.endswith(f"(at {path}:3:64)")


def test_every_wrong_value_is_cited_once(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as caught:
        runs_of(tmp_path, "runs: {grid: {time.rounds: [10, 0, x], protocol.delta: [1, 2, 11]}}\n")
    places = [problem.split(": ")[0].removeprefix(f"{tmp_path / 's.yaml'}:") for problem in caught.value.problems]
    assert places == ["4:33", "4:36", "4:63"]


def test_ranges_hold_their_bounds(tmp_path: Path) -> None:
    text = """runs:
  seeds: {count: 2, from: 7}
  grid: {protocol.delta: {from: 1, to: 5, step: 2}, time.round_ms: {from: 0.1, to: 0.45, step: 0.1}}
"""
    runs = runs_of(tmp_path, text)
    assert [run.seed for run in runs[:3]] == [7, 8, 7]
    assert list(dict.fromkeys(run.parameters["protocol.delta"] for run in runs)) == [1, 3, 5]
    assert list(dict.fromkeys(run.parameters["time.round_ms"] for run in runs)) == [0.1, 0.2, 0.3, 0.4]
    assert len(runs) == 2 * 3 * 4


def test_a_range_of_seeds_ends_at_the_largest_seed(tmp_path: Path) -> None:
    """A list has no larger seed either, so an extracted run could not be played."""
    assert [run.seed for run in runs_of(tmp_path, f"runs: {{seeds: {{count: 2, from: {2**62 - 1}}}}}\n")][-1] == 2**62
    with pytest.raises(ScenarioError, match=f"the last seed is {2**62 + 1}; allowed: up to {2**62}"):
        runs_of(tmp_path, f"runs: {{seeds: {{count: 2, from: {2**62}}}}}\n")


def test_whole_parts_differ_from_run_to_run(tmp_path: Path) -> None:
    """Overlays of another source, other workloads and faults; paths that come later reach into the part."""
    text = """runs:
  grid:
    overlay: [{generate: {kind: star, nodes: 5}}, {links: [[A, B], [B, C]]}]
    faults: [[], [{generate: {kind: crash, count: 1}}]]
    workload.publications: [[], {generate: {kind: topics, rate: 0.5}}]
    overlay.latency: [null, {rounds: 3}]
"""
    runs = runs_of(tmp_path, text)
    assert len(runs) == 16
    assert {(run.scenario.overlay.generate is None, run.scenario.overlay.links is None) for run in runs} == {
        (True, False), (False, True)
    }  # fmt: skip
    assert {len(run.scenario.faults) for run in runs} == {0, 1}
    assert [run.scenario.overlay.latency and run.scenario.overlay.latency.rounds for run in runs[:2]] == [None, 3]
    assert runs[0].parameters["overlay"] == {"generate": {"kind": "star", "nodes": 5}}


GRID = HEAD + "runs: {grid: {protocol.delta: [1, 2], time.rounds: [20, 30]}}\n"


def test_an_override_takes_the_place_of_the_values_of_the_grid(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(GRID, encoding="utf-8")
    runs = expand(load_scenario(path, ["protocol.delta=3"]))
    assert [(run.scenario.protocol.delta, run.scenario.time.rounds) for run in runs] == [(3, 20), (3, 30)]
    assert all("protocol.delta" not in run.parameters for run in runs)
    varied = expand(load_scenario(path, ["protocol.delta=3", "runs.grid.protocol.delta=[0, 4]"]))
    assert [run.scenario.protocol.delta for run in varied] == [0, 4, 0, 4]


def test_an_override_of_a_part_of_what_the_grid_replaces_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(HEAD + "runs: {grid: {protocol: [{name: delta}, {name: forwarding}]}}\n", encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"runs\.grid varies protocol, and replaces this value; set runs\.grid"):
        load_scenario(path, ["protocol.delta=3"])
