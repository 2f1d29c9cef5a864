"""Crash schedules of protocol `delta` that target messages: nodes crash in critical rounds.

A *plan* is a scenario with crashes. The plan is played once, and its history shows the round in which each message is
handled. `strike` returns a plan with one more crash, in a round around a message: of its receiver, its sender, or a
neighbour of one of them. The crashed node is down for one round, for about the detection delay, for about the latency
of the message, or for 25 rounds. Plans are struck repeatedly, as long as at most δ nodes are down at once.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import networkx as nx

from pipelines.audits.run import AuditReport
from pipelines.scenario.expand import RunConfig
from pipelines.store.store import Store
from pipelines.testing import rows, run_configs, scenario

KINDS = (
    "SYN_REQUEST", "STATUS", "PAR_TOP", "PAR_SUB", "CON_REQUEST", "REJOIN", "J", "JOIN_REQUEST", "DETECT", "CONF",
    "SUB", "UNSUB", "PUB",
)  # fmt: skip
"""The message kinds that strikes target."""
WHO = ("receiver", "sender", "partner")
DETECTORS = ("identifier", "visited")
_MOST_LATENCY = 9
_TRIES = 40


@dataclass(frozen=True)
class Plan:
    """A scenario with crashes.

    Attributes:
        parts: The scenario without the crashes, with detector ``visited``.
        crashes: ``node, round, until`` of each crash.
        aims: For each crash that `strike` added, the kind of the message and the role (`WHO`) of the crashed node.
    """

    parts: dict[str, Any]
    crashes: tuple[tuple[str, int, int], ...] = ()
    aims: tuple[tuple[str, str], ...] = ()

    def scenario(self, detector: str) -> dict[str, Any]:
        """Returns the scenario with the crashes and with duplicate detector ``detector``."""
        faults = [{"kind": "crash", "node": node, "round": at, "until": until} for node, at, until in self.crashes]
        return {**self.parts, "protocol": {**self.parts["protocol"], "detector": detector}, "faults": faults}


@dataclass
class Played:
    """The history of the run of a plan.

    Attributes:
        received: Maps each message kind to receiver, sender, round of sending and round of handling of each handled
            message.
        absent: For each period in which a node was not OPERATIONAL: the node, and the first and last round.
    """

    received: dict[str, list[tuple[str, str, int, int]]] = field(default_factory=lambda: defaultdict(list))
    absent: list[tuple[str, int, int]] = field(default_factory=list)


def bases(first: int, count: int, *, is_short: bool = False) -> Iterator[Plan]:
    """Yields random plans without aims: trees with latencies from 1 to 9, and short and long detection delays.

    Args:
        first: The first seed.
        count: The number of plans.
        is_short: Whether latencies are at most 3 and calls are few, so that a job has few rounds.
    """
    for seed in range(first, first + count):
        yield _base(random.Random(seed), is_short)


def _base(draw: random.Random, is_short: bool) -> Plan:
    n_nodes = draw.randrange(5, 8)
    shape = nx.path_graph(n_nodes) if draw.random() < 0.6 else nx.random_labeled_tree(n_nodes, seed=draw.randrange(99))
    most = 3 if is_short else draw.choice([1, 3, _MOST_LATENCY])
    links = [[f"N{a}", f"N{b}", draw.randrange(1, most + 1)] for a, b in shape.edges]
    names = [f"N{node}" for node in shape]
    joiner = draw.choice([name for name, degree in shape.degree if degree == 1]) if draw.random() < 0.3 else None
    last = 40 if is_short else 80
    joins = []
    if joiner is not None:
        joiner, point = f"N{joiner}", f"N{next(iter(shape[joiner]))}"
        joins.append({"node": joiner, "to": point, "round": draw.randrange(15, last // 2)})
    standing = [name for name in names if name != joiner]
    subscriptions = [{"at": name, "round": 0, "topic": "t"} for name in draw.sample(standing, 2)]
    subscriptions.append({"at": draw.choice(names), "round": draw.randrange(15, last), "topic": "t"})
    if draw.random() < 0.5:
        subscriptions[0]["until"] = draw.randrange(25, last)
    publications = [{"at": draw.choice(names), "round": draw.randrange(12, last), "topic": "t"} for _ in range(4)]
    publications += [{"at": name, "round": 4 * last, "topic": "t"} for name in draw.sample(names, 2)]
    detection = draw.choice([1, 2, most, 2 * most + 1, 12])
    protocol = {
        "name": "delta", "delta": draw.randrange(1, 4), "detection_rounds": detection, "par_rows": draw.choice([1, 8]),
    }  # fmt: skip
    workload = {"subscriptions": subscriptions, "publications": publications, "joins": joins}
    plan = Plan(scenario(protocol=protocol, overlay={"links": links}, workload=workload))
    return replace(plan, crashes=tuple(_first_crashes(draw, shape, protocol["delta"], last)))


def _first_crashes(draw: random.Random, shape: nx.Graph, delta: int, last: int) -> Iterator[tuple[str, int, int]]:
    """Yields the crashes of one node, or of up to δ consecutive nodes that are down concurrently."""
    here = draw.choice([node for node, degree in shape.degree if degree > 1])
    at, n_nodes = draw.randrange(14, last // 2), draw.choice([1, 1, max(delta - 1, 1), delta])
    chain: list[int] = []
    while len(chain) < n_nodes:
        chain.append(here)
        further = [node for node in shape[here] if node not in chain]
        if not further:
            break
        here = draw.choice(further)
    for node in chain:
        crash = at + draw.randrange(0, 4)
        yield f"N{node}", crash, crash + draw.randrange(4, 30)


def strike(draw: random.Random, plan: Plan, played: Played) -> Plan | None:
    """Returns a plan with one more crash, in a round around a message of the plan's run.

    Returns None if `_TRIES` random crashes do not fit the plan (`_fits`).
    """
    for _ in range(_TRIES):
        kind = draw.choice([kind for kind in KINDS if kind in played.received])
        receiver, sender, sent, due = draw.choice(played.received[kind])
        who = draw.choice(WHO)
        node = {"receiver": receiver, "sender": sender}.get(who) or _partner(draw, plan, receiver, sender)
        at = draw.choice([due - 1, due, due, due, due + 1, sent, sent + 1])
        detection, latency = plan.parts["protocol"]["detection_rounds"], due - sent
        down = draw.choice([1, 1, 2, detection - 1, detection, detection + 1, latency, latency + 1, 2 * latency, 25])
        crash = (node, max(at, 1), max(at, 1) + max(down, 1))
        if _fits(plan, played, crash):
            crashes = tuple(sorted((*plan.crashes, crash), key=lambda one: one[1]))
            return replace(plan, crashes=crashes, aims=(*plan.aims, (kind, who)))
    return None


def _partner(draw: random.Random, plan: Plan, receiver: str, sender: str) -> str:
    """Returns a random node among the receiver, the sender and their neighbours."""
    near = [end for link in plan.parts["overlay"]["links"] for end in link[:2] if {receiver, sender} & set(link[:2])]
    return draw.choice(near)


def _fits(plan: Plan, played: Played, crash: tuple[str, int, int]) -> bool:
    """Returns whether the crash leaves at most δ nodes down or recovering, and overlaps no other crash of its node."""
    node, first, until = crash
    own = [one for one in plan.crashes if one[0] == node]
    if any(first <= end and at <= until for _, at, end in own):
        return False
    others = {other for other, at, end in played.absent if other != node and at <= until and first <= end}
    return len(others) < plan.parts["protocol"]["delta"]


def as_runs(plans: Sequence[Plan]) -> list[RunConfig]:
    """Returns the runs of ``plans`` with both duplicate detectors: the runs of plan k have the ids 2k and 2k + 1."""
    return run_configs([plan.scenario(detector) for plan in plans for detector in DETECTORS])


def played_plans(store: Store, count: int) -> list[Played]:
    """Returns the histories of the first ``count`` plans in a store, from their runs with detector ``visited``."""
    names = {(run, node): name for run, node, name in rows(store, "node", "run_id", "node_id", "name")}
    found = [Played() for _ in range(count)]
    message = rows(store, "message", "run_id", "kind", "dst", "src", "sent_round", "due_round", "fate")
    for run, kind, dst, src, sent, due, fate in message:
        if run % 2 and run // 2 < count and fate in ("delivered", "duplicate"):
            found[run // 2].received[kind].append((names[run, dst], names[run, src], sent, due))
    for run, node, first, last in _absences(store):
        if run % 2 and run // 2 < count:
            found[run // 2].absent.append((names[run, node], first, last))
    return found


def _absences(store: Store) -> Iterator[tuple[int, int, int, int]]:
    """Yields run, node, first and last round of each period in which a node was not OPERATIONAL."""
    since: dict[tuple[int, int], int] = {}
    for run, node, at, status in sorted(rows(store, "node_status", "run_id", "node_id", "round", "status")):
        if status == "FAILED":
            since.setdefault((run, node), at)
        elif status in ("OPERATIONAL", "VALID_JOINED") and (run, node) in since:
            yield run, node, since.pop((run, node)), at
    yield from ((run, node, at, 1_000_000) for (run, node), at in since.items())


def struck_again(plans: Sequence[Plan], store: Store, seed: int) -> list[Plan]:
    """Returns ``plans`` with one more crash each; omits plans to which `strike` cannot add a crash.

    ``plans`` are the first plans in ``store``.
    """
    played = played_plans(store, len(plans))
    found = (
        strike(random.Random(seed * 1_000_003 + k), *pair) for k, pair in enumerate(zip(plans, played, strict=True))
    )
    return [plan for plan in found if plan is not None]


def wrong(report: AuditReport, plans: Sequence[Plan]) -> list[tuple[Plan, str, str]]:
    """Returns plan, detector and verdict of each run that is invalid, or within its bound but not valid."""
    return [
        (plans[run.run_id // 2], DETECTORS[run.run_id % 2], run.verdict)
        for run in report.runs
        if run.verdict == "invalid" or (run.within_bound and run.verdict != "valid")
    ]
