"""Random crash schedules of protocol ginger on small trees; each function aims at one kind of situation.

All clients publish and subscribe to one topic. Publications are issued until round 208, in which crashes begin. Many
schedules are beyond the bound.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from support.ginger.nodes import swept
from support.ginger.setups import Crashing


def two_failures(seed: int) -> Crashing:
    """Two brokers crash soon after each other, and perhaps recover."""
    draw = random.Random(seed)
    brokers = range(draw.randint(3, 7))
    parent = {b: draw.randrange(max(0, b - 3), b) if draw.random() < 0.5 else draw.randrange(min(b, 2))
              for b in brokers[1:]}  # fmt: skip
    edge = {len(brokers) + client: draw.choice(brokers) for client in range(draw.randint(1, 3))}
    latency = {(above, b): draw.choice([1, 1, 2, 3, 5]) for b, above in parent.items()}
    first, second = draw.sample(brokers, 2) if draw.random() < 0.5 else (0, draw.choice(brokers[1:]))
    crashes = {first: 208, second: 208 + draw.randint(0, draw.choice([45, 45, 140]))}
    until = {b: at + draw.randint(1, draw.choice([12, 40])) for b, at in crashes.items() if draw.random() < 0.6}
    return swept({0: None, **parent}, edge, latency)(crashes, until)


def three_failures(seed: int) -> Crashing:
    """A third broker crashes, too; brokers may have few connections, and buffers may be large."""
    case, draw = two_failures(seed), random.Random(-seed)
    crashes, until = dict(case.crashes), dict(case.until)
    others = [b for b in case.timed.setup.parent if b not in crashes]
    if others:
        third, at = draw.choice(others), 208 + draw.randint(0, draw.choice([60, 200]))
        crashes[third] = at
        if draw.random() < 0.7:
            until[third] = at + draw.randint(1, draw.choice([12, 40]))
    settings = {**case.settings, "total_degree": draw.choice([2, 3, 4, 8])}
    size = draw.choice([1, 150])
    return replace(case, crashes=crashes, until=until, settings=settings, buffer_size=size)


def edge_failures(seed: int) -> Crashing:
    """The root crashes and recovers, then the edge broker of a client crashes, then one or two other brokers."""
    draw = random.Random(seed)
    brokers, parent = _tree(draw, draw.randint(5, 8))
    lost = draw.choice(brokers[2:])
    edge = {len(brokers): draw.choice([b for b in brokers if b != lost]), len(brokers) + 1: lost}
    if draw.random() < 0.3:
        edge[len(brokers) + 2] = draw.choice(brokers)
    crashes = {0: draw.choice([205, 208, 208, 212]), lost: 209 + draw.randint(0, 8)}
    until = {0: crashes[0] + draw.randint(4, 25)}
    rest = [b for b in brokers if b not in crashes]
    for broker in draw.sample(rest, draw.choice([1, 1, 2])):
        crashes[broker] = draw.randint(206, 265)
        if draw.random() < 0.6:
            until[broker] = crashes[broker] + draw.randint(2, 20)
    if draw.random() < 0.2:
        until[lost] = crashes[lost] + draw.randint(2, 30)
    return _case(draw, parent, edge, crashes, until)


def orphan_failures(seed: int) -> Crashing:
    """A broker loses its parent and its children at about the same time, and crashes soon afterwards."""
    draw = random.Random(seed)
    brokers, parent = _tree(draw, draw.randint(5, 9))
    children = {b: [c for c in brokers if parent[c] == b] for b in brokers}
    orphan = draw.choice([b for b in brokers[1:] if len(children[b]) in (1, 2)] or [1])
    edge = {len(brokers) + n: child for n, child in enumerate(children[orphan])}
    edge[len(brokers) + len(edge)] = draw.choice([b for b in brokers if b != orphan])
    crashes = {parent[orphan] or 0: 208, orphan: draw.randint(211, 250)}
    crashes |= {child: draw.randint(204, 218) for child in children[orphan]}
    rest = [b for b in brokers if b not in crashes]
    if rest and draw.random() < 0.4:
        crashes[draw.choice(rest)] = draw.randint(208, 240)
    until = {b: at + draw.randint(1, 20) for b, at in crashes.items() if draw.random() < 0.4}
    return _case(draw, parent, edge, crashes, until, least_hops=3)


def short_failures(seed: int) -> Crashing:
    """After a first failure, one or two brokers are down for a few rounds only."""
    draw = random.Random(seed)
    brokers, parent = _tree(draw, draw.randint(4, 8))
    edge = {len(brokers) + client: draw.choice(brokers) for client in range(draw.choice([2, 2, 3]))}
    first = draw.choice([0, 0, 1])
    crashes = {first: 208}
    until = {first: 208 + draw.randint(1, 30)} if draw.random() < 0.5 else {}
    for broker in draw.sample([b for b in brokers if b != first], draw.choice([1, 1, 2])):
        crashes[broker] = draw.randint(209, 255)
        until[broker] = crashes[broker] + draw.choice([1, 1, 2, 3, 5])
    return _case(draw, parent, edge, crashes, until)


SCHEDULES: Mapping[str, Callable[[int], Crashing]] = {
    "two": two_failures, "three": three_failures, "edge": edge_failures, "orphan": orphan_failures,
    "short": short_failures,
}  # fmt: skip


def _tree(draw: random.Random, n_brokers: int) -> tuple[range, dict[int, int | None]]:
    """Returns the brokers, and the parent of each."""
    brokers = range(n_brokers)
    return brokers, {0: None, 1: 0, 2: 0, **{b: draw.choice([0, 1, 2, b - 1]) for b in brokers[3:]}}


def _case(
    draw: random.Random, parent: dict[int, int | None], edge: dict[int, int], crashes: dict[int, int],
    until: dict[int, int], least_hops: int = 2,
) -> Crashing:  # fmt: skip
    latency = {(above, b): draw.choice([1, 2, 3, 5, 9]) for b, above in parent.items() if above is not None}
    hops, degree = least_hops + draw.randrange(3), draw.choice([3, 4, 8])
    case = swept(parent, edge, latency, max_hops=hops, total_degree=degree)(crashes, until)
    return replace(case, buffer_size=draw.choice([1, 1, 150]))
