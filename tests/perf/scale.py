"""What more executors bring: a sweep of many runs and one large overlay on Spark clusters of one-core executors.

    python tests/perf/scale.py [--executors 1 --executors 2] [--runs 1000] [--brokers 20] [--overlay 20000] [--bank 400]

The clusters are Spark's ``local-cluster``: a driver and executors, each a process of its own, on this machine. The
sweep is that of `rounds.py`, partitioned by run; the overlay is one run of protocol delta with δ = 1 on a random tree,
five subscribers, partitioned by run and node; the bank is that of `nodes.py`, on 20 brokers for 300 rounds, several
rounds a job; 0 leaves any of them out. Columns: seconds; messages, and how many a second; millions of rows that
executors wrote for exchanges, and MiB; CPU seconds of the program, of the driver's JVM and of all executors; peak
memory of the same in MiB. Each measurement is a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from compare import cpu_of, peak_of, processes
from nodes import ginger
from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table
from rounds import START, experiment as sweep

from pipelines.engines.jars import engine_jars
from pipelines.engines.session import open_session
from pipelines.engines.settings import shipped_settings
from pipelines.experiment.build import build_inputs
from pipelines.rounds.execute import Experiment, execute
from pipelines.rounds.progress import Progress
from pipelines.store.store import Store
from pipelines.testing import run_configs

EXECUTOR_MB = 3072
"""Memory of an executor, and of the driver's JVM."""


def overlay(n_nodes: int) -> Experiment:
    """One run: every subscription goes to every broker, and ten publications to some."""
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
    return Experiment(runs, build_inputs(runs, None), commit_every=50)


def bank(n_runs: int) -> Experiment:
    """Runs of a node program."""
    runs = run_configs([ginger(20, 300)] * n_runs)
    return Experiment(runs, build_inputs(runs, None), commit_every=None)


def cluster(n_executors: int) -> SparkSession:
    """Starts a cluster of executors with one core each."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    jars = os.pathsep.join(map(str, engine_jars(print)))
    settings = {
        **shipped_settings(), "spark.driver.extraClassPath": jars, "spark.executor.extraClassPath": jars,
        "spark.driver.memory": f"{EXECUTOR_MB}m", "spark.executor.memory": f"{EXECUTOR_MB}m",
        "spark.sql.shuffle.partitions": str(2 * n_executors), "spark.default.parallelism": str(2 * n_executors),
        "spark.locality.wait": "0s", "spark.ui.retainedStages": "100000",
        "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[2]),
    }  # fmt: skip
    builder = SparkSession.builder.master(f"local-cluster[{n_executors},1,{EXECUTOR_MB}]").appName("scale")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def exchanged(spark: SparkSession) -> tuple[int, int]:
    """Returns how many rows, and bytes, executors wrote for exchanges."""
    context: Any = spark.sparkContext
    store, none = context._jsc.sc().statusStore(), context._gateway.new_array(context._jvm.double, 0)
    no_list = context._jvm.java.util.ArrayList()
    stages = store.stageList(no_list, False, False, none, no_list)
    of = [stages.apply(place) for place in range(stages.size())]
    return sum(one.shuffleWriteRecords() for one in of), sum(one.shuffleWriteBytes() for one in of)


def measured(n_executors: int, what: Experiment) -> dict[str, Any]:
    """Makes one measurement in this process."""
    spark, n_messages = cluster(n_executors), 0

    def observe(progress: Progress) -> None:
        nonlocal n_messages
        n_messages += progress.n_handled

    with tempfile.TemporaryDirectory() as folder, open_session(spark=spark) as session:
        start = time.perf_counter()
        execute(what, session, Store(Path(folder), session), observe)
        seconds = time.perf_counter() - start
    cpu, peak = {"program": 0.0, "driver": 0.0, "executors": 0.0}, {"program": 0.0, "driver": 0.0}
    for process in processes(os.getpid()):
        line = (process / "cmdline").read_bytes()
        is_executor = b"CoarseGrainedExecutorBackend" in line or b"pyspark.daemon" in line
        kind = "executors" if is_executor else "driver" if b"java" in line else "program"
        cpu[kind] += cpu_of(process)
        peak[kind] = max(peak.get(kind, 0.0), peak_of(process) / 1024)
    n_rows, n_bytes = exchanged(spark)
    spark.stop()
    return {"seconds": seconds, "messages": n_messages, "rows": n_rows, "bytes": n_bytes, "cpu": cpu, "peak": peak}


def made(what: str, given: argparse.Namespace) -> Experiment:
    """Returns what is to be measured."""
    if what == "sweep":
        return sweep(given.runs, given.brokers, 1.0, START + 15)
    return overlay(given.overlay) if what == "overlay" else bank(given.bank)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executors", type=int, action="append")
    parser.add_argument("--runs", type=int, default=1_000)
    parser.add_argument("--brokers", type=int, default=20)
    parser.add_argument("--overlay", type=int, default=20_000)
    parser.add_argument("--bank", type=int, default=400)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        what, n_executors = given.one
        print(json.dumps(measured(int(n_executors), made(what, given))))
        return
    shown = {
        "sweep": f"{given.runs:,} x {given.brokers}" if given.runs else None,
        "overlay": f"1 x {given.overlay:,}" if given.overlay else None,
        "bank": f"bank, {given.bank:,} x 20" if given.bank else None,
    }
    table = Table("what", "executors", "seconds", "messages", "msg/s", "M rows", "MiB", "CPU s", "peak MiB")
    for what, name in shown.items():
        for n_executors in (given.executors or [1, 2]) if name else []:
            table.add_row(name, f"{n_executors}", *cells(what, n_executors))
    Console(width=140).print(table)


def cells(what: str, n_executors: int) -> list[str]:
    """Makes one measurement in a process of its own."""
    command = [sys.executable, __file__, *sys.argv[1:], "--one", what, str(n_executors)]
    told = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    print(what, n_executors, found, file=sys.stderr, flush=True)
    cpu, peak = (" / ".join(f"{one:,.0f}" for one in found[name].values()) for name in ("cpu", "peak"))
    rate = found["messages"] / found["seconds"]
    return [
        f"{found['seconds']:.1f}", f"{found['messages']:,}", f"{rate:,.0f}", f"{found['rows'] / 1e6:.1f}",
        f"{found['bytes'] / 2**20:,.0f}", cpu, peak,
    ]  # fmt: skip


if __name__ == "__main__":
    main()
