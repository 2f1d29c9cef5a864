"""Starts a Spark standalone cluster on loopback, a master and two workers, and reads the jobs in its event log.

The drivers import the project from its wheel, not from the checkout.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pyspark

from pipelines.engines.jars import engine_jars
from pipelines.engines.settings import read_settings, shipped_settings
from support.jvm import JVM

PROJECT = Path(__file__).parents[2]
SPARK = Path(pyspark.__file__).parent
N_WORKERS = 2
_WORKER_MB = 1024
_START_SECONDS = 300
_CLASSES = {"master": "org.apache.spark.deploy.master.Master", "worker": "org.apache.spark.deploy.worker.Worker"}
_EVENT = re.compile(rb'{"Event":"SparkListener(Job|Task|ExecutorRemoved)')
_DRIVER_OPTIONS = ("--driver-memory", "1g", "--conf", f"spark.executor.memory={_WORKER_MB}m")


@dataclass(frozen=True)
class Package:
    """The installed wheel of this project, for an environment without the checkout.

    Attributes:
        folder: The folder with the unpacked files of the wheel.
    """

    folder: Path

    @classmethod
    def build(cls, folder: Path) -> Package:
        """Builds the wheel in ``folder`` and unpacks it."""
        build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(PROJECT)]
        subprocess.run(build, check=True, capture_output=True)
        (wheel,) = folder.glob("*.whl")
        with ZipFile(wheel) as zipped:
            zipped.extractall(folder / "installed")
        return cls(folder / "installed")


@dataclass
class Cluster:
    """A running cluster of workers with one core each.

    Attributes:
        url: ``spark://host:port``.
        package: The wheel from which drivers import the project.
        folder: The folder of logs and work folders.
        workers: The processes of the workers.
    """

    url: str
    package: Package
    folder: Path
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def command(self, *options: str, confs: Mapping[str, str] | None = None) -> list[str]:
        """Returns the command ``spark-submit`` for this cluster, with the settings in ``conf/spark/cluster.conf``."""
        # The jars are cached, so --jars replaces setting spark.jars.packages.
        settings = read_settings(self.package.folder / "pipelines" / "_data" / "conf" / "spark" / "cluster.conf")
        assert settings.pop("spark.jars.packages").startswith("io.delta:delta-spark_")
        file = self.folder / "cluster.conf"
        file.write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
        given = [part for name, value in (confs or {}).items() for part in ("--conf", f"{name}={value}")]
        return [
            str(SPARK / "bin" / "spark-submit"), "--master", self.url, *_DRIVER_OPTIONS, "--properties-file", str(file),
            "--jars", ",".join(map(str, engine_jars(print))), *given, *options,
        ]  # fmt: skip

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment variables of drivers; PYTHONPATH has the package and folder ``tests``, not the checkout."""
        path = os.pathsep.join([str(self.package.folder), str(PROJECT / "tests")])
        return {**daemon_environment(), "PYTHONPATH": path}


