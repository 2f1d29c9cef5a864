"""Adversarial schedules: losses that target message types, and crashes near publications, registrations and joins."""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable

from oracles.repository.judge import Call, Crash, History

from pipelines.protocols.repository import RepositorySettings
from udfs.nodes.local import LocalNetwork
from udfs.nodes.world import Flight, NodeInfo

from .links import FaultyLinks
from .schedules import END_OF_CALLS, END_OF_FAULTS, TIMERS, Schedule, add_overlay

KINDS = (
    "Message", "C2R-Probe", "P2R-Order", "P2R-Retransmit", "P2R-Recovery", "S2R-Subscribe", "S2R-Recovery", "S2R-ACK",
    "S2R-NAK", "Register", "Deregister", "R2C-Probe", "R2C-Migrate", "Refuse", "R2C-Confirm", "R2P-ACK", "R2P-NAK",
    "R2P-Recovery", "R2S*-Persistent", "R2S-Retransmit", "R2S-Sync", "R2S-Rectify", "R2S-Confirm", "Gossip-ACK",
    "Gossip-LEAVE", "R2R-NAK", "R2R-Retransmit", "R2R-Assist", "R2R-Recovery", "Broker-Up", "Broker-Up-ACK",
)  # fmt: skip
"""All message types of the protocol; ``Broker-Up`` and ``Broker-Up-ACK`` name no receiver."""
END = 1100
Aim = Callable[[Flight], bool]


class AimedLoss:
    """Loses all messages that satisfy one of its aims, up to `END_OF_FAULTS`; can also inject random link faults."""

    def __init__(self, rng: random.Random, seed: int, links: list[tuple[int, int]], moments: list[int]) -> None:
        """Chooses the aims at random.

        Args:
            rng: The random generator of the aims.
            seed: The seed of the random link faults.
            links: The links.
            moments: The rounds of calls, crashes and recoveries; losses begin near these rounds.
        """
        self._sent: Counter[str] = Counter()
        self._aims = [self._aim(rng, links, moments) for _ in range(rng.randint(1, 4))]
        self._random: FaultyLinks | None = None
        if rng.random() < 0.3:
            self._random = FaultyLinks(seed, rng.choice([0.02, 0.1, 0.25]), 0.1, 0.2, 12, END_OF_FAULTS)

    def _aim(self, rng: random.Random, links: list[tuple[int, int]], moments: list[int]) -> Aim:
        kinds = set(rng.sample(KINDS, rng.choice([1, 1, 1, 2, 4])))
        begin = max(0, rng.choice(moments) + rng.randint(-6, 6))
        end = min(END_OF_FAULTS, begin + rng.choice([1, 3, 10, 40, 100]))
        link = rng.choice(links)
        link = link if rng.random() < 0.5 else link[::-1]
        first, length = rng.randint(1, 8), rng.choice([1, 2, 4, 16])
        return rng.choice([
            lambda one: one.kind in kinds and begin <= one.sent_round < end,
            lambda one: one.kind in kinds and begin <= one.sent_round < end and (one.src, one.dst) == link,
            lambda one: begin <= one.sent_round < end and (one.src, one.dst) == link,
            lambda one: one.kind in kinds and first <= self._sent[one.kind] < first + length,
        ])  # fmt: skip

    def __call__(self, flights: list[Flight]) -> list[Flight]:
        """Returns the messages of a round after the losses and link faults."""
        if not flights or flights[0].sent_round >= END_OF_FAULTS:
            return flights
        struck = [self._struck(one) for one in flights]
        return self._random(struck) if self._random is not None else struck

    def _struck(self, one: Flight) -> Flight:
        if one.src == one.dst:  # a report of the node's own failure detector
            return one
        self._sent[one.kind] += 1
        return one._replace(fate="lost_link") if any(aim(one) for aim in self._aims) else one


def aimed(seed: int) -> Schedule:
    """Returns a random adversarial schedule; all brokers recover, and one repository never fails and never leaves."""
    rng = random.Random(f"aimed {seed}")
    schedule = Schedule(seed, end_round=END)
    schedule.settings = RepositorySettings(
        **TIMERS, acknowledge_count=rng.choice([0, 1, 3]), store_rounds=rng.choice([0, 0, 2]),
        fetch_batch=rng.choice([1, 4, 100]), reroute_rounds=rng.randint(1, 6),
    ).model_dump()  # fmt: skip
    add_overlay(schedule, rng, repositories=(1, 4), clients=(4, 6))
    _publications(schedule, rng)
    _registrations(schedule, rng)
    _bundle(schedule, rng)
    moments = [round_ for _, kind, round_, _ in schedule.calls if kind != "publish" or rng.random() < 0.3]
    _crashes(schedule, rng, moments)
    _removals(schedule, random.Random(f"removed {seed}"))
    moments += [round_ for _, begin, end in schedule.crashes for round_ in (begin, end) if round_ is not None]
    schedule.strike = AimedLoss(rng, seed, sorted(schedule.links), moments)
    return schedule


