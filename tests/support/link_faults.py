"""Random scenarios of protocols that forward subscriptions on a tree, with crashes, pauses and link faults."""

from __future__ import annotations

import random
from typing import Any

TOPICS = ("news", "sport", "weather")
LAST = 120
"""The round of the last call; faults end some rounds after this round."""


def random_scenario(seed: int, protocol: dict[str, Any], *, is_faulty: bool = True) -> dict[str, Any]:
    """Returns a random scenario.

    Args:
        seed: The seed.
        protocol: The name of the protocol and its settings.
        is_faulty: Whether the scenario has faults.
    """
    draw = random.Random(seed)
    nodes = [f"B{number}" for number in range(draw.randint(3, 12))]
    links = [[draw.choice(nodes[:place]), node, draw.randint(1, 4)] for place, node in enumerate(nodes) if place]
    return {
        "name": f"random_{seed}",
        "protocol": protocol,
        "overlay": {"links": links},
        "workload": {
            "subscriptions": [_subscription(draw, nodes) for _ in range(draw.randint(2, 10))],
            "publications": [
                {"at": draw.choice(nodes), "round": draw.randint(0, LAST), "topic": draw.choice(TOPICS),
                 "content": {"price": draw.randint(0, 9)}}
                for _ in range(draw.randint(3, 30))
            ],
        },
        "faults": _faults(draw, nodes, links) if is_faulty else [],
        "time": {"rounds": 400},
    }  # fmt: skip


def _subscription(draw: random.Random, nodes: list[str]) -> dict[str, Any]:
    begin = draw.randint(0, LAST)
    found: dict[str, Any] = {"at": draw.choice(nodes), "round": begin, "topic": draw.choice(TOPICS)}
    if draw.random() < 0.3:
        del found["topic"]
        found["where"] = f"topic = {draw.choice(TOPICS)} and price > {draw.randint(0, 9)}"
    if draw.random() < 0.5:
        found["until"] = begin + draw.choice([1, 2, 3, draw.randint(4, 60)])
    return found


def _faults(draw: random.Random, nodes: list[str], links: list[list[Any]]) -> list[dict[str, Any]]:
    def span() -> dict[str, int]:
        begin = draw.randint(0, LAST)
        return {"round": begin, "until": begin + draw.randint(1, 60)}

    a, b, _ = draw.choice(links)
    possible = [
        {"kind": "loss", "rate": draw.choice([0.1, 0.5]), **span()},
        {"kind": "loss", "rate": 0.9, "links": [[a, b]], **span()},
        {"kind": "delay", "rounds": [0, draw.randint(1, 8)], "rate": 0.4, **span()},
        {"kind": "delay", "rounds": [1, draw.randint(1, 8)], "rate": 0.4, "reorder": True, **span()},
        {"kind": "duplicate", "rate": draw.choice([0.3, 1.0]), "after": [0, draw.randint(0, 4)], **span()},
        {"kind": "partition", "groups": [[draw.choice(nodes)]], **span()},
        {"kind": "pause", "node": draw.choice(nodes), **span()},
        {"kind": "crash", "node": draw.choice(nodes), **span()},
    ]
    return draw.sample(possible, draw.randint(0, 4))
