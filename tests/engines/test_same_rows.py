"""The same scenario and seed give the same rows: on every engine, for any partitioning, beside any other runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.engines import OnSpark, disturbed, mixed, spread

from pipelines.engines.materialise.choose import materialiser_for
from pipelines.engines.session import Session
from pipelines.experiment.build import build_inputs
from pipelines.rounds.execute import Experiment, execute
from pipelines.rounds.progress import Progress
from pipelines.scenario.expand import RunConfig
from pipelines.store.store import Store
from pipelines.testing import rows, run_all, run_configs

TABLES = (
    "node",
    "link",
    "subscription",
    "publication",
    "message",
    "delivery",
    "fault_event",
    "node_status",
    "round_metric",
)
DELTA = [mixed({"name": "delta", "delta": delta}, start, 5) for delta in (0, 2) for start in ("joined", "joining")]
FAULTY = [
    {"kind": "loss", "rate": 0.05},
    {"kind": "loss", "rate": 0.5, "burst": {"good": 30.0, "bad": 5.0, "good_rate": 0.01}},
    {"kind": "delay", "rounds": [0, 4], "rate": 0.2},
    {"kind": "delay", "rounds": [1, 3], "rate": 0.2, "reorder": True},
    {"kind": "duplicate", "rate": 0.1, "after": [0, 2]},
    {"generate": {"kind": "partition", "count": 2, "down": [3, 6], "rounds": [0, 60]}},
    {"generate": {"kind": "pause", "count": 2, "down": [3, 9], "rounds": [0, 60]}},
]
DISTURBED = [disturbed(detector) for detector in ("identifier", "visited")]
QUIET = {**disturbed("identifier"), "faults": []}
OTHERS = [disturbed("identifier", round_) for round_ in (6, 8)]
CRASH = {
    **disturbed("visited", 5),
    "workload": {
        "subscriptions": [{"at": "S", "topic": "a"}],
        "publications": [{"at": "P", "round": at, "topic": "a"} for at in (4, 6)],
    },
}
"""A crash without joins: few steps."""
FORWARDING = [
    mixed({"name": "forwarding"}, "joined", 5),
    {**mixed({"name": "forwarding"}, "joined", 5), "faults": FAULTY},
]


def as_dataflow(runs: Sequence[RunConfig], session: Session, root: Path, commit_every: int = 50) -> Store:
    """Plays runs as dataflow; programs have `test_node_rows.py`."""
    return run_all(runs, session, root, commit_every, form="dataflow")


def history(store: Store, tables: Sequence[str] = TABLES) -> dict[str, list[tuple[Any, ...]]]:
    return {name: rows(store, name) for name in tables}


def states(store: Store) -> list[str]:
    return [name for name in store.tables() if name.startswith("state_")]


def test_spark_and_sail_run_delta_alike(on_spark: OnSpark, sail: Session, tmp_path: Path) -> None:
    """Spark spreads the runs over another number of partitions than Sail, at that."""
    sail.activate()
    on_sail = as_dataflow(on_spark.runs, sail, tmp_path)
    store = Store(on_spark.store.root, sail)
    names = (*TABLES, *states(on_sail))
    found = history(store, names)
    assert found == history(on_sail, names)
    assert found["delivery"]
    kinds = {kind for (kind,) in rows(store, "message", "kind")}
    assert {"JOIN_REQUEST", "PAR_TOP", "J", "SUB", "UNSUB", "PUB", "CONF"} <= kinds


def test_spark_and_sail_run_forwarding_alike(spark: Session, sail: Session, tmp_path: Path) -> None:
    runs = run_configs(FORWARDING)
    by_engine = []
    with spread(spark, 7) as spark_spread:
        for session in (sail, spark_spread):
            store = as_dataflow(runs, session, tmp_path / session.engine)
            by_engine.append(history(store, (*TABLES, *states(store))))
    assert by_engine[0] == by_engine[1]
    assert by_engine[0]["delivery"]
    fates = {(row[0], row[-4]) for row in by_engine[0]["message"]}
    assert fates >= {(1, "lost_link"), (1, "delivered")}


@pytest.fixture(scope="module")
def wanted(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[tuple[Any, ...]]]:
    """A crash, a recovery and a join, with both detectors, and a run without a crash in a job of its own, on Sail."""
    runs = run_configs([*DISTURBED, QUIET])
    found: dict[str, list[tuple[Any, ...]]] = {}
    for part in (runs[:-1], runs[-1:]):
        store = as_dataflow(part, sail, tmp_path_factory.mktemp("alone"))
        for name, of_part in history(store, (*TABLES, *states(store))).items():
            found[name] = sorted([*found.get(name, []), *of_part], key=repr)
    kinds = {row[2] for row in found["message"]}
    assert {"DETECT", "CON_REQUEST", "SYN_REQUEST", "PAR_SUB", "REJOIN", "JOIN_REQUEST", "J", "UNSUB"} <= kinds
    assert "lost_crash" in {row[-4] for row in found["message"]}
    return found


def of_disturbed(store: Store, sail: Session, names: Iterable[str]) -> dict[str, list[tuple[Any, ...]]]:
    """Returns the rows of these runs alone, as Sail reads them."""
    sail.activate()
    found = history(Store(store.root, sail), tuple(names))
    return {name: sorted((row for row in of if row[0] <= len(DISTURBED)), key=repr) for name, of in found.items()}


def by_turns(spark: Session, runs: Sequence[RunConfig], root: Path, driver_rows: int) -> Store:
    """Runs them on Spark, with relations in 1, 2 or 7 partitions by turns, those of very few rows in the driver."""
    spark.activate()
    with spread(spark, 7, driver_rows) as session:

        def next_partitions(progress: Progress) -> None:
            session.spark.conf.set("spark.sql.shuffle.partitions", (1, 2, 7)[progress.round % 3])

        store = Store(root, session)
        execute(
            Experiment(runs, build_inputs(runs, None), commit_every=20, form="dataflow"),
            session,
            store,
            next_partitions,
        )
    return store


@pytest.mark.slow
def test_spark_and_sail_run_disturbed_runs_alike(
    spark: Session, sail: Session, wanted: dict[str, list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    """Another run of the job has its crash one round earlier."""
    store = by_turns(spark, run_configs([*DISTURBED, QUIET, OTHERS[0]]), tmp_path, driver_rows=150)
    assert of_disturbed(store, sail, wanted) == wanted


@pytest.mark.slow
def test_relations_in_the_memory_of_spark_give_the_same_rows(
    spark: Session, sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of many runs with crashes are kept, and written by the engine."""
    monkeypatch.setattr("pipelines.store.store.Store._is_slow", False)
    monkeypatch.setattr(
        "pipelines.rounds.execute.materialiser_for",
        lambda session, is_small, is_eventful, n_runs: materialiser_for(
            session, is_eventful=is_eventful, n_runs=n_runs
        ),
    )
    runs = run_configs([CRASH])
    store = by_turns(spark, runs, tmp_path, driver_rows=16)
    monkeypatch.undo()
    on_sail = as_dataflow(runs, sail, tmp_path)
    names = (*TABLES, *states(on_sail))
    found = history(Store(store.root, sail), names)
    assert found == history(on_sail, names)
    assert {"DETECT", "CON_REQUEST", "SYN_REQUEST", "PAR_SUB", "REJOIN"} <= {row[2] for row in found["message"]}


