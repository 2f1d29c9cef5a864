"""Rows are determined: replicas of a run, with three crashes at once, have the same rows in all tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.replicas import PROTOCOLS, Tables, broken_off, by_run, differing, eventful, parted

from pipelines.contract.rows import row_number, ties_named
from pipelines.engines.session import Session
from pipelines.errors import AmbiguousOrderError
from pipelines.testing import run_all, run_configs, scenario

N_SCHEDULES = 2
N_REPLICAS = 24
LINE = scenario(
    protocol={"name": "delta", "delta": 2},
    overlay={"links": [["A", "B"], ["B", "C"], ["C", "D", 2], ["D", "E"]]},
    workload={
        "subscriptions": [{"at": "E", "topic": "news"}, {"at": "A", "topic": "news"}],
        "publications": [
            {"at": at, "round": round_, "topic": "news"} for at, round_ in (("A", 42), ("A", 80), ("E", 44))
        ],
    },
    faults=[
        {"kind": "crash", "node": "C", "round": 40, "until": 70},
        {"kind": "crash", "node": "B", "round": 45, "until": 60},
    ],
)
"""B answers the SYN_REQUEST of C in the round in which it rises itself: two STATUS in a round, whose order decides."""


@pytest.fixture(scope="module", params=PROTOCOLS)
def replicas(request: pytest.FixtureRequest, sail: Session, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Schedules of a protocol, and what their replicas left; all have one seed, so they draw the same."""
    schedules = [eventful(request.param, seed) for seed in range(N_SCHEDULES)]
    if request.param == "delta":
        schedules.append(LINE)
    runs = run_configs([one for one in schedules for _ in range(N_REPLICAS)], seeds=[0] * len(schedules) * N_REPLICAS)
    return schedules, by_run(run_all(runs, sail, tmp_path_factory.mktemp(request.param), commit_every=50))


def test_replicas_in_a_job_have_equal_tables(replicas: tuple[list[Any], dict[int, Tables]]) -> None:
    schedules, found = replicas
    for place in range(len(schedules)):
        assert parted(found, place * N_REPLICAS, N_REPLICAS) == {}, place
        assert found[place * N_REPLICAS]["message"]
        assert found[place * N_REPLICAS]["fault_event"]


def test_a_run_alone_broken_off_and_resumed_has_the_same_tables(
    replicas: tuple[list[Any], dict[int, Tables]], sail: Session, tmp_path: Path
) -> None:
    """Another job, other commits, no runs beside it, and an end in the middle of the crashes."""
    schedules, found = replicas
    store = broken_off(run_configs(schedules[-1:], seeds=[0]), sail, tmp_path, after=25)
    assert list(differing(by_run(store)[0], found[(len(schedules) - 1) * N_REPLICAS])) == []


def test_what_a_node_reads_back_does_not_depend_on_commits(sail: Session, tmp_path: Path) -> None:
    """Dispatcher N3 is down over commits; which of them holds its gossip timer must not matter."""
    run = run_configs([eventful("epidemic", 13)], seeds=[0])
    usual, other = (by_run(run_all(run, sail, tmp_path, commit_every=every))[0] for every in (50, 7))
    assert list(differing(usual, other)) == []


def test_rows_that_tie_stop_the_job(sail: Session) -> None:
    sail.activate()
    frame = sail.spark.createDataFrame([(0, 1), (0, 1), (1, 2)], "run_id bigint, turn bigint")
    number = row_number("turns", "run_id", "turn")
    with pytest.raises(AmbiguousOrderError, match="turns: turn"), ties_named():
        frame.selectExpr(f"{number} as place").collect()
    with ties_named():
        assert len(frame.distinct().selectExpr(f"{number} as place").collect()) == 2
