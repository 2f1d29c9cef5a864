"""A run as a scenario of its own: what the engine is given is the same as for the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.contract.run_inputs import Inputs
from pipelines.errors import InputError
from pipelines.experiment.build import build_inputs
from pipelines.experiment.listed import listed_scenario
from pipelines.experiment.prepared import prepare
from pipelines.scenario.load import RunConfig
from pipelines.scenario.yaml_text import scenario_text

PROJECT = Path(__file__).parents[2]
SHIPPED = sorted((PROJECT / "conf" / "scenarios").glob("*.yaml"))
GENERATED = """name: drawn
protocol: {name: delta}
overlay: {generate: {kind: random_tree, nodes: 9}, clients: {generate: {at: leaves, latency: 2}}}
workload:
  subscriptions: {generate: {kind: content, nodes: clients, rounds: [0, 20], lifetime: [50, 3000]}}
  publications: {generate: {kind: quotes, nodes: clients, rounds: [60, 90], rate: 0.1}}
faults:
  - {generate: {kind: crash, count: 2, rounds: [20, 80], down: [5, 30]}}
  - {kind: loss, rate: 0.01, kinds: [PUB], round: 70}
  - {generate: {kind: pause, count: 2, rounds: [20, 60], down: [3, 5]}}
  - {kind: loss, rate: 0.5, round: 30, until: 90, burst: {good: 9, bad: 2}}
  - {generate: {kind: break, count: 2, rounds: [20, 60], down: [3, 5]}}
  - {kind: delay, rounds: [1, 3], rate: 0.2, round: 40, until: 80}
  - {generate: {kind: partition, count: 1, rounds: [20, 60], down: [3, 5]}}
  - {generate: {kind: pause, count: 1, rounds: [390, 400], down: [50, 60]}}
time: {rounds: 400, round_ms: 0.3}
runs: {seeds: [3, 4]}
"""
AWKWARD = """name: awkward
protocol: {name: epidemic}
overlay: {links: [["no", "12"], ["12", "a b", 7], ["a b", "é'\\"x"]], start: joining, join_root: "a b"}
workload:
  subscriptions: [{at: "no", round: 3, topic: "it's # 1", until: 9}, {at: "12", where: "'x y' > 1e-7 and s prefix '1'"}]
  publications:
    - {at: "12", round: 9, content: {"x y": 1.0e+16, "on": "2020-01-01", s: "0123", b: true, "~": "a: b"}}
    - {at: "a b", round: 9, content: {}}
faults: [{kind: break, links: [["12", "no"]], round: 5, until: 6}]
time: {rounds: 50}
"""
SEVERAL = """name: several
protocol: {name: delta}
overlay:
  generate: {kind: erdos_renyi, nodes: 7, probability: 0.6, tree: minimum}
  servers: {generate: {at: central, count: 2}}
  clients: {generate: {at: all}}
workload:
  subscriptions: {generate: {kind: topics, topics: 1, nodes: clients}}
  publications: {generate: {kind: topics, topics: 1, nodes: clients, rounds: [60, 90], rate: 0.1}}
faults:
  - {generate: {kind: crash, count: 2, rounds: [20, 80], down: [5, 30]}}
  - {generate: {kind: pause, count: 4, rounds: [20, 60], down: [3, 5]}}
  - {generate: {kind: break, count: 6, rounds: [20, 60], down: [3, 5]}}
  - {generate: {kind: partition, count: 2, rounds: [20, 60], down: [3, 5]}}
  - {kind: loss, rate: 0.1, round: 70}
time: {rounds: 200}
runs: {seeds: [1, 2, 3], grid: {protocol: [{name: delta}, {name: repository}, {name: gossipsub}, {name: skipring}]}}
"""


def given(run: RunConfig, beside: Path | None) -> dict[str, list[dict[str, object]]]:
    """Returns the tables that the engine is given of one run, but for the order of rows."""
    inputs: Inputs = build_inputs([replace(run, run_id=0)], beside)
    tables: dict[str, pa.Table] = {name: getattr(inputs, name) for name in Inputs.__dataclass_fields__}
    rows = {name: table.to_pylist() for name, table in tables.items()}
    for row in rows["link_fault"]:
        row["salt"] = row["salt"] if row["rate"] < 1.0 else None  # what strikes every message draws nothing
    return {name: sorted(of_table, key=repr) for name, of_table in rows.items()}


def same_again(path: Path, place: int, folder: Path) -> None:
    prepared = prepare(path)
    run = prepared.runs[place]
    written = folder / "listed.yaml"
    written.write_text(scenario_text(listed_scenario(run, prepared.beside), ["a run"]), encoding="utf-8")
    [again] = prepare(written).runs
    assert again.seed == run.seed
    assert again.scenario.time == run.scenario.time
    assert given(again, None) == given(run, prepared.beside)
    is_single = "overlay:\n  links:" not in written.read_text("utf-8")
    assert ("generate" not in written.read_text("utf-8")) or is_single
    assert "path:" not in written.read_text("utf-8")


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_a_shipped_scenario_is_given_the_same_again(path: Path, tmp_path: Path) -> None:
    same_again(path, -1, tmp_path)


@pytest.mark.parametrize("text", [GENERATED, AWKWARD], ids=["generated", "awkward names"])
def test_what_is_drawn_or_needs_quotes_is_given_the_same_again(text: str, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(text, encoding="utf-8")
    same_again(tmp_path / "s.yaml", -1, tmp_path)


@pytest.mark.parametrize("place", range(9))
def test_a_run_beside_other_protocols_is_given_the_same_again(place: int, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(SEVERAL, encoding="utf-8")
    same_again(tmp_path / "s.yaml", place, tmp_path)


@pytest.mark.parametrize(
    ("place", "faults", "message"),
    [
        (9, "[]", "overlay: protocol skipring builds its overlay of nodes of the shared overlay"),
        (0, "[{kind: loss, rate: 0.5, burst: {good: 9, bad: 2}}]", "faults.0.burst: bad periods are drawn for the"),
    ],
)
def test_a_run_that_no_scenario_can_list_is_refused(place: int, faults: str, message: str) -> None:
    run = prepare(SEVERAL, f"faults={faults}").runs[place]
    with pytest.raises(InputError, match=message):
        listed_scenario(run, None)
