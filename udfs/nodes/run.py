"""The data of a run that nodes can read: links and their replacements, subscribers, crashes and pauses of nodes.

A node reads them through its `Context`. It must read only data that a real node could get from its neighbours, its
failure detector or its store.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple


@dataclass(frozen=True)
class NodeInterval:
    """A crash or pause of a node from ``round`` to the round before ``end_round``. None means the end of the run."""

    node: int
    round: int
    end_round: int | None

    def covers(self, round_: int) -> bool:
        """Returns whether the interval contains round `round_`."""
        return self.round <= round_ and (self.end_round is None or round_ < self.end_round)


def first_after(rounds: Sequence[int], round_: int) -> int | None:
    """Returns the first round after `round_` in the ascending list `rounds`, or None if it has no later round."""
    place = bisect_right(rounds, round_)
    return rounds[place] if place < len(rounds) else None


class NodeIntervals:
    """All crashes, or all pauses, of a run, with lookups by node and by round.

    Attributes:
        starting: The nodes whose intervals start in a round, by round.
        ending: The nodes whose intervals end in a round, by round.
        rounds: The rounds in which an interval starts or ends, ascending.
        first_round: The round in which the first interval starts, or None if the run has no interval.
    """

    def __init__(self, spans: Iterable[NodeInterval]) -> None:
        """Indexes `spans` by node and by round."""
        self._of: dict[int, list[NodeInterval]] = defaultdict(list)
        self.starting: dict[int, list[int]] = defaultdict(list)
        self.ending: dict[int, list[int]] = defaultdict(list)
        for span in sorted(spans, key=lambda one: (one.node, one.round)):
            self._of[span.node].append(span)
            self.starting[span.round].append(span.node)
            if span.end_round is not None:
                self.ending[span.end_round].append(span.node)
        self.rounds = sorted({*self.starting, *self.ending})
        self.first_round = min(self.starting, default=None)

    def nodes_at(self, round_: int) -> list[int]:
        """Returns the nodes with an interval that contains round `round_`."""
        return [node for node in self._of if self.at(node, round_) is not None]

    def at(self, node: int, round_: int) -> NodeInterval | None:
        """Returns the interval of `node` that contains round `round_`, or None if no such interval exists."""
        spans = self._of.get(node)
        if not spans:
            return None
        place = bisect_right(spans, round_, key=lambda one: one.round) - 1
        return spans[place] if place >= 0 and spans[place].covers(round_) else None

    def n_ended(self, node: int, round_: int) -> int:
        """Returns the number of intervals of `node` that have ended up to round `round_`."""
        spans = self._of.get(node, ())
        return sum(one.end_round is not None and one.end_round <= round_ for one in spans)


def patterns_of(predicates: Mapping[int, str]) -> dict[int, int]:
    """Returns the event pattern of each subscription: the lowest id of a subscription with an equal predicate."""
    first: dict[str, int] = {}
    return {one: first.setdefault(predicates[one], one) for one in sorted(predicates)}


def _nothing_stored(peer: int, name: str) -> Any:  # noqa: ANN401 - the value of any declaration
    raise LookupError(f"{name} of node {peer} is not stored before the first round")


@dataclass(frozen=True)
class RunView:
    """The data of a run that nodes can read.

    Attributes:
        links: The latency of each directed link.
        crashes: The crashes of all nodes.
        subscribers: The subscriber of each subscription.
        predicates: The predicate of each subscription.
        stored: The function that returns the value of a declared attribute of a node at the end of the previous round.
            Its arguments are the node, which may be down, and the name of the declaration.
    """

    links: Mapping[tuple[int, int], int] = field(default_factory=dict)
    crashes: NodeIntervals = field(default_factory=lambda: NodeIntervals(()))
    subscribers: Mapping[int, int] = field(default_factory=dict)
    predicates: Mapping[int, str] = field(default_factory=dict)
    stored: Callable[[int, str], Any] = _nothing_stored

    def neighbours(self, node: int) -> Mapping[int, int]:
        """Returns the latency of each link from `node` to a neighbour, by neighbour, ascending."""
        return self._neighbours.get(node, {})

    @cached_property
    def _neighbours(self) -> Mapping[int, Mapping[int, int]]:
        found: dict[int, dict[int, int]] = defaultdict(dict)
        for (src, dst), latency in sorted(self.links.items()):
            found[src][dst] = latency
        return dict(found)

    def path(self, src: int, dst: int) -> list[int]:
        """Returns the nodes on the path from `src` to `dst` in an overlay that is a tree, including both ends.

        Raises:
            LookupError: No path joins the two nodes.
        """
        up, down = [src], [dst]
        while up[-1] != down[-1]:
            (depth, parent), side = max(
                (self._depth_and_parent.get(nodes[-1], (0, nodes[-1])), nodes) for nodes in (up, down)
            )
            if not depth:
                raise LookupError(f"no path joins nodes {src} and {dst}")
            side.append(parent)
        return up + down[-2::-1]

    @cached_property
    def _depth_and_parent(self) -> Mapping[int, tuple[int, int]]:
        found: dict[int, tuple[int, int]] = {}
        for root in self._neighbours:
            if root not in found:
                found[root] = 0, root
                order = [root]
                for node in order:
                    for other in self._neighbours[node]:
                        if other not in found:
                            found[other] = found[node][0] + 1, node
                            order.append(other)
        return found

    @cached_property
    def patterns(self) -> Mapping[int, int]:
        """The event pattern of each subscription, see `patterns_of`."""
        return patterns_of(self.predicates)

    def incarnation(self, node: int, round_: int) -> int:
        """Returns the number of recoveries of `node` up to round `round_`."""
        return self.crashes.n_ended(node, round_)

    def ended(self, node: int, round_: int) -> tuple[int, bool]:
        """Returns the last incarnation of `node` that has ended up to round `round_`, and whether the node is down.

        Incarnations are numbered from 0. The first result is -1 if no incarnation has ended.
        """
        n_ended, is_down = self.crashes.n_ended(node, round_), self.crashes.at(node, round_) is not None
        return n_ended if is_down else n_ended - 1, is_down

    def is_gone(self, node: int, round_: int) -> bool:
        """Returns whether `node` is down in round `round_` and never recovers."""
        span = self.crashes.at(node, round_)
        return span is not None and span.end_round is None

    def has_crashed(self, round_: int) -> bool:
        """Returns whether any node has crashed up to round `round_`.

        Before the first crash of a run, no node needs state for recoveries.
        """
        first = self.crashes.first_round
        return first is not None and first <= round_

    @property
    def has_crashes(self) -> bool:
        """Whether the run schedules a crash."""
        return self.crashes.first_round is not None


Link = tuple[int, int]


class LinkReplacement(NamedTuple):
    """The replacement of link (old_a, old_b) by link (a, b) in a round, in both directions."""

    round: int
    old_a: int
    old_b: int
    a: int
    b: int
    latency_rounds: int


@dataclass
class LinkChange:
    """The changes of a node's links in a round.

    Attributes:
        removed: The neighbours whose link to the node is removed.
        added: The neighbours whose link to the node is added.
        recovered: The neighbours that recover.
    """

    removed: set[int] = field(default_factory=set)
    added: set[int] = field(default_factory=set)
    recovered: set[int] = field(default_factory=set)


UNCHANGED = LinkChange()
"""The `LinkChange` of a node whose links do not change."""


class Links:
    """The directed links of a run, which link replacements change.

    Attributes:
        now: The latency of each link of the current round.
        rounds: The rounds in which links are replaced, ascending.
    """

    def __init__(self, links: Mapping[Link, int], replacements: Iterable[LinkReplacement], round_: int) -> None:
        """Computes the links of round `round_`.

        Args:
            links: The links before the first round.
            replacements: The link replacements, in the order in which they apply.
            round_: The round whose links are current; -1 for the links before the first round.
        """
        self._by_round: dict[int, list[LinkReplacement]] = defaultdict(list)
        self.now = dict(links)
        for one in replacements:
            self._by_round[one.round].append(one)
        self.rounds = sorted(self._by_round)
        for past in self.rounds[: bisect_right(self.rounds, round_)]:
            self.change(past)

    def change(self, round_: int) -> dict[int, LinkChange]:
        """Replaces the links that end in `round_`, and returns the changes by node.

        If a link is replaced by a link between the same nodes, the neighbour is in ``removed`` and in ``added``.
        """
        changes: dict[int, LinkChange] = defaultdict(LinkChange)
        for one in self._by_round.get(round_, ()):
            for src, dst in ((one.old_a, one.old_b), (one.old_b, one.old_a)):
                del self.now[src, dst]
                changes[src].removed.add(dst)
            for src, dst in ((one.a, one.b), (one.b, one.a)):
                self.now[src, dst] = one.latency_rounds
                changes[src].added.add(dst)
        return changes
