"""The same scenario and seed give the same dataflow rows: on every engine, for any commits, beside any other runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from support.engines import disturbed, history, mixed, spread

from pipelines.engines.session import Session
from pipelines.experiment.build import build_inputs
from pipelines.rounds.execute import Experiment, execute
from pipelines.rounds.progress import Progress
from pipelines.scenario.load import RunConfig
from pipelines.store.store import Store
from pipelines.testing import run_all, run_configs

LARGE_TYPES = "spark.sql.execution.arrow.useLargeVarTypes"
FORWARDING = {**mixed({"name": "forwarding"}, "joined", 5), "time": {"rounds": 12}}
CRASHING = {**FORWARDING, "faults": [{"kind": "crash", "node": "N1", "round": 6, "until": 9}]}
CRASH = {
    **disturbed("visited", 5),
    "workload": {
        "subscriptions": [{"at": "S", "topic": "a"}],
        "publications": [{"at": "P", "round": at, "topic": "a"} for at in (4, 6)],
    },
}
"""A crash without joins: few steps."""
CALM = {
    **{name: value for name, value in CRASH.items() if name != "faults"},
    "overlay": {"links": [["P", "S"]]},
    "workload": {
        "subscriptions": [{"at": "S", "topic": "a"}],
        "publications": [{"at": "P", "round": at, "topic": "a"} for at in (3, 4)],
    },
    "time": {"rounds": 7},
}
"""No crash, and few rounds; confirmations end the processing of messages."""


def as_dataflow(runs: Sequence[RunConfig], session: Session, root: Path, commit_every: int = 50) -> Store:
    """Plays runs as dataflow; programs have `test_node_rows.py`."""
    return run_all(runs, session, root, commit_every, form="dataflow")


def in_executors(spark: Session, runs: Sequence[RunConfig], root: Path, patch: pytest.MonkeyPatch) -> Store:
    """Runs them on Spark as if they had many rows, with relations in 1, 2 and 5 partitions alternately.

    Spark interprets the plans of rounds, because compiling them takes a quarter of the time. Arrow tables have large
    string types, which a caller's session may set.
    """
    patch.setattr("pipelines.rounds.execute.FEW_ROWS", -1)
    spark.activate()
    with spread(spark, 5) as session, session.suited(is_small=True):

        def next_partitions(progress: Progress) -> None:
            session.spark.conf.set("spark.sql.shuffle.partitions", (1, 2, 5)[progress.round % 3])

        store = Store(root, session)
        inputs = build_inputs(runs, None)
        session.spark.conf.set(LARGE_TYPES, "true")
        try:
            execute(Experiment(runs, inputs, commit_every=20, form="dataflow"), session, store, next_partitions)
        finally:
            session.spark.conf.unset(LARGE_TYPES)
    return store


def on(store: Store, session: Session) -> dict[str, list[tuple[Any, ...]]]:
    """Returns the rows of a store, as another engine reads them."""
    session.activate()
    return history(Store(store.root, session))


def test_spark_and_sail_run_forwarding_alike(
    spark: Session, sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = run_configs([CRASHING, FORWARDING])
    on_spark = on(in_executors(spark, runs, tmp_path / "spark", monkeypatch), sail)
    monkeypatch.undo()
    assert on_spark == history(as_dataflow(runs, sail, tmp_path / "sail"))
    assert on_spark["delivery"]
    assert {row[-4] for row in on_spark["message"]} >= {"lost_crash", "delivered"}


def test_spark_and_sail_run_delta_alike(
    spark: Session, sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = run_configs([CALM])
    on_spark = on(in_executors(spark, runs, tmp_path / "spark", monkeypatch), sail)
    monkeypatch.undo()
    assert on_spark == history(as_dataflow(runs, sail, tmp_path / "sail"))
    assert {(row[2], row[-4]) for row in on_spark["message"]} == {
        (kind, "delivered") for kind in ("SUB", "PUB", "CONF")
    }
    assert len(on_spark["delivery"]) == 2


@pytest.mark.parametrize("is_small", [True, False])
def test_spark_and_sail_run_a_crash_of_delta_alike(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    if not request.config.getoption("schedules"):
        pytest.skip("takes minutes: with --schedules only")
    spark, sail = (cast(Session, request.getfixturevalue(name)) for name in ("spark", "sail"))
    runs = run_configs([CRASH])
    if is_small:
        spark.activate()
        store = as_dataflow(runs, spark, tmp_path / "spark")
    else:
        store = in_executors(spark, runs, tmp_path / "spark", monkeypatch)
        monkeypatch.undo()
    found = on(store, sail)
    assert found == history(as_dataflow(runs, sail, tmp_path / "sail"))
    assert {"DETECT", "CON_REQUEST", "SYN_REQUEST", "PAR_SUB", "REJOIN"} <= {row[2] for row in found["message"]}


def test_neither_commits_nor_other_runs_change_a_run(sail: Session, tmp_path: Path) -> None:
    more = {**mixed({"name": "forwarding"}, "joined", 8), "time": {"rounds": 12}}
    parts = run_configs([CRASHING, FORWARDING, more])
    alone = history(as_dataflow(parts[:1], sail, tmp_path / "alone"))
    beside = history(as_dataflow(parts, sail, tmp_path / "beside", commit_every=3))
    for name, found in alone.items():
        assert [row for row in beside[name] if row[0] == 0] == found, name
    assert alone["delivery"]
