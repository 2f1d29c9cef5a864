"""Ways, storage and deliveries of a run, one publication after the other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

INFINITE = 1 << 60
Message = tuple[int, int]
"""A publisher, and the number of the message there, from 1."""


@dataclass(frozen=True)
class Run:
    """What a run is given.

    Attributes:
        brokers: The relays.
        repositories: The bundle of the one topic.
        links: The latency of each undirected link.
        subscriptions: The client of each subscription.
        published: Round, publisher and matching subscriptions of each publication; a publisher's are in order, and all
            come when every client is steered and every subscription is confirmed.
        store_rounds: What it takes to store a message.
    """

    brokers: Sequence[int]
    repositories: Sequence[int]
    links: Mapping[tuple[int, int], int]
    subscriptions: Mapping[int, int]
    published: Sequence[tuple[int, int, tuple[int, ...]]]
    store_rounds: int = 0


@dataclass
class Outcome:
    """What a run comes to.

    Attributes:
        stored: The messages that each repository has of each publisher, in order.
        stored_rounds: When each repository has a message, without faults.
        delivered: The messages that each client delivers of each publisher, in order.
        rounds: When it delivers each, without faults.
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
    """Returns the repository whose answer to a probe comes first; of several the lowest id."""
    return min(run.repositories, key=lambda one: (2 * far[client, one], one))


def _ways(run: Run) -> dict[tuple[int, int], int]:
    """Returns the latency of the shortest ways over brokers, by relaxing every link until nothing gets shorter."""
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
