"""Plays runs of the skip ring without an engine, for tests and measurements."""

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
from udfs.skipring.history import configuration_change
from udfs.skipring.labels import Label, label_of, levels
from udfs.skipring.legitimate import KINDS, Convergence, TopicState, supervisor_of
from udfs.skipring.program import SkipRing
from udfs.skipring.replay import MESSAGE

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


def level_ring(level: int, n: int) -> list[Label]:
    """Returns the labels on the ring of a level of SR(n), in the order of values.

    The ring of the top level contains all `n` labels. The ring of a lower level contains the labels of at most `level`
    digits.
    """
    members = range(n if level == levels(n) else min(n, 1 << level))
    return sorted(map(label_of, members), key=lambda label: label.value)


def slots(n: int) -> dict[Label, set[Label]]:
    """Returns the shortcut labels of each label of SR(n).

    On each level, a label has one neighbour on each side. This neighbour is a shortcut, unless it is also the neighbour
    on the top level on this side.
    """
    found: dict[Label, set[Label]] = {label_of(index): set() for index in range(n)}
    beside: dict[tuple[Label, int], Label] = {}
    for level in range(levels(n), 0, -1):
        ring = level_ring(level, n)
        for position, label in enumerate(ring):
            for side in (-1, 1):
                other = ring[(position + side) % len(ring)]
                if beside.setdefault((label, side), other) != other:
                    found[label].add(other)
    return found


def edges(n: int) -> Iterator[tuple[int, Label, Label]]:
    """Yields level and both ends of each edge of SR(n), by the definition; an edge can belong to several levels."""
    for level in range(1, levels(n) + 1):
        ring = level_ring(level, n)
        pairs = [*pairwise(ring), (ring[-1], ring[0])] if len(ring) > 2 else [(ring[0], ring[1])]
        yield from ((level, one, other) for one, other in pairs)


def state_of(topic: str, programs: Mapping[int, SkipRing]) -> TopicState:
    """Returns the present state of a topic; ``programs`` has the program of each node that is up."""
    points = {node: one.point for node, one in next(iter(programs.values())).supervisor.items()}
    state = TopicState(topic, supervisor_of(topic, points))
    rings = {node: program.subscription.get(topic) for node, program in programs.items()}
    state.kept = {node: configuration_change(own, 0) for node, own in rings.items() if own is not None}
    state.databases = {
        node: {str(label): held for label, held in program.database[topic].entries.items()}
        for node, program in programs.items()
        if topic in program.database
    }
    state.crashed = {node for one in points if one in programs for node in programs[one].crashed} - programs.keys()
    return state


def has_same_tries(topic: str, programs: Mapping[int, SkipRing]) -> bool:
    """Returns whether all subscribers of a topic in ``programs`` have equal sets of publications."""
    subscribers = [one for one in programs.values() if topic in one.subscription and one.subscription[topic].wants]
    return len({_keys(topic, one) for one in subscribers}) <= 1


def _keys(topic: str, program: SkipRing) -> frozenset[str]:
    nodes = (one for (at, _), one in program.trie_node.items() if at == topic)
    return frozenset(one.publication.key for one in nodes if one.publication)


def network(
    n: int, *, n_others: int = 0, n_supervisors: int = 1, topics: tuple[str, ...] = (TOPIC,), **settings: Any
) -> LocalNetwork:
    """Returns a network of supervisors -1, -2, ..., and of nodes 1 to n + n_others.

    Nodes 1 to n subscribe to all topics in round 0; the other nodes do not subscribe.
    """
    nodes = [NodeInfo(-one, f"supervisor{one}", "supervisor") for one in range(1, n_supervisors + 1)]
    nodes += [NodeInfo(one, f"node{one}", "subscriber") for one in range(1, n + n_others + 1)]
    made = LocalNetwork(SkipRing, nodes=nodes, settings={**SETTINGS, **settings})
    for node in range(1, n + 1):
        for number, topic in enumerate(topics):
            made.call(node, "subscribe", 0, topic=topic, subscription_id=number * 1000 + node)
    return made


