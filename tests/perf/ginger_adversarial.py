"""Lets brokers of ginger fail in the critical rounds of repairs and elections, and checks deliveries and total order.

    python tests/perf/ginger_adversarial.py [--first 0] [--runs 1000] [--batch 250] [--each 12] [--blows 2]

A base is a random scenario with one failure: a small tree with random latencies (all 1, up to 2, or up to 9), detection
delays below and above the latencies, timers at or near the shortest allowed values, and small or large buffers and
degrees. `support.ginger` plays the base without an engine, and records the messages that repair the tree. Each of the
``--each`` schedules of a base adds a failure or a join of a node that one of these messages concerns, in the due round
of the message or in the next round. With ``--blows 3``, every second base has two failures. Schedules beyond the bound
are counted but not played on an engine, because the bound can be computed from the schedule. A batch is one job; a line
is printed at its end.

A row of the table is a message type, and the affected node and event. Columns: runs within the bound; schedules beyond
the bound; runs with a broken guarantee; undecided runs. Each violation is printed; if there is one, the exit code is 1.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from ginger_runs import judged
from rich.console import Console
from rich.table import Table
from support.ginger.adversary import TREES, Strike, base, chosen
from support.ginger.nodes import played

from pipelines.engines.session import Session, open_session

Row = tuple[str, str]


class Measured:
    """The numbers of all batches, by column and row of the table."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[Row]] = {
            name: Counter() for name in ("runs", "beyond bound", "violated", "undecided")
        }
        self.seconds = 0.0

    def add(self, session: Session, strikes: Sequence[Strike], which: str) -> None:
        """Plays and audits the schedules as one job, and prints the violations."""
        with judged(session, [strike.case for strike in strikes], which) as (_, report, seconds):
            self.seconds += seconds
            for strike, run in zip(strikes, report.runs, strict=True):
                row = strike.kind, strike.whom
                self.counts["runs"][row] += 1
                self.counts["violated"][row] += run.verdict == "invalid" or not run.within_bound
                self.counts["undecided"][row] += run.verdict == "unknown"
                if run.verdict != "valid" or not run.within_bound:
                    case = strike.case
                    blows = f"crashes {case.crashes}, back {case.until}, joins {case.joins}"
                    print(
                        f"run {run.run_id}, {run.verdict}, {run.within_bound=}: {strike.kind}, {strike.whom}: {blows}"
                    )

    def total(self, column: str) -> int:
        """Returns the sum of a column."""
        return self.counts[column].total()

    def table(self) -> Table:
        """Returns the table with a row for each message type and affected node, and a last row with the sums."""
        table = Table("what was due", "who was struck", *self.counts)
        for row in sorted(self.counts["runs"] | self.counts["beyond bound"]):
            table.add_row(*row, *(f"{of[row]:,}" for of in self.counts.values()))
        table.add_section()
        table.add_row("all", f"{self.seconds:.0f} s", *(f"{of.total():,}" for of in self.counts.values()))
        return table


def drawn(first: int, each: int, blows: int, measured: Measured) -> Iterator[Strike]:
    """Yields random schedules within the bound, for the seeds from ``first``; counts the schedules beyond the bound."""
    for seed, tree in ((seed, tree) for seed in itertools.count(first) for tree in TREES):
        case = base(tree, seed)
        struck = chosen(case, seed, 50) if blows > 2 and (seed + len(tree)) % 2 else []
        if struck:
            case = random.Random(seed).choice(struck).case
        for strike in chosen(case, seed, each):
            if played(strike.case).beyond:
                measured.counts["beyond bound"][strike.kind, strike.whom] += 1
            else:
                yield strike


def main() -> int:
    """Prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="local", choices=["local", "spark"])
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--runs", type=int, default=1000, help="runs within the bound")
    parser.add_argument("--batch", type=int, default=250, help="runs in a job")
    parser.add_argument("--each", type=int, default=12, help="schedules of a base")
    parser.add_argument("--blows", type=int, default=2, choices=[2, 3], help="maximum failures in a run")
    given = parser.parse_args()
    measured = Measured()
    strikes = drawn(given.first, given.each, given.blows, measured)
    with open_session(given.engine) as session:
        session.activate()
        for done in range(0, given.runs, given.batch):
            batch = list(itertools.islice(strikes, min(given.batch, given.runs - done)))
            measured.add(session, batch, f"batch from run {done} on")
            told = ", ".join(f"{measured.total(name):,} {name}" for name in measured.counts)
            print(f"{told}, {measured.seconds:.0f} s", flush=True)
    Console(width=110).print(measured.table())
    return 1 if measured.total("violated") or measured.total("undecided") else 0


if __name__ == "__main__":
    sys.exit(main())
