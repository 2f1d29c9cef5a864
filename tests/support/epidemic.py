"""Random scenarios of `epidemic`: all strategies and caching policies; losses, crashes, pauses, replaced links."""

from __future__ import annotations

import random
from collections.abc import Container
from typing import Any

PREDICATES = ("x > 3", "x > 6", "x < 5", "x >= 0", "y = 1", "x < 5 and y = 1")
RECOVERIES = ("none", "push", "subscriber_pull", "publisher_pull", "combined_pull", "push_pull")
LAST = 60
"""The round of the last call; faults end some rounds after this round."""


def random_scenario(seed: int, kinds: Container[str] | None = None) -> dict[str, Any]:
    """Returns a random scenario.

    Args:
        seed: The seed.
        kinds: The fault types that the scenario may have; None allows all.
    """
    draw = random.Random(seed)
    nodes = [f"N{number}" for number in range(draw.randint(3, 12))]
    links = [[draw.choice(nodes[:index]), node, draw.randint(1, 3)] for index, node in enumerate(nodes) if index]
    return {
        "name": f"random_{seed}",
        "protocol": {"name": "epidemic", **_settings(draw)},
        "overlay": {"links": links},
        "workload": {
            "subscriptions": [_subscription(draw, nodes) for _ in range(draw.randint(2, 12))],
            "publications": [
                {"at": draw.choice(nodes[:4]), "round": draw.randint(0, LAST),
                 "content": {"x": draw.randint(0, 9), "y": draw.randint(0, 1)}}
                for _ in range(draw.randint(5, 50))
            ],
        },
        "faults": [one for one in _faults(draw, nodes, links) if kinds is None or _kind(one) in kinds],
        "time": {"rounds": 400},
    }  # fmt: skip


def _settings(draw: random.Random) -> dict[str, Any]:
    return {
        "recovery": draw.choice(RECOVERIES[0 if draw.random() < 0.2 else 1 :]),
        "gossip_rounds": draw.randint(2, 9),
        "push_rounds": draw.randint(5, 30),
        "lost_rounds": draw.randint(5, 30),
        "p_forward": draw.choice([0.0, 0.5, 0.75, 1.0]),
        "fanout": draw.randint(1, 3),
        "push_draw": draw.choice(["every_hop", "subscribers"]),
        "push_patterns": draw.choice(["all", "local"]),
        "gossip_on_detection": draw.random() < 0.3,
        "adaptive": draw.random() < 0.4,
        "gossip_rounds_max": draw.choice([10, 16, 80]),
        "buffer": draw.choice([1, 2, 4, 8, 100]),
        "caching": draw.choice(["all", "subscriber_or_source"]),
        "eviction": draw.choice(["oldest", "foreign_first", "random"]),
        "broken_route": draw.choice(["drop", "unicast"]),
        "lost_buffer": draw.choice([1, 3, 1000]),
        "out_of_band_rounds": draw.randint(1, 3),
        "out_of_band_loss": draw.choice([0.0, 0.0, 0.3]),
    }


def _subscription(draw: random.Random, nodes: list[str]) -> dict[str, Any]:
    begin = draw.choice([0, 0, 1, draw.randint(2, LAST)])
    found = {"at": draw.choice(nodes), "round": begin, "where": draw.choice(PREDICATES)}
    if draw.random() < 0.3:
        found["until"] = begin + draw.choice([1, 2, 3, draw.randint(4, LAST)])
    return found


def _kind(fault: dict[str, Any]) -> str:
    return str(fault.get("generate", fault)["kind"])


def _faults(draw: random.Random, nodes: list[str], links: list[list[Any]]) -> list[dict[str, Any]]:
    def span() -> dict[str, int]:
        begin = draw.randint(0, LAST)
        return {"round": begin, "until": begin + draw.randint(1, 40)}

    a, b, _ = draw.choice(links)
    possible = [
        {"kind": "loss", "rate": draw.choice([0.1, 0.3])},
        {"kind": "loss", "rate": draw.choice([0.2, 0.4]), "kinds": ["EVENT", "GOSSIP"]},
        {"kind": "loss", "rate": 0.9, "links": [[a, b]], "kinds": ["EVENT"], **span()},
        {"kind": "delay", "rounds": [0, draw.randint(1, 8)], "rate": 0.4, **span()},
        {"kind": "delay", "rounds": [1, draw.randint(1, 8)], "rate": 0.4, "reorder": True, **span()},
        {"kind": "duplicate", "rate": draw.choice([0.3, 1.0]), "after": [0, draw.randint(0, 4)], **span()},
        {"kind": "partition", "groups": [[draw.choice(nodes)]], **span()},
        *({"kind": "pause", "node": node, **span()} for node in draw.sample(nodes, 2)),
        *({"kind": "crash", "node": node, **span()} for node in draw.sample(nodes, 2)),
        {"generate": {"kind": "replace", "count": draw.randint(1, 5), "rounds": [2, LAST], "after": [0, 6]}},
    ]
    return draw.sample(possible, draw.randint(0, 5))
