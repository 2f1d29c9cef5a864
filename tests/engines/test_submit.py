"""A scenario as a job of ``spark-submit``, on a cluster of two workers; executors may die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.cluster import SPARK, executors, submitted

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.store.store import Store
from pipelines.testing import rows

SCENARIO = """name: small
protocol: {name: forwarding}
overlay: {links: [[A, B]]}
workload:
  subscriptions: [{at: B, round: 0, topic: t}]
  publications: [%s]
time: {rounds: 60}
runs: {seeds: {count: 4}}
engine: local
"""
_PUBLISHED = range(3, 33, 2)
_COMPARED = ("message", "delivery", "publication", "subscription", "state_routing_entry", "violation")
_LIMIT = 900
"""Seconds after which a job is given up."""


def n_versions(store: Path, table: str) -> int:
    return len(list((store / table / "_delta_log").glob("*.json")))


def kill_one(job: int) -> None:
    """Kills an executor, as a machine that goes does."""
    os.kill(next(executors(job)), signal.SIGKILL)


@pytest.mark.spark
@pytest.mark.slow
def test_a_job_on_two_workers_whose_executors_die(sail: Session, tmp_path: Path) -> None:
    """One executor dies in a round, and one in a commit: when a table is written and the ledger is not yet."""
    published = ", ".join(f"{{at: A, round: {round_}, topic: t}}" for round_ in _PUBLISHED)
    (tmp_path / "s.yaml").write_text(SCENARIO % published)
    store = tmp_path / "store"
    command, environment = submitted(tmp_path, str(tmp_path / "s.yaml"), "--store", str(store), "--commit-every", "4")
    with (tmp_path / "said").open("w") as said:
        job = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=said, stderr=subprocess.STDOUT)
    told = ""
    try:
        until = time.monotonic() + _LIMIT
        known, n_killed, begun = 0, 0, 0
        while job.poll() is None:
            assert time.monotonic() < until, (tmp_path / "said").read_text()[-3000:]
            time.sleep(0.005)
            ledger = n_versions(store, "round_commit")
            if ledger > known:
                known, begun = ledger, n_versions(store, "state_message")
                if n_killed == 0 and ledger == 2:
                    time.sleep(0.5)
                    kill_one(job.pid)
                    n_killed = 1
            elif n_killed == 1 and ledger >= 3 and n_versions(store, "state_message") > begun:
                kill_one(job.pid)
                n_killed = 2
        told = (tmp_path / "said").read_text()
        assert (job.returncode, n_killed) == (0, 2), told[-3000:]
    finally:
        job.kill()
        job.wait()
    assert told.splitlines()[-1].startswith("valid: 4 runs, all guarantees hold")
    sail.activate()
    rt.run(tmp_path / "s.yaml", sail.spark, tmp_path / "undisturbed")
    here, there = (Store(folder, sail) for folder in (store, tmp_path / "undisturbed"))
    assert {row.engine for row in here.read("run").collect()} == {"spark"}
    assert len(rows(here, "delivery")) == 4 * len(_PUBLISHED)
    for name in _COMPARED:
        assert rows(here, name) == rows(there, name), name


@pytest.mark.spark
def test_what_the_submitter_sets_wins_over_what_is_shipped(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(
        "from pipelines.engines.classic import running_session\n"
        "names = ('spark.sql.session.timeZone', 'spark.sql.adaptive.enabled')\n"
        "print(*map(running_session().conf.get, names))\n"
    )
    _, environment = submitted(tmp_path)
    command = [
        str(SPARK / "bin" / "spark-submit"),
        "--master",
        "local[1]",
        "--conf",
        "spark.sql.session.timeZone=+01:00",
    ]
    told = subprocess.run(
        [*command, str(tmp_path / "job.py")], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout.splitlines()[-1] == "+01:00 false"


@pytest.mark.spark
def test_executors_play_the_rounds_and_the_event_log_shows_it(tmp_path: Path) -> None:
    """Each block of rounds is a job with its description and a task for each executor; blocks take most of the time."""
    log = tmp_path / "log"
    log.mkdir()
    sweep = ["crash_sweep", "--engine", "spark", "--set", "runs.seeds={count: 8}", "--commit-every", "40"]
    command, environment = submitted(tmp_path, *sweep, "--store", str(tmp_path / "store"))
    confs = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": log.as_uri(), "spark.eventLog.compress": "false"}
    options = [part for name, value in confs.items() for part in ("--conf", f"{name}={value}")]
    place = command.index("--properties-file")
    told = subprocess.run(
        [*command[:place], *options, *command[place:]], cwd=tmp_path, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stderr[-3000:]
    assert told.stdout.splitlines()[-1].startswith("valid: 24 runs")
    events = [json.loads(line) for path in log.rglob("events_*") for line in path.read_text().splitlines()]
    started = {event["Job ID"]: event for event in events if event["Event"] == "SparkListenerJobStart"}
    ended = {event["Job ID"]: event["Completion Time"] for event in events if event["Event"] == "SparkListenerJobEnd"}
    described = {number: job["Properties"].get("spark.job.description") or "" for number, job in started.items()}
    blocks = sorted(number for number, text in described.items() if text.startswith("delta: runs 0 to 23, rounds "))
    assert len(blocks) > 1
    stages = {stage: number for number in blocks for stage in started[number]["Stage IDs"]}
    tasks = [event for event in events if event["Event"] == "SparkListenerTaskEnd" and event["Stage ID"] in stages]
    executors_of = {number: set[str]() for number in blocks}
    for task in tasks:
        executors_of[stages[task["Stage ID"]]].add(task["Task Info"]["Executor ID"])
    assert {len(of) for of in executors_of.values()} == {2}
    spent = sum(ended[number] - started[number]["Submission Time"] for number in blocks)
    assert spent > 0.5 * (ended[blocks[-1]] - started[blocks[0]]["Submission Time"])
