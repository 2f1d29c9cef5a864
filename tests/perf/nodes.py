"""Speed of node programs, by the way in which they are played; history kept, audits left out.

    python tests/perf/nodes.py [--engine sail] [--runs 1,100] [--nodes 20] [--rounds 300] [--no-single]

Protocol skipring: so many subscribers join one topic, two publish, and every node has a Timeout every ten rounds. Ways:
``round by round``, a job a round (for the fewest runs only); ``blocks``, the rounds up to a commit in one job;
``local``, the network without an engine and without a history, in one process. Columns: messages handled, seconds,
messages a second, and how many times the messages a second of ``local`` that is.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
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
from udfs.nodes.local import LocalNetwork
from udfs.nodes.world import NodeInfo
from udfs.skipring.program import SkipRing

TOPIC = "topic1"


def scenario(n_nodes: int, n_rounds: int) -> dict[str, Any]:
    """Returns a scenario: all join in the first tenth of the rounds, publications come in the last half."""
    return {
        "name": "benchmark",
        "protocol": {"name": "skipring"},
        "overlay": {"nodes": {"count": n_nodes, "supervisors": 1}},
        "workload": {
            "subscriptions": {"generate": {"kind": "topics", "topics": 1, "rounds": [0, n_rounds // 10]}},
            "publications": [
                {"at": at, "round": n_rounds // 2 + number * n_rounds // 20, "topic": TOPIC}
                for number, at in enumerate(("N1", "N2") * 4)
            ],
        },
        "time": {"rounds": n_rounds},
    }


def played(session: Session, n_runs: int, parts: dict[str, Any], rounds_per_job: int | None) -> tuple[int, float]:
    """Returns the messages that an engine handled, and the seconds."""
    runs, n_handled = run_configs([parts] * n_runs), 0

    def observe(progress: Progress) -> None:
        nonlocal n_handled
        n_handled += progress.n_handled

    what = Experiment(runs, build_inputs(runs, None), None, rounds_per_job=rounds_per_job)
    session.activate()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        execute(what, session, Store(Path(folder), session), observe)
        return n_handled, time.perf_counter() - start


def local(parts: dict[str, Any]) -> tuple[int, float]:
    """Returns the same for a network without an engine."""
    (run,) = run_configs([parts])
    inputs = build_inputs([run], None)
    network = LocalNetwork(
        SkipRing, nodes=[NodeInfo(row["node_id"], row["name"], row["role"]) for row in inputs.node.to_pylist()],
        settings={"seed": run.seed, **run.scenario.protocol.model_dump(exclude={"name"})},
    )  # fmt: skip
    for row in inputs.call.to_pylist():
        network.call(
            row["node_id"], row["kind"], row["round"], topic=row["topic"], subscription_id=row["subscription_id"]
        )
    start = time.perf_counter()
    rows = network.play(parts["time"]["rounds"])
    return len(rows.handled), time.perf_counter() - start


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", default="sail", choices=("sail", "spark"))
    parser.add_argument("--runs", default="1,100")
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--no-single", action="store_true", help="leave round by round out")
    given = parser.parse_args()
    parts, counts = scenario(given.nodes, given.rounds), [int(one) for one in given.runs.split(",")]
    table = Table("way", "runs", "messages", "seconds", "messages a second", "of local")
    n_local, seconds = local(parts)
    rate = n_local / seconds

    def row(way: str, n_runs: int, n_messages: int, took: float) -> None:
        cells = (way, f"{n_runs:,}", f"{n_messages:,}", f"{took:.2f}", f"{n_messages / took:,.0f}")
        table.add_row(*cells, f"{n_messages / took / rate:.2f}")

    row("local", 1, n_local, seconds)
    with open_session(given.engine) as session:
        played(session, 1, scenario(4, 20), None)  # the first job of an engine takes longer
        if not given.no_single:
            row("round by round", counts[0], *played(session, counts[0], parts, 1))
        for n_runs in counts:
            row("blocks", n_runs, *played(session, n_runs, parts, None))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
