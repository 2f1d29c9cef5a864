"""Random schedules with more crashes than δ allows, the same for every protocol, and what `why` says of each loss."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import networkx as nx

from pipelines.scenario.expand import RunConfig
from pipelines.scenario.model import Scenario
from pipelines.sql.query import StoreReader
from pipelines.why import Question, Story, stories

DELTAS = (0, 1, 2, 3)
MOST_CRASHES = 6


@dataclass(frozen=True)
class Extent:
    """How large schedules are, and how long they go on; a job costs what its longest run takes.

    Attributes:
        sizes: Fewest nodes of a tree, and one more than the most.
        slowest: Largest latency of a link.
        n_late: Subscriptions that are issued during the crashes.
        first_crash: First round of a crash; the first subscriptions are confirmed before.
        crash_rounds: Rounds in which crashes begin.
        longest: Most rounds for which a node is down, if it recovers.
        publication_rounds: Rounds from a little before the first crash in which publications are issued.
        last: Round of the last publication, when all nodes that recover have done so.
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
        seed: Of the draws.
        n_crashes: How many nodes crash.
        is_chain: Whether they are neighbours on the way from a publisher to a subscriber.
        parts: Keys of the scenario.
    """

    seed: int
    n_crashes: int
    is_chain: bool
    parts: dict[str, Any]


def schedule(seed: int, extent: Extent) -> Schedule:
    """Draws a schedule; every second one has a chain of crashes, if a way of the tree is long enough for it."""
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
    """Draws n neighbours on the way from one of the sources to one of the sinks, both left out."""
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
    """Returns the settings that every schedule runs under; the first ones are those of protocol delta."""
    delta = [{"name": "delta", "delta": delta, "detection_rounds": 3} for delta in DELTAS]
    return [*delta, {"name": "forwarding"}]


def as_runs(schedules: Iterable[Schedule], settings: Iterable[dict[str, Any]]) -> list[RunConfig]:
    """Returns every schedule under every one of some settings of one protocol, schedule by schedule."""
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
    """Returns run, whether the subscribers crash, the deliveries that they wanted, and those that happened."""
    return [(row.run_id, row.is_down, row.n_wanted, row.n_made) for row in reader.sql(_WANTED).collect()]


def explanations(reader: StoreReader) -> Iterator[tuple[Story, str, str | None]]:
    """Returns of every delivery that was wanted and did not happen what `why` says, and what is wrong with that.

    A loss has to be explained by a crash that the schedule has, of a node on the way. Nothing has to be explained where
    nobody promised anything yet: the protocol had not confirmed the subscription, or its messages were on their way.
    What does not confirm never promises that they are not.
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
        story: What `why` says.
        crashes: Runs, names and rounds of the crashes that there were.
    """
    if story.ended != "lost" or story.cause is None:
        return f"ended as {story.ended}"
    if story.cause.kind != "crash":
        return f"its cause is {story.cause.kind}"
    node = story.names[story.cause.node]
    if (story.run_id, node, story.cause.round) not in crashes:
        return f"{node} did not crash in round {story.cause.round}"
    return None if node in story.path else f"{node} is not on the way"