def _publications(schedule: Schedule, rng: random.Random) -> None:
    clients = schedule.of_role("client")
    numbers = itertools.count(1)
    of_topic: list[int] = []
    for client in clients[2:] if rng.random() < 0.7 else clients[1:]:
        for _ in range(rng.choice([1, 1, 2])):
            number, round_ = next(numbers), rng.choice([1, 1, rng.randint(1, END_OF_CALLS)])
            of = {"subscription_id": number, "topic": "t"}
            of_topic.append(number)
            schedule.calls.append((client, "subscribe", round_, of))
            if rng.random() < 0.1:
                schedule.calls.append((client, "unsubscribe", rng.randint(round_ + 1, END_OF_CALLS + 1), of))
    for publisher in clients[: rng.randint(1, 3)]:
        for _ in range(rng.randint(2, 12)):
            matches = tuple(one for one in of_topic if rng.random() < 0.7)
            schedule.calls.append(
                (publisher, "publish", rng.randint(1, END_OF_CALLS), {"topic": "t", "matches": matches})
            )
    for client in clients:
        if rng.random() < 0.3:
            of = {"topic": "t", "peer": rng.choice(schedule.of_role("repository"))}
            schedule.calls.append((client, "steer", rng.randint(1, END_OF_CALLS), of))


def _registrations(schedule: Schedule, rng: random.Random) -> None:
    """Adds calls in which an owner registers and deregisters clients; half of the calls are near a publication."""
    if rng.random() < 0.4:
        return
    clients, owner = schedule.of_role("client"), len(schedule.nodes)
    schedule.nodes.append(NodeInfo(owner, "owner", "client"))
    schedule.links[rng.choice(schedule.of_role("broker")), owner] = rng.randint(1, 2)
    listed = {role: [f"c{one}" for one in clients if rng.random() < 0.85] for role in ("publishers", "subscribers")}
    schedule.settings["topics"] = {"t": {"owner": "owner", **listed}}
    published = [round_ for _, kind, round_, _ in schedule.calls if kind == "publish"]
    for client, role in itertools.product(clients, ("publisher", "subscriber")):
        is_in = f"c{client}" in listed[f"{role}s"]
        while rng.random() < 0.35:
            round_ = rng.choice(published) + rng.randint(-3, 3) if rng.random() < 0.5 else rng.randint(5, END_OF_CALLS)
            of = {"topic": "t", "peer": client, "role": role}
            schedule.calls.append((owner, "deregister" if is_in else "register", max(2, round_), of))
            is_in = not is_in


def _bundle(schedule: Schedule, rng: random.Random) -> None:
    founders = schedule.of_role("repository")
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        node, broker = len(schedule.nodes), rng.choice(schedule.of_role("broker"))
        schedule.nodes.append(NodeInfo(node, f"r{node}", "repository"))
        schedule.links[broker, node] = rng.randint(1, 2)
        schedule.calls.append((node, "join", rng.randint(20, 120), {}))
    joined = [node for node in schedule.of_role("repository") if node not in founders]
    replaced = founders if joined and rng.random() < 0.5 else founders[1:]
    for node in replaced:
        if rng.random() < 0.35:
            schedule.calls.append((node, "leave", rng.randint(150, END_OF_CALLS), {}))


def _crashes(schedule: Schedule, rng: random.Random, moments: list[int]) -> None:
    """Adds crashes near ``moments``, but none of the survivor.

    The survivor is the first founder, or, if the first founder leaves, the last joiner.
    """
    movers = defaultdict(set)
    for node, kind, _, _ in schedule.calls:
        movers[kind].add(node)
    repositories = schedule.of_role("repository")
    survivor = max(movers["join"]) if movers["leave"] & {repositories[0]} else repositories[0]
    for one in schedule.nodes:
        if one.node == survivor or one.node in movers["join"] or rng.random() < 0.45:
            continue
        begin = max(5, rng.choice(moments) + rng.randint(-4, 8))
        end: int | None = min(begin + rng.choice([2, 10, 40, 120]), END_OF_FAULTS)
        if end is not None and end <= begin:
            continue
        if one.role != "broker" and rng.random() < 0.3 and (one.role == "client" or survivor == repositories[0]):
            end = None
        schedule.crashes.append((one.node, begin, end))


def _removals(schedule: Schedule, rng: random.Random) -> None:
    """Adds calls in which the survivor removes failed repositories; most of these do not recover, some recover."""
    joined = {node for node, kind, _, _ in schedule.calls if kind in ("join", "leave")}
    down = {node: (begin, end) for node, begin, end in schedule.crashes}
    repositories = schedule.of_role("repository")
    survivors = [node for node in repositories if node not in joined | down.keys()]
    for node in repositories:
        begin, end = down.get(node, (0, 0))
        if node not in down or node in joined or not survivors or rng.random() < (0.7 if end else 0.3):
            continue
        round_ = begin + rng.randint(1, 150) if end is None else rng.randint(begin, end)
        schedule.calls.append((survivors[0], "remove", round_, {"peer": node}))


def history(schedule: Schedule) -> tuple[History, LocalNetwork]:
    """Plays a schedule; returns its observable history, and the network."""
    network = schedule.network()
    network.play(schedule.end_round)
    return observed(schedule, network), network


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
