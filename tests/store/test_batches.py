"""Runs executed in several batches have the same rows as runs executed in one batch."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pipelines as rt
from pipelines.cli.app import app
from pipelines.engines.session import Session
from pipelines.experiment.jobs import MAX_ROWS, Batch, batches_of, runs_per_batch
from pipelines.result import Result
from pipelines.rounds.progress import Progress
from pipelines.store.store import Store
from pipelines.testing import planted, removed, run_configs

SCENARIO = """name: batches
protocol: {name: forwarding}
overlay: {links: [[N1, N2], [N2, N3], [N3, N4]], latency: {uniform: [1, 2]}}
workload:
  subscriptions: [{at: N1, topic: a, round: 0}, {at: N3, topic: a, round: 2}]
  publications: [{at: N2, round: 16, topic: a}, {at: N4, round: 25, topic: a}]
faults: [{kind: crash, node: N1, round: 17, until: 25}]
time: {rounds: 100}
runs: {seeds: {count: 2}, grid: {time.rounds: [26, 100]}}
engine: local
"""
EARLY, LATE = 26, 100
OF_ENGINE = ("state_message", "state_call_log")


@pytest.fixture(scope="module")
def scenario(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs with a horizon before they are quiescent, two that come to their end."""
    path = tmp_path_factory.mktemp("batches") / "s.yaml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture(scope="module")
def one_by_one(scenario: Path, sail: Session) -> Iterator[Result]:
    sail.activate()
    with rt.run(scenario, sail.spark, scenario.parent / "one", commit_every=2, batch_runs=1) as result:
        yield result


@pytest.fixture(scope="module")
def together(scenario: Path, sail: Session) -> Iterator[Result]:
    """The same runs, those of one horizon together."""
    sail.activate()
    with rt.run(scenario, sail.spark, scenario.parent / "two", commit_every=2) as result:
        yield result


def rows(result: Result, table: str, where: str = "true", as_of_round: int | None = None) -> list[str]:
    return sorted(map(str, result.table(table, as_of_round).where(where).toArrow().to_pylist()))


def state_of(result: Result) -> str:
    """Names a state table of the protocol."""
    return next(name for name in result.reader.tables() if name.startswith("state_") and name not in OF_ENGINE)


def own_tables(result: Result) -> list[str]:
    """Returns the stored tables of runs, and two views that read most of them; the rows of views follow from tables."""
    stored = Store(result.store, result.session).tables()
    return [*(name for name in stored if name != "round_commit"), "result", "node_recovery"]


def test_batches_change_no_row(one_by_one: Result, together: Result) -> None:
    assert [(run.verdict, run.parameters["time.rounds"]) for run in one_by_one.runs] == [
        ("unknown", EARLY), ("unknown", EARLY), ("valid", LATE), ("valid", LATE),
    ]  # fmt: skip
    assert max(run.rounds or 0 for run in one_by_one.runs[:2]) <= EARLY < (one_by_one.runs[2].rounds or 0)
    for name in own_tables(together):
        assert rows(one_by_one, name) == rows(together, name), name
    assert rows(together, state_of(together))
    assert {row.first_run for row in one_by_one.table("round_commit").collect()} == {0, 1, 2, 3}
    assert {row.first_run for row in together.table("round_commit").collect()} == {0, 2}


def test_a_change_is_planted_in_all_batches(one_by_one: Result, tmp_path: Path) -> None:
    store, state = Store(one_by_one.store, one_by_one.session), state_of(one_by_one)
    copy = planted(store, tmp_path, **{state: removed("node_id = 0"), "message": removed("src = 0")})
    with rt.open_store(copy.root, one_by_one.session.spark) as result:
        for table, where in ((state, "node_id != 0"), ("message", "src != 0")):
            assert rows(result, table) == rows(one_by_one, table, where), table
            assert len(rows(result, table)) < len(rows(one_by_one, table)), table


@pytest.mark.parametrize("round_", [10, 20])
def test_an_earlier_round_is_one_of_all_batches(one_by_one: Result, together: Result, round_: int) -> None:
    for name in ("message", "sent_message", "publication", "subscription", "delivery", "fault_event", "run"):
        assert rows(one_by_one, name, as_of_round=round_) == rows(together, name, as_of_round=round_), name


