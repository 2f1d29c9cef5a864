"""Plays random schedules of protocol `repository` without an engine, and checks them with a checker and a judge.

    python tests/perf/repository_schedules.py [--first 0] [--schedules 2000] [--batch 200] [--owned | --aimed]

With ``--owned``, the owner of all topics temporarily deregisters clients. With ``--aimed``, losses and crashes target
messages and calls. The judge in tests/oracles/repository, which does not read the states of nodes, checks each run.
Without ``--aimed``, the checker in tests/support/repository, which reads the states of nodes, also checks each run. A
row of the table is a batch: schedules, crashes, deliveries, messages on links, violations, seconds. Seeds with
violations are printed to stderr, with the violations. The exit code is 1 if there is a violation.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from oracles.repository.judge import judged
from rich.console import Console
from rich.table import Table
from support.repository.aimed import aimed, history, observed
from support.repository.checker import Checker
from support.repository.schedules import Schedule, drawn, owned


def batch(seeds: range, schedule_of: Callable[[int], Schedule]) -> list[int]:
    """Plays and checks schedules; returns the numbers of crashes, deliveries, messages and violations."""
    counts = [0, 0, 0, 0]
    for seed in seeds:
        schedule = schedule_of(seed)
        if schedule_of is aimed:
            seen, network = history(schedule)
            broken = judged(seen)
        else:
            checker = Checker(schedule)
            broken, network = checker.run(), checker.network
            if not broken:
                broken = judged(observed(schedule, network))
        rows = network.rows
        for place, n in enumerate((len(schedule.crashes), len(rows.delivered), len(rows.handled), len(broken))):
            counts[place] += n
        for what in broken[:5]:
            print(f"seed {seed}: {what}", file=sys.stderr, flush=True)
    return counts


def main() -> int:
    """Plays all batches and prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--schedules", type=int, default=2000)
    parser.add_argument("--batch", type=int, default=200)
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--owned", action="store_const", dest="schedule_of", const=owned, default=drawn)
    kinds.add_argument("--aimed", action="store_const", dest="schedule_of", const=aimed)
    given = parser.parse_args()
    table, n_broken = Table("from", "schedules", "crashes", "deliveries", "messages", "violations", "seconds"), 0
    end = given.first + given.schedules
    for first in range(given.first, end, given.batch):
        start = time.perf_counter()
        seeds = range(first, min(first + given.batch, end))
        counts = batch(seeds, given.schedule_of)
        n_broken += counts[-1]
        table.add_row(*(str(n) for n in (first, len(seeds), *counts)), f"{time.perf_counter() - start:.0f}")
    Console().print(table)
    return int(n_broken > 0)


if __name__ == "__main__":
    sys.exit(main())
