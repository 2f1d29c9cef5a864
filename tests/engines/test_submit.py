"""Jobs of ``spark-submit`` and Spark Connect on a standalone cluster of two workers; executors may die.

The jobs run from the packaged wheel, and with speculative execution.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.cluster import (
    SPARK,
    Cluster,
    EventLog,
    busy_share,
    cluster,
    connect_server,
    event_log_confs,
    told,
)

import pipelines as rt
from pipelines.engines.session import Session, open_session
from pipelines.store.store import Store
from pipelines.testing import rows

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SCENARIO = """name: {name}
protocol: {{name: forwarding}}
overlay: {{links: [[A, B]]}}
workload:
  subscriptions: [{{at: B, round: 0, topic: t}}]
  publications: [{published}]
time: {{rounds: 90}}
runs: {{seeds: {{count: {n_runs}}}}}
"""
_PUBLISHED = {"sweep": range(3, 63, 4), "killed": range(3, 33, 2), "dataflow": (3, 5)}
_N_RUNS = {"sweep": 24, "killed": 4, "dataflow": 4}
_COMPARED = ("message", "delivery", "publication", "subscription", "state_routing_entry", "violation")
_KILLED = "forwarding: runs 0 to 3, rounds "
_LIMIT = 900
"""Seconds after which a job is given up."""
SPECULATION = {
    "spark.speculation": "true", "spark.speculation.interval": "50ms", "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1", "spark.speculation.minTaskRuntime": "10ms",
}  # fmt: skip
JOB = """
import sys
from pipelines.cli import main
from pipelines.engines.classic import running_session
from pipelines.jobs.run import run

def udfs_of(batches):
    import pyarrow, udfs
    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict({"path": [udfs.__file__]})

def play(*arguments):
    sys.argv[1:] = ["run", "--engine", "spark", *arguments]
    try:
        main()
    except SystemExit as end:
        assert not end.code, end.code