def test_the_states_of_a_node_are_those_of_its_batch(one_by_one: Result, together: Result) -> None:
    counts = ("table_name", "crash_round", "operational_round", "n_before", "n_after", "n_same", "n_end")
    for run in (0, 3):
        found = [
            sorted(map(tuple, result.compare_node(run, "N1").select(*counts).collect()))
            for result in (one_by_one, together)
        ]
        assert found[0] == found[1]
        assert found[0]


def test_a_batch_that_is_under_way_is_seen_as_of_its_last_commit(
    one_by_one: Result, scenario: Path, sail: Session, tmp_path: Path
) -> None:
    """The third of four batches is interrupted; its crash of round 17 is not to be seen then."""
    seen: list[int] = []

    def stop(progress: Progress) -> None:
        seen.append(progress.round)
        if seen.count(0) == 3 and progress.round > 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rt.run(scenario, sail.spark, tmp_path / "store", commit_every=2, batch_runs=1, observe=stop)
    with rt.open_store(tmp_path / "store", sail.spark) as result:
        last = result.reader.last_round()
        assert 2 <= last <= 12
        assert not result.reader.is_finished()
        for name in ("node", "message", "sent_message", "delivery", "node_status", "fault_event", "state_message"):
            assert rows(result, name, "run_id < 2") == rows(one_by_one, name, "run_id < 2"), name
            assert rows(result, name, "run_id = 2") == rows(one_by_one, name, "run_id = 2", last), name
            assert rows(result, name, "run_id = 3") == [], name
        for name in ("publication", "subscription"):
            assert rows(result, name, "run_id < 2") == rows(one_by_one, name, "run_id < 2")
        assert len(rows(result, "run")) == 4
    with rt.resume(tmp_path / "store", sail.spark) as result:
        for name in own_tables(one_by_one):
            assert rows(result, name) == rows(one_by_one, name), name


def test_a_run_that_is_not_decided_stops_no_other(scenario: Path, one_by_one: Result) -> None:
    assert one_by_one.verdict == "unknown"
    assert {row.measure for row in one_by_one.sql("select * from result_summary where run_id = 2").collect()}
    assert [run.verdict for run in one_by_one.runs].count("valid") == 2


def test_the_program_tells_of_batches(scenario: Path, tmp_path: Path) -> None:
    plan = CliRunner().invoke(app, ["plan", str(scenario)])
    assert "runs = " in plan.stdout.splitlines()[0]
    assert any(line.startswith("batches   2, about ") for line in plan.stdout.splitlines())
    command = ["run", str(scenario), "--store", str(tmp_path / "store"), "--batch-runs", "1"]
    result = CliRunner().invoke(app, [*command, "--set", "runs={seeds: [4, 5]}", "--json"])
    assert result.exit_code == 0
    assert "batch 2 of 2: runs 1 to 1, at most 100 rounds" in result.stdout


def configs(*horizons: int) -> list[Any]:
    parts = {"name": "t", "protocol": {"name": "forwarding"}, "overlay": {"links": [["A", "B"]]}}
    return run_configs([{**parts, "time": {"rounds": horizon}} for horizon in horizons])


def test_runs_of_a_batch_are_neighbours_of_one_horizon() -> None:
    assert batches_of(configs(5, 5, 5, 9, 5), 2) == [
        Batch(0, 4, 0, 1, 3, 5, "forwarding"), Batch(1, 4, 2, 2, 2, 5, "forwarding"),
        Batch(2, 4, 3, 3, 1, 9, "forwarding"), Batch(3, 4, 4, 4, 0, 5, "forwarding"),
    ]  # fmt: skip
    assert batches_of(configs(5, 5), None) == [Batch(0, 1, 0, 1, 0, 5, "forwarding")]


def test_batches_are_as_large_as_fits() -> None:
    most = MAX_ROWS["program"]
    assert runs_per_batch(1000, most, ["program"]) == 1000
    assert runs_per_batch(1000, most + 1, ["program"]) == 500
    assert runs_per_batch(3, 100 * most, ["program"]) == 1
    assert runs_per_batch(1000, most + 1, ["program", "dataflow"]) == 1000
