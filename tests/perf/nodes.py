"""Measures the speed of node programs: with one job per round, with blocks of rounds, and without an engine.

    python tests/perf/nodes.py [--protocol skipring] [--engine local] [--runs 1,100] [--nodes 20] [--rounds 300]
        [--no-single]

The engine writes the history; no audit runs. With protocol skipring, ``--nodes`` subscribers join one topic, two of
them publish, and every node has a Timeout every ten rounds. With protocol ginger, five replicas of a bank on a tree of
``--nodes`` brokers operate concurrently.

A row of the table is an execution: ``round by round`` has one job per round (only for the first number of ``--runs``);
``blocks`` has one job for the rounds up to a commit; ``no engine`` repeats the run for some seconds in one process,
without a history, before and after the other executions. Columns: messages handled; seconds; messages per second; this
rate divided by that of ``no engine`` times the number of cores; the peak memory of the process in MiB. The memory
includes engine local, but neither the JVM of Spark nor worker processes.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from dataclasses import fields

from rich.console import Console
from rich.table import Table

from pipelines.engines.session import Session, open_session
from pipelines.experiment.build import build_inputs
from pipelines.protocols import PROTOCOLS
from pipelines.rounds.execute import Experiment, execute
from pipelines.rounds.progress import Progress
from pipelines.store.store import Store
from pipelines.testing import run_configs
from udfs.nodes.arrow import CALL, as_call
from udfs.nodes.local import LocalNetwork
from udfs.nodes.world import NodeInfo

TOPIC = "topic1"
N_REPLICAS = 5
EVERY = 20
"""The number of rounds between two operations of a replica."""


LOCAL_SECONDS = 4.0
"""The minimum seconds for which runs without an engine are repeated: a single run is too short to be measured."""


def skipring(n_nodes: int, n_rounds: int) -> dict[str, Any]:
    """Returns a scenario: all nodes subscribe in the first tenth of the rounds, and publish in the last half."""
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


def ginger(n_nodes: int, n_rounds: int) -> dict[str, Any]:
    """Returns a scenario: replicas at the last brokers of a binary tree operate after all replicas have subscribed."""
    replicas = [f"C{number}" for number in range(N_REPLICAS)]
    first = max(60, n_rounds // 10)
    operations = max(1, (n_rounds - 2 * first) // EVERY)
    shares = {"accounts": 10, "operations": operations, "interval": EVERY}
    return {
        "name": "benchmark",
        "protocol": {"name": "ginger"},
        "overlay": {
            "links": [[f"B{(number - 1) // 2}", f"B{number}"] for number in range(1, n_nodes)],
            "clients": [{"name": name, "at": f"B{n_nodes - 1 - place}"} for place, name in enumerate(replicas)],
        },
        "workload": {
            "subscriptions": [{"at": name, "topic": "bank"} for name in replicas],
            "publications": {"generate": {"kind": "bank", "round": first, **shares}},
        },
        "time": {"rounds": n_rounds},
    }


def played(session: Session, n_runs: int, parts: dict[str, Any], rounds_per_job: int | None) -> tuple[int, float]:
    """Plays runs on an engine; returns the number of handled messages, and the seconds."""
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
    """Plays runs without an engine for `LOCAL_SECONDS`; returns the number of handled messages, and the seconds."""
    n_handled, seconds = 0, 0.0
    while seconds < LOCAL_SECONDS:
        network = _network(parts)
        start = time.perf_counter()
        n_handled += len(network.play(parts["time"]["rounds"]).handled)
        seconds += time.perf_counter() - start
    return n_handled, seconds


def _network(parts: dict[str, Any]) -> LocalNetwork:
    (run,) = run_configs([parts])
    inputs = build_inputs([run], None)
    protocol = PROTOCOLS[parts["protocol"]["name"]]
    network = LocalNetwork(
        protocol.program, nodes=[NodeInfo(row["node_id"], row["name"], row["role"]) for row in inputs.node.to_pylist()],
        links={(row["src"], row["dst"]): row["latency_rounds"] for row in inputs.link.to_pylist()},
        settings={"seed": run.seed, **run.scenario.protocol.model_dump(exclude={"name"}, exclude_none=True)},
    )  # fmt: skip
    for row in sorted(inputs.call.to_pylist(), key=lambda row: (row["node_id"], row["source_seq"])):
        call = as_call([row[name] for name in CALL])
        given = {one.name: getattr(call, one.name) for one in fields(call) if one.name not in ("source_seq", "round")}
        network.call(row["node_id"], call.kind, call.round, **given)
    return network


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", default="skipring", choices=("skipring", "ginger"))
    parser.add_argument("--engine", default="local", choices=("local", "spark"))
    parser.add_argument("--runs", default="1,100")
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--no-single", action="store_true", help="omit the execution round by round")
    given = parser.parse_args()
    scenario = {"skipring": skipring, "ginger": ginger}[given.protocol]
    parts, counts = scenario(given.nodes, given.rounds), [int(one) for one in given.runs.split(",")]
    table = Table("execution", "runs", "messages", "seconds", "messages per second", "of no engine on all cores", "MiB")
    rates = list[float]()

    def row(way: str, n_runs: int | None, n_messages: int, seconds: float) -> None:
        rate, peak = n_messages / seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        share = "-" if n_runs is None else f"{rate / (os.cpu_count() or 1) / rates[0]:.2f}"
        runs = "-" if n_runs is None else f"{n_runs:,}"
        cells = (way, runs, f"{n_messages:,}", f"{seconds:.2f}", f"{rate:,.0f}", share, f"{peak:,.0f}")
        table.add_row(*cells)
        print(" ".join(cells), flush=True)
        rates.append(rate)

    row("no engine", None, *local(parts))
    with open_session(given.engine) as session:
        played(session, 1, scenario(10, 100), None)  # warm-up: the first job of an engine takes longer than later jobs
        if not given.no_single:
            row("round by round", counts[0], *played(session, counts[0], parts, 1))
        for n_runs in counts:
            row("blocks", n_runs, *played(session, n_runs, parts, None))
    row("no engine", None, *local(parts))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
