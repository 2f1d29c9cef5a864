"""A run as a whole: its links and their replacements, its subscribers, and the periods in which nodes are down.

A node knows only the part of it that its neighbours, its failure detector and its store provide; `Context` reads it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple


@dataclass(frozen=True)
class NodeInterval:
    """A time in which a node is down or pauses: from ``round`` on, before ``end_round``; None: to the end."""

    node: int
    round: int
    end_round: int | None

    def covers(self, round_: int) -> bool:
        """Returns whether a round lies in it."""
        return self.round <= round_ and (self.end_round is None or round_ < self.end_round)


class NodeIntervals:
    """The times of one kind of all nodes, those of a node apart."""

    def __init__(self, spans: Iterable[NodeInterval]) -> None:
        """Sorts them."""
        self._of: dict[int, list[NodeInterval]] = defaultdict(list)
        self.starting: dict[int, list[int]] = defaultdict(list)
        self.ending: dict[int, list[int]] = defaultdict(list)
        for span in sorted(spans, key=lambda one: (one.node, one.round)):
            self._of[span.node].append(span)
            self.starting[span.round].append(span.node)
            if span.end_round is not None:
                self.ending[span.end_round].append(span.node)
        self._rounds = sorted({*self.starting, *self.ending})
        self.first_round = min(self.starting, default=None)

    def next_round(self, after: int) -> int | None:
        """Returns the first round after the given one in which one starts or ends."""
        place = bisect_right(self._rounds, after)
        return self._rounds[place] if place < len(self._rounds) else None

    def nodes_at(self, round_: int) -> list[int]:
        """Returns the nodes of which a time covers a round."""
        return [node for node in self._of if self.at(node, round_) is not None]

    def at(self, node: int, round_: int) -> NodeInterval | None:
        """Returns the time of a node that covers a round."""
        spans = self._of.get(node)
        if not spans:
            return None
        place = bisect_right(spans, round_, key=lambda one: one.round) - 1
        return spans[place] if place >= 0 and spans[place].covers(round_) else None

    def n_ended(self, node: int, round_: int) -> int:
        """Returns the number of periods of a node that have ended in a round."""
        spans = self._of.get(node, ())
        return sum(one.end_round is not None and one.end_round <= round_ for one in spans)


class Ended(NamedTuple):
    """The newest ended incarnation of a node.

    Attributes:
        incarnation: Its number, from 0; -1: none has ended.
        is_down: Whether the node is down; otherwise its next incarnation is up.
    """

    incarnation: int
    is_down: bool


def nothing_stored(peer: int, name: str) -> Any:  # noqa: ANN401 - the value of any declaration
    """Returns the stored rows of a node where nodes are played apart from each other: none is known."""
    raise LookupError(f"{name} of node {peer} is not known where a node is played apart from the others")


def patterns_of(predicates: Mapping[int, str]) -> dict[int, int]:
    """Returns the event pattern of each subscription: the lowest subscription with an equal predicate.

    Args:
        predicates: The predicate of each subscription.
    """
    first: dict[str, int] = {}
    return {one: first.setdefault(predicates[one], one) for one in sorted(predicates)}


_UNKNOWN: Mapping[tuple[int, int], int] = {}
"""Links of a run where a node is played apart from the others."""


@dataclass(frozen=True)
class RunView:
    """A run as a whole.

    Attributes:
        links: The latency of each directed link.
        crashes: The times in which nodes are down.
        subscribers: The subscriber of each subscription.
        predicates: The predicate of each subscription.
        stored: Returns the rows of a declaration that a node, up or down, had stored at the end of the last round.
    """

    links: Mapping[tuple[int, int], int] = field(default_factory=lambda: _UNKNOWN)
    crashes: NodeIntervals = field(default_factory=lambda: NodeIntervals(()))
    subscribers: Mapping[int, int] = field(default_factory=dict)
    predicates: Mapping[int, str] = field(default_factory=dict)
    stored: Callable[[int, str], Any] = nothing_stored

    def neighbours(self, node: int) -> Mapping[int, int]:
        """Returns the latency of each link that leaves a node, by its other end, in ascending order.

        Raises:
            LookupError: The node is played apart from the others.
        """
        if self.links is _UNKNOWN:
            raise LookupError(
                f"neighbours of node {node} are unknown where a node is played apart from the others; use"
                " --rounds-per-job auto or above 1"
            )
        return self._neighbours.get(node, {})

    @cached_property
    def _neighbours(self) -> Mapping[int, Mapping[int, int]]:
        found: dict[int, dict[int, int]] = defaultdict(dict)
        for (src, dst), latency in sorted(self.links.items()):
            found[src][dst] = latency
        return dict(found)

    @cached_property
    def patterns(self) -> Mapping[int, int]:
        """The event pattern of each subscription, see `patterns_of`."""
        return patterns_of(self.predicates)

    def incarnation(self, node: int, round_: int) -> int:
        """Returns how often a node has recovered by a round."""
        return self.crashes.n_ended(node, round_)

    def ended(self, node: int, round_: int) -> Ended:
        """Returns the newest incarnation of a node that has ended in a round."""
        n_ended, is_down = self.crashes.n_ended(node, round_), self.crashes.at(node, round_) is not None
        return Ended(n_ended if is_down else n_ended - 1, is_down)

    def is_gone(self, node: int, round_: int) -> bool:
        """Returns whether a node is down for good."""
        span = self.crashes.at(node, round_)
        return span is not None and span.end_round is None

    def has_crashed(self, round_: int) -> bool:
        """Returns whether a node has crashed up to a round; state for crashes is not needed before."""
        first = self.crashes.first_round
        return first is not None and first <= round_

    @property
    def has_crashes(self) -> bool:
        """Whether a node crashes at some time."""
        return self.crashes.first_round is not None


Link = tuple[int, int]


class LinkReplacement(NamedTuple):
    """A link that is replaced in a round, in both directions.

    Attributes:
        round: The round.
        old_a: One end of the link that ends.
        old_b: Its other end.
        a: One end of the link that begins.
        b: Its other end.
        latency_rounds: The latency of the link that begins.
    """

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
        gone: The neighbours whose link ends.
        come: The neighbours whose link begins.
        returned: The neighbours that recover, over the links of the round.
    """

    gone: set[int] = field(default_factory=set)
    come: set[int] = field(default_factory=set)
    returned: set[int] = field(default_factory=set)


