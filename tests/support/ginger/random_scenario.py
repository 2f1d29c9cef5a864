"""Random runs of ginger without faults: three orders mixed, on several topics and key items."""

from __future__ import annotations

from random import Random
from typing import Any

from pipelines.testing import scenario


def random_scenario(seed: int) -> dict[str, Any]:
    """Returns a run of 5 to 60 brokers, with links of 1 to 9 rounds and 1 to 8 key items a topic."""
    draw = Random(seed)
    n_brokers = draw.randint(5, 60)
    links = [[f"B{draw.randrange(max(0, n - 6), n)}", f"B{n}", draw.randint(1, 9)] for n in range(1, n_brokers)]
    n_clients = draw.randint(2, 12)
    at = [draw.randrange(n_brokers) for _ in range(n_clients)]
    clients = [{"name": f"C{n}", "at": f"B{broker}"} for n, broker in enumerate(at)]
    topics = {f"t{n}": draw.sample(range(n_clients), draw.randint(1, n_clients)) for n in range(draw.randint(1, 3))}
    publishers = {
        topic: [n for n in range(n_clients) if at[n] in {at[one] for one in subscribers}]
        for topic, subscribers in topics.items()
    }
    keys = [f"k{n}" for n in range(draw.randint(1, 8))]
    busy = draw.choice((5, 20, 80))
    publications = [
        {
            "at": f"C{draw.choice(publishers[topic])}", "round": 1500 + draw.randrange(busy), "topic": topic,
            "guarantee": draw.choice(("eventual", "causal", "total", "total")),
            "keys": draw.sample(keys, draw.randint(1, min(3, len(keys)))),
        }
        for topic in topics
        for _ in range(draw.randint(3, 25))
    ]  # fmt: skip
    subscriptions = [
        {"at": f"C{client}", "round": draw.randint(1, 30), "topic": topic}
        for topic, subscribers in topics.items()
        for client in subscribers
    ]
    return scenario(
        protocol={"name": "ginger", "root": f"B{draw.randrange(n_brokers)}", "max_hops": draw.randint(1, 5)},
        overlay={"links": links, "clients": clients},
        workload={"subscriptions": subscriptions, "publications": publications},
    )
