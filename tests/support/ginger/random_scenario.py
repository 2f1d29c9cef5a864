"""Random scenarios of ginger without faults: a mix of all three orders, on several topics and key items."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from random import Random
from typing import Any

from pipelines.scenario.load import RunConfig
from pipelines.testing import scenario
from support.forms import cut

_SUBSCRIBED = 30
"""The number of rounds in which the clients of a topic subscribe."""
_FIRST = 1500
"""The round from which clients publish. It is equal in all runs, because all runs of a job have one horizon."""
_ENDS = (1504, 1520, 1545)


def random_scenario(seed: int) -> dict[str, Any]:
    """Returns a scenario of 5 to 60 brokers, with link latencies of 1 to 9 rounds and 1 to 8 key items per topic.

    In one third of the scenarios, subscriptions to a topic begin while messages of earlier topics are in flight.
    """
    draw = Random(seed)
    n_brokers = draw.randint(5, 60)
    parents = {n: draw.randrange(max(0, n - 6), n) for n in range(1, n_brokers)}
    links = [[f"B{parent}", f"B{n}", draw.randint(1, 9)] for n, parent in parents.items()]
    depth = {0: 0}
    for (n, parent), (*_, latency) in zip(parents.items(), links, strict=True):
        depth[n] = depth[parent] + latency
    confirmed = _SUBSCRIBED + 2 * (1 + 2 * max(depth.values()))
    at = [draw.randrange(n_brokers) for _ in range(draw.randint(2, 12))]
    keys = [f"k{n}" for n in range(draw.randint(1, 8))]
    busy, step = draw.choice((5, 20, 80)), draw.choice((0, 0, confirmed))
    start = max(0, _FIRST - confirmed)
    subscriptions, publications = list[dict[str, Any]](), list[dict[str, Any]]()
    for number in range(draw.randint(1, 3)):
        topic, first = f"t{number}", start + number * step
        last = first + step + busy if step else first + busy
        subscribers = draw.sample(range(len(at)), draw.randint(1, len(at)))
        subscriptions += [
            {"at": f"C{client}", "round": first + draw.randint(1, _SUBSCRIBED), "topic": topic}
            for client in subscribers
        ]
        inside = _sub_tree(parents, [at[client] for client in subscribers])
        publishers = [client for client, broker in enumerate(at) if broker in inside]
        publications += [
            {
                "at": f"C{draw.choice(publishers)}", "topic": topic,
                "round": draw.randrange(first + confirmed, last + confirmed),
                "guarantee": draw.choice(("eventual", "causal", "total", "total")),
                "keys": draw.sample(keys, draw.choice((0, 1, 1, 1, 2, 2, 2, 3, 3, 3)) % (1 + len(keys))),
            }
            for _ in range(draw.randint(3, 25))
        ]  # fmt: skip
    return scenario(
        protocol={"name": "ginger", "root": f"B{draw.randrange(n_brokers)}", "max_hops": draw.randint(1, 5)},
        overlay={"links": links, "clients": [{"name": f"C{n}", "at": f"B{broker}"} for n, broker in enumerate(at)]},
        workload={"subscriptions": subscriptions, "publications": publications},
        time={"rounds": 9000},
    )


def ended_early(runs: Sequence[RunConfig], number: int = 0) -> list[RunConfig]:
    """Returns ``runs`` with a horizon soon after the first publications, when messages wait and key items are locked.

    Args:
        runs: The runs.
        number: Selects the horizon of all runs.
    """
    return [cut(run, _ENDS[number % len(_ENDS)]) for run in runs]


def _sub_tree(parents: dict[int, int], edges: list[int]) -> set[int]:
    """Returns the brokers on the paths between edge brokers."""
    ways = [_way(parents, edge) for edge in edges]
    n_common = sum(1 for _ in takewhile(lambda hop: len(set(hop)) == 1, zip(*ways, strict=False)))
    return {broker for way in ways for broker in way[n_common - 1 :]}


def _way(parents: dict[int, int], broker: int) -> list[int]:
    """Returns the brokers on the path from B0 to a broker."""
    way = [broker]
    while way[0] in parents:
        way.insert(0, parents[way[0]])
    return way
