"""The actors that speed is measured against do what the sequential program of the δ protocol does."""

from __future__ import annotations

import random

import pytest
from oracles.actors import Call, simulate
from oracles.delta import schedule as plain
from oracles.delta.network import play
from oracles.delta.view import link


@pytest.mark.parametrize("seed", range(12))
def test_actors_deliver_and_confirm_in_the_same_rounds_as_the_sequential_program(seed: int) -> None:
    draw = random.Random(seed)
    size, delta = draw.randrange(2, 25), seed % 4
    links = {link(n, draw.randrange(n)): draw.randrange(1, 4) for n in range(1, size)}
    topic = [draw.choice("ab") for _ in range(6)]
    subscribed = sorted((draw.randrange(4), draw.randrange(size)) for _ in topic)
    published = sorted((400 + draw.randrange(9), draw.randrange(size), draw.choice("abc")) for _ in range(20))
    calls = [Call(at, node, n, "subscribe", topic[n], n) for n, (at, node) in enumerate(subscribed)]
    calls += [Call(at, node, 100 + n, "publish", about) for n, (at, node, about) in enumerate(published)]
    wanted = {about: frozenset(n for n, of in enumerate(topic) if of == about) for about in "abc"}
    same = [
        plain.Call(
            call.round, call.node, call.kind, call.number, wanted[call.topic] if call.number >= 100 else frozenset()
        )
        for call in calls
    ]
    found, told = simulate(links, calls, delta), play(plain.Schedule(delta, links, same), "identifier")
    assert sorted(found.deliveries) == sorted(told.deliveries) != []
    assert found.confirmed == {(node, number): at for (_, node, number), at in told.confirmations.items()}