UNCHANGED = LinkChange()
"""No change."""


class Links:
    """The directed links of a run in the course of its rounds.

    Attributes:
        now: The latency of each link of the current round.
        ever: The latency of each link that exists in some round, as in table ``link``.
    """

    def __init__(self, links: Mapping[Link, int], replacements: Iterable[LinkReplacement], round_: int) -> None:
        """Computes the links of a round.

        Args:
            links: The latency of each directed link before the first round.
            replacements: The replacements in their order.
            round_: The round.
        """
        self._by_round: dict[int, list[LinkReplacement]] = defaultdict(list)
        self.now, self.ever = dict(links), dict(links)
        for one in replacements:
            self._by_round[one.round].append(one)
            for link in ((one.a, one.b), (one.b, one.a)):
                self.ever[link] = max(self.ever.get(link, 0), one.latency_rounds)
        self._rounds = sorted(self._by_round)
        for past in self._rounds[: bisect_right(self._rounds, round_)]:
            self.change(past)

    def next_round(self, after: int) -> int | None:
        """Returns the first round after ``after`` that replaces a link."""
        index = bisect_right(self._rounds, after)
        return self._rounds[index] if index < len(self._rounds) else None

    def change(self, round_: int) -> dict[int, LinkChange]:
        """Replaces the links of a round; returns the changes by node.

        A link may take the place of one with its ends: the neighbour is in ``gone`` and in ``come``.
        """
        changes: dict[int, LinkChange] = defaultdict(LinkChange)
        for one in self._by_round.get(round_, ()):
            for src, dst in ((one.old_a, one.old_b), (one.old_b, one.old_a)):
                del self.now[src, dst]
                changes[src].gone.add(dst)
            for src, dst in ((one.a, one.b), (one.b, one.a)):
                self.now[src, dst] = one.latency_rounds
                changes[src].come.add(dst)
        return changes
