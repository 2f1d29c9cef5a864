"""Second failures of ginger in the critical rounds of a repair or an election.

A run with one failure is played without an engine (`nodes`), to find the rounds in which nodes receive the messages
that repair the tree. Each derived schedule has one more event, in the due round of one of these messages or in the next
round. The event is a crash of the receiver, the sender, the receiver's parent or grandparent, or a sibling of the
receiver; the recovery of the first failed broker; or the join of a broker.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from oracles.ginger.messages import Publication
from oracles.ginger.network import Setup

from support.ginger.nodes import NodeNetwork, played
from support.ginger.setups import FIRST_ROUND, Crashing, Timed

REPAIR = (
    "NeighborDown", "ParentRequest", "ParentResponse", "ParentBuffer", "LostMessageRequest", "LostMessages",
    "RootElection", "TreeViewUpdate", "Failed", "JoinTopic", "TopicJoined", "TotalAck", "TotalProcessed", "Exception",
    "Repeat",
)  # fmt: skip
"""The message kinds whose due rounds are critical; the rounds in which timers expire are critical, too."""
FIRST_CRASH = FIRST_ROUND + 8
CALLS_EVERY = 4
N_CALLS = 6
TREES: Mapping[str, Mapping[int, int | None]] = {
    "two children": {0: None, 1: 0, 2: 0, 3: 2},
    "star": {0: None, 1: 0, 2: 0, 3: 0},
    "chain": {0: None, 1: 0, 2: 1, 3: 2},
    "twins below": {0: None, 1: 0, 2: 1, 3: 1},
    "Figure 5.2": {0: None, 1: 0, 2: 0, 3: 0, 4: 1, 5: 1, 6: 2, 7: 3},
    "two and two": {0: None, 1: 0, 2: 0, 3: 1, 4: 1, 5: 2},
    "deep": {0: None, 1: 0, 2: 1, 3: 1, 4: 2, 5: 3, 6: 0},
}


@dataclass(frozen=True)
class Strike:
    """A schedule: ``kind`` is the critical message, ``whom`` the role of the affected broker, ``case`` the schedule."""

    kind: str
    whom: str
    case: Crashing


def base(tree: str, seed: int) -> Crashing:
    """Returns a run on a tree with random latencies, clients, messages and settings, and one failure."""
    draw = random.Random(f"{tree} {seed}")
    parent = TREES[tree]
    n = len(parent)
    places = draw.sample(sorted(parent), min(n, draw.randint(3, 5)))
    spare = {n: draw.choice(sorted(parent))} if seed % 2 else {}
    edge = {n + 1 + i: b for i, b in enumerate(places)}
    topics = {"t": frozenset(edge)} | ({"u": frozenset(draw.sample(sorted(edge), 2))} if seed % 3 == 0 else {})
    most = draw.choice([1, 2, 9])
    brokers = {**parent, **spare}
    pairs = [*((b, above) for b, above in brokers.items() if above is not None), *edge.items()]
    latency = {frozenset(pair): draw.randint(1, most) for pair in pairs}
    calls = []
    for number in range(N_CALLS):
        for c in edge:
            keys = frozenset(draw.sample("abc", draw.choice([1, 1, 2])))
            kind = draw.choice(["eventual", "causal", "total", "total"])
            calls.append((FIRST_ROUND + number * CALLS_EVERY, Publication(c, number + 1, "t", keys, kind)))
    setup = Setup(brokers, edge, topics, [m for _, m in calls])
    slowest = 2 * 3 * max(latency.values())
    settings = {
        "timer_rounds": slowest + draw.choice([0, 0, 1, 12]), "detection_rounds": draw.choice([1, 5, 12]),
        "total_degree": draw.choice([2, 3, 8, 8]),
    }  # fmt: skip
    case = Crashing(Timed(setup, latency, calls), {draw.choice(sorted(parent)): FIRST_CRASH}, settings=settings)
    late = dict.fromkeys(spare, FIRST_CRASH + 60)
    return replace(case, buffer_size=draw.choice([1, 3, 150, 150]), collect_every=draw.choice([0, 0, 2]), joins=late)


def dues(network: NodeNetwork) -> Iterator[tuple[str, int, int, int]]:
    """Yields kind, sender, receiver and due round of the first message of each kind, sender and receiver in `REPAIR`.

    A timer is a message of a node to itself.
    """
    done = set()
    found = [(one.due_round, one.kind, one.src, one.dst) for one in network.sent if one.kind in REPAIR]
    found += [(due, "Timer", node, node) for node, due in network.timers]
    for due, kind, src, dst in sorted(found):
        if due > FIRST_CRASH and (kind, src, dst) not in done:
            done.add((kind, src, dst))
            yield kind, src, dst, due


def struck(case: Crashing, src: int, dst: int) -> Iterator[tuple[str, int]]:
    """Yields role and id of each broker that a message concerns and that neither fails nor joins in the case."""
    parent = case.timed.setup.parent
    above = parent.get(dst, case.timed.setup.edge.get(dst))
    beside = sorted(b for b, of in parent.items() if of == above and b != dst)
    found = {
        "receiver": dst,
        "sender": src,
        "above": above,
        "above that": parent.get(above),
        "beside": [*beside, None][0],
    }
    done = {*case.crashes, *case.joins}
    for whom, broker in found.items():
        if broker is not None and broker in parent and broker not in done:
            done.add(broker)
            yield whom, broker


def strikes(case: Crashing) -> Iterator[Strike]:
    """Yields all schedules that add one event to a run, without repetitions.

    About half of the crashed receivers recover soon.
    """
    first = next(iter(case.crashes))
    done: set[tuple[object, int]] = set()
    for kind, src, dst, due in dues(played(case)):
        for at in (due, due + 1):
            blows = [(whom, b, _crashed(case, b, at, whom, src + dst)) for whom, b in struck(case, src, dst)]
            blows += [("the first is back", None, replace(case, until={**case.until, first: at}))]
            blows += [("another joins", b, replace(case, joins={b: at})) for b in case.joins]
            for whom, broker, blow in blows:
                if (broker, at) not in done:
                    done.add((broker, at))
                    yield Strike(kind, whom, blow)


def chosen(case: Crashing, seed: int, count: int) -> list[Strike]:
    """Returns ``count`` random schedules of `strikes`; each pair of kind and role occurs before a pair occurs twice."""
    drawn = list(strikes(case))
    random.Random(seed).shuffle(drawn)
    times: Counter[tuple[str, str]] = Counter()
    ranked = []
    for place, strike in enumerate(drawn):
        times[strike.kind, strike.whom] += 1
        ranked.append((times[strike.kind, strike.whom], place))
    return [drawn[place] for _, place in sorted(ranked)[:count]]


def _crashed(case: Crashing, broker: int, at: int, whom: str, number: int) -> Crashing:
    until = {broker: at + 1 + at % 20} if whom == "receiver" and number % 2 else {}
    return replace(case, crashes={**case.crashes, broker: at}, until={**case.until, **until})
