"""Measures the speed-up by executors: sweeps and one large overlay on Spark clusters with one-core executors.

    python tests/perf/scale.py [--what sweep] [--executors 1 --executors 2] [--runs 1000] [--nodes 20000] [--limit 600]
        [--until 2000] [--warm]

The clusters are standalone clusters of Spark: a driver, and one executor for each worker, all separate processes on
this machine. Each worker has its own loopback address (`support.cluster.standalone`). With ``--executors 0``, engine
`local` plays the runs in processes of this machine, without a JVM. ``sweep``: runs of `delta` on trees of
``--brokers`` brokers as in `rounds.py`, in form program. ``bank``: runs of `ginger` as in `nodes.py`. ``overlay``: one
run of `delta` with δ = 1 on a random tree of ``--nodes`` brokers with five subscribers, in form dataflow, partitioned
by run and node. ``program``: the run of ``overlay`` in form program.

Columns: seconds; the last round, with ``+`` if ``--limit`` seconds or round ``--until`` ended the measurement;
messages; messages per second; millions of rows that executors wrote for exchanges, and the MiB of these rows; CPU
seconds of the program, of the driver's JVM, and of all executors including their Python processes; the executors' share
of the CPU seconds; peak memory of the program, of the driver's JVM and of an executor in MiB. CPU seconds are measured
during the rounds: starting the engine and building the runs are not included, and no audit runs. Each measurement is a
separate process.

With ``--warm``, the process executes a sweep of 100 runs first, as in a session that is used again: the executors' JVMs
have then loaded their classes, and their Python workers their modules.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from compare import cpu_of, peak_of, processes
from nodes import ginger
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from rounds import START, experiment as sweep
from support.cluster import standalone

from pipelines.contract.forms import AskedForm
from pipelines.engines.jars import engine_jars
from pipelines.engines.session import open_session
from pipelines.engines.settings import read_settings, shipped_settings
from pipelines.experiment.build import build_inputs
from pipelines.experiment.jobs import runs_per_batch
from pipelines.files import find_file
from pipelines.rounds.execute import Experiment, execute
from pipelines.rounds.progress import Progress
from pipelines.store.store import Store
from pipelines.testing import run_configs

EXECUTOR_MB = 3072
"""The memory of an executor in MB."""
DRIVER_MB = 1024
"""The memory of the driver's JVM in MB."""


class LimitReachedError(Exception):
    """A measurement has exceeded its time limit, or has executed its last round."""


def overlay(n_nodes: int, form: AskedForm) -> Experiment:
    """Returns an experiment of one run: every subscription is sent to all brokers, ten publications to some brokers."""
    parts: dict[str, Any] = {
        "name": "overlay",
        "protocol": {"name": "delta", "delta": 1},
        "overlay": {"generate": {"kind": "random_tree", "nodes": n_nodes, "max_degree": 4}},
        "workload": {
            "subscriptions": {"generate": {"kind": "topics", "topics": 1, "nodes": 5}},
            "publications": {
                "generate": {"kind": "topics", "topics": 1, "nodes": 2, "rate": 0.5, "rounds": [100, 110]}
            },
        },
        "time": {"rounds": 2000},
    }
    runs = run_configs([parts])
    return Experiment(runs, build_inputs(runs, None), commit_every=None, form=form)


def bank(n_runs: int) -> Experiment:
    """Returns an experiment of ``n_runs`` bank runs of ginger, a protocol with a node program."""
    runs = run_configs([ginger(20, 300)] * n_runs)
    return Experiment(runs, build_inputs(runs, None), commit_every=None)


