"""Protocol repository leaves the same tables for any number of rounds a job, resumed, and on every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.engines import history, spread
from support.replicas import broken_off

from pipelines.engines.session import Session
from pipelines.testing import run_all, run_configs, scenario

TIMERS = {
    "publisher_rounds": 6, "failure_rounds": 12, "acknowledge_rounds": 4, "wait_rounds": 4, "nak_rounds": 4,
    "rectify_rounds": 8, "idle_rounds": 10, "assist_rounds": 12, "gossip_rounds": 5, "fetch_rounds": 4,
}  # fmt: skip
History = dict[str, list[tuple[Any, ...]]]
CLIENTS = {"p": "b1", "s1": "b1", "s2": "b2"}


def eventful(rounds: int) -> dict[str, Any]:
    """Returns a run with an owner, crashes of a repository and a client, losses, a joining and a leaving repository."""
    return scenario(
        protocol={
            "name": "repository", **TIMERS, "store_rounds": 1,
            "topics": {"news": {"owner": "p", "publishers": ["p"], "subscribers": ["s1"]}},
        },
        overlay={
            "links": [["b1", "b2"]],
            "servers": [{"name": f"r{one}", "at": at} for one, at in ((1, "b1"), (2, "b2"), (3, "b2"))],
            "clients": [{"name": name, "at": at} for name, at in CLIENTS.items()],
        },
        workload={
            "subscriptions": [{"at": name, "round": 1, "topic": "news"} for name in ("s1", "s2")],
            "publications": [{"at": "p", "round": round_, "topic": "news"} for round_ in (13, 14, 16, 20)],
            "calls": [
                {"at": "p", "round": 10, "kind": "register", "topic": "news", "peer": "s2", "role": "subscriber"},
                {"at": "r3", "round": 8, "kind": "join"},
                {"at": "s1", "round": 26, "kind": "steer", "topic": "news", "peer": "r2"},
                {"at": "r1", "round": 25, "kind": "leave"},
            ],
        },
        faults=[
            {"kind": "crash", "node": "r2", "round": 21, "until": 24},
            {"kind": "crash", "node": "s1", "round": 25, "until": 27},
            {"kind": "loss", "round": 19, "until": 28, "rate": 0.2},
            {"kind": "duplicate", "round": 19, "until": 28, "rate": 0.2},
        ],
        time={"rounds": rounds},
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> History:
    """The rows of a run in one job with one commit."""
    return history(run_all(run_configs([eventful(40)]), sail, tmp_path_factory.mktemp("whole"), commit_every=100))


def test_rounds_of_a_job(sail: Session, tmp_path: Path, whole: History) -> None:
    assert history(run_all(run_configs([eventful(40)]), sail, tmp_path, commit_every=50, rounds_per_job=1)) == whole
    assert {"state_slot", "state_mark", "delivery"} <= whole.keys()
    assert whole["delivery"]


@pytest.mark.parametrize(("jobs", "rounds_per_job", "then"), [(22, 1, None), (3, None, 1)])
def test_resumed(
    sail: Session, tmp_path: Path, whole: History, jobs: int, rounds_per_job: int | None, then: int | None
) -> None:
    """The job is broken off while r2 is down: its disk, timers and what is in flight come back from the store.

    Commits in between, where states are written and read again, change nothing either.
    """
    runs = run_configs([eventful(40)])
    assert history(broken_off(runs, sail, tmp_path, jobs, 7, rounds_per_job, then)) == whole
    assert whole["state_slot"]


@pytest.mark.spark
@pytest.mark.parametrize("n_partitions", [1, 7])
def test_on_spark(spark: Session, sail: Session, tmp_path: Path, n_partitions: int) -> None:
    """One job of both runs: a longer one shows recoveries and the departure of r1."""
    runs = run_configs([eventful(30), eventful(120)])
    on_sail = history(run_all(runs, sail, tmp_path, commit_every=200))
    with spread(spark, n_partitions) as session:
        on_spark = history(run_all(runs, session, tmp_path, commit_every=200))
    assert on_spark == on_sail
    assert any("LEFT" in row for row in on_spark["node_status"])