def daemon_environment() -> dict[str, str]:
    """Returns the environment variables of a Spark process, without this process's PYTHONPATH and Connect settings."""
    left_out = ("SPARK_CONNECT_MODE_ENABLED", "PYTHONPATH", "SPARK_REMOTE")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {
        **kept, **JVM, "SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """Starts a master and two workers with one core each, and stops them at the end of the ``with`` block."""
    package = Package.build(folder / "package")
    with standalone(folder, N_WORKERS, _WORKER_MB) as (url, workers):
        yield Cluster(url, package, folder, workers)


@contextmanager
def standalone(
    folder: Path, n_workers: int, memory_mb: int
) -> Iterator[tuple[str, list[subprocess.Popen[bytes]]]]:  # fmt: skip
    """Starts a master and workers with one core each; yields the master's URL and the workers' processes.

    Each worker has its own address, as in a cluster of machines: Spark then runs a task where its cached rows are. On
    executors with one address, half of these tasks fetch their rows from the other executor.
    """
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    with ExitStack() as closing:
        master = ["--port", str(port), "--webui-port", "0"]
        closing.enter_context(_daemon("master", folder / "master.log", "127.0.0.1", *master))
        worker = ["--cores", "1", "--memory", f"{memory_mb}m", "--webui-port", "0"]
        workers = []
        for number, host in enumerate(_hosts(n_workers)):
            log, work = folder / f"worker{number}.log", folder / f"worker{number}"
            workers.append(closing.enter_context(_daemon("worker", log, host, *worker, "--work-dir", str(work), url)))
        wait_for(lambda: _said(folder / "master.log").count("Registering worker") == n_workers, "workers")
        yield url, workers


def _hosts(n_hosts: int) -> list[str]:
    """Returns loopback addresses: different ones if the system has them, as Linux does."""
    hosts = [f"127.0.0.{2 + number}" for number in range(n_hosts)]
    try:
        for host in hosts:
            with socket.socket() as probe:
                probe.bind((host, 0))
    except OSError:
        return ["127.0.0.1"] * n_hosts
    return hosts


@contextmanager
def connect_server(on: Cluster, log: Path, confs: Mapping[str, str]) -> Iterator[str]:
    """Starts a Spark Connect server on a cluster; yields the address of the server."""
    port = free_port()
    mine = {**shipped_settings(), **confs, "spark.connect.grpc.binding.port": str(port)}
    options = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
    with log.open("wb") as said:
        server = subprocess.Popen(
            on.command(*options, confs=mine), env=daemon_environment(), stdout=said, stderr=subprocess.STDOUT
        )
    try:
        wait_for(lambda: _is_open(port) or server.poll() is not None, "Spark Connect server")
        assert server.poll() is None, _said(log)[-3000:]
        yield f"sc://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


@contextmanager
def _daemon(name: str, log: Path, host: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    command = [str(SPARK / "bin" / "spark-class"), _CLASSES[name], "--host", host, *arguments]
    environment = daemon_environment() | {"SPARK_DAEMON_MEMORY": "256m", "SPARK_LOCAL_IP": host}
    with log.open("wb") as said:
        process = subprocess.Popen(command, env=environment, stdout=said, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    """Returns a free port of the loopback interface."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def wait_for(is_done: Any, what: str, seconds: float = _START_SECONDS) -> None:
    """Waits until ``is_done()`` is true; after ``seconds``, fails with the condition's name ``what``."""
    until = time.monotonic() + seconds
    while not is_done():
        assert time.monotonic() < until, f"no {what} after {seconds:g} s"
        time.sleep(0.02)


def _is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _said(log: Path) -> str:
    return log.read_text("utf-8", errors="replace")


def kill_executor(workers: Iterable[int]) -> int:
    """Kills the executor with the lowest process id of some workers; returns the time in ms since the epoch."""
    found = (executor for worker in workers for executor in _executors(worker))
    os.kill(min(found), signal.SIGKILL)
    return round(time.time() * 1000)


def _executors(worker: int) -> list[int]:
    """Returns the executors among the child processes of a worker; ended helpers of its JVM are children, too."""
    tasks = Path(f"/proc/{worker}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [child for child in children if "--executor-id" in Path(f"/proc/{child}/cmdline").read_text()]


@dataclass(frozen=True)
class Job:
    """A job in an event log.

    Attributes:
        description: The description of the job.
        start: The time of the submission, in ms since the epoch.
        end: The time of the completion, in ms since the epoch; None if the job has not ended.
        executors: The executor of each task.
        task_ms: The sum of the run times of all tasks, in ms.
        n_speculative: The number of speculative tasks.
    """

    description: str
    start: int
    end: int | None
    executors: list[str]
    task_ms: int
    n_speculative: int


def event_log_confs(folder: Path) -> dict[str, str]:
    """Returns the settings with which Spark writes an event log into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return {"spark.eventLog.enabled": "true", "spark.eventLog.dir": folder.as_uri(), "spark.eventLog.compress": "false"}


class EventLog:
    """The event log of an application, which may still be running."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._events: dict[str, list[dict[str, Any]]] = {}

    def _update(self) -> None:
        """Reads the complete lines that were appended since the last call."""
        for path in sorted(self._folder.rglob("events_*")):
            with path.open("rb") as log:
                log.seek(self._read.get(path, 0))
                new = log.read()
            whole = new[: new.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            for line in whole.splitlines():
                if _EVENT.match(line):
                    event = json.loads(line)
                    self._events.setdefault(event["Event"].removeprefix("SparkListener"), []).append(event)

    def jobs(self, description: str = "") -> list[Job]:
        """Returns the jobs whose description matches a regular expression, in the order of submission."""
        self._update()
        ends = {event["Job ID"]: event["Completion Time"] for event in self._events.get("JobEnd", [])}
        named = [
            (event["Properties"].get("spark.job.description") or "", event)
            for event in self._events.get("JobStart", [])
        ]
        started = {event["Job ID"]: event for name, event in named if re.match(description, name)}
        stages = {stage: number for number, event in started.items() for stage in event["Stage IDs"]}
        tasks: dict[int, list[dict[str, Any]]] = {number: [] for number in started}
        for event in self._events.get("TaskEnd", []):
            if event["Stage ID"] in stages:
                tasks[stages[event["Stage ID"]]].append(event)
        return [
            Job(
                event["Properties"].get("spark.job.description") or "",
                event["Submission Time"],
                ends.get(number),
                [task["Task Info"]["Executor ID"] for task in tasks[number]],
                sum((task.get("Task Metrics") or {}).get("Executor Run Time", 0) for task in tasks[number]),
                sum(task["Task Info"]["Speculative"] for task in tasks[number]),
            )
            for number, event in started.items()
        ]

    def lost(self) -> list[int]:
        """Returns the times at which executors were removed, in ms since the epoch."""
        self._update()
        return [event["Timestamp"] for event in self._events.get("ExecutorRemoved", [])]


def told(jobs: list[Job]) -> str:
    """Returns the numbers of jobs and tasks, the executor seconds and the busy share, as one line."""
    n_tasks, seconds = sum(len(job.executors) for job in jobs), sum(job.task_ms for job in jobs) / 1000
    n_speculative = sum(job.n_speculative for job in jobs)
    return (
        f"{len(jobs)} jobs, {n_tasks} tasks ({n_speculative} speculative), {seconds:.1f} executor seconds, "
        f"busy for {busy_share(jobs):.2f} of the time"
    )


def busy_share(jobs: list[Job]) -> float:
    """Returns the sum of the durations of jobs, divided by the time from the first start to the last end of a job."""
    ends = [job.end for job in jobs if job.end is not None]
    busy = sum(job.end - job.start for job in jobs if job.end is not None)
    return busy / (max(ends) - min(job.start for job in jobs))
