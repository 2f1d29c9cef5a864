"""Random schedules: overlays, calls, link faults, crashes of every role, joins and leaves of repositories, steering."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from oracles.repository.judge import Call, Crash, History

from pipelines.protocols.repository import RepositorySettings
from udfs.nodes.local import LocalNetwork
from udfs.nodes.network import Strike
from udfs.nodes.world import Flight, NodeInfo
from udfs.repository.program import Repository

from .links import FaultyLinks

TIMERS = {
    "publisher_rounds": 12, "failure_rounds": 60, "acknowledge_rounds": 6, "wait_rounds": 8, "nak_rounds": 10,
    "rectify_rounds": 25, "idle_rounds": 40, "assist_rounds": 60, "gossip_rounds": 8, "fetch_rounds": 10,
    "void_rounds": 120,
}  # fmt: skip
END_OF_CALLS = 260
END_OF_FAULTS = 300
END = 900


@dataclass
class Schedule:
    """A run to be played.

    Attributes:
        seed: The seed of the random choices.
        nodes: The nodes.
        links: The latency of each link.
        settings: The settings of the protocol.
        calls: Node, kind, round and fields of each call.
        crashes: Node, round, and round of recovery of each crash; None if the node does not recover.
        faults: The shares of lost, duplicated and reordered messages.
        strike: The link faults; None for random faults with the shares in ``faults``.
        end_round: The last round.
    """

    seed: int
    nodes: list[NodeInfo] = field(default_factory=list)
    links: dict[tuple[int, int], int] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    calls: list[tuple[int, str, int, dict[str, Any]]] = field(default_factory=list)
    crashes: list[tuple[int, int, int | None]] = field(default_factory=list)
    faults: tuple[float, float, float] = (0.0, 0.0, 0.0)
    strike: Strike | None = None
    end_round: int = END

    def network(self) -> LocalNetwork:
        """Returns the network before the first round."""
        strike = self.strike or FaultyLinks(self.seed, *self.faults, 12, END_OF_FAULTS)
        network = LocalNetwork(
            Repository, nodes=self.nodes, links=self.links, settings={**self.settings, "seed": self.seed}, strike=strike
        )
        for node, kind, round_, of in sorted(self.calls, key=lambda call: call[2]):
            network.call(node, kind, round_, **of)
        for node, round_, end in self.crashes:
            network.crash(node, round_, end)
        return network

    def of_role(self, role: str) -> list[int]:
        """Returns the ids of the nodes of a role."""
        return [one.node for one in self.nodes if one.role == role]


def drawn(seed: int) -> Schedule:
    """Returns a random schedule."""
    rng = random.Random(f"repository {seed}")
    schedule = Schedule(seed)
    schedule.settings = RepositorySettings(
        **TIMERS, acknowledge_count=rng.choice([0, 1, 3]), store_rounds=rng.choice([0, 0, 2]),
        retrieve_rounds=rng.choice([0, 0, 1]), fetch_batch=rng.choice([1, 4, 100]), reroute_rounds=rng.randint(1, 6),
    ).model_dump()  # fmt: skip
    _overlay(schedule, rng)
    topics = ["t"] if rng.random() < 0.7 else ["t", "u"]
    _calls(schedule, rng, topics)
    _bundles(schedule, rng, topics)
    _crashes(schedule, rng)
    if rng.random() < 0.75:
        schedule.faults = rng.choice([0, 0.05, 0.2, 0.35]), rng.choice([0, 0.1, 0.3]), rng.choice([0, 0.2, 0.5])
    return schedule


def _overlay(schedule: Schedule, rng: random.Random) -> None:
    """Adds one to four brokers, and one to three repositories and three to six clients at drawn brokers."""
    n_brokers = rng.randint(1, 4)
    for broker in range(n_brokers):
        schedule.nodes.append(NodeInfo(broker, f"b{broker}", "broker"))
        if broker:
            schedule.links[rng.randrange(broker), broker] = rng.randint(1, 3)
    if n_brokers > 2 and rng.random() < 0.5:
        schedule.links[0, n_brokers - 1] = rng.randint(1, 3)
    roles = ["repository"] * rng.randint(1, 3) + ["client"] * rng.randint(3, 6)
    for node, role in enumerate(roles, n_brokers):
        schedule.nodes.append(NodeInfo(node, f"{role[0]}{node}", role))
        schedule.links[rng.randrange(n_brokers), node] = rng.randint(1, 2)


def _calls(schedule: Schedule, rng: random.Random, topics: list[str]) -> None:
    clients = schedule.of_role("client")
    number, of_topic = 0, {topic: list[int]() for topic in topics}
    for client in clients[1:]:
        for topic in topics:
            for _ in range(rng.randint(0, 2)):
                number += 1
                of_topic[topic].append(number)
                round_ = rng.choice([1, rng.randint(1, END_OF_CALLS)])
                schedule.calls.append((client, "subscribe", round_, {"subscription_id": number, "topic": topic}))
                if rng.random() < 0.1:
                    end = rng.randint(round_ + 1, END_OF_CALLS + 1)
                    schedule.calls.append((client, "unsubscribe", end, {"subscription_id": number, "topic": topic}))
    for publisher in clients[: rng.randint(1, min(3, len(clients)))]:
        for topic in topics:
            for _ in range(rng.randint(3, 14)):
                matches = tuple(one for one in of_topic[topic] if rng.random() < 0.6)
                round_ = rng.randint(1, END_OF_CALLS)
                schedule.calls.append((publisher, "publish", round_, {"topic": topic, "matches": matches}))
    for client in clients:
        for _ in range(rng.choice([0, 0, 1, 2])):
            of = {"topic": rng.choice(topics), "peer": rng.choice(schedule.of_role("repository"))}
            schedule.calls.append((client, "steer", rng.randint(1, END_OF_CALLS), of))


def _bundles(schedule: Schedule, rng: random.Random, topics: list[str]) -> None:
    repositories = schedule.of_role("repository")
    if rng.random() < 0.3:
        node, broker = len(schedule.nodes), rng.choice(schedule.of_role("broker"))
        schedule.nodes.append(NodeInfo(node, f"r{node}", "repository"))
        schedule.links[broker, node] = rng.randint(1, 2)
        schedule.calls.append((node, "join", rng.randint(20, END_OF_CALLS), {}))
    if len(repositories) > 1:
        for node in rng.sample(repositories, rng.choice([0, 0, 0, 1, len(repositories) - 1])):
            schedule.calls.append((node, "leave", rng.randint(20, END_OF_CALLS), {}))


def _crashes(schedule: Schedule, rng: random.Random) -> None:
    movers = {node for node, kind, _, _ in schedule.calls if kind in ("leave", "join")}
    repositories = [node for node in schedule.of_role("repository") if node not in movers]
    may_stay_down = set(rng.sample(repositories, max(0, len(repositories) - 1))) if rng.random() < 0.4 else set()
    survivor = [node for node in repositories if node not in may_stay_down] if may_stay_down else []
    for one in schedule.nodes:
        if one.node in survivor:
            continue
        round_ = rng.randint(5, 80)
        while (one.node in may_stay_down or rng.random() < 0.4) and round_ < END_OF_CALLS:
            end: int | None = min(round_ + rng.randint(1, 90), END_OF_FAULTS)
            if one.node in may_stay_down and rng.random() < 0.7:
                end = None
            schedule.crashes.append((one.node, round_, end))
            if end is None:
                break
            round_ = end + rng.randint(1, 80)


def owned(seed: int) -> Schedule:
    """Returns a random schedule in which the owner of all topics temporarily deregisters clients.

    The owner does not crash and all other nodes recover, because a registration that only one repository has is lost if
    this repository does not recover.
    """
    schedule, rng = drawn(seed), random.Random(f"owned {seed}")
    clients, owner = schedule.of_role("client"), len(schedule.nodes)
    schedule.nodes.append(NodeInfo(owner, "owner", "client"))
    schedule.links[rng.choice(schedule.of_role("broker")), owner] = rng.randint(1, 2)
    schedule.crashes = [(node, begin, END_OF_FAULTS if end is None else end) for node, begin, end in schedule.crashes]
    everybody = [f"c{client}" for client in clients]
    topics = sorted({of["topic"] for _, _, _, of in schedule.calls if "topic" in of})
    rules = {"owner": "owner", "publishers": everybody, "subscribers": everybody}
    schedule.settings["topics"] = dict.fromkeys(topics, rules)
    for client, role, topic in itertools.product(clients, ("publisher", "subscriber"), topics):
        begin = rng.randint(5, END_OF_CALLS - 60)
        while rng.random() < 0.4 and begin < END_OF_CALLS:
            end = min(begin + rng.randint(1, 80), END_OF_CALLS)
            of = {"topic": topic, "peer": client, "role": role}
            schedule.calls += [(owner, "deregister", begin, of), (owner, "register", end, of)]
            begin = end + rng.randint(1, 60)
    return schedule


def crossed(seed: int) -> Schedule:
    """Returns a schedule in which each of two repositories waits for a message that the other has (rule P18).

    Both publishers fail permanently. In the order of repository 1, the message that it stores follows a message that
    only repository 2 has; in the order of repository 2, it is the other way round.
    """
    schedule = Schedule(seed, settings=RepositorySettings(**{**TIMERS, "void_rounds": 10_000}).model_dump())
    roles = {0: "broker", 1: "repository", 2: "repository", 3: "client", 4: "client", 5: "client"}
    schedule.nodes = [NodeInfo(node, f"{role[0]}{node}", role) for node, role in roles.items()]
    schedule.links = {(0, node): 1 for node in roles if node}
    schedule.calls = [(5, "subscribe", 1, {"subscription_id": 1, "topic": "t"})]
    for publisher, round_ in ((3, 100), (4, 100)):
        schedule.calls.append((publisher, "publish", round_, {"topic": "t", "matches": (1,)}))
        schedule.crashes.append((publisher, round_ + 1, None))

    def strike(flights: list[Flight]) -> list[Flight]:
        lost = {(1, 3), (2, 4)}
        return [
            one._replace(fate="lost_link")
            if one.kind == "Message" and (one.dst, one.message.source) in lost
            else one._replace(due_round=one.due_round + 1)
            if one.kind == "P2R-Order" and (one.dst, one.message.source) == (2, 3)
            else one
            for one in flights
        ]

    schedule.strike = strike
    return schedule


def observed(schedule: Schedule, network: LocalNetwork) -> History:
    """Returns the observable history of a schedule's run."""
    numbers: Counter[int] = Counter()
    calls = []
    for node, kind, _, of in sorted(schedule.calls, key=lambda call: call[2]):
        numbers[node] += 1
        calls.append(Call(node, numbers[node], kind, of.get("topic", ""), of))
    steps: dict[str, dict[tuple[int, int], int]] = {"issued": {}, "confirmed": {}}
    for node, seq, round_, step in network.rows.calls:
        steps[step].setdefault((node, seq), round_)
    ids = {one.name: one.node for one in schedule.nodes}
    topics = {
        topic: {
            "owner": ids[rules["owner"]],
            **{role: {ids[name] for name in rules[role]} for role in ("publishers", "subscribers")},
        }
        for topic, rules in schedule.settings["topics"].items()
    }
    rows = network.rows
    return History(
        {one.node: one.role for one in schedule.nodes}, topics, calls, [Crash(*one) for one in schedule.crashes],
        steps["issued"], steps["confirmed"],
        [(round_, node, (one.source, one.source_seq)) for node, round_, one in rows.delivered],
        [(round_, node, status) for node, round_, status in rows.statuses],
        [one for one in rows.handled if hasattr(one.message, "origin")], schedule.end_round,
        schedule.settings["assist_rounds"],
    )  # fmt: skip
