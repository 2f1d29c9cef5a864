"""Down times of nodes, the number of nodes that are down in each round, and alternating up and down times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from pipelines.contract.run_inputs import Floats, Ints
from pipelines.inputs import draws_numpy
from pipelines.scenario.faults import CrashRate, Exponential, LogNormal, Pareto, Times, Weibull

FOR_GOOD = 2**40
"""The value of `Outage.end` for an outage that never ends."""
MAX_OUTAGES = 1_000_000
_LONGEST = 2**31
_CYCLES = 32


class Outage(NamedTuple):
    """An interval in which a node is down: it crashes in round `start` and recovers in round `end`."""

    node: int
    start: int
    end: int


class Spans:
    """The disjoint intervals ``[start, end)`` in which a node is down, ascending."""

    def __init__(self) -> None:
        self.items: list[tuple[int, int]] = []

    def _overlapping(self, start: int, end: int) -> slice:
        first = bisect_left(self.items, start, key=lambda span: span[1])
        return slice(first, bisect_right(self.items, end, lo=first, key=lambda span: span[0]))

    def meets(self, start: int, end: int) -> bool:
        """Returns whether ``[start, end)`` overlaps or touches an interval."""
        return bool(self.items[self._overlapping(start, end)])

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields the parts of ``[start, end)`` that no interval covers."""
        for low, high in self.items[self._overlapping(start, end)]:
            if start < low:
                yield start, low
            start = max(start, high)
        if start < end:
            yield start, end

    def add(self, start: int, end: int) -> None:
        """Adds ``[start, end)``, merged with the intervals that it overlaps or touches."""
        met = self._overlapping(start, end)
        around = self.items[met]
        if around:
            start, end = min(start, around[0][0]), max(end, around[-1][1])
        self.items[met] = [(start, end)]


class Levels:
    """A step function that maps each round to a number. Initially all numbers are 0."""

    def __init__(self) -> None:
        self._rounds = [0]
        self._levels = [0]

    def _split(self, round_: int) -> int:
        # Starts a step at `round_`; returns its index.
        place = bisect_left(self._rounds, round_)
        if place == len(self._rounds) or self._rounds[place] != round_:
            self._rounds.insert(place, round_)
            self._levels.insert(place, self._levels[place - 1])
        return place

    def peak(self, start: int, end: int) -> int:
        """Returns the largest number in the rounds ``[start, end)``."""
        first = bisect_right(self._rounds, start) - 1
        return max(self._levels[first : bisect_left(self._rounds, end)])

    def change(self, start: int, end: int, by: int) -> None:
        """Adds `by` to the numbers of the rounds ``[start, end)``."""
        for place in range(self._split(start), self._split(end)):
            self._levels[place] += by


class Timeline:
    """The outages of all nodes of a run."""

    def __init__(self) -> None:
        self._of_node: defaultdict[int, Spans] = defaultdict(Spans)

    def is_free(self, outage: Outage) -> bool:
        """Returns whether `outage` neither overlaps nor touches an outage of its node."""
        return not self._of_node[outage.node].meets(outage.start, outage.end)

    def add(self, outage: Outage) -> None:
        """Adds `outage`, merged with those outages of the same node that it overlaps or touches."""
        self._of_node[outage.node].add(outage.start, outage.end)

    def outages(self) -> list[Outage]:
        """Returns all outages in order of (start, node)."""
        found = (Outage(node, *span) for node, spans in self._of_node.items() for span in spans.items)
        return sorted(found, key=lambda outage: (outage.start, outage.node))


