"""The bound of protocol ``ginger``: the failures that it tolerates (sections 4.2.2 and 4.2.3).

The bound is computed from the faults, the initial tree and the views, not from the state of nodes. Failures less than
`ScenarioRun.mend_rounds` apart form one *burst*, because the tree may be under repair between them. Until the first
burst the tree is the initial tree. For this burst the module computes which brokers the surviving nodes see if all
failed brokers are down at once. Before a later burst the tree depends on messages, which the module does not know. For
these bursts it relies on two facts: a node whose parent fails sees its grandparent, and a child of the root sees its
siblings.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from udfs.batches import BEYOND, rows_of_runs
from udfs.ginger.tree import Tree

START_PARENTS = (("run_id", "bigint"), ("node_id", "bigint"), ("parent", "bigint"))
"""Columns of the rows of `start_parents`, with their SQL types."""
_KINDS = ("crash", "recovery")
_TRIES = 4
"""The largest number of successive requests of a node during a repair that remain unanswered."""
_PARENT_OF_PARENT = 2
"""Links from a node to its parent's parent."""


@dataclass(frozen=True)
class ScenarioRun:
    """The overlay, calls, faults and settings of a run. Settings have the names of `GingerSettings`."""

    root: int  # the root of the initial tree
    brokers: frozenset[int]
    links: Mapping[tuple[int, int], int]  # latency in rounds by both ends, for both directions
    max_hops: int
    timer_rounds: int
    detection_rounds: int
    crashes: Sequence[tuple[int, int]]  # round and broker, ascending
    recoveries: Sequence[tuple[int, int]] = ()  # round and broker, ascending
    subscriptions: Sequence[tuple[int, str, int]] = ()  # client, topic and round
    joins: Sequence[tuple[int, int, int | None]] = ()  # broker, join point and round; None: the join is confirmed
    names: Mapping[int, str] = field(default_factory=dict)
    late: Sequence[tuple[int, str, int, int]] = ()  # the structs ``late`` of `beyond_runs`

    @property
    def mend_rounds(self) -> int:
        """The largest number of rounds from a failure to the end of its repair (rule G14)."""
        slowest = self.max_hops * max(self.links.values(), default=1)
        return self.detection_rounds + slowest + _TRIES * (2 * slowest + 3 * self.timer_rounds)

    def name(self, node: int) -> str:
        """Returns the name of `node`, or its id if it has none."""
        return self.names.get(node, str(node))


def _tree(given: ScenarioRun) -> Tree:
    """Returns the initial tree of a run, without the brokers that join later."""
    late = {node for node, *_ in given.joins}
    links = {ends: rounds for ends, rounds in given.links.items() if late.isdisjoint(ends)}
    return Tree(given.root, links, {end for ends in links for end in ends} - given.brokers)


def reasons(given: ScenarioRun) -> Iterator[tuple[int, str]]:
    """Yields a pair (round, reason) for each reason why a run exceeds the bound. The reason is a phrase."""
    tree = _tree(given)
    yield from _too_early(given, tree)
    gone: set[int] = set()
    for number, burst in enumerate(_bursts(given)):
        first, failed = burst[0][0], {broker for _, broker in burst}
        yield from ((first, reason) for reason in _of_burst(given, tree, burst, gone, is_first=number == 0))
        gone |= failed
    yield from _without_contact(given)


def _bursts(given: ScenarioRun) -> list[list[tuple[int, int]]]:
    bursts: list[list[tuple[int, int]]] = []
    for at, broker in sorted(given.crashes):
        if bursts and at - bursts[-1][-1][0] < given.mend_rounds:
            bursts[-1].append((at, broker))
        else:
            bursts.append([(at, broker)])
    return bursts


def _too_early(given: ScenarioRun, tree: Tree) -> Iterator[tuple[int, str]]:
    """Yields a pair (round, reason) for each type of fault that breaks rule G6: the first crash, and the first delay.

    A crash may precede the confirmation of a subscription. A delay or a pause may hold the subscription until the
    topic's first publication.
    """
    stand = max((issued + tree.confirm_rounds(client) for client, _, issued in given.subscriptions), default=-1)
    early = [at for at, _ in given.crashes if at < stand]
    if early:
        yield min(early), "a node crashed before all subscriptions were confirmed"
    late = [
        (published, topic, client) for client, topic, held_until, published in given.late
        if published < held_until + tree.confirm_rounds(client)
    ]  # fmt: skip
    if late:
        published, topic, client = min(late)
        yield published, f"a fault held the subscription of {given.name(client)} to {topic} until a publication on it"


def _of_burst(
    given: ScenarioRun, tree: Tree, burst: Sequence[tuple[int, int]], gone: set[int], *, is_first: bool
) -> Iterator[str]:
    failed = {broker for _, broker in burst}
    if not tree.brokers - failed - _down(given, burst[-1][0], burst[-1][0]):
        yield "all brokers are down"
    elif is_first:
        yield from _cut_off(given, tree, failed)
    elif len(burst) > 1 or given.max_hops < _PARENT_OF_PARENT:
        yield f"{len(burst)} brokers failed before the previous repair ended"
    yield from _without_locks(given, tree, failed, gone, len(burst))


def _down(given: ScenarioRun, first: int, last: int) -> set[int]:
    """Returns the brokers that are down, or whose recovery is not complete, in a round from `first` to `last`."""
    found = set()
    for at, broker in given.crashes:
        back = [round_ for round_, other in given.recoveries if other == broker and round_ > at]
        if at <= last and (not back or first < min(back) + given.mend_rounds):
            found.add(broker)
    return found