def test_neither_commits_nor_other_runs_change_disturbed_runs(
    sail: Session, wanted: dict[str, list[tuple[Any, ...]]], tmp_path: Path
) -> None:
    store = as_dataflow(run_configs([*DISTURBED, QUIET, *OTHERS]), sail, tmp_path, commit_every=4)
    assert of_disturbed(store, sail, wanted) == wanted


@pytest.fixture(scope="module")
def few_commits(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Store:
    return as_dataflow(run_configs(DELTA[:2]), sail, tmp_path_factory.mktemp("few"))


@pytest.mark.parametrize("commit_every", [1, 3])
def test_commit_every(sail: Session, few_commits: Store, tmp_path: Path, commit_every: int) -> None:
    often = as_dataflow(run_configs(DELTA[:2]), sail, tmp_path, commit_every)
    assert history(often, (*TABLES, *states(often))) == history(few_commits, (*TABLES, *states(few_commits)))


def test_unrelated_runs_change_nothing(sail: Session, tmp_path: Path) -> None:
    alone = run_configs(DELTA[1:2], seeds=[1])
    others = run_configs([*DELTA, *DELTA])
    other_runs = [RunConfig(run.run_id + 1, run.seed + 9, run.scenario, {}) for run in others]
    one = history(as_dataflow(alone, sail, tmp_path / "alone"))
    many = history(as_dataflow([*alone, *other_runs], sail, tmp_path / "many"))
    for name, found in one.items():
        assert [row for row in many[name] if row[0] == 0] == found
        assert len(many[name]) > len(found) or not found
