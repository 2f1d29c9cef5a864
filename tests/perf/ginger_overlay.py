"""Plays ginger without faults on one large overlay, in both forms, and compares the rows and the CPU seconds.

    python tests/perf/ginger_overlay.py [--brokers 20000] [--clients 8] [--publications 200]

A line of the output is a form: CPU seconds, wall seconds and messages of its run. The exit code is 1 if a table of one
form differs from that table of the other form.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.forms import store_differences

from pipelines.contract.forms import Form
from pipelines.engines.session import open_session
from pipelines.store.store import Store
from pipelines.testing import run_all, run_configs, scenario


def large_scenario(n_brokers: int, n_clients: int, n_publications: int) -> dict[str, Any]:
    """Returns a scenario on a tree whose inner brokers have about four children; its two topics share subscribers."""
    draw = Random(n_brokers)
    parents = {n: draw.randrange(max(0, (n - 1) // 4 - 3), (n - 1) // 4 + 1) for n in range(1, n_brokers)}
    clients = [{"name": f"C{n}", "at": f"B{draw.randrange(n_brokers)}"} for n in range(n_clients)]
    topics = {"t0": range(n_clients * 5 // 8), "t1": range(n_clients * 3 // 8, n_clients)}
    subscriptions = [
        {"at": f"C{client}", "round": draw.randint(1, 20), "topic": topic}
        for topic, of in topics.items()
        for client in of
    ]
    publications = [
        {
            "at": f"C{draw.choice(topics[topic])}", "round": 600 + draw.randrange(30), "topic": topic,
            "guarantee": draw.choice(("eventual", "causal", "total", "total")),
            "keys": draw.sample([f"k{n}" for n in range(8)], draw.randint(1, 3)),
        }
        for topic in topics
        for _ in range(n_publications // len(topics))
    ]  # fmt: skip
    return scenario(
        protocol={"name": "ginger"},
        overlay={
            "links": [[f"B{parent}", f"B{n}", draw.randint(1, 9)] for n, parent in parents.items()], "clients": clients,
        },
        workload={"subscriptions": subscriptions, "publications": publications},
    )  # fmt: skip


def main() -> int:
    """Prints the seconds and the tables that differ; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, number in (("brokers", 20_000), ("clients", 8), ("publications", 200)):
        parser.add_argument(f"--{name}", type=int, default=number)
    asked = parser.parse_args()
    runs = run_configs([large_scenario(asked.brokers, asked.clients, asked.publications)])
    forms: tuple[Form, ...] = ("program", "dataflow")
    stores: dict[str, Store] = {}
    with open_session("local") as session, tempfile.TemporaryDirectory() as folder:
        for form in forms:
            cpu, wall = time.process_time(), time.perf_counter()
            stores[form] = run_all(runs, session, Path(folder) / form, form=form)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            print(
                f"{form}: {cpu:.1f} CPU s, {wall:.1f} s, {stores[form].read('message').count():,} messages", flush=True
            )
        found = store_differences("ginger", stores["dataflow"], stores["program"])
        for one in found:
            print(f"{one.table}: {len(one.dataflow)} only dataflow, {len(one.program)} only program")
    print("equal rows" if not found else f"{len(found)} tables differ")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
