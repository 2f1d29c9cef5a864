"""Random crash schedules within δ as the dataflow and as the sequential program run them, and what the audits say.

    python tests/perf/schedules.py [--first 1000] [--schedules 250] [--batches 4] [--engine local]

Each batch is one job of so many schedules, every schedule with both duplicate detectors, in a process of its own.
Columns: runs; crashes; joins; publications delivered; rounds and seconds of the job; runs that went beyond the bound;
violations that are not excused; runs that are not decided, but for those in which nobody is owed anything; runs in
which a delivery that is guaranteed was made by one program only; peak memory in MiB. The other table tells how often
what failures cause has happened. A line for each batch comes as soon as it is over; the exit code is 1 if anything was
wrong.
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
    """Plays short schedules from a seed on, with both duplicate detectors."""
    seeds = itertools.islice(short_schedules(first), count)
    played_once = (random_run(seed, "identifier") for seed in seeds)
    return [one for first_one in played_once for one in (first_one, play(first_one.schedule, "visited"))]


def n_disagreeing(played_by: list[Network], store: Store, reader: StoreReader) -> int:
    """Counts the runs in which a guaranteed delivery is missing, or a publication comes twice or late."""
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
    """Runs schedules from a seed on as one job; returns its row, and how often what failures cause has happened."""
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
        # A process gives back what an engine keeps of a job.
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
