"""Random crash schedules within δ as the dataflow and as the sequential program run them, and what the audits say.

    python tests/perf/schedules.py [--first 1000] [--schedules 250] [--batches 4] [--engine sail]

Each batch is one job of so many schedules, every schedule with both duplicate detectors. Columns: runs; crashes; joins;
publications delivered; rounds and seconds of the job; runs that went beyond the bound; violations that are not excused;
runs that are not decided; runs in which a delivery that is guaranteed was made by one program only; peak memory in MiB.
The last lines tell how often what failures cause has happened.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table
from schedules import SOMETIMES, Places, as_runs, awaited, delivered, expected, played, short_schedules
from sequential.generator import random_run
from sequential.network import Network, play
from support import run_all

from pipelines.audits.run import audit_store
from pipelines.execute import protocol_module
from pipelines.query import StoreReader
from pipelines.session import Session, open_session
from pipelines.store import Store

_COLUMNS = (
    "runs", "crashes", "joins", "delivered", "rounds", "seconds", "beyond bound", "violations", "undecided",
    "disagree", "peak MiB",
)  # fmt: skip


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


def measure(session: Session, played_by: list[Network], happened: Counter[str]) -> list[str]:
    """Runs a batch as one job; gives its cells."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        store = run_all(as_runs(played_by), session, Path(folder))
        seconds = time.perf_counter() - start
        reader = StoreReader(session, store.root)
        report = audit_store(reader, session, protocol_module("delta"))
        for what, text in SOMETIMES.items():
            happened[what] += reader.sql(text).collect()[0][0]
        for finding in report.findings:
            if finding.n_violations:
                print(finding.name, finding.n_violations, finding.shown[:3], file=sys.stderr)
        n_delivered = sum(len(all_) for run in delivered(store, Places(store)).values() for all_ in run.values())
        rounds = reader.sql("select count(distinct round) from round_metric").collect()[0][0]
        cells = [
            len(played_by), sum(len(one.schedule.crashes) for one in played_by),
            sum(call.kind == "join" for one in played_by for call in one.schedule.calls), n_delivered, rounds,
            round(seconds), sum(not run.within_bound for run in report.runs),
            sum(finding.n_violations or 0 for finding in report.findings),
            sum(run.verdict == "unknown" for run in report.runs), n_disagreeing(played_by, store, reader),
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        ]  # fmt: skip
    return [f"{cell:,}" for cell in cells]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="sail", choices=["sail", "spark"])
    parser.add_argument("--first", type=int, default=1000)
    parser.add_argument("--schedules", type=int, default=250)
    parser.add_argument("--batches", type=int, default=4)
    given = parser.parse_args()
    table, happened = Table(*_COLUMNS), Counter[str]()
    first = given.first
    with open_session(given.engine) as session:
        session.activate()
        for _ in range(given.batches):
            batch = networks(first, given.schedules)
            first += 10 * given.schedules
            row = measure(session, batch, happened)
            print(*row, file=sys.stderr)
            table.add_row(*row)
    console = Console(width=140)
    console.print(table)
    for what, count in happened.items():
        console.print(f"{what}: {count:,}")


if __name__ == "__main__":
    main()
