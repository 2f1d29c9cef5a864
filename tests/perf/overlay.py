"""Plays and audits one run on one large overlay, to find the largest overlay that fits into memory.

    python tests/perf/overlay.py [--engine local] [--brokers 1000 --brokers 100000 ...]

The run: protocol delta with δ = 1 on a random tree; 20 sources publish 20,000 publications on one topic within 100
rounds, to 50 subscribers: a million deliveries. Each subscription is sent to every broker, so the number of messages
grows with the number of brokers. The columns are those of `crashes.py`.
"""

from __future__ import annotations

import argparse
from typing import Any

from crashes import measure
from rich.console import Console
from rich.table import Table

from pipelines.engines.session import open_session
from pipelines.experiment.build import build_inputs
from pipelines.rounds.execute import Experiment
from pipelines.testing import run_configs

SUBSCRIBERS, SOURCES, RATE = 50, 20, 10.0


def experiment(n_nodes: int) -> Experiment:
    """Returns an experiment of one run on an overlay of ``n_nodes`` brokers."""
    topics = {"kind": "topics", "topics": 1}
    parts: dict[str, Any] = {
        "name": "overlay",
        "protocol": {"name": "delta", "delta": 1},
        "overlay": {"generate": {"kind": "random_tree", "nodes": n_nodes, "max_degree": 4}},
        "workload": {
            "subscriptions": {"generate": {**topics, "nodes": SUBSCRIBERS}},
            "publications": {"generate": {**topics, "nodes": SOURCES, "rate": RATE, "rounds": [200, 300]}},
        },
        "time": {"rounds": 5000},
    }  # fmt: skip
    runs = run_configs([parts])
    return Experiment(runs, build_inputs(runs, None), commit_every=20)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="local", choices=["local", "spark"])
    parser.add_argument("--brokers", type=int, action="append")
    given = parser.parse_args()
    table = Table("brokers", "rounds", "seconds", "messages", "µs/message", "median round", "peak MiB", "verdict")
    with open_session(given.engine) as session:
        session.activate()
        for n_nodes in given.brokers or [1_000, 10_000, 100_000]:
            table.add_row(f"{n_nodes:,}", *measure(session, experiment(n_nodes))[0])
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
