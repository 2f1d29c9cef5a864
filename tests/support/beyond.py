"""Random schedules with up to six crashes, which may be more than δ; and the explanation of each loss."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import networkx as nx

from pipelines.scenario.load import RunConfig
from pipelines.scenario.model import Scenario
from pipelines.sql.query import StoreReader
from pipelines.why import Question, Story, stories

DELTAS = (0, 1, 2, 3)
MOST_CRASHES = 6


@dataclass(frozen=True)
class Extent:
    """The size and the duration of schedules; the longest run determines the duration of a job.

    Attributes:
        sizes: The minimum number of nodes in a tree, and the maximum number plus one.
        slowest: The maximum latency of a link.
        n_late: The number of subscriptions that are issued during the crashes.
        first_crash: The first round with a crash; subscriptions of round 0 are confirmed before it.
        crash_rounds: The number of rounds in which crashes begin.
        longest: The maximum number of rounds for which a recovering node is down.
        publication_rounds: The number of rounds in which publications are issued, from shortly before the first crash.
        last: The round of the last publication; all recoveries precede it.
    """

    sizes: tuple[int, int] = (9, 17)
    slowest: int = 2
    n_late: int = 2
    first_crash: int = 70
    crash_rounds: int = 10
    longest: int = 25
    publication_rounds: int = 25
    last: int = 130


@dataclass(frozen=True)
class Schedule:
    """Overlay, workload and crashes of a run, as parts of a scenario.

    Attributes:
        seed: The seed of the schedule.
        n_crashes: The number of nodes that crash.
        is_chain: Whether the crashing nodes are consecutive nodes on a path from a publisher to a subscriber.
        parts: The keys of the scenario.
    """

    seed: int
    n_crashes: int
    is_chain: bool
    parts: dict[str, Any]


def schedule(seed: int, extent: Extent) -> Schedule:
    """Returns a random schedule; about half of the schedules crash a chain of nodes, if a path is long enough."""
    draw = random.Random(seed)
    size, n_crashes = draw.randrange(*extent.sizes), 1 + seed % MOST_CRASHES
    spread = draw.choice([1, 2, 4, size])
    tree = nx.Graph((n, draw.randrange(max(0, n - spread), n)) for n in range(1, size))
    publishers = draw.sample(range(size), 2)
    late = range(extent.first_crash, extent.first_crash + extent.publication_rounds)
    subscribers = [(draw.randrange(size), 0) for _ in range(5)]
    subscribers += [(draw.randrange(size), draw.choice(late)) for _ in range(extent.n_late)]
    chain = _chain(draw, tree, publishers, [node for node, _ in subscribers], n_crashes) if draw.random() < 0.5 else []
    others = [node for node in range(size) if node not in publishers or draw.random() < 0.1]
    down = chain or draw.sample(others, n_crashes)
    parts = {
        "name": "beyond",
        "overlay": {"links": [[_name(a), _name(b), draw.randint(1, extent.slowest)] for a, b in sorted(tree.edges)]},
        "workload": {
            "subscriptions": [_subscription(draw, node, round_) for node, round_ in subscribers],
            "publications": _publications(draw, publishers, extent),
        },
        "faults": [_crash(draw, node, extent) for node in down],
        "time": {"rounds": 2000},
    }
    return Schedule(seed, n_crashes, bool(chain), parts)


def _name(node: int) -> str:
    return f"N{node:02d}"


def _chain(draw: random.Random, tree: nx.Graph[int], sources: list[int], sinks: list[int], length: int) -> list[int]:
    """Returns ``length`` consecutive inner nodes of a random path from a source to a sink.

    Returns an empty list if no path is long enough.
    """
    ways = [nx.shortest_path(tree, a, b)[1:-1] for a in sources for b in sinks]
    long = [way for way in ways if len(way) >= length]
    if not long:
        return []
    way = draw.choice(long)
    start = draw.randrange(len(way) - length + 1)
    return way[start : start + length]


def _subscription(draw: random.Random, node: int, round_: int) -> dict[str, Any]:
    return {"at": _name(node), "round": round_, "topic": draw.choice("ab")}


def _publications(draw: random.Random, publishers: list[int], extent: Extent) -> list[dict[str, Any]]:
    first = extent.first_crash - 2
    rounds = sorted(draw.sample(range(first, first + extent.publication_rounds), 10))
    rounds += [extent.last - 1, extent.last]
    return [{"at": _name(draw.choice(publishers)), "round": at, "topic": draw.choice("ab")} for at in rounds]


def _crash(draw: random.Random, node: int, extent: Extent) -> dict[str, Any]:
    start = extent.first_crash + draw.randrange(extent.crash_rounds)
    until = {} if draw.random() < 0.25 else {"until": start + draw.randint(5, extent.longest)}
    return {"kind": "crash", "node": _name(node), "round": start, **until}


def protocols() -> list[dict[str, Any]]:
    """Returns the protocol settings with which every schedule is played; the settings of delta come first."""
    delta = [{"name": "delta", "delta": delta, "detection_rounds": 3} for delta in DELTAS]
    return [*delta, {"name": "forwarding"}]


def as_runs(schedules: Iterable[Schedule], settings: Iterable[dict[str, Any]]) -> list[RunConfig]:
    """Returns a run for each schedule and each of ``settings``, which are of one protocol, ordered by schedule."""
    settings = list(settings)
    scenarios = [{**one.parts, "protocol": protocol} for one in schedules for protocol in settings]
    return [RunConfig(place, place, Scenario.model_validate(parts), {}) for place, parts in enumerate(scenarios)]


_WANTED = """
select w.run_id, c.node_id is not null as is_down, count(1) as n_wanted, count(w.delivery_round) as n_made
from wanted_delivery w
left join (select distinct run_id, node_id from node_recovery) c on c.run_id = w.run_id and c.node_id = w.subscriber
group by w.run_id, c.node_id is not null
"""
_LOSSES = """
select run_id, subscriber, source, source_seq from wanted_delivery where delivery_round is null
order by run_id, subscriber, source, source_seq
"""
_CRASHES = "select run_id, name, crash_round from node_recovery"
_CONFIRMING = "select r.run_id from run r join protocol p on p.name = r.protocol where p.confirms"
_NOT_ASKED = {"not_confirmed", "unsubscribed"}


def ratios(reader: StoreReader) -> list[tuple[int, bool, int, int]]:
    """Returns, for each run, numbers of wanted deliveries and of wanted deliveries that happened.

    There is one tuple for the subscribers that crash and one for all other subscribers: run, whether they crash, and
    the two numbers.
    """
    return [(row.run_id, row.is_down, row.n_wanted, row.n_made) for row in reader.sql(_WANTED).collect()]


def explanations(reader: StoreReader) -> Iterator[tuple[Story, str, str | None]]:
    """Yields story, classification, and error of the story or None, for each wanted delivery that did not happen.

    The story must explain the loss by a crash in the schedule of a node on the path. No explanation is needed if the
    delivery was not yet promised: the protocol had not confirmed the subscription, or the subscription's messages were
    in flight. A protocol without confirmations never promises that they have arrived.
    """
    confirming = {row.run_id for row in reader.sql(_CONFIRMING).collect()}
    crashes = {(row.run_id, row.name, row.crash_round) for row in reader.sql(_CRASHES).collect()}
    told = stories(reader, [Question(*row) for row in reader.sql(_LOSSES).collect()])
    for story in told:
        kind = "" if story.cause is None else story.cause.kind
        is_early = kind == "subscription_under_way" and not (story.is_expected and story.run_id in confirming)
        if is_early or (story.ended == "not_matching" and kind in _NOT_ASKED):
            yield story, "not promised yet", None
        else:
            fault = fault_of(story, crashes)
            yield story, "explained by a crash" if fault is None else "not explained", fault


def fault_of(story: Story, crashes: set[tuple[int, str, int]]) -> str | None:
    """Returns the error in the explanation of a loss, or None.

    Args:
        story: The story of the lost publication.
        crashes: Run, name of the node and round of each crash.
    """
    if story.ended != "lost" or story.cause is None:
        return f"ended as {story.ended}"
    if story.cause.kind != "crash":
        return f"its cause is {story.cause.kind}"
    node = story.names[story.cause.node]
    if (story.run_id, node, story.cause.round) not in crashes:
        return f"{node} did not crash in round {story.cause.round}"
    return None if node in story.path else f"{node} is not on the way"
