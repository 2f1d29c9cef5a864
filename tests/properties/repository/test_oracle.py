"""Runs of protocol repository come to what a plain program says: what is stored and delivered, without faults when."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest
from oracles.repository.plain import Message, Run, expected
from support.repository.links import FaultyLinks
from support.repository.schedules import TIMERS

from pipelines.protocols.repository import RepositorySettings
from udfs.nodes.local import LocalNetwork
from udfs.nodes.world import NodeInfo
from udfs.repository.program import Repository

N_RUNS = 250
N_FAULTY = 100
SETTLED = 90
"""The round in which all subscriptions are confirmed: three ways there and back, and what waits for timers."""
END_OF_CALLS, END_OF_FAULTS, END = 130, 200, 900


def drawn(seed: int) -> Run:
    """Returns a random overlay of brokers with a bundle, clients, subscriptions and publications."""
    draw = random.Random(seed)
    n_brokers, n_repositories, n_clients = draw.randint(1, 5), draw.randint(1, 4), draw.randint(2, 6)
    links = {(draw.randrange(broker), broker): draw.randint(1, 3) for broker in range(1, n_brokers)}
    if n_brokers > 3:
        links.setdefault((0, n_brokers - 1), draw.randint(1, 3))
    repositories = list(range(n_brokers, n_brokers + n_repositories))
    clients = list(range(n_brokers + n_repositories, n_brokers + n_repositories + n_clients))
    links |= {(draw.randrange(n_brokers), node): draw.randint(1, 2) for node in (*repositories, *clients)}
    subscriptions = {number: draw.choice(clients) for number in range(draw.randint(1, 8))}
    published = [
        (draw.randint(SETTLED, END_OF_CALLS), publisher, tuple(one for one in subscriptions if draw.random() < 0.5))
        for publisher in draw.sample(clients, draw.randint(1, 2))
        for _ in range(draw.randint(1, 8))
    ]
    return Run(
        list(range(n_brokers)), repositories, links, subscriptions, sorted(published, key=lambda one: one[:2]),
        draw.choice([0, 0, 2]),
    )  # fmt: skip


def network(run: Run, seed: int, strike: Any = None, **settings: Any) -> LocalNetwork:
    """Returns a run of the program before its first round."""
    nodes = sorted({node for link in run.links for node in link} | set(run.brokers))
    roles = dict.fromkeys(run.brokers, "broker") | dict.fromkeys(run.repositories, "repository")
    given = RepositorySettings(store_rounds=run.store_rounds, **settings).model_dump()
    found = LocalNetwork(
        Repository, nodes=[NodeInfo(node, f"n{node}", roles.get(node, "client")) for node in nodes], links=run.links,
        settings={**given, "seed": seed}, strike=strike,
    )  # fmt: skip
    for number, client in run.subscriptions.items():
        found.call(client, "subscribe", 1, subscription_id=number, topic="t")
    for round_, publisher, matching in run.published:
        found.call(publisher, "publish", round_, topic="t", matches=matching)
    return found


def delivered(run: Run, played: LocalNetwork) -> dict[int, list[tuple[Message, int]]]:
    """Returns what clients have delivered, and when, by client; messages are numbered as the plain program does."""
    seqs: dict[int, int] = defaultdict(int)
    for client in run.subscriptions.values():
        seqs[client] += 1
    found: dict[int, list[tuple[Message, int]]] = {client: [] for client in seqs}
    for client, round_, one in played.rows.delivered:
        found[client].append(((one.source, one.source_seq - seqs.get(one.source, 0)), round_))
    return found


def stored(played: LocalNetwork, repository: int) -> dict[int, list[int]]:
    """Returns the messages that a repository has of each publisher, in the order of its numbers."""
    of: dict[int, list[int]] = defaultdict(list)
    for slot in played.durable(repository)["slot"].values():
        if slot.status == "stored":
            of[slot.publisher].append(slot.n)
    return of


def in_order(of_client: list[tuple[Message, int]]) -> dict[int, list[int]]:
    """Returns the numbers that a client has delivered of each publisher."""
    found: dict[int, list[int]] = defaultdict(list)
    for (publisher, number), _ in of_client:
        found[publisher].append(number)
    return found


@pytest.mark.parametrize("first", range(0, N_RUNS, 50))
def test_without_faults(first: int) -> None:
    """Storage, deliveries, and the round of each of them."""
    n_delivered = 0
    for seed in range(first, first + 50):
        run = drawn(seed)
        outcome, played = expected(run), network(run, seed)
        played.play(END_OF_CALLS + 60)
        assert {one: stored(played, one) for one in run.repositories} == outcome.stored, seed
        found = delivered(run, played)
        assert {client: dict(of) for client, of in found.items()} == outcome.rounds, seed
        for client, of in found.items():
            assert in_order(of) == outcome.delivered[client], seed
        n_delivered += sum(map(len, found.values()))
    assert n_delivered > 300


@pytest.mark.parametrize("first", range(0, N_FAULTY, 25))
def test_with_faults(first: int) -> None:
    """Links lose, duplicate and reorder, all but publishers crash: the same is stored and delivered."""
    n_late = 0
    for seed in range(first, first + 25):
        run, draw = drawn(seed), random.Random(seed)
        strike = _after(SETTLED, FaultyLinks(seed, 0.2, 0.1, 0.2, 8, END_OF_FAULTS)) if seed % 2 else None
        played = network(run, seed, strike, **TIMERS)
        publishers = {publisher for _, publisher, _ in run.published}
        for node in (*run.brokers, *run.repositories, *set(run.subscriptions.values()) - publishers):
            if draw.random() < 0.5:
                begin = draw.randint(SETTLED, END_OF_CALLS)
                played.crash(node, begin, draw.randint(begin + 1, END_OF_FAULTS))
        played.play(END)
        outcome, found = expected(run), delivered(run, played)
        assert {one: stored(played, one) for one in run.repositories} == outcome.stored, seed
        for client, of in found.items():
            assert in_order(of) == outcome.delivered[client], seed
        n_late += sum(round_ > outcome.rounds[client][one] for client, of in found.items() for one, round_ in of)
    assert n_late > 100


def _after(first: int, strike: FaultyLinks) -> Any:
    """Returns faults of links that begin in a round."""
    return lambda flights: strike(flights) if flights and flights[0].sent_round >= first else flights
