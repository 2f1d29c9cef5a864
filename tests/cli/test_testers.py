"""The commands for testers: extract a run, show where two part, shrink one that breaks a guarantee."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import cli

from pipelines.scenario.load import load_scenario

SWEEP = """name: sweep
protocol: {name: delta}
overlay: {generate: {kind: random_tree, nodes: 6}}
workload:
  subscriptions: {generate: {kind: topics, topics: 2, nodes: 3}}
  publications: {generate: {kind: topics, topics: 2, nodes: 2, rounds: [20, 40], rate: 0.2}}
faults: [{generate: {kind: crash, count: 1, rounds: [20, 35], down: [5, 20]}}, {kind: loss, rate: 0.05, round: 30}]
time: {rounds: 300}
runs: {seeds: [0, 1], grid: {protocol.delta: [1, 2]}}
engine: local
"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of four runs."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "s.yaml").write_text(SWEEP)
    assert cli("run", folder / "s.yaml", "--quiet", "--store", folder / "store").exit_code in (0, 2)
    return folder / "store"


def test_an_extracted_run_has_the_rows_of_the_run(sweep: Path, tmp_path: Path) -> None:
    extracted = cli("extract", sweep, "--run", "3", "-o", tmp_path / "run3.yaml")
    assert (extracted.exit_code, extracted.stdout) == (0, "")
    assert (
        extracted.stderr == f"written to {tmp_path / 'run3.yaml'}; to run it: roundtable run {tmp_path / 'run3.yaml'}\n"
    )
    assert cli("extract", sweep, "--run", "3").stdout == (tmp_path / "run3.yaml").read_text()
    cli("run", tmp_path / "run3.yaml", "--quiet", "--store", tmp_path / "store")
    same = cli("diff", sweep, tmp_path / "store", "--run", "3", "--other-run", "0")
    assert (same.exit_code, same.stdout) == (0, "no difference: the histories have the same rows\n")
    kept = [
        json.loads(cli("sql", store, f"select * from run where run_id = {run}", "--format", "json").stdout)[0]
        for store, run in ((sweep, 3), (tmp_path / "store", 0))
    ]
    assert len({(row["verdict"], row["within_bound"], row["rounds"], row["seed"]) for row in kept}) == 1


