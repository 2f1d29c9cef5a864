"""Measures speed and memory of protocol repository: many publications through a bundle of three brokers.

    python tests/perf/repository_bundle.py [--publications 100000] [--clients 100] [--matching 1] [--rate 50]

Three brokers form a chain; each has a repository and a third of the clients. A tenth of the clients publish, the others
subscribe. The run is played without an engine, in one process. Columns: publications, handled messages, deliveries, CPU
seconds, messages per second, publications per second, and peak memory of the process. The exit code is 1 if a
publication was not delivered to all its subscribers or not stored in all repositories.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from rich.console import Console
from rich.table import Table

from pipelines.protocols.repository import RepositorySettings
from udfs.nodes.local import LocalNetwork
from udfs.nodes.world import NodeInfo
from udfs.repository.program import Repository

N_BROKERS = 3
FIRST = 100
"""The round of the first publications; all clients have been steered before this round."""
STEP = 50


def network(n_publications: int, n_clients: int, n_matching: int, rate: int) -> LocalNetwork:
    """Returns the network; ``rate`` is the number of publications per round, each for ``n_matching`` subscribers."""
    roles = ["broker"] * N_BROKERS + ["repository"] * N_BROKERS + ["client"] * n_clients
    links = {(0, 1): 1, (1, 2): 1}
    links |= {(node % N_BROKERS, node): 1 for node in range(N_BROKERS, len(roles))}
    settings = RepositorySettings(acknowledge_count=20).model_dump()
    nodes = [NodeInfo(node, f"n{node}", role) for node, role in enumerate(roles)]
    found = LocalNetwork(Repository, nodes=nodes, links=links, settings=settings)
    clients = range(2 * N_BROKERS, len(roles))
    publishers, subscribers = clients[: n_clients // 10], clients[n_clients // 10 :]
    for client in subscribers:
        found.call(client, "subscribe", 1, subscription_id=client, topic="t")
    draw = random.Random(0)
    for number in range(n_publications):
        matching = tuple(sorted(draw.sample(subscribers, n_matching)))
        publisher = publishers[number % len(publishers)]
        found.call(publisher, "publish", FIRST + number // rate, topic="t", matches=matching)
    return found


def main() -> int:
    """Plays the run and prints the table; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--publications", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--matching", type=int, default=1)
    parser.add_argument("--rate", type=int, default=50)
    given = parser.parse_args()
    run = network(given.publications, given.clients, given.matching, given.rate)
    start, n_messages, n_delivered = time.process_time(), 0, 0
    for last in range(STEP, FIRST + given.publications // given.rate + 300, STEP):
        run.play(last)
        n_messages, n_delivered = n_messages + len(run.rows.handled), n_delivered + len(run.rows.delivered)
        run.rows.handled.clear()
        run.rows.delivered.clear()
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    table = Table("publications", "messages", "deliveries", "seconds", "messages/s", "publications/s", "MiB")
    rates = (f"{n / seconds:,.0f}" for n in (n_messages, given.publications))
    counts = (f"{n:,}" for n in (given.publications, n_messages, n_delivered))
    table.add_row(*counts, f"{seconds:.0f}", *rates, f"{memory:,.0f}")
    Console().print(table)
    stored = [
        sum(slot.status == "stored" for slot in run.durable(node)["slot"].values())
        for node in range(N_BROKERS, 2 * N_BROKERS)
    ]
    is_complete = n_delivered == given.publications * given.matching and set(stored) == {given.publications}
    return int(not is_complete)


if __name__ == "__main__":
    sys.exit(main())
