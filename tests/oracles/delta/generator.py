"""Random runs; crashes are added while a run is played, so that at most δ nodes are not OPERATIONAL at a time."""

from __future__ import annotations

import random

from oracles.delta.network import Network
from oracles.delta.node import Status
from oracles.delta.schedule import Call, Crash, Schedule
from oracles.delta.view import link

QUIET = 2000


def random_schedule(draw: random.Random) -> Schedule:
    """Returns a random schedule without crashes: a tree with random latencies, and random calls."""
    size = draw.randrange(8, 41)
    spread = draw.choice([2, 4, size])
    largest = draw.choice([1, 2, 4])
    links = {
        link(n, draw.randrange(max(0, n - spread), n)): draw.randrange(1, largest + 1) for n in range(1, size)
    }  # fmt: skip
    last = draw.choice([60, 120, 240])
    calls = _joins(draw, links, last) + _subscriptions(draw, size, last)
    calls += _publications(draw, size, last, [call.number for call in calls if call.kind == "subscribe"])
    calls.sort(key=lambda call: (call.round, call.node, call.kind, call.number))
    detection = draw.randrange(largest, largest + draw.choice([1, 8]))
    low = draw.choice([0, 1, 4, 10])
    return Schedule(draw.randrange(1, 4), links, calls, detection=detection, low_priority=low)


def _joins(draw: random.Random, links: dict[tuple[int, int], int], last: int) -> list[Call]:
    """Returns join calls of some leaves; a leaf can be the join point of another joining leaf."""
    degree: dict[int, int] = {}
    for ends in links:
        for x in ends:
            degree[x] = degree.get(x, 0) + 1
    calls = []
    for joiner in [n for n in degree if degree[n] == 1]:
        (ends,) = [ends for ends in links if joiner in ends]
        point = ends[0] if ends[1] == joiner else ends[1]
        if draw.random() < 0.3 and degree[point] > 1:
            calls.append(Call(draw.randrange(5, last), joiner, "join", join_point=point))
    return calls


def _subscriptions(draw: random.Random, size: int, last: int) -> list[Call]:
    calls = []
    for number in range(draw.randrange(2, 12)):
        at, node = draw.randrange(last), draw.randrange(size)
        calls.append(Call(at, node, "subscribe", number))
        if draw.random() < 0.3:
            calls.append(Call(draw.randrange(at, last) + 1, node, "unsubscribe", number))
    return calls


def _publications(draw: random.Random, size: int, last: int, subscriptions: list[int]) -> list[Call]:
    publishers = draw.sample(range(size), draw.randrange(1, 5))
    rounds = [draw.randrange(last) for _ in range(draw.randrange(10, 60))]
    rounds += [last + QUIET] * 3
    return [
        Call(at, draw.choice(publishers), "publish", seq, frozenset(s for s in subscriptions if draw.random() < 0.5))
        for seq, at in enumerate(sorted(rounds))
    ]


def random_run(seed: int, detector: str) -> Network:
    """Plays a random schedule, and adds crashes during the run; ``network.schedule`` contains the whole schedule."""
    draw = random.Random(seed)
    schedule = random_schedule(draw)
    network = Network(schedule, detector)
    rate = draw.choice([0.03, 0.1, 0.3, 0.9])
    longest = draw.choice([3, 15, 60])
    end = max(call.round for call in schedule.calls) - QUIET + 40
    favourites = draw.sample(sorted(network.nodes), 5)
    now = 0
    while now < end:
        now += 1
        _maybe_crash(draw, network, now, rate, longest, favourites)
        network.run(now)
    network.run(end + 2 * QUIET)
    return network


def _maybe_crash(
    draw: random.Random, network: Network, now: int, rate: float, longest: int, favourites: list[int]
) -> None:
    if now < 3 or draw.random() >= rate or unavailable(network) >= network.delta:
        return
    node = network.nodes[draw.choice(favourites) if draw.random() < 0.6 else draw.choice(sorted(network.nodes))]
    is_idle = node.status is Status.DETACHED and node.join_point < 0
    if node.status is Status.FAILED or is_idle:
        return
    crash = Crash(node.name, now, None if draw.random() < 0.02 else now + draw.randrange(1, longest + 1))
    network.schedule.crashes.append(crash)
    network.plan(crash)


def unavailable(network: Network) -> int:
    """Counts the nodes that are not OPERATIONAL, except nodes that join for the first time."""
    joining = (Status.DETACHED, Status.ATTACHED)
    return sum(
        node.status is not Status.OPERATIONAL and not (node.status in joining and node.incarnation == 0)
        for node in network.nodes.values()
    )