def rounds(played: LocalNetwork, until: int) -> Iterator[int]:
    """Plays the rounds up to and including ``until``, and yields each round after it was played."""
    for number in range(played.round + 1, until + 1):
        played.play(number)
        yield number


def converge(played: LocalNetwork, until: int, after: int = 0, topic: str = TOPIC) -> Convergence:
    """Plays until the ring of a topic is legitimate, and then some more rounds.

    Args:
        played: The network.
        until: The round after which the function stops, even if the ring is not legitimate.
        after: The number of rounds that are played after the ring is legitimate.
        topic: The topic.
    """
    found = Convergence()
    for number in rounds(played, until):
        found.observe(number, state_of(topic, played.up), played.in_flight)
        if found.clean_round is not None and number >= found.clean_round + after:
            break
    return found


def sent(played: LocalNetwork) -> list[Flight]:
    """Returns all messages that were sent so far, handled or in flight."""
    return sorted([*played.rows.handled, *played.in_flight])


def history(played: LocalNetwork, **crashes: int) -> dict[str, Any]:
    """Returns the history of a run in the form that the convergence detector reads.

    Args:
        played: The network.
        crashes: The crashes; ``n1=5`` is a crash of node 1 in round 5.
    """
    down = {int(name[1:]): round_ for name, round_ in crashes.items()}
    tables = {
        name: sorted(({"node_id": node, **asdict(row)} for node, row in played.rows.appended[table]),
                     key=lambda row: row["round"])
        for name, table in (("configurations", "configuration_change"), ("databases", "database_change"))
    }  # fmt: skip
    messages = [
        {name: getattr(one, name) for name in ("message_id", "kind", "src", "dst", "sent_round", "due_round")}
        | {"body": json.dumps(asdict(one.message))}
        for one in sent(played) if one.kind in KINDS
    ]  # fmt: skip
    reports = [{"round": one.due_round, "peer": one.message.peer} for one in played.rows.handled if one.kind == DOWN]
    crashed = [{"round": round_, "node_id": node} for node, round_ in down.items()]
    supervisors = [{"node_id": node, "name": f"supervisor{-node}"} for node in played.node(-1).supervisor]
    return {
        "run_id": 0, "topic": TOPIC, "supervisors": supervisors, "interval_rounds": 2 * INTERVAL, "fault_round": 0,
        "last_round": played.round, **tables, "messages": pa.array(messages, MESSAGE), "reports": reports,
        "crashes": crashed, **{name: SETTINGS[name] for name in ("silence_intervals", "detection_rounds")},
    }  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """The outcome of a run from an arbitrary state.

    Attributes:
        clean_rounds: Rounds until the state and the messages in flight were legitimate; None if they never were.
        is_broken: Whether the nodes left the legitimate state again.
        tries_rounds: Rounds until all subscribers had equal sets of publications; None if they never had.
        problem: The reason why the state is not legitimate in the last round; None if it is.
    """

    clean_rounds: int | None
    is_broken: bool
    tries_rounds: int | None
    problem: str | None

    @property
    def is_right(self) -> bool:
        """Whether ring and tries converged, and the ring remained legitimate."""
        return self.clean_rounds is not None and not self.is_broken and self.tries_rounds is not None


def arbitrary_run(
    n: int, seed: int, start: str = "arbitrary", *, delay_intervals: int | None = None, has_crashes: bool = False
) -> Outcome:
    """Plays a run from an arbitrary state until ring and tries have converged, and then `CLOSURE_INTERVALS` intervals.

    Args:
        n: The number of subscribers.
        seed: The seed.
        start: The part of the state that is arbitrary.
        delay_intervals: The maximum delay of a message in intervals; None: two for even seeds, one for odd seeds.
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
            found.observe(number, state_of(TOPIC, played.up), played.in_flight)
        if tries is None and found.clean_round is not None and has_same_tries(TOPIC, played.up):
            tries = number - last_crash
            end = max(number, found.clean_round + CLOSURE_INTERVALS * INTERVAL)
        if number >= end:
            break
    clean = None if found.clean_round is None else found.clean_round - last_crash
    return Outcome(clean, found.broken_round is not None, tries, found.problem)