def test_an_extracted_file_is_new_and_the_run_is_there(sweep: Path, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("mine")
    taken = cli("extract", sweep, "--run", "0", "-o", tmp_path / "run.yaml")
    assert (taken.exit_code, (tmp_path / "run.yaml").read_text()) == (64, "mine")
    assert "already exists" in taken.stderr
    absent = cli("extract", sweep, "--run", "4")
    assert (absent.exit_code, absent.stdout) == (64, "")
    assert "run 4 does not exist" in absent.stderr
    assert "0 to 3" in absent.stderr


def test_the_first_difference_is_that_of_sql(sweep: Path) -> None:
    """Runs of one seed have the same faults and calls; a larger δ makes nodes look farther."""
    parted = cli("diff", sweep, sweep, "--run", "0", "--other-run", "2", "--json")
    assert parted.exit_code == 1
    told = json.loads(parted.stdout)
    assert told["parameters"] == {"protocol.delta": [1, 2]}
    found = told["difference"]
    sent = "select run_id, sent_round, kind, src, dst, due_round, source, source_seq, body from sent_message"
    rows = json.loads(cli("sql", sweep, f"{sent} where run_id in (0, 2)", "--format", "json").stdout)
    of_run = [{tuple(list(row.values())[1:]) for row in rows if row["run_id"] == run} for run in (0, 2)]
    first = min(row[0] for row in of_run[0] ^ of_run[1])
    assert (found["run_id"], found["round"], found["table"]) == (0, first, "sent_message")
    assert len(found["in_first"]) + len(found["in_second"]) > 0
    assert {row["sent_round"] for row in rows} >= {first}
    shown = cli("diff", sweep, sweep, "--run", "0", "--other-run", "2").stdout.splitlines()
    assert shown[0] == "protocol.delta: 1 in A, 2 in B"
    assert shown[1] == f"first difference: run 0, round {first}, table sent_message sent"
    assert shown[-1].startswith("rows that differ from there on: ")


def test_what_runs_are_given_differs_before_any_round(sweep: Path) -> None:
    shown = cli("diff", sweep, sweep, "--run", "0", "--other-run", "1").stdout.splitlines()
    assert shown[0] == "seed: 0 in A, 1 in B"
    assert shown[1].startswith("first difference: run 0, before the first round, table link")


def test_whole_stores_are_compared_by_run(sweep: Path) -> None:
    assert cli("diff", sweep, sweep).exit_code == 0
    wrong = cli("diff", sweep, sweep, "--other-run", "1")
    assert wrong.exit_code == 64
    assert "name the run of A" in wrong.stderr.replace("\n", " ")
    absent = cli("diff", sweep, sweep, "--run", "7")
    assert absent.exit_code == 64
    assert "run 7 does not exist" in absent.stderr


# Figure 1 of the report: S1's subscription is at B1 but not yet at B2 when p2 is published; all else plays no part.
BROKEN = """name: broken
protocol: {name: forwarding}
overlay: {links: [[P, B2], [B2, B1, 6], [B1, S1], [B1, S2], [B2, X1], [X1, X2], [X2, X3], [B1, Y]]}
workload:
  subscriptions:
    - {at: X3, round: 0, topic: other}
    - {at: S2, round: 0, where: "item = 1"}
    - {at: Y, round: 2, topic: other, until: 50}
    - {at: S1, round: 20, topic: news}
  publications:
    - {at: X1, round: 15, topic: other}
    - {at: P, round: 19, topic: news, content: {item: 1}}
    - {at: P, round: 21, topic: news, content: {item: 2}}
    - {at: X2, round: 30, topic: other}
    - {at: P, round: 40, topic: news, content: {item: 3}}
faults:
  - {kind: pause, node: X1, round: 10, until: 14}
  - {kind: pause, node: Y, round: 30, until: 34}
time: {rounds: 200}
runs: {seeds: [0, 1]}
engine: local
"""


def test_a_broken_run_shrinks_to_what_breaks_it(tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(BROKEN)
    assert cli("run", tmp_path / "s.yaml", "--quiet", "--store", tmp_path / "store").exit_code == 1
    shrunk = cli("shrink", tmp_path / "store", "--run", "1", "-o", tmp_path / "small.yaml")
    assert shrunk.exit_code == 0
    assert "candidates played: the smallest that breaks it has " in shrunk.stderr
    scenario = load_scenario(tmp_path / "small.yaml").scenario
    assert scenario.faults == []
    assert [(one.at, one.round) for one in scenario.workload.publications] == [("P", 19), ("P", 21)]
    assert [one.at for one in scenario.workload.subscriptions] == ["S2", "S1"]
    assert scenario.overlay.links is not None
    assert {name for link in scenario.overlay.links for name in link[:2]} == {"P", "S1", "S2"}
    text = (tmp_path / "small.yaml").read_text()
    counts = "shrunk to 0 of 2 faults, 2 of 5 publications, 2 of 4 subscriptions, 3 of 9 nodes; "
    assert counts in text.splitlines()[0]
    assert text.splitlines()[1] == "# It breaks exactly_once."
    again = cli("run", tmp_path / "small.yaml", "--quiet", "--store", tmp_path / "again")
    assert again.exit_code == 1
    assert "(exactly_once once)" in again.stdout


def test_a_run_that_broke_nothing_cannot_shrink(sweep: Path, tmp_path: Path) -> None:
    sound = SWEEP.replace(", {kind: loss, rate: 0.05, round: 30}", "").replace("seeds: [0, 1]", "seeds: [0]")
    (tmp_path / "s.yaml").write_text(sound)
    cli("run", tmp_path / "s.yaml", "--quiet", "--store", tmp_path / "store")
    result = cli("shrink", tmp_path / "store", "--run", "1", "-o", tmp_path / "small.yaml")
    assert (result.exit_code, result.stdout) == (64, "")
    assert result.stderr.endswith("run 1 broke no guarantee, nor did any other\n")
    wrong = cli("shrink", sweep, "--run", "0", "--guarantee", "exactly_one", "-o", tmp_path / "small.yaml")
    assert wrong.exit_code == 64
    assert "did you mean 'exactly_once'?" in wrong.stderr
    assert not (tmp_path / "small.yaml").exists()
