"""Measures the convergence of the skip ring from arbitrary states, beside the figures of the paper's prototype.

    python tests/perf/skipring_starts.py [--starts 200] [--first 0] [--nodes 4 8 16 32 40] [--crashes] [--workers 2]
    python tests/perf/skipring_starts.py --parts [database messages ...] [--starts 1430]

A start is a run of `LocalNetwork` with one or two supervisors, some subscribers, and two nodes that have not
subscribed; `udfs.skipring.start` chooses its arbitrary initial state at random. A row of the table is a number of
subscribers and a maximum message delay (one or two intervals). With ``--parts``, a row is a part of the state that is
arbitrary, and the last row is all parts; the starts have 2 to 40 subscribers, and alternate between the two delays.
Columns: starts; starts that converged within the horizon; starts that left a legitimate state again; starts whose tries
became equal; intervals until the state and the messages in flight were legitimate (median, 95th percentile, maximum),
and the prototype's figures; intervals until all tries were equal; CPU seconds. With ``--crashes``, up to half of the
subscribers crash in the first intervals, and intervals count from the last crash. The exit code is 1 if a start did not
converge or left a legitimate state.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table
from support.skipring import INTERVAL, Outcome, arbitrary_run

from udfs.skipring.start import ARBITRARY, CORRUPTIONS

PROTOTYPE = {4: "6/13/17", 8: "8/20/33", 16: "16/31/51", 32: "33/64/94", 64: "64/103/125"}
PARTS = (*CORRUPTIONS, ARBITRARY)
DELAYS = (1, 2)
LARGEST = 40
_COLUMNS = ("converged", "broken", "same tries", "median/p95/max", "prototype", "tries median/p95/max", "core s")


class Begin(NamedTuple):
    """A start: number of subscribers, seed, arbitrary part, maximum delay in intervals, and whether nodes crash."""

    n: int
    seed: int
    part: str
    delay: int
    has_crashes: bool


class Row(NamedTuple):
    """A row of the table: its first cells, the prototype's figures, and the starts."""

    head: tuple[str, ...]
    prototype: str
    starts: Sequence[Begin]


def by_nodes(given: argparse.Namespace) -> Iterator[Row]:
    """Yields a row for each number of subscribers and maximum delay."""
    seeds = range(given.first, given.first + given.starts)
    for n in given.nodes:
        for delay in DELAYS:
            starts = [Begin(n, seed, ARBITRARY, delay, given.crashes) for seed in seeds]
            yield Row((str(n), str(delay)), PROTOTYPE.get(n, ""), starts)


def by_parts(given: argparse.Namespace) -> Iterator[Row]:
    """Yields a row for each part in ``--parts``; without values, for each part and for all parts together."""
    for part in given.parts or PARTS:
        starts = []
        for seed in range(given.first, given.first + given.starts):
            n = Random(f"{part} {seed}").randint(2, LARGEST)
            starts.append(Begin(n, seed, part, DELAYS[seed % len(DELAYS)], given.crashes))
        yield Row((part,), "", starts)


def played(begin: Begin) -> tuple[Outcome, float]:
    """Plays a start; returns the outcome and the CPU seconds."""
    began = time.process_time()
    n, seed, part, delay, has_crashes = begin
    found = arbitrary_run(n, seed, part, delay_intervals=delay, has_crashes=has_crashes)
    return found, time.process_time() - began


def spread(rounds: Sequence[int]) -> str:
    """Returns median, 95th percentile and maximum of times, in intervals."""
    ordered = sorted(rounds)
    if not ordered:
        return "-"
    places = (len(ordered) // 2, min(len(ordered) - 1, len(ordered) * 95 // 100), -1)
    return "/".join(f"{ordered[place] / INTERVAL:.0f}" for place in places)


def cells(row: Row, outcomes: Sequence[Outcome], seconds: float) -> list[str]:
    """Returns the cells of a table row."""
    clean = [one.clean_rounds for one in outcomes if one.clean_rounds is not None]
    tries = [one.tries_rounds for one in outcomes if one.tries_rounds is not None]
    broken = sum(one.is_broken for one in outcomes)
    numbers = [len(outcomes), len(clean), broken, len(tries)]
    return [*row.head, *map(str, numbers), spread(clean), row.prototype, spread(tries), f"{seconds:.0f}"]


def main() -> int:
    """Plays the starts and prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=200, help="number of starts of each row")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--nodes", type=int, nargs="+", default=[4, 8, 16, 32, 40], help="numbers of subscribers")
    parser.add_argument("--parts", nargs="*", choices=PARTS, help="a row for each arbitrary part; values select parts")
    parser.add_argument("--crashes", action="store_true", help="let up to half of the subscribers crash")
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="number of processes")
    given = parser.parse_args()
    rows = by_nodes(given) if given.parts is None else by_parts(given)
    head = ("n", "delay") if given.parts is None else ("part",)
    table, is_wrong = Table(*head, "starts", *_COLUMNS), False
    with ProcessPoolExecutor(given.workers) as pool:
        for row in rows:
            found = list(pool.map(played, row.starts, chunksize=8))
            outcomes = [outcome for outcome, _ in found]
            wrong = [f"{start}: {one}" for start, one in zip(row.starts, outcomes, strict=True) if not one.is_right]
            is_wrong |= bool(wrong)
            line = cells(row, outcomes, sum(seconds for _, seconds in found))
            table.add_row(*line)
            print("  ".join(line), *wrong, sep="\n", file=sys.stderr, flush=True)
    Console(width=140).print(table)
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
