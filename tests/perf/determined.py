"""Checks that rows are deterministic: compares runs with three concurrent crashes, executed in several ways.

    python tests/perf/determined.py [--schedules 20] [--replicas 24] [--protocols delta,ginger] [--few 2] [--no-spark]

For each protocol, one job on engine `local` executes ``--replicas`` copies of each schedule. Then other processes
execute the schedules again. On `local`, they execute all schedules in one job, with the default number of partitions,
and with 1, 2 and 7 partitions; they also interrupt and resume this job; and they execute each of the first ``--few``
schedules in a separate job. On classic Spark, they execute the first ``--few`` schedules with 1, 2 and 7 partitions in
alternating rounds. A row of the table is a way of execution: the number of runs; the number of runs with a table that
differs from the table of the first replica; the names of these tables; seconds. The exit code is 1 if a table differs.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table
from support.replicas import PROTOCOLS, Tables, broken_off, by_run, differing, eventful, parted

from pipelines.engines.session import Session, open_session
from pipelines.experiment.build import build_inputs
from pipelines.rounds.execute import Experiment, execute
from pipelines.rounds.progress import Progress
from pipelines.store.store import Store
from pipelines.testing import run_all, run_configs

_PARTITIONS = (1, 2, 7)
_SPARK = "spark, partitions by turns"
_RESUMED = "resumed"
_ALONE = "alone"


def replicas(protocol: str, n_schedules: int, n_replicas: int) -> tuple[dict[int, Tables], dict[int, list[str]]]:
    """Plays the replicas of all schedules in one job.

    Returns the tables of the first replica of each schedule, and, for each replica that differs from the first replica
    of its schedule, the names of the tables that differ.
    """
    schedules = [eventful(protocol, seed) for seed in range(n_schedules)]
    runs = run_configs([one for one in schedules for _ in range(n_replicas)], seeds=[0] * n_schedules * n_replicas)
    with open_session("local") as session, tempfile.TemporaryDirectory() as folder:
        found = by_run(run_all(runs, session, Path(folder)))
    apart: dict[int, list[str]] = {}
    for place in range(n_schedules):
        apart |= parted(found, place * n_replicas, n_replicas)
    return {place: found[place * n_replicas] for place in range(n_schedules)}, apart


def played(protocol: str, n_schedules: int, way: str) -> dict[int, Tables]:
    """Plays each of the first ``n_schedules`` schedules once, in the way of execution ``way``; returns their tables."""
    if way.endswith("partitions"):
        os.environ["SAIL_EXECUTION__DEFAULT_PARALLELISM"] = way.split()[0]
    runs = run_configs([eventful(protocol, seed) for seed in range(n_schedules)], seeds=[0] * n_schedules)
    with open_session("spark" if way == _SPARK else "local") as session, tempfile.TemporaryDirectory() as folder:
        if way == _ALONE:
            return {run.run_id: by_run(run_all([run], session, Path(folder)))[run.run_id] for run in runs}
        if way == _RESUMED:
            store = broken_off(runs, session, Path(folder), after=25)
        elif way == _SPARK:
            store = Store(Path(folder), session)
            execute(Experiment(runs, build_inputs(runs, None), 50), session, store, _by_turns(session))
        else:
            store = run_all(runs, session, Path(folder))
        return by_run(store)


def _by_turns(session: Session) -> Callable[[Progress], None]:
    def next_partitions(progress: Progress) -> None:
        session.spark.conf.set("spark.sql.shuffle.partitions", _PARTITIONS[progress.round % len(_PARTITIONS)])

    return next_partitions


def main() -> int:
    """Prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schedules", type=int, default=20)
    parser.add_argument("--replicas", type=int, default=24)
    parser.add_argument("--protocols", default=",".join(PROTOCOLS))
    parser.add_argument(
        "--few", type=int, default=2, help="number of schedules that are played in separate jobs, and on Spark"
    )
    parser.add_argument("--no-spark", action="store_true")
    given = parser.parse_args()
    table, n_apart = Table("protocol", "way", "runs", "differ", "tables", "seconds"), 0

    def row(protocol: str, way: str, n_runs: int, apart: dict[int, list[str]], start: float) -> None:
        names = sorted({name for of_run in apart.values() for name in of_run})
        cells = (protocol, way, str(n_runs), str(len(apart)), ", ".join(names), f"{time.perf_counter() - start:.0f}")
        print(*cells, sep="\t", file=sys.stderr, flush=True)
        table.add_row(*cells)

    for protocol in given.protocols.split(","):
        ways = ["again", *(f"{n} partitions" for n in _PARTITIONS), _RESUMED, _ALONE]
        ways += [] if given.no_spark else [_SPARK]
        start = time.perf_counter()
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            first, apart = process.submit(replicas, protocol, given.schedules, given.replicas).result()
        row(protocol, "replicas in a job", given.schedules * given.replicas, apart, start)
        n_apart += len(apart)
        for way in ways:
            start, count = time.perf_counter(), given.few if way in (_ALONE, _SPARK) else given.schedules
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                found = process.submit(played, protocol, count, way).result()
            apart = {run: names for run in range(count) if (names := list(differing(first[run], found[run])))}
            row(protocol, way, count, apart, start)
            n_apart += len(apart)
    Console(width=140).print(table)
    return 1 if n_apart else 0


if __name__ == "__main__":
    sys.exit(main())
