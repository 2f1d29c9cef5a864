"""Jobs of ``spark-submit`` and Spark Connect on a standalone cluster of two workers; executors may die.

The jobs run from the packaged wheel, and with speculative execution.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.cluster import (
    Cluster,
    EventLog,
    busy_share,
    cluster,
    connect_server,
    event_log_confs,
    told,
)

import pipelines as rt
from pipelines.engines.session import Session
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
_PUBLISHED = {"killed": range(3, 25, 2), "dataflow": (3, 5)}
_N_RUNS = 4
_COMPARED = ("message", "delivery", "publication", "subscription", "state_routing_entry", "violation")
_KILLED = "forwarding: runs 0 to 3, rounds "
_LIMIT = 900
"""Seconds after which a job is given up."""
SPECULATION = {
    "spark.speculation": "true", "spark.speculation.interval": "50ms", "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1", "spark.speculation.minTaskRuntime": "10ms",
}  # fmt: skip
_TIME_ZONE = {"spark.sql.session.timeZone": "+01:00"}
JOB = """
import sys
from pathlib import Path
from threading import Thread
from time import sleep
from pipelines.api import run_prepared
from pipelines.engines.classic import running_session
from pipelines.experiment.prepared import prepare
from pipelines.jobs.run import run
from pipelines.rounds import blocks
from support.cluster import kill_executor

workers, n_blocks = [int(process) for process in sys.argv[1:]], 0

def udfs_of(batches):
    import pyarrow, udfs
    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict({"path": [udfs.__file__]})

def kill(when):
    print("killed", when, kill_executor(workers), flush=True)

def kill_within():
    tracker = running_session().sparkContext.statusTracker()
    while not tracker.getActiveJobsIds():
        sleep(0.002)
    kill("within")

def killed(*arguments, play_block=blocks.mapped_on_executors):
    global n_blocks
    n_blocks += 1
    if n_blocks == 2:
        Thread(target=kill_within).start()
    found = play_block(*arguments)
    if n_blocks == 5:
        kill("between")
    return found

run_prepared(prepare(Path("dataflow.yaml")), engine="spark", store=Path("dataflow"), form="dataflow")
print("executors import", running_session().range(1).mapInArrow(udfs_of, "path string").first().path)
names = ("spark.sql.session.timeZone", "spark.sql.adaptive.enabled")
print("settings", *map(running_session().conf.get, names))
blocks.mapped_on_executors = killed
sys.argv[1:] = ["killed.yaml", "--commit-every", "4", "--store", "killed"]
run()
"""
"""A dataflow run without an audit, and programs whose executors are killed, by the command of the documentation."""


@dataclass(frozen=True)
class Played:
    """What the job of `JOB` leaves.

    Attributes:
        folder: Its working directory, with the stores.
        output: What it prints.
        log: Its event log.
    """

    folder: Path
    output: str
    log: EventLog


def write_scenarios(folder: Path) -> None:
    """Writes the files of all scenarios."""
    for name, rounds in _PUBLISHED.items():
        published = ", ".join(f"{{at: A, round: {round_}, topic: t}}" for round_ in rounds)
        (folder / f"{name}.yaml").write_text(SCENARIO.format(name=name, published=published, n_runs=_N_RUNS))


@pytest.fixture(scope="module")
def two_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with cluster(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="module")
def played(two_workers: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Runs `JOB`."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "job.py").write_text(JOB)
    write_scenarios(folder)
    command = two_workers.command(confs=SPECULATION | _TIME_ZONE | event_log_confs(folder / "log"))
    processes = [str(worker.pid) for worker in two_workers.workers]
    done = subprocess.run(
        [*command, "job.py", *processes], cwd=folder, env=two_workers.environment, capture_output=True, text=True,
        timeout=_LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return Played(folder, done.stdout, EventLog(folder / "log"))


def test_executors_play_the_blocks_of_programs(played: Played) -> None:
    """Each block is a job with its description; blocks take most of the time, the first one on both executors."""
    blocks, audits = played.log.jobs(_KILLED), played.log.jobs("forwarding: audits")
    assert audits
    assert len(blocks) > 5
    assert len({*blocks[0].executors}) == 2
    assert all("driver" not in block.executors for block in blocks)
    assert busy_share(blocks) > 0.5
    print(told(blocks))


def test_executors_compute_the_rounds_of_a_dataflow_run(played: Played, sail: Session) -> None:
    """Each round in which messages are due is a job with its description and with tasks on executors.

    Spark plans for most of the time of rounds with few rows. A job that fetches a frame without rows has no task.
    """
    rounds = played.log.jobs("forwarding: (start|round|commit)")
    store = Store(played.folder / "dataflow", sail)
    due = {round_ for (round_,) in rows(store, "message", "due_round")}
    assert due
    assert {f"forwarding: round {round_}" for round_ in due} <= {job.description for job in rounds if job.executors}
    assert all("driver" not in job.executors for job in rounds)
    assert busy_share(rounds) > 0.1
    print(told(rounds))


def test_rows_are_those_of_local_after_executors_died(played: Played, sail: Session, tmp_path: Path) -> None:
    kills = dict(re.findall(r"^killed (\w+) (\d+)$", played.output, re.M))
    assert kills.keys() == {"within", "between"}
    assert len(played.log.lost()) >= 2
    spans = [(block.start, block.end) for block in played.log.jobs(_KILLED) if block.end is not None]
    assert [any(start <= int(kill) <= end for start, end in spans) for kill in kills.values()] == [True, False]
    assert played.output.splitlines()[-1].startswith("valid: 4 runs, all guarantees hold")
    same_rows(played.folder, "killed", sail, tmp_path)


def test_dataflow_rows_are_those_of_local(played: Played, sail: Session, tmp_path: Path) -> None:
    same_rows(played.folder, "dataflow", sail, tmp_path)


def same_rows(folder: Path, name: str, sail: Session, tmp_path: Path, engine: str = "spark") -> None:
    """Compares the store of an engine in a folder with that of engine local."""
    sail.activate()
    write_scenarios(tmp_path)
    rt.run(tmp_path / f"{name}.yaml", sail.spark, tmp_path / name)
    here, there = (Store(root / name, sail) for root in (folder, tmp_path))
    assert {row.engine for row in here.read("run").collect()} == {engine}
    assert len(rows(here, "delivery")) == _N_RUNS * len(_PUBLISHED[name])
    for table in _COMPARED:
        assert rows(here, table) == rows(there, table), table


def test_executors_import_the_package_that_the_program_sends(played: Played) -> None:
    (path,) = (line for line in played.output.splitlines() if line.startswith("executors import "))
    assert re.search(r"udfs-[0-9a-f]{16}\.zip", path)


def test_a_connect_server_on_the_cluster_has_the_rows_of_local(
    two_workers: Cluster, sail: Session, tmp_path: Path
) -> None:
    """The client is a process of its own: PySpark binds a checkpoint of Spark Connect to the first session of one."""
    write_scenarios(tmp_path)
    with connect_server(two_workers, tmp_path / "said", SPECULATION) as address:
        run = [sys.executable, "-m", "pipelines", "run", "dataflow.yaml", "--engine", "connect", "--remote", address]
        done = subprocess.run(
            [*run, "--store", "connect/dataflow"], cwd=tmp_path, env=two_workers.environment, capture_output=True,
            text=True, timeout=_LIMIT, check=False,
        )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    same_rows(tmp_path / "connect", "dataflow", sail, tmp_path, "connect")


def test_what_the_submitter_sets_wins_over_what_is_shipped(played: Played) -> None:
    assert "settings +01:00 false" in played.output.splitlines()
