"""Plays random crash schedules within δ on an engine and with the sequential program, and audits the runs.

    python tests/perf/schedules.py [--first 1000] [--schedules 250] [--batches 4] [--engine local]

Each batch is one job of ``--schedules`` schedules, in a separate process; each schedule is played with both duplicate
detectors. Columns: runs; crashes; joins; deliveries; rounds and seconds of the job; runs beyond the bound; violations
that are not excused; undecided runs, except runs in which no delivery is due; runs in which a guaranteed delivery is
missing on the engine or in the sequential program; peak memory in MiB. The second table counts the events that failures
cause. A line is printed at the end of each batch. The exit code is 1 if there is a violation, an undecided run or a
disagreement.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from oracles.delta.generator import random_run
from oracles.delta.network import Network, play
from rich.console import Console
from rich.table import Table
from support.delta.schedules import (
    RARELY,
    SOMETIMES,
    Places,
    as_runs,
    awaited,
    delivered,
    expected,
    played,
    short_schedules,
)

from pipelines.audits.run import audit_store
from pipelines.engines.session import open_session
from pipelines.protocols import protocol_named
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import run_all

_COLUMNS = (
    "runs", "crashes", "joins", "delivered", "rounds", "seconds", "beyond bound", "violations", "undecided",
    "disagree", "peak MiB",
)  # fmt: skip
_WRONG = ("violations", "undecided", "disagree")


def networks(first: int, count: int) -> list[Network]:
    """Plays ``count`` short schedules with the sequential program, each with both duplicate detectors."""
    seeds = itertools.islice(short_schedules(first), count)
    played_once = (random_run(seed, "identifier") for seed in seeds)
    return [one for first_one in played_once for one in (first_one, play(first_one.schedule, "visited"))]


def n_disagreeing(played_by: list[Network], store: Store, reader: StoreReader) -> int:
    """Counts the runs in which a guaranteed delivery is missing in one program, or the engine breaks source order."""
    places = Places(store)
    found, due = delivered(store, places), awaited(reader, places)
    wrong = 0
    for run, network in enumerate(played_by):
        must = expected(network) & due[run]
        here = {(s, p, k) for (s, p), all_ in found[run].items() for k in all_}
        there = {(s, p, k) for (s, p), all_ in played(network).items() for k in all_}
        in_order = all(all_ == sorted(set(all_)) for all_ in found[run].values())
        wrong += not (must <= there and must <= here and in_order)
    return wrong


def measure(engine: str, first: int, count: int) -> tuple[dict[str, int], dict[str, int]]:
    """Plays schedules from seed ``first`` as one job; returns the table row, and the counts of caused events."""
    played_by = networks(first, count)
    with open_session(engine) as session, tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        store = run_all(as_runs(played_by), session, Path(folder))
        seconds = time.perf_counter() - start
        reader = StoreReader(session, store.root)
        report = audit_store(reader, session, protocol_named("delta"))
        for finding in report.findings:
            if finding.n_violations:
                print(f"from {first}:", finding.name, finding.n_violations, finding.shown[:3], file=sys.stderr)
        cells = [
            len(played_by), sum(len(one.schedule.crashes) for one in played_by),
            sum(call.kind == "join" for one in played_by for call in one.schedule.calls),
            reader.sql("select count(1) from delivery").collect()[0][0],
            reader.sql("select count(distinct round) from round_metric").collect()[0][0],
            round(seconds), sum(not run.within_bound for run in report.runs),
            sum(finding.n_violations or 0 for finding in report.findings),
            sum(run.verdict == "unknown" and bool(expected(played_by[run.run_id])) for run in report.runs),
            n_disagreeing(played_by, store, reader),
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        ]  # fmt: skip
        happened = {what: reader.sql(text).collect()[0][0] for what, text in (SOMETIMES | RARELY).items()}
    return dict(zip(_COLUMNS, cells, strict=True)), happened


def main() -> int:
    """Prints the tables; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="local", choices=["local", "spark"])
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--schedules", type=int, default=250)
    parser.add_argument("--batches", type=int, default=4)
    given = parser.parse_args()
    batches, happened = Table("from", *_COLUMNS), Counter[str]()
    n_wrong = 0
    for batch in range(given.batches):
        first = given.first + batch * 10 * given.schedules
        # The end of the process frees the memory that an engine keeps after a job.
        with ProcessPoolExecutor(1, get_context("spawn")) as process:
            row, found = process.submit(measure, given.engine, first, given.schedules).result()
        happened.update(found)
        n_wrong += sum(row[what] for what in _WRONG)
        batches.add_row(str(first), *(f"{cell:,}" for cell in row.values()))
        print(f"from {first}: {row} {found}", file=sys.stderr, flush=True)
    events = Table("what happened", "times")
    for what, count in happened.items():
        events.add_row(what, f"{count:,}")
    console = Console(width=140)
    console.print(batches)
    console.print(events)
    return 1 if n_wrong or not all(happened.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
