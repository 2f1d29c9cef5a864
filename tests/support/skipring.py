"""Runs of the skip ring without an engine, for its tests and measurements."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa

from udfs.nodes.local import LocalNetwork
from udfs.nodes.world import Flight, NodeInfo
from udfs.skipring.labels import Label, level_ring, levels
from udfs.skipring.legitimate import KINDS, Convergence, Snapshot
from udfs.skipring.program import SkipRing
from udfs.skipring.topic_replay import MESSAGE

TOPIC = "news"
DOWN = SkipRing.down_kind
INTERVAL = 8
SETTINGS: dict[str, Any] = {
    "timeout_interval": INTERVAL, "silence_intervals": 8, "key_bits": 32, "hash_bits": 64, "max_label_bits": 20,
    "min_delay": 1, "max_delay": INTERVAL, "detection_rounds": 5, "start": "legitimate", "start_until": None,
    "start_publications": 0,
}  # fmt: skip
CLOSURE_INTERVALS = 12
HORIZON_INTERVALS = 600


def edges(n: int) -> Iterator[tuple[int, Label, Label]]:
    """Yields the edges of SR(n) by the definition: level and both ends; an edge may lie in several levels."""
    for level in range(1, levels(n) + 1):
        ring = level_ring(level, n)
        pairs = [*pairwise(ring), (ring[-1], ring[0])] if len(ring) > 2 else [(ring[0], ring[1])]
        yield from ((level, one, other) for one, other in pairs)


def has_same_tries(topic: str, programs: Mapping[int, SkipRing]) -> bool:
    """Returns whether all subscribers of a topic that are up have the same publications."""
    subscribers = [one for one in programs.values() if topic in one.subscription and one.subscription[topic].wants]
    return len({_keys(topic, one) for one in subscribers}) <= 1


def _keys(topic: str, program: SkipRing) -> frozenset[str]:
    nodes = (one for (at, _), one in program.trie_node.items() if at == topic)
    return frozenset(one.publication.key for one in nodes if one.publication)


def network(
    n: int, *, n_others: int = 0, n_supervisors: int = 1, topics: tuple[str, ...] = (TOPIC,), **settings: Any
) -> LocalNetwork:
    """Returns supervisors -1, -2, ..., and subscribers 1 to n, which subscribe to all topics in round 0, and others."""
    nodes = [NodeInfo(-one, f"supervisor{one}", "supervisor") for one in range(1, n_supervisors + 1)]
    nodes += [NodeInfo(one, f"node{one}", "subscriber") for one in range(1, n + n_others + 1)]
    made = LocalNetwork(SkipRing, nodes=nodes, settings={**SETTINGS, **settings})
    for node in range(1, n + 1):
        for number, topic in enumerate(topics):
            made.call(node, "subscribe", 0, topic=topic, subscription_id=number * 1000 + node)
    return made


def rounds(played: LocalNetwork, until: int) -> Iterator[int]:
    """Plays one round after the other up to one, that included."""
    for number in range(played.round + 1, until + 1):
        played.play(number)
        yield number


def converge(played: LocalNetwork, until: int, after: int = 0, topic: str = TOPIC) -> Convergence:
    """Plays until a topic is legitimate, and some rounds more; at most up to a round.

    Args:
        played: The run.
        until: The last round.
        after: Rounds that are played after that.
        topic: The topic.
    """
    found = Convergence()
    for number in rounds(played, until):
        found.observe(number, Snapshot.of(topic, played.up), played.in_flight)
        if found.clean_round is not None and number >= found.clean_round + after:
            break
    return found


def sent(played: LocalNetwork) -> list[Flight]:
    """Returns all messages of a run so far, whether they have been received or not."""
    return sorted([*played.rows.handled, *played.in_flight])


def history(played: LocalNetwork, **crashes: int) -> dict[str, Any]:
    """Returns the history of a run as the detector reads it.

    Args:
        played: The run.
        crashes: The round in which a node crashed, ``n1=5``: node 1 in round 5.
    """
    down = {int(name[1:]): round_ for name, round_ in crashes.items()}
    tables = {
        name: sorted(({"node_id": node, **asdict(row)} for node, row in played.rows.appended[table]),
                     key=lambda row: row["round"])
        for name, table in (("configurations", "configuration_change"), ("databases", "database_change"))
    }  # fmt: skip
    messages = [
        {name: getattr(one, name) for name in ("message_id", "kind", "src", "dst", "sent_round", "due_round")}
        | {"topic": one.message.topic, "body": json.dumps(asdict(one.message))}
        for one in sent(played) if one.kind in KINDS
    ]  # fmt: skip
    reports = [{"round": one.due_round, "peer": one.message.peer} for one in played.rows.handled if one.kind == DOWN]
    crashed = [{"round": round_, "node_id": node} for node, round_ in down.items()]
    supervisors = [{"node_id": node, "name": f"supervisor{-node}"} for node in played.node(-1).supervisor]
    return {
        "run_id": 0, "supervisors": supervisors, "interval_rounds": 2 * INTERVAL, "last_round": played.round, **tables,
        "messages": pa.array(messages, MESSAGE), "reports": reports, "crashes": crashed,
    }  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What became of an arbitrary start.

    Attributes:
        clean_rounds: Rounds until it was legitimate, messages in flight included; None: the horizon came first.
        is_broken: Whether the state of the nodes was not legitimate later.
        tries_rounds: Rounds until all subscribers had the same publications; None: the horizon came first.
        problem: Why the last round is not legitimate.
    """

    clean_rounds: int | None
    is_broken: bool
    tries_rounds: int | None
    problem: str | None

    @property
    def is_right(self) -> bool:
        """Whether everything converged, and stayed so."""
        return self.clean_rounds is not None and not self.is_broken and self.tries_rounds is not None


def arbitrary_run(
    n: int, seed: int, start: str = "arbitrary", *, delay_intervals: int | None = None, has_crashes: bool = False
) -> Outcome:
    """Plays an arbitrary start until it is legitimate and tries are the same, and then on for closure.

    Args:
        n: How many subscribe.
        seed: The seed.
        start: What is arbitrary.
        delay_intervals: The largest delay of a message; None: one interval, or two where the seed is even.
        has_crashes: Whether up to half of the subscribers crash in the first intervals.
    """
    drawn = Random(seed * 1009 + n)
    delay = INTERVAL * (delay_intervals or 2 - seed % 2)
    n_supervisors = 1 + seed // 2 % 2
    played = network(
        n, n_others=2, n_supervisors=n_supervisors, seed=seed, start=start, start_publications=6, max_delay=delay
    )
    last_crash = 0
    for node in drawn.sample(range(1, n + 1), drawn.randint(1, max(1, n // 2)) if has_crashes else 0):
        crash = drawn.choice((1, drawn.randrange(1, 4 * INTERVAL)))
        played.crash(node, crash)
        last_crash = max(last_crash, crash)
    found, tries, end = Convergence(), None, HORIZON_INTERVALS * INTERVAL
    for number in rounds(played, end):
        if number >= last_crash:
            found.observe(number, Snapshot.of(TOPIC, played.up), played.in_flight)
        if tries is None and found.clean_round is not None and has_same_tries(TOPIC, played.up):
            tries = number - last_crash
            end = max(number, found.clean_round + CLOSURE_INTERVALS * INTERVAL)
        if number >= end:
            break
    clean = None if found.clean_round is None else found.clean_round - last_crash
    return Outcome(clean, found.broken_round is not None, tries, found.problem)
