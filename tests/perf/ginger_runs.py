"""Random runs of protocol ginger whose brokers crash, the root among them: does all drain, in one order?

    python tests/perf/ginger_runs.py [--first 0] [--runs 1000] [--crashes 0 --crashes 1 --crashes 2] [--engine sail]

Each row is one job of so many runs: half of them a bank on two or three accounts on which all clients operate at once
(withdrawals and transfers that cannot be paid included), half of them messages with up to three key items on one or two
topics. Columns: crashes a run; runs; those within the bound (nobody found that its view is empty); nodes that found a
new parent; roots that failed; deliveries; deliveries in total order; operations refused; violations within the bound,
and which guarantees; runs that are not decided; rounds and seconds of the job.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ginger_support import bank_with_crashes, crashing
from rich.console import Console
from rich.table import Table
from support import run_all, run_configs

from pipelines.audits.run import audit_store
from pipelines.execute import protocol_module
from pipelines.query import StoreReader
from pipelines.session import Session, open_session

_COLUMNS = (
    "crashes", "runs", "within bound", "new parents", "elections", "deliveries", "in total order", "violations",
    "undecided", "rounds", "seconds",
)  # fmt: skip
COUNTS = """
select
  (select count(1) from message where kind = 'ParentResponse' and body = 'true' and fate = 'delivered') as new_parents,
  (select count(distinct run_id) from message where kind = 'RootElection') as elections,
  (select count(1) from delivery) as deliveries,
  (select count(1) from delivery d join publication p
    on p.run_id = d.run_id and p.source = d.source and p.source_seq = d.source_seq
    where p.guarantee = 'total') as in_total_order
"""


def measure(session: Session, first: int, n_runs: int, n_crashes: int, console: Console) -> list[str]:
    """Runs and audits one job; gives the cells of its row, and prints what is wrong."""
    seeds = range(first, first + n_runs)
    banks = [bank_with_crashes(seed, n_crashes) for seed in seeds[::2]]
    cases = [*banks, *(crashing(seed, n_crashes) for seed in seeds[1::2])]
    configs = run_configs([case.scenario for case in cases])
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        store = run_all(configs, session, Path(folder))
        seconds = time.perf_counter() - start
        reader = StoreReader(session, store.root)
        report = audit_store(reader, session, protocol_module("ginger"))
        counts = reader.sql(COUNTS).collect()[0]
    broken: Counter[str] = Counter()
    for finding in report.findings:
        if finding.error or finding.n_violations:
            broken[finding.name] += finding.n_violations or 1
            for shown in finding.shown or (finding.error,):
                console.print(f"{finding.name}: {shown}")
    within = sum(run.within_bound for run in report.runs)
    undecided = sum(run.verdict == "unknown" and run.within_bound for run in report.runs)
    violations = ", ".join(f"{count} {name}" for name, count in sorted(broken.items())) or "0"
    report.release()
    rounds = max(run.rounds for run in report.runs)
    numbers = (n_crashes, len(configs), within, *counts)
    return [*(f"{n:,}" for n in numbers), violations, f"{undecided}", f"{rounds}", f"{seconds:.0f}"]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="sail", choices=["sail", "spark"])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=1000, help="runs of a job")
    parser.add_argument("--crashes", type=int, action="append", help="crashes a run, one job each")
    given = parser.parse_args()
    console = Console(width=150)
    table = Table(*_COLUMNS)
    with open_session(given.engine) as session:
        session.activate()
        for n_crashes in given.crashes or [0, 1, 2]:
            table.add_row(*measure(session, given.first, given.runs, n_crashes, console))
    console.print(table)


if __name__ == "__main__":
    main()