play("sweep.yaml", "--commit-every", "20", "--store", "sweep")
play("dataflow.yaml", "--form", "dataflow", "--store", "dataflow")
print("executors import", running_session().range(1).mapInArrow(udfs_of, "path string").first().path)
sys.argv[1:] = ["killed.yaml", "--commit-every", "4", "--store", "killed"]
run()
"""
"""A sweep, a dataflow run, and a run whose executors are killed, by the command of the documentation."""


@dataclass(frozen=True)
class Played:
    """What the job of `JOB` leaves.

    Attributes:
        folder: Its working directory, with the stores.
        output: What it prints.
        log: Its event log.
        kills: When executors were killed, ms.
    """

    folder: Path
    output: str
    log: EventLog
    kills: list[int]


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="module")
def played(two_workers: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Runs `JOB`; kills an executor while it plays a block, and one after the block has ended."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "job.py").write_text(JOB)
    for name, rounds in _PUBLISHED.items():
        published = ", ".join(f"{{at: A, round: {round_}, topic: t}}" for round_ in rounds)
        (folder / f"{name}.yaml").write_text(SCENARIO.format(name=name, published=published, n_runs=_N_RUNS[name]))
    confs, log, kills = SPECULATION | event_log_confs(folder / "log"), EventLog(folder / "log"), list[int]()
    with (folder / "said").open("w") as said:
        job = subprocess.Popen(
            [*two_workers.command(confs=confs), "job.py"], cwd=folder, env=two_workers.environment, stdout=said,
            stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        until = time.monotonic() + _LIMIT
        while job.poll() is None:
            assert time.monotonic() < until, (folder / "said").read_text()[-3000:]
            time.sleep(0.01)
            blocks = log.jobs(_KILLED)
            is_playing = any(block.end is None for block in blocks)
            if (len(kills) == 0 and is_playing) or (len(kills) == 1 and len(blocks) > 3 and not is_playing):
                kills.append(round(time.time() * 1000))
                two_workers.kill_executor()
        output = (folder / "said").read_text()
        assert job.returncode == 0, output[-3000:]
    finally:
        job.kill()
        job.wait()
    return Played(folder, output, log, kills)


def test_executors_play_the_blocks_of_a_sweep(played: Played) -> None:
    """Each block is a job with its description, with tasks on both executors; blocks take most of the time."""
    blocks = played.log.jobs("forwarding: runs 0 to 23, rounds ")
    assert len(blocks) > 1
    assert {len({*block.executors}) for block in blocks} == {2}
    assert busy_share(blocks) > 0.5
    print(told(blocks))


def test_executors_compute_the_rounds_of_a_dataflow_run(played: Played, sail: Session) -> None:
    """Each round in which messages are due is a job with its description and with tasks; jobs take most of the time."""
    rounds = played.log.jobs("forwarding: (start|round|commit)")
    store = Store(played.folder / "dataflow", sail)
    due = {round_ for (round_,) in rows(store, "message", "due_round")}
    assert due
    assert {f"forwarding: round {round_}" for round_ in due} <= {job.description for job in rounds}
    assert all("driver" not in job.executors and job.executors for job in rounds)
    assert busy_share(rounds) > 0.4
    print(told(rounds))


def test_rows_are_those_of_local_after_executors_died(played: Played, sail: Session, tmp_path: Path) -> None:
    blocks = played.log.jobs(_KILLED)
    assert len(played.kills) == 2
    assert len(played.log.lost()) >= 2
    first, second = (
        [block for block in blocks if block.end is not None and block.start <= kill <= block.end]
        for kill in played.kills
    )
    assert first
    assert not second
    assert played.output.splitlines()[-1].startswith("valid: 4 runs, all guarantees hold")
    same_rows(played.folder, "killed", sail, tmp_path)


def test_dataflow_rows_are_those_of_local(played: Played, sail: Session, tmp_path: Path) -> None:
    same_rows(played.folder, "dataflow", sail, tmp_path)


def same_rows(folder: Path, name: str, sail: Session, tmp_path: Path) -> None:
    sail.activate()
    rt.run(folder / f"{name}.yaml", sail.spark, tmp_path / name)
    here, there = (Store(root / name, sail) for root in (folder, tmp_path))
    assert {row.engine for row in here.read("run").collect()} == {"spark"}
    assert len(rows(here, "delivery")) == _N_RUNS[name] * len(_PUBLISHED[name])
    for table in _COMPARED:
        assert rows(here, table) == rows(there, table), table


def test_executors_import_the_package_that_the_program_sends(played: Played) -> None:
    (path,) = (line for line in played.output.splitlines() if line.startswith("executors import "))
    assert "udfs.zip" in path


def test_a_connect_server_on_the_cluster_has_the_rows_of_local(
    two_workers: Cluster, played: Played, sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connect_server(two_workers, tmp_path / "said", SPECULATION) as address:
        monkeypatch.setenv("SPARK_REMOTE", address)
        with open_session("connect") as session:
            rt.run(played.folder / "killed.yaml", session.spark, tmp_path / "connect")
    sail.activate()
    here, there = Store(tmp_path / "connect", sail), Store(played.folder / "killed", sail)
    assert {row.engine for row in here.read("run").collect()} == {"connect"}
    for table in _COMPARED:
        assert rows(here, table) == rows(there, table), table


def test_what_the_submitter_sets_wins_over_what_is_shipped(two_workers: Cluster, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(
        "from pipelines.engines.classic import running_session\n"
        "names = ('spark.sql.session.timeZone', 'spark.sql.adaptive.enabled')\n"
        "print(*map(running_session().conf.get, names))\n"
    )
    done = subprocess.run(
        [str(SPARK / "bin" / "spark-submit"), "--master", "local[1]", "--conf", "spark.sql.session.timeZone=+01:00",
         str(tmp_path / "job.py")],
        env=two_workers.environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "+01:00 false"
