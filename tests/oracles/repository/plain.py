"""Computes the paths, storage and deliveries of a run, one publication after another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

INFINITE = 1 << 60
Message = tuple[int, int]
"""The id of a message: the publisher, and the number of the message among those of the publisher, from 1."""


@dataclass(frozen=True)
class Run:
    """The inputs of a run.

    Attributes:
        brokers: The brokers.
        repositories: The bundle of the only topic.
        links: The latency of each undirected link.
        subscriptions: The client of each subscription.
        published: Round, publisher and matching subscriptions of each publication, in the order of calls for each
            publisher. All clients are steered and all subscriptions are confirmed before the first round.
        store_rounds: The number of rounds in which a message is stored.
    """

    brokers: Sequence[int]
    repositories: Sequence[int]
    links: Mapping[tuple[int, int], int]
    subscriptions: Mapping[int, int]
    published: Sequence[tuple[int, int, tuple[int, ...]]]
    store_rounds: int = 0


@dataclass
class Outcome:
    """The outcome of a run.

    Attributes:
        stored: For each repository and publisher, the numbers of the stored messages, in order.
        stored_rounds: For each repository, the round in which each message is stored if there are no faults.
        delivered: For each client and publisher, the numbers of the delivered messages, in order.
        rounds: For each client, the round in which each message is delivered if there are no faults.
    """

    stored: dict[int, dict[int, list[int]]] = field(default_factory=dict)
    stored_rounds: dict[int, dict[Message, int]] = field(default_factory=dict)
    delivered: dict[int, dict[int, list[int]]] = field(default_factory=dict)
    rounds: dict[int, dict[Message, int]] = field(default_factory=dict)


def expected(run: Run) -> Outcome:
    """Returns the outcome of a run."""
    far = _ways(run)
    steering = {client: _nearest(run, far, client) for client in run.subscriptions.values()}
    found = Outcome({one: defaultdict(list) for one in run.repositories}, {one: {} for one in run.repositories})
    found.delivered = {client: defaultdict(list) for client in steering}
    found.rounds = {client: {} for client in steering}
    numbers: dict[int, int] = defaultdict(int)
    for round_, publisher, matching in sorted(run.published, key=lambda one: one[0]):
        numbers[publisher] += 1
        message = publisher, numbers[publisher]
        for repository in run.repositories:
            found.stored[repository][publisher].append(message[1])
            found.stored_rounds[repository][message] = round_ + far[publisher, repository] + run.store_rounds
        for client in sorted({run.subscriptions[one] for one in matching}):
            repository = steering[client]
            found.delivered[client][publisher].append(message[1])
            found.rounds[client][message] = found.stored_rounds[repository][message] + far[repository, client]
    return found


def _nearest(run: Run, far: Mapping[tuple[int, int], int], client: int) -> int:
    """Returns the repository whose answer to a probe arrives first; if several arrive in one round, the lowest id."""
    return min(run.repositories, key=lambda one: (2 * far[client, one], one))


def _ways(run: Run) -> dict[tuple[int, int], int]:
    """Returns the latencies of the shortest paths over brokers; relaxes all links until no path becomes shorter."""
    links = [*((a, b, rounds) for (a, b), rounds in run.links.items())]
    links += [(b, a, rounds) for a, b, rounds in links]
    nodes = {a for a, _, _ in links}
    far = {(a, b): 0 if a == b else INFINITE for a in nodes for b in nodes}
    is_shorter = True
    while is_shorter:
        is_shorter = False
        for a, b, rounds in links:
            for end in nodes:
                if b in run.brokers or b == end:
                    way = rounds + far[b, end]
                    if way < far[a, end]:
                        far[a, end], is_shorter = way, True
    return far
