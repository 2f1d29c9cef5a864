"""Plays random runs of protocol ginger in which brokers, also the root, crash; checks deliveries and total order.

    python tests/perf/ginger_runs.py [--first 0] [--runs 1000] [--batch 1000] [--crashes 0 --crashes 2] [--engine local]

In half of the runs, all clients of a bank operate concurrently on two or three accounts; some withdrawals and transfers
exceed the balance. In the other half, messages have up to three key items on one or two topics. With ``--crashes N``,
each run has 1 to N crashes. Schedules beyond the bound are skipped. A batch is one job; a line is printed at its end.

A row of the table is a value of ``--crashes``. Columns: runs; skipped schedules; runs within the bound; nodes that
found a new parent; runs that elected a new root; deliveries; deliveries of publications in total order; bank operations
that replicas refused; undecided runs; violations by guarantee; rounds of the longest run; seconds. Each violation is
printed; if there is one, the exit code is 1.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table
from support.ginger.nodes import played
from support.ginger.setups import Crashing, bank_with_crashes, crashing, n_refused, stored

from pipelines.audits.run import AuditReport
from pipelines.engines.session import Session, open_session
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import audited

_COLUMNS = (
    "runs", "passed over", "within bound", "new parents", "elections", "deliveries", "in total order", "refused",
    "undecided",
)  # fmt: skip
COUNTS = """
select
  (select count(1) from message where kind = 'ParentResponse' and get_json_object(body, '$.answer') = 'accepted'
    and fate = 'delivered') as new_parents,
  (select count(distinct run_id) from message where kind = 'RootElection') as elections,
  (select count(1) from delivery) as deliveries,
  (select count(1) from delivery d join publication p
    on p.run_id = d.run_id and p.source = d.source and p.source_seq = d.source_seq
    where p.guarantee = 'total') as in_total_order
"""


@contextmanager
def judged(session: Session, cases: Sequence[Crashing], which: str) -> Iterator[tuple[Store, AuditReport, float]]:
    """Plays and audits cases as one job, and prints violations and failed audits; yields store, report and seconds."""
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        store = stored(cases, session, Path(folder))
        seconds = time.perf_counter() - start
        report = audited(store, "ginger")
        for finding in report.findings:
            if finding.error or finding.n_violations:
                for shown in finding.shown or (finding.error,):
                    print(f"{finding.name}: {shown}; {which}")
        yield store, report, seconds


class Measured:
    """The numbers of all batches.

    Attributes:
        counts: The number in each column.
        broken: Number of violations of each guarantee.
        rounds: Rounds of the longest run.
        seconds: Seconds of all jobs.
    """

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.broken: Counter[str] = Counter()
        self.rounds = 0
        self.seconds = 0.0

    def add(self, session: Session, cases: Sequence[tuple[int, Crashing]]) -> None:
        """Plays and audits ``cases`` as one job, and prints violations and failed audits."""
        with judged(session, [case for _, case in cases], f"seeds from {cases[0][0]} on") as (store, report, seconds):
            counted = StoreReader(session, store.root).sql(COUNTS).collect()[0].asDict()
            self.counts.update({name.replace("_", " "): n for name, n in counted.items()})
            self.counts["refused"] += n_refused(store)
            self.seconds += seconds
            self.counts["runs"] += len(cases)
            self.counts["within bound"] += sum(run.within_bound for run in report.runs)
            self.counts["undecided"] += sum(run.verdict == "unknown" for run in report.runs)
            self.rounds = max(self.rounds, *(run.rounds for run in report.runs))
            for finding in report.findings:
                if finding.error or finding.n_violations:
                    self.broken[finding.name] += finding.n_violations or 1

    def cells(self) -> list[str]:
        """Returns the cells of the table row."""
        violations = ", ".join(f"{count} {name}" for name, count in sorted(self.broken.items())) or "0"
        counts = [f"{self.counts[name]:,}" for name in _COLUMNS]
        return [*counts, violations, f"{self.rounds}", f"{self.seconds:.0f}"]


def drawn(first: int, n_crashes: int, measured: Measured) -> Iterator[tuple[int, Crashing]]:
    """Yields random runs within the bound with their seeds, from seed ``first``; every second run is a bank.

    Counts the runs beyond the bound in ``measured``.
    """
    for seed in itertools.count(first):
        count = 1 + seed // 2 % n_crashes if n_crashes else 0
        case = (crashing if seed % 2 else bank_with_crashes)(seed, count)
        if played(case).beyond:
            measured.counts["passed over"] += 1
        else:
            yield seed, case


def main() -> int:
    """Prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="local", choices=["local", "spark"])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=1000, help="runs in a row of the table")
    parser.add_argument("--batch", type=int, default=1000, help="runs in a job")
    parser.add_argument(
        "--crashes", type=int, action="append", help="maximum crashes in a run; may be repeated, each value is a row"
    )
    given = parser.parse_args()
    table, is_wrong = Table("crashes", *_COLUMNS, "violations", "rounds", "seconds"), False
    with open_session(given.engine) as session:
        session.activate()
        for n_crashes in given.crashes or [0, 2]:
            measured = Measured()
            cases = drawn(given.first, n_crashes, measured)
            for done in range(0, given.runs, given.batch):
                measured.add(session, list(itertools.islice(cases, min(given.batch, given.runs - done))))
                print(f"up to {n_crashes} crashes: {', '.join(measured.cells())}", flush=True)
            table.add_row(str(n_crashes), *measured.cells())
            is_wrong = is_wrong or bool(measured.broken) or measured.counts["undecided"] > 0
    Console(width=150).print(table)
    return 1 if is_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
