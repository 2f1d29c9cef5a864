"""Random small setups: trees, clients, topics, and messages that share a small number of keys."""

from __future__ import annotations

import random

from oracles.ginger.messages import Publication
from oracles.ginger.network import Setup

GUARANTEES = ("eventual", "causal", "total", "total")


def random_setup(draw: random.Random, n_brokers: tuple[int, int] = (2, 9), n_messages: int = 20) -> Setup:
    size = draw.randint(*n_brokers)
    parent: dict[int, int | None] = {0: None}
    for b in range(1, size):
        parent[b] = draw.randrange(max(0, b - 3), b)
    edge = {size + i: draw.randrange(size) for i in range(draw.randint(2, 7))}
    subscribers = {
        f"t{i}": frozenset(draw.sample(sorted(edge), draw.randint(1, len(edge))))
        for i in range(draw.randint(1, 2))
    }  # fmt: skip
    bare = Setup(parent, edge, subscribers, [])
    keys = [f"k{i}" for i in range(draw.randint(1, 4))]
    seq = dict.fromkeys(edge, 0)
    publications = []
    for _ in range(draw.randint(2, n_messages)):
        topic = draw.choice(sorted(subscribers))
        inside = bare.members(topic)
        client = draw.choice([c for c in edge if edge[c] in inside])
        seq[client] += 1
        chosen = frozenset(draw.sample(keys, draw.randint(1, min(3, len(keys)))))
        publications.append(Publication(client, seq[client], topic, chosen, draw.choice(GUARANTEES)))
    return Setup(parent, edge, subscribers, publications)
