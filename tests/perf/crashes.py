"""Measures the speed of sweeps in which nodes crash, and compares it with the speed of the sweep without crashes.

    python tests/perf/crashes.py [--engine local] [--runs 1000] [--brokers 20] [--crashes 2]

The runs: protocol delta with δ = 1 on random trees, five publications per run; in each round at most one node is not
OPERATIONAL. Columns: crashes per run; number of rounds; seconds; messages handled; microseconds per message; median
duration of a round; peak memory of the process in MiB; verdict; microseconds per message divided by the microseconds
per message of the sweep without crashes.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from pipelines.audits.run import audit_store
from pipelines.engines.session import Session, open_session
from pipelines.experiment.build import build_inputs
from pipelines.protocols import protocol_named
from pipelines.rounds.execute import Experiment, execute
from pipelines.rounds.progress import Progress
from pipelines.sql.query import StoreReader
from pipelines.store.store import Store
from pipelines.testing import run_configs

ROUNDS = [40, 120]


def experiment(n_runs: int, n_nodes: int, n_crashes: int) -> Experiment:
    """Returns an experiment of ``n_runs`` runs of one scenario with different seeds."""
    topics = {"kind": "topics", "topics": 3}
    crash = {"kind": "crash", "count": n_crashes, "at_most": 1, "recovery": 40, "rounds": ROUNDS, "down": [5, 30]}
    parts: dict[str, Any] = {
        "name": "benchmark",
        "protocol": {"name": "delta", "delta": 1},
        "overlay": {"generate": {"kind": "random_tree", "nodes": n_nodes, "max_degree": 4}},
        "workload": {
            "subscriptions": {"generate": {**topics, "nodes": n_nodes // 2}},
            "publications": {"generate": {**topics, "nodes": 5, "rate": 1 / (ROUNDS[1] - ROUNDS[0]), "rounds": ROUNDS}},
        },
        "time": {"rounds": 2000},
    }  # fmt: skip
    runs = run_configs([parts | ({"faults": [{"generate": crash}]} if n_crashes else {})] * n_runs)
    return Experiment(runs, build_inputs(runs, None), commit_every=50)


def measure(session: Session, what: Experiment) -> tuple[list[str], float]:
    """Plays and audits a sweep; returns the cells of its table row, and the seconds per message."""
    handled: list[int] = []
    seconds: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        start = last = time.perf_counter()

        def observe(progress: Progress) -> None:
            nonlocal last
            now = time.perf_counter()
            handled.append(progress.n_handled)
            seconds.append(now - last)
            last = now

        store = Store(Path(folder), session)
        execute(what, session, store, observe)
        whole = time.perf_counter() - start
        report = audit_store(StoreReader(session, store.root), protocol_named("delta"))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    per_message = whole / max(1, sum(handled))
    cells = [f"{len(handled)}", f"{whole:.1f}", f"{sum(handled):,}", f"{per_message * 1e6:.1f}"]
    return [*cells, f"{statistics.median(seconds) * 1000:.0f} ms", f"{peak:,.0f}", report.verdict], per_message


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="local", choices=["local", "spark"])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--brokers", type=int, default=20)
    parser.add_argument("--crashes", type=int, action="append")
    given = parser.parse_args()
    columns = ("crashes", "rounds", "seconds", "messages", "µs/message", "median round", "peak MiB", "verdict", "ratio")
    table = Table(*columns)
    with open_session(given.engine) as session:
        session.activate()
        plain = None
        for n_crashes in [0, *(given.crashes or [2])]:
            cells, per_message = measure(session, experiment(given.runs, given.brokers, n_crashes))
            plain = plain or per_message
            table.add_row(f"{n_crashes}", *cells, f"{per_message / plain:.2f}")
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