def _cut_off(given: ScenarioRun, tree: Tree, failed: set[int]) -> Iterator[str]:
    """Yields a reason for each client that sees no live broker, and a reason if the failures partition the tree.

    The tree is partitioned if no broker of one part sees a broker of another part.
    """
    for client in sorted(tree.parent.keys() - tree.brokers):
        if tree.parent[client] in failed and not _seen(tree, client, given.max_hops) - failed:
            yield f"all brokers that {given.name(client)} sees failed"
    heads = sorted(broker for broker in tree.brokers - failed if tree.parent.get(broker, given.root) in failed)
    ends = {given.root: given.root} if given.root not in failed else {}
    for head in heads:
        above = tree.parent[head]
        siblings = tree.children(above) - failed
        live = _seen(tree, head, given.max_hops) - failed
        if not live - siblings:
            ends.setdefault(above if live else head, head)
    if len(ends) > 1:
        one, other = (given.name(head) for head in sorted(ends.values())[:2])
        yield f"{one} and {other} are in parts of the tree that do not see each other"


def _seen(tree: Tree, node: int, max_hops: int) -> set[int]:
    """Returns the brokers in the view of `node`, which are at most `max_hops` links away.

    The view contains the ancestors except the parent, and the siblings of the node and of its ancestors. The bound
    judges the nodes, so it does not use their `Tree.view`.
    """
    path = tree.up(node)
    found = set(path[2 : max_hops + 1])
    for below, above in list(itertools.pairwise(path))[: max(max_hops - 1, 0)]:
        found |= tree.children(above) - {below}
    return found


def _without_locks(given: ScenarioRun, tree: Tree, failed: set[int], gone: set[int], n_failures: int) -> Iterator[str]:
    """Yields a reason for each topic whose sub-tree has lost all its brokers, and so all locks on key items.

    The brokers `failed` fail in this burst, in `n_failures` failures. The brokers `gone` have failed in earlier bursts.
    """
    topics: dict[str, set[int]] = {}
    for client, topic, _ in given.subscriptions:
        topics.setdefault(topic, set()).add(client)
    for topic, clients in sorted(topics.items()):
        members = tree.members({tree.parent[client] for client in clients})
        is_moved = bool(members & gone) or n_failures > 2
        if members - gone <= failed and n_failures > 1 and (len(members) > 1 or is_moved):
            yield f"all brokers of the sub-tree of {topic} failed before a repair ended"


def _without_contact(given: ScenarioRun) -> Iterator[tuple[int, str]]:
    """Yields a pair (round, reason) for each broker that has no live broker to ask when it recovers or joins.

    A recovering broker asks its neighbours in the overlay. A joining broker asks its join point.
    """
    late = {node for node, *_ in given.joins}
    for at, broker in given.recoveries:
        near = {b for a, b in given.links if a == broker and b in given.brokers - late}
        if not near - _down(given, at, at + given.mend_rounds - 1):
            yield at, f"{given.name(broker)} recovers, and none of its neighbours is up"
    for broker, to, joined in given.joins:
        if joined is not None and to in _down(given, joined, joined + given.mend_rounds - 1):
            yield joined, f"{given.name(broker)} joins at {given.name(to)}, which is down"


@rows_of_runs(BEYOND)
def beyond_runs(run: Mapping[str, Any]) -> Iterable[tuple[int, str]]:
    """Returns the rounds in which a run exceeds the bound, with the reasons.

    Args:
        run: ``parameters`` (JSON), and lists of structs: ``nodes`` (``node_id, name, role``), ``links`` (``src, dst,
            latency_rounds``), ``faults`` (``round, kind, node_id``), ``subscriptions`` (``subscriber, topic,
            issued_round``), ``joins`` (``node_id, contact, issued_round``), and ``late`` (``subscriber, topic,
            held_until_round, published_round``). ``held_until_round`` is the round of the call of a late subscription,
            plus the number of rounds in which faults held the subscription.
    """
    return reasons(_given(run))


@rows_of_runs(START_PARENTS)
def start_parents(run: Mapping[str, Any]) -> list[tuple[int, int]]:
    """Returns the parent of each broker in the initial tree of a run (see `beyond_runs`). The root has no row."""
    tree = _tree(_given(run))
    return [(node, parent) for node, parent in sorted(tree.parent.items()) if node in tree.brokers]


def _given(run: Mapping[str, Any]) -> ScenarioRun:
    setting = {name.removeprefix("protocol."): value for name, value in json.loads(run["parameters"]).items()}
    names = {node["node_id"]: node["name"] for node in run["nodes"]}
    brokers = frozenset(node["node_id"] for node in run["nodes"] if node["role"] == "broker")
    joins = [tuple(join.values()) for join in run["joins"] or ()]
    present = brokers - {node for node, *_ in joins}
    root = min(broker for broker in present if setting["root"] in (None, names[broker]))
    at = {kind: [(f["round"], f["node_id"]) for f in run["faults"] or () if f["kind"] == kind] for kind in _KINDS}
    return ScenarioRun(
        root, brokers, {(link["src"], link["dst"]): link["latency_rounds"] for link in run["links"]},
        setting["max_hops"], setting["timer_rounds"], setting["detection_rounds"], at["crash"], at["recovery"],
        [tuple(subscription.values()) for subscription in run["subscriptions"] or ()],
        joins, names,
        [tuple(late.values()) for late in run["late"] or ()],
    )  # fmt: skip
