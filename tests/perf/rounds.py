"""Measures the speed of the round engine: the duration of a round with hardly a message, and messages per second.

    python tests/perf/rounds.py [--engine local] [--engine spark] [--size small|medium|large]

There are three sizes (runs x brokers): small 20 x 20, medium 1,000 x 20, large 5,000 x 50. The runs: protocol delta
with δ = 1 on random trees, ten subscribers of ten topics, two publishers; the history is stored. Columns:

- busy: messages per second, including commits, over the rounds in which all sources publish;
- best: messages per second in the fastest of these rounds;
- floor: the median duration of a round of one run with a publication every 25 rounds (size small);
- late / early: with publications in all rounds, the median duration of rounds 160 to 200 after the first publication,
  divided by the median duration of rounds 20 to 60 after it (size small).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from pipelines.engines.session import Session, open_session
from pipelines.experiment.build import build_inputs
from pipelines.rounds.execute import Experiment, execute
from pipelines.rounds.progress import Progress
from pipelines.store.store import Store
from pipelines.testing import run_configs

SIZES = {"small": (20, 20), "medium": (1_000, 20), "large": (5_000, 50)}
START = 45
_Rounds = list[tuple[int, int, float]]


def experiment(n_runs: int, n_nodes: int, rate: float, last_round: int, commit_every: int = 50) -> Experiment:
    """Returns an experiment of ``n_runs`` runs of one scenario with different seeds."""
    topics = {"kind": "topics", "topics": 10}
    parts: dict[str, Any] = {
        "name": "benchmark",
        "protocol": {"name": "delta", "delta": 1},
        "overlay": {"generate": {"kind": "random_tree", "nodes": n_nodes, "max_degree": 4}},
        "workload": {
            "subscriptions": {"generate": {**topics, "nodes": min(10, n_nodes // 2)}},
            "publications": {"generate": {**topics, "nodes": 2, "rate": rate, "rounds": [START, last_round]}},
        },
        "time": {"rounds": 2000},
    }  # fmt: skip
    (one,) = run_configs([parts])
    runs = [replace(one, run_id=number, seed=number) for number in range(n_runs)]
    return Experiment(runs, build_inputs(runs, None), commit_every)


def timed(session: Session, what: Experiment) -> _Rounds:
    """Plays an experiment, and returns (round, messages handled, seconds) of every round."""
    found: _Rounds = []
    with tempfile.TemporaryDirectory() as folder:
        last = time.perf_counter()

        def observe(progress: Progress) -> None:
            nonlocal last
            now = time.perf_counter()
            found.append((progress.round, progress.n_handled, now - last))
            last = now

        execute(what, session, Store(Path(folder), session), observe)
    return found


def median(rounds: _Rounds, first: int, last: int) -> float:
    return statistics.median(seconds for round_, _, seconds in rounds if first <= round_ <= last)


def measure(session: Session, size: str) -> list[str]:
    n_runs, n_nodes = SIZES[size]
    last = START + 15
    rounds = timed(session, experiment(n_runs, n_nodes, 1.0, last))
    busy = [row for row in rounds if START + 5 <= row[0] <= last]
    rate = sum(row[1] for row in busy) / sum(row[2] for row in busy)
    best = max(row[1] / row[2] for row in busy)
    cells = [
        f"{n_runs:,} x {n_nodes}",
        f"{sum(row[1] for row in busy) / len(busy):,.0f}",
        f"{rate:,.0f}",
        f"{best:,.0f}",
    ]
    if size != "small":
        return [*cells, "", ""]
    trickle = timed(session, experiment(1, n_nodes, 0.02, 400))
    steady = timed(session, experiment(n_runs, n_nodes, 1.0, START + 210))
    growth = median(steady, START + 160, START + 200) / median(steady, START + 20, START + 60)
    return [*cells, f"{median(trickle, START, 500) * 1000:.0f} ms", f"{growth:.2f}"]


def arguments(description: str | None) -> argparse.Namespace:
    """Parses the engines and sizes to measure; without arguments, all engines and sizes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", action="append", choices=["local", "spark"])
    parser.add_argument("--size", action="append", choices=list(SIZES))
    given = parser.parse_args()
    return argparse.Namespace(engine=given.engine or ["local", "spark"], size=given.size or list(SIZES))


def main() -> None:
    """Prints the table."""
    given = arguments(__doc__)
    table = Table("engine", "size", "messages a round", "busy msg/s", "best msg/s", "floor", "late / early")
    for engine in given.engine:
        with open_session(engine) as session:
            session.activate()
            timed(session, experiment(2, 5, 1.0, START + 10))
            for size in given.size:
                table.add_row(engine, *measure(session, size))
                print(f"{engine} {size} done", file=sys.stderr)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
