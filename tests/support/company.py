"""Random runs of every protocol, which tests play alone and in a job with other runs."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import networkx as nx
import yaml
from oracles.delta.generator import random_run

from pipelines.testing import scenario
from support import epidemic, link_faults
from support.delta.schedules import as_scenario
from support.ginger import random_scenario as ginger
from support.replicas import eventful
from support.repository.scenes import TIMERS

HUNTED = Path(__file__).parents[1] / "mutation" / "hunted"
Drawn = Callable[[int], dict[str, Any]]
GOSSIPSUB = {"d": 2, "d_lo": 1, "d_hi": 3, "d_lazy": 1, "d_out": 0, "heartbeat_rounds": 8}
TOPICS = ("news", "sport")
DETECTORS = ("identifier", "visited")


def _of(protocol: str) -> Drawn:
    return lambda seed: eventful(protocol, seed)


def _with_link_faults(**settings: Any) -> Drawn:
    """Returns a generator of scenarios on trees with crashes, pauses and all types of link faults."""
    return lambda seed: link_faults.random_scenario(seed, settings)


def _with_topics(seed: int) -> dict[str, Any]:
    """Returns a scenario of `gossipsub` with crashes, pauses and link faults.

    `gossipsub` has a mesh for each topic, so every subscription names a topic.
    """
    found = link_faults.random_scenario(seed, {"name": "gossipsub", **GOSSIPSUB})
    workload = found["workload"]
    named = [
        {"topic": TOPICS[0]} | {name: one[name] for name in one if name != "where"} for one in workload["subscriptions"]
    ]
    return found | {"workload": {**workload, "subscriptions": named}}


def joining(seed: int) -> dict[str, Any]:
    """Returns a scenario of `delta` in which nodes join while others publish; for odd seeds, a broker crashes."""
    draw = random.Random(seed)
    n_brokers, n_joining = draw.randint(4, 7), draw.randint(1, 3)
    tree = nx.random_labeled_tree(n_brokers, seed=seed)
    links = [[f"N{a}", f"N{b}", draw.randint(1, 4)] for a, b in tree.edges]
    names, joins = [f"N{node}" for node in tree], []
    rounds = sorted(draw.sample(range(5, 40), n_joining))
    for number, round_ in enumerate(rounds):
        at, name = draw.choice(names), f"J{number}"
        links.append([at, name, draw.randint(1, 4)])
        joins.append({"node": name, "to": at, "round": round_})
        names.append(name)
    subscriptions = [{"at": name, "round": draw.randrange(0, 50), "topic": "t"} for name in draw.sample(names, 3)]
    publications = [{"at": draw.choice(names), "round": draw.randrange(10, 90), "topic": "t"} for _ in range(6)]
    crash = {"kind": "crash", "node": f"N{draw.randrange(n_brokers)}", "round": draw.randrange(1, 60)}
    return scenario(
        protocol={"name": "delta", "delta": draw.randint(1, 3), "detector": draw.choice(DETECTORS)},
        overlay={"links": links},
        workload={"subscriptions": subscriptions, "publications": publications, "joins": joins},
        faults=[{**crash, "until": crash["round"] + draw.randrange(1, 30)}] if seed % 2 else [],
    )


def _random_delta(seed: int) -> dict[str, Any]:
    network = random_run(seed, DETECTORS[seed % 2])
    return as_scenario(network.schedule, network.detector)


def _hunted(protocol: str, scenarios: Sequence[str], rounds: tuple[int, int]) -> Drawn:
    """Returns a generator of hunted scenarios with a further crash in one of the ``rounds``."""

    def drawn(seed: int) -> dict[str, Any]:
        draw = random.Random(f"{protocol} {seed}")
        name = f"{protocol}_{draw.choice(scenarios)}.yaml"
        found: dict[str, Any] = yaml.safe_load((HUNTED / name).read_text("utf-8"))
        faults, at = found.get("faults", []), draw.randint(*rounds)
        nodes = {node for link in found["overlay"]["links"] for node in link[:2]} - {one["node"] for one in faults}
        until = draw.choice([{}, {"until": at + draw.randint(1, 20)}])
        crash = {"kind": "crash", "node": draw.choice(sorted(nodes)), "round": at, **until}
        return {**found, "faults": [*faults, crash]}

    return drawn


def _skipring(seed: int) -> dict[str, Any]:
    """Returns a skip ring with a random initial state, crashes, and subscribers that leave."""
    draw = random.Random(f"skip ring {seed}")
    n_nodes, n_supervisors = draw.randint(3, 10), draw.randint(1, 2)
    names = [f"N{number}" for number in range(1, n_nodes + 1)]
    subscriptions = [
        {"at": name, "round": draw.choice([0, 0, draw.randint(51, 150)]), "topic": topic}  # 51 exceeds start_until
        for topic in TOPICS[: draw.randint(1, 2)]
        for name in draw.sample(names, draw.randint(2, n_nodes))
    ]
    for one in draw.sample(subscriptions, len(subscriptions) // 4):
        one["until"] = one["round"] + draw.randint(1, 150)
    staying = [one for one in subscriptions if "until" not in one]  # Only subscribers may publish (rule K17).
    publications = [
        {"at": one["at"], "round": draw.randint(one["round"] + 1, 250), "topic": one["topic"]}
        for one in draw.choices(staying, k=2)
    ]
    crashes = [{"kind": "crash", "node": name, "round": draw.randint(1, 250)} for name in draw.sample(names, 2)]
    start = draw.choice(("empty", "legitimate", "arbitrary", "labels", "edges", "database", "messages", "tries"))
    begun = {"start_until": draw.choice([0, 50]), "start_publications": draw.randint(0, 3)}
    return scenario(
        protocol={"name": "skipring", "start": start, **({} if start == "empty" else begun)},
        overlay={"nodes": {"count": n_nodes, "supervisors": n_supervisors}},
        workload={"subscriptions": subscriptions, "publications": publications},
        faults=draw.sample(crashes, draw.randint(0, 2)),
        time={"rounds": 400},
    )


def _repository(seed: int) -> dict[str, Any]:
    """Returns a scenario of `repository` with registered clients, crashes, and all types of link faults."""
    draw = random.Random(f"repository {seed}")
    brokers = [f"b{number}" for number in range(draw.randint(2, 4))]
    clients = [f"c{number}" for number in range(draw.randint(3, 6))]
    servers = [f"r{number}" for number in range(draw.randint(1, 3))]
    links = [[draw.choice(brokers[:place]), broker] for place, broker in enumerate(brokers) if place]
    publishers, subscribers = clients[: len(clients) // 2], clients[1:]
    settings, calls = {}, []
    if draw.random() < 0.5:
        settings = {"topics": {"news": {"owner": "c0", "publishers": publishers, "subscribers": subscribers}}}
        calls = [{"at": "c0", "round": draw.randint(5, 200), "kind": "deregister", "topic": "news", "peer": client,
                  "role": "subscriber"} for client in draw.sample(subscribers, draw.randint(0, 2))]  # fmt: skip

    def span() -> dict[str, int]:
        begin = draw.randint(1, 220)
        return {"round": begin, "until": begin + draw.randint(2, 80)}

    possible = [
        *({"kind": "crash", "node": name, **span()} for name in draw.sample([*brokers, *clients, *servers], 3)),
        {"kind": "loss", "rate": draw.choice([0.05, 0.3]), **span()},
        {"kind": "delay", "rounds": [1, 8], "rate": 0.4, "reorder": True, **span()},
        {"kind": "duplicate", "rate": 0.5, "after": [0, 3], **span()},
        {"kind": "pause", "node": draw.choice(clients), **span()},
    ]
    return scenario(
        protocol={"name": "repository", **TIMERS, **settings},
        overlay={
            "links": links,
            "servers": [{"name": name, "at": draw.choice(brokers)} for name in servers],
            "clients": [{"name": name, "at": draw.choice(brokers)} for name in clients],
        },
        workload={
            "subscriptions": [{"at": name, "round": draw.randint(1, 60), "topic": "news"} for name in subscribers],
            "publications": [
                {"at": draw.choice(publishers), "round": draw.randint(20, 240), "topic": "news"} for _ in range(12)
            ],
            "calls": calls,
        },
        faults=draw.sample(possible, draw.randint(0, 5)),
        time={"rounds": 700},
    )


ROUNDS = {"delta": 5000, "ginger": 5000, "skipring": 400, "repository": 500}
"""The horizon of all runs of a protocol, by its name; default 200. All runs of a job have one horizon."""
GENERATORS: Mapping[str, tuple[Drawn, ...]] = {
    "delta": (
        joining,
        _of("delta"),
        _hunted("delta", ("chain", "guided", "joins", "slow", "visited"), (16, 60)),
        _random_delta,
    ),
    "epidemic": (epidemic.random_scenario, _of("epidemic")),
    "ginger": (
        _of("ginger"),
        ginger.random_scenario,
        _hunted("ginger", ("buffers", "elections", "late", "waiting", "winner"), (209, 300)),
    ),
    "skipring": (_skipring,),
    "repository": (_repository,),
    "forwarding": (_with_link_faults(name="forwarding"), _of("forwarding")),
    "flooding": (_with_link_faults(name="flooding"), _of("flooding")),
    "gossipsub": (_with_topics, _of("gossipsub")),
}
"""Maps each protocol to the functions that generate scenarios for it from a seed."""


def cases(protocol: str, count: int) -> Iterator[dict[str, Any]]:
    """Yields scenarios of a protocol, alternating between its generators; every fourth scenario has no faults."""
    drawn = GENERATORS[protocol]
    for seed in range(count):
        found = drawn[seed % len(drawn)](seed) | {"time": {"rounds": ROUNDS.get(protocol, 200)}}
        yield found | {"faults": []} if seed % 4 == 3 else found
