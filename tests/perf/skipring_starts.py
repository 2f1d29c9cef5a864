"""The skip ring from arbitrary states: how many intervals until it is legitimate, beside the prototype's figures.

    python tests/perf/skipring_starts.py [--starts 200] [--first 0] [--nodes 4 8 16 32 40] [--start edges] [--crashes]

A start is a run of `LocalNetwork`: some subscribers, two nodes that have not subscribed, everything arbitrary by draws
from the seed, delays up to twice the interval in every other run. Columns: nodes; starts; those that converged within
the horizon; those that were not legitimate again later; those whose tries became the same; intervals until the state
and the messages in flight were legitimate (median, 95th percentile, most), and the prototype's; intervals until all had
the same publications; seconds. With ``--crashes`` up to half of the subscribers crash in the first intervals, and
intervals count from the last crash. The exit code is 1 if a start did not converge, or closure was broken.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table
from support.skipring import INTERVAL, Outcome, arbitrary_run

PROTOTYPE = {4: "6/13/17", 8: "8/20/33", 16: "16/31/51", 32: "33/64/94", 64: "64/103/125"}
_COLUMNS = (
    "n", "starts", "converged", "broken", "same tries", "median/p95/max", "prototype", "tries median/p95/max", "s",
)  # fmt: skip


def spread(rounds: Sequence[int]) -> str:
    """Returns median, 95th percentile and maximum of times, in intervals."""
    ordered = sorted(rounds)
    if not ordered:
        return "-"
    places = (len(ordered) // 2, min(len(ordered) - 1, len(ordered) * 95 // 100), -1)
    return "/".join(f"{ordered[place] / INTERVAL:.0f}" for place in places)


def cells(n: int, outcomes: Sequence[Outcome], seconds: float) -> list[str]:
    """Returns a line of the table."""
    clean = [one.clean_rounds for one in outcomes if one.clean_rounds is not None]
    tries = [one.tries_rounds for one in outcomes if one.tries_rounds is not None]
    broken = sum(one.is_broken for one in outcomes)
    numbers = [n, len(outcomes), len(clean), broken, len(tries)]
    return [*map(str, numbers), spread(clean), PROTOTYPE.get(n, ""), spread(tries), f"{seconds:.0f}"]


def main() -> int:
    """Plays the starts, and prints the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--starts", type=int, default=200, help="starts for each number of nodes")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--nodes", type=int, nargs="+", default=[4, 8, 16, 32, 40], help="numbers of subscribers")
    parser.add_argument("--crashes", action="store_true", help="have subscribers crash before the ring is there")
    parser.add_argument("--start", default="arbitrary", help="what is arbitrary: one part, or all")
    given = parser.parse_args()
    table, is_wrong = Table(*_COLUMNS), False
    for n in given.nodes:
        began, outcomes = time.monotonic(), []
        for seed in range(given.first, given.first + given.starts):
            outcomes.append(arbitrary_run(n, seed, given.start, has_crashes=given.crashes))
            if not outcomes[-1].is_right:
                sys.stderr.write(f"n={n} seed={seed}: {outcomes[-1]}\n")
        table.add_row(*cells(n, outcomes, time.monotonic() - began))
        is_wrong |= not all(one.is_right for one in outcomes)
    Console(width=140).print(table)
    return int(is_wrong)


if __name__ == "__main__":
    sys.exit(main())