class Room:
    """Counts the nodes that are not operational in each round, and limits this count.

    A node is not operational while it is down and for `recovery` rounds after it recovered.
    """

    def __init__(self, outages: Sequence[Outage], most: int, recovery: int) -> None:
        """Counts `outages`, which are disjoint for each node and may exceed the limit `most`."""
        self._most = most
        self._recovery = recovery
        self._levels = Levels()
        self._of_node: defaultdict[int, Spans] = defaultdict(Spans)
        for outage in outages:
            for gap in self._new(outage):
                self._levels.change(*gap, 1)
            self._of_node[outage.node].add(outage.start, outage.end + self._recovery)

    def _new(self, outage: Outage) -> list[tuple[int, int]]:
        # Returns the intervals in which the node is not operational because of `outage` but would be without it.
        return list(self._of_node[outage.node].gaps(outage.start, outage.end + self._recovery))

    def take(self, outages: Sequence[Outage]) -> bool:
        """Counts `outages`, which are of different nodes, if the count then stays within the limit in all rounds.

        Returns whether the outages were counted: all or none of them.
        """
        taken: list[tuple[int, int]] = []
        for outage in outages:
            for gap in self._new(outage):
                if self._levels.peak(*gap) >= self._most:
                    for undo in taken:
                        self._levels.change(*undo, -1)
                    return False
                self._levels.change(*gap, 1)
                taken.append(gap)
        for outage in outages:
            self._of_node[outage.node].add(outage.start, outage.end + self._recovery)
        return True


class OutageLimitError(ValueError):
    """A run would have more than `MAX_OUTAGES` crashes."""


def renewal_times(times: Times, seed: int, purpose: str, *keys: draws_numpy.Key) -> Ints:
    """Draws durations of at least 1 whole round from distribution `times`, in the broadcast shape of `keys`."""
    drawn: Floats
    match times:
        case Exponential(mean=mean):
            drawn = -mean * np.log1p(-draws_numpy.uniform(seed, purpose, *keys))
        case Weibull(shape=shape, scale=scale):
            drawn = scale * (-np.log1p(-draws_numpy.uniform(seed, purpose, *keys))) ** (1.0 / shape)
        case Pareto(shape=shape, scale=scale):
            with np.errstate(over="ignore"):
                drawn = scale * (1.0 - draws_numpy.uniform(seed, purpose, *keys)) ** (-1.0 / shape)
        case LogNormal(mu=mu, sigma=sigma):
            drawn = np.exp(np.minimum(mu + sigma * draws_numpy.normal(seed, purpose, *keys), np.log(_LONGEST)))
    return np.rint(np.clip(drawn, 1.0, _LONGEST)).astype(np.int64)


def alternating(rate: CrashRate, nodes: Ints, rounds: tuple[int, int], seed: int, purpose: str) -> list[Outage]:
    """Returns the outages of nodes that alternate between up and down; every node is up at first.

    The outages of a node do not depend on the other nodes. `rounds` contains the first and the last round in which a
    node may crash.

    Raises:
        OutageLimitError: The nodes have more than `MAX_OUTAGES` crashes.
    """
    found: list[Outage] = []
    for some in _cycles(rate, nodes, rounds, seed, purpose):
        found += some
        if len(found) > MAX_OUTAGES:
            raise OutageLimitError(f"it makes more than {MAX_OUTAGES} crashes")
    return found


def _cycles(rate: CrashRate, nodes: Ints, rounds: tuple[int, int], seed: int, purpose: str) -> Iterator[list[Outage]]:
    first, last = rounds
    now, cycle = np.full(len(nodes), first, dtype=np.int64), np.arange(_CYCLES, dtype=np.int64)
    while len(nodes):
        up = renewal_times(rate.up, seed, f"{purpose}.up", nodes[:, None], cycle)
        down = np.full_like(up, FOR_GOOD)
        if rate.down is not None:
            down = renewal_times(rate.down, seed, f"{purpose}.down", nodes[:, None], cycle)
        end = now[:, None] + np.cumsum(up + down, axis=1)
        row, column = np.nonzero(end - down <= last)
        columns = nodes[row], (end - down)[row, column], end[row, column]
        yield [Outage(*values) for values in zip(*(of.tolist() for of in columns), strict=True)]
        goes_on = end[:, -1] < last
        nodes, now, cycle = nodes[goes_on], end[goes_on, -1], cycle + _CYCLES