@contextmanager
def cluster(n_executors: int) -> Iterator[SparkSession]:
    """Starts a cluster of executors with one core each; stops it at the end of the ``with`` block."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    jars = os.pathsep.join(map(str, engine_jars(print)))
    of_cluster = read_settings(find_file("conf/spark/cluster.conf", None))
    del of_cluster["spark.jars.packages"]
    settings = {
        **shipped_settings(), **of_cluster, "spark.driver.extraClassPath": jars, "spark.executor.extraClassPath": jars,
        "spark.driver.memory": f"{DRIVER_MB}m", "spark.executor.memory": f"{EXECUTOR_MB}m",
        "spark.ui.retainedStages": "100000",
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder, standalone(Path(folder), n_executors, EXECUTOR_MB) as (url, _):
        builder = SparkSession.builder.master(url).appName("scale")
        for key, value in settings.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        yield spark
        spark.stop()


def exchanged(spark: SparkSession) -> tuple[int, int]:
    """Returns the number of rows, and of bytes, that executors wrote for exchanges."""
    context: Any = spark.sparkContext
    store, none = context._jsc.sc().statusStore(), context._gateway.new_array(context._jvm.double, 0)
    no_list = context._jvm.java.util.ArrayList()
    stages = store.stageList(no_list, False, False, none, no_list)
    of = [stages.apply(place) for place in range(stages.size())]
    return sum(one.shuffleWriteRecords() for one in of), sum(one.shuffleWriteBytes() for one in of)


def usage(root: int) -> tuple[dict[str, float], dict[str, float]]:
    """Returns CPU seconds and peak memory in MiB, by role, of a process and its descendants.

    CPU seconds are summed over the processes of a role; the peak is that of the largest process.
    """
    cpu, peak = ({"program": 0.0, "driver": 0.0, "executors": 0.0} for _ in range(2))
    for process in processes(root):
        line = (process / "cmdline").read_bytes()
        if any(name in line for name in (b"deploy.master.Master", b"deploy.worker.Worker")):
            continue
        is_executor = any(name in line for name in (b"CoarseGrainedExecutorBackend", b"pyspark.daemon", b"loky"))
        role = "executors" if is_executor else "driver" if b"java" in line else "program"
        cpu[role] += cpu_of(process)
        peak[role] = max(peak[role], peak_of(process) / 1024)
    return cpu, peak


def measured(
    n_executors: int, what: Experiment, limit: float, until: int, before: Experiment | None = None
) -> dict[str, Any]:
    """Measures an experiment up to ``limit`` seconds or round ``until``; executes experiment ``before`` first."""
    n_messages, round_ = 0, -1

    def observe(progress: Progress) -> None:
        nonlocal n_messages, round_
        n_messages, round_ = n_messages + progress.n_handled, progress.round
        if round_ >= until or time.perf_counter() > start + limit:
            raise LimitReachedError

    with ExitStack() as closing:
        spark = closing.enter_context(cluster(n_executors)) if n_executors else None
        session = closing.enter_context(open_session(spark=spark) if spark else open_session("local"))
        folder = closing.enter_context(tempfile.TemporaryDirectory())
        if before:
            execute(before, session, Store(Path(folder, "before"), session), lambda _: None)
        earlier, _ = usage(os.getpid())
        start, is_whole = time.perf_counter(), True
        try:
            forms = [form for form, _ in what.forms.values()]
            batches = replace(what, batch_runs=runs_per_batch(what.inputs.n_runs, what.inputs.n_state_rows, forms))
            execute(batches, session, Store(Path(folder, "measured"), session), observe)
        except LimitReachedError:
            is_whole = False
        seconds = time.perf_counter() - start
        after, peak = usage(os.getpid())
        exchanges = exchanged(spark) if spark else (0, 0)
    cpu = {role: after[role] - earlier[role] for role in after}
    return {
        "seconds": seconds, "round": round_, "is_whole": is_whole, "messages": n_messages, "rows": exchanges[0],
        "bytes": exchanges[1], "cpu": cpu, "share": cpu["executors"] / sum(cpu.values()), "peak": peak,
    }  # fmt: skip


def made(what: str, n_runs: int, given: argparse.Namespace) -> Experiment:
    """Returns the experiment that ``--what`` names; a sweep has ``n_runs`` runs."""
    if what == "sweep":
        return replace(sweep(n_runs, given.brokers, 1.0, START + given.rounds), commit_every=None)
    if what == "bank":
        return bank(n_runs)
    return overlay(given.nodes, "dataflow" if what == "overlay" else "program")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", action="append", choices=["sweep", "bank", "overlay", "program"])
    parser.add_argument("--executors", type=int, action="append")
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--brokers", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=15, help="number of rounds in which the sweep has publications")
    parser.add_argument("--nodes", type=int, default=20_000)
    parser.add_argument("--limit", type=float, default=3600.0)
    parser.add_argument("--until", type=int, default=2000, help="the last round to execute")
    parser.add_argument("--warm", action="store_true", help="execute a sweep of 100 runs before each measurement")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        what, n_executors = given.one
        before = made("sweep", 100, given) if given.warm else None
        print(json.dumps(measured(int(n_executors), made(what, given.runs, given), given.limit, given.until, before)))
        return
    names = {
        "sweep": f"delta, {given.runs:,} x {given.brokers}", "bank": f"ginger, {given.runs:,} x 20",
        "overlay": f"delta, 1 x {given.nodes:,}, dataflow", "program": f"delta, 1 x {given.nodes:,}, program",
    }  # fmt: skip
    columns = ("seconds", "round", "messages", "msg/s", "M rows", "MiB", "CPU s", "share", "peak MiB")
    table = Table("what", "executors", *columns)
    for what in given.what or ["sweep"]:
        for n_executors in given.executors or [1, 2]:
            table.add_row(names[what], f"{n_executors or 'local'}", *cells(what, n_executors))
    Console(width=160).print(table)


def cells(what: str, n_executors: int) -> list[str]:
    """Measures in a separate process, and returns the cells of the table row."""
    command = [sys.executable, __file__, *sys.argv[1:], "--one", what, str(n_executors)]
    told = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    print(what, n_executors, found, file=sys.stderr, flush=True)
    cpu, peak = (" / ".join(f"{one:,.0f}" for one in found[name].values()) for name in ("cpu", "peak"))
    rate = found["messages"] / found["seconds"]
    return [
        f"{found['seconds']:.1f}", f"{found['round']:,}{'' if found['is_whole'] else '+'}", f"{found['messages']:,}",
        f"{rate:,.0f}", f"{found['rows'] / 1e6:.1f}", f"{found['bytes'] / 2**20:,.0f}", cpu, f"{found['share']:.2f}",
        peak,
    ]  # fmt: skip


if __name__ == "__main__":
    main()
