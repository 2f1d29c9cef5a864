"""The sequential program of protocol ginger: it holds on random schedules, and its checker sees what is wrong."""

from __future__ import annotations

import random

import pytest
from oracles.ginger.bound import is_beyond
from oracles.ginger.checker import causal_violations, order_violations, violations
from oracles.ginger.generator import random_setup
from oracles.ginger.messages import Publication
from oracles.ginger.network import RandomNetwork


@pytest.mark.parametrize("first", range(0, 1000, 250))
def test_random_schedules_hold(first: int) -> None:
    for seed in range(first, first + 250):
        draw = random.Random(seed)
        network = RandomNetwork(random_setup(draw), draw)
        network.run()
        assert violations(network) == [], seed


def test_a_message_that_one_client_lacks_is_found() -> None:
    draw = random.Random(1)
    network = RandomNetwork(random_setup(draw), draw)
    network.run()
    client = next(client for client in network.clients.values() if client.delivered)
    last = list(client.delivered)[-1]
    del client.delivered[last]
    assert violations(network) == [f"{last} {network_guarantee(network, last)} never delivered at {client.node}"]


def network_guarantee(network: RandomNetwork, of: tuple[int, int]) -> str:
    return next(m.guarantee for m in network.setup.publications if m.id == of)


def message(client: int, seq: int, guarantee: str, *keys: str) -> Publication:
    return Publication(client, seq, "t", frozenset(keys), guarantee)


def test_a_message_on_both_sides_of_a_total_order_message_is_found() -> None:
    total, other, unrelated = (
        message(1, 1, "total", "k"),
        message(2, 1, "eventual", "k"),
        message(2, 2, "eventual", "l"),
    )
    logs = {
        1: [("deliver", m) for m in (total, other, unrelated)],
        2: [("deliver", m) for m in (unrelated, other, total)],
    }
    assert list(order_violations(logs, {"t": {1, 2}})) == ["(1, 1) before (2, 1) at 1, after at 2"]


def test_an_effect_before_its_cause_is_found() -> None:
    cause, effect = message(1, 1, "causal", "k"), message(2, 1, "causal", "k", "l")
    logs = {
        1: [("publish", cause), ("deliver", cause), ("deliver", effect)],
        2: [("deliver", cause), ("publish", effect), ("deliver", effect)],
        3: [("deliver", effect), ("deliver", cause)],
    }
    assert list(causal_violations(logs)) == ["(1, 1) after (2, 1) at 3, which follows it"]


@pytest.mark.parametrize("n_crashes", [1, 2])
def test_random_schedules_with_crashes_hold_within_the_views(n_crashes: int) -> None:
    """The root may be among those that crash; the bound follows from setup and crashes: nobody is alone within it."""
    n_within = n_repaired = 0
    for seed in range(600):
        draw = random.Random(seed)
        network = RandomNetwork(random_setup(draw, n_brokers=(3, 9)), draw, n_crashes)
        network.run()
        nodes = [*network.live_brokers(), *network.clients.values()]
        if is_beyond(network.setup, network.dead):
            continue
        assert [node.node for node in nodes if node.is_isolated] == [], seed
        n_within += 1
        n_repaired += any(node.attempt for node in nodes)
        assert violations(network) == [], seed
    assert n_within > 450
    assert n_repaired > 200
