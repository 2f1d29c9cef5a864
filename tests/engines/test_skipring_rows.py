"""Protocol skipring leaves the same tables for any number of rounds a job, resumed, and on every engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.engines import history, spread
from support.replicas import broken_off

from pipelines.engines.session import Session
from pipelines.scenario.load import RunConfig
from pipelines.testing import run_all, run_configs, scenario

NAMES = [f"N{number}" for number in range(1, 10)]
History = dict[str, list[tuple[Any, ...]]]
STARTS = ("empty", "legitimate", "arbitrary")


def eventful(start: str) -> dict[str, Any]:
    """Returns a run with two topics, one who comes, one who goes, a publication and a crash."""
    return scenario(
        protocol={"name": "skipring", "start": start, "start_until": 0, "start_publications": 2},
        overlay={"nodes": {"count": 10, "supervisors": 2}},
        workload={
            "subscriptions": [
                *({"at": name, "topic": "news"} for name in NAMES),
                {"at": "N10", "topic": "news", "round": 5},
                {"at": "N1", "topic": "sports", "until": 20},
            ],
            "publications": [{"at": "N2", "round": 15, "topic": "news"}],
        },
        faults=[{"kind": "crash", "node": "N3", "round": 18}],
        time={"rounds": 32},
    )


def runs(*starts: str) -> list[RunConfig]:
    return run_configs([eventful(start) for start in starts])


@pytest.fixture(scope="module")
def whole(sail: Session, tmp_path_factory: pytest.TempPathFactory) -> History:
    """The rows of runs from all starts, in one job."""
    return history(run_all(runs(*STARTS), sail, tmp_path_factory.mktemp("whole")))


def test_rounds_of_a_job(sail: Session, tmp_path: Path, whole: History) -> None:
    assert history(run_all(runs(*STARTS), sail, tmp_path, rounds_per_job=1)) == whole
    assert whole["delivery"]
    for name in ("configuration", "database"):
        assert {row[0] for row in whole[f"state_{name}_change"]} == {0, 1, 2}


@pytest.mark.parametrize(("jobs", "rounds_per_job", "then"), [(19, 1, None), (3, None, 1)])
def test_resumed(
    sail: Session, tmp_path: Path, whole: History, jobs: int, rounds_per_job: int | None, then: int | None
) -> None:
    """The job is broken off while the crash is being noticed: rings, tries and timers come back from the store."""
    assert history(broken_off(runs(*STARTS), sail, tmp_path, jobs, 6, rounds_per_job, then)) == whole
    assert whole["state_trie_node"]


@pytest.mark.spark
@pytest.mark.parametrize("n_partitions", [1, 7])
def test_on_spark(spark: Session, whole: History, tmp_path: Path, n_partitions: int) -> None:
    with spread(spark, n_partitions) as session:
        assert history(run_all(runs(*STARTS), session, tmp_path)) == whole
