"""The links of a run, some of which are replaced: a link ends in a round, and another one begins."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

Link = tuple[int, int]


class Replacement(NamedTuple):
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
    """What a round changes at the links of a node.

    Attributes:
        gone: The neighbours whose link ends.
        come: The neighbours whose link begins.
        returned: The neighbours that recover, over the links of the round.
    """

    gone: set[int] = field(default_factory=set)
    come: set[int] = field(default_factory=set)
    returned: set[int] = field(default_factory=set)


class Links:
    """The directed links of a run in the course of its rounds.

    Attributes:
        now: The latency of each link of the current round.
        ever: The latency of each link that exists in some round, as in table ``link``.
    """

    def __init__(self, links: Mapping[Link, int], replacements: Iterable[Replacement], round_: int) -> None:
        """Computes the links of a round.

        Args:
            links: The latency of each directed link before the first round.
            replacements: The replacements in their order.
            round_: The round.
        """
        self._by_round: dict[int, list[Replacement]] = defaultdict(list)
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
