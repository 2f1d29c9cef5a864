"""Down times of nodes, the number of nodes that are down in each round, and alternating up and down times."""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import starmap
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from pipelines.contract.run_inputs import Floats, Ints
from pipelines.errors import InputError, KeyPath, Problem
from pipelines.inputs import draws_numpy
from pipelines.scenario.faults import CrashRate, Exponential, LogNormal, Pareto, Times, Weibull

FOR_GOOD = 2**40
"""The value of `Outage.end` for an outage that never ends."""
MAX_OUTAGES = 1_000_000
Place = TypeVar("Place", bound=Hashable)
_LONGEST = 2**31
_CYCLES = 32


class Outage(NamedTuple):
    """An interval in which a node is down: it crashes in round `start` and recovers in round `end`."""

    node: int
    start: int
    end: int


class Timeline(Generic[Place]):
    """Disjoint intervals ``[start, end)`` for each place, for example the down times of each node."""

    def __init__(self) -> None:
        self._spans: defaultdict[Place, list[tuple[int, int]]] = defaultdict(list)

    def _overlapping(self, place: Place, start: int, end: int) -> slice:
        spans = self._spans[place]
        first = bisect_left(spans, start, key=lambda span: span[1])
        return slice(first, bisect_right(spans, end, lo=first, key=lambda span: span[0]))

    def is_free(self, place: Place, start: int, end: int) -> bool:
        """Returns whether ``[start, end)`` neither overlaps nor touches an interval of `place`."""
        return not self._spans[place][self._overlapping(place, start, end)]

    def gaps(self, place: Place, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields the parts of ``[start, end)`` that no interval of `place` covers."""
        for low, high in self._spans[place][self._overlapping(place, start, end)]:
            if start < low:
                yield start, low
            start = max(start, high)
        if start < end:
            yield start, end

    def add(self, place: Place, start: int, end: int) -> None:
        """Adds ``[start, end)``, merged with the intervals of `place` that it overlaps or touches."""
        met = self._overlapping(place, start, end)
        around = self._spans[place][met]
        if around:
            start, end = min(start, around[0][0]), max(end, around[-1][1])
        self._spans[place][met] = [(start, end)]

    def intervals(self) -> Iterator[tuple[Place, int, int]]:
        """Yields (place, start, end) for each interval."""
        return ((place, *span) for place, spans in self._spans.items() for span in spans)

    def outages(self: Timeline[int]) -> list[Outage]:
        """Returns the intervals of all nodes in order of (start, node)."""
        return sorted(starmap(Outage, self.intervals()), key=lambda outage: (outage.start, outage.node))


class Room:
    """Counts the nodes that are not operational in each round, and limits this count.

    A node is not operational while it is down and for `recovery` rounds after it recovered.
    """

    def __init__(self, outages: Sequence[Outage], most: int, recovery: int) -> None:
        """Counts `outages`, which are disjoint for each node and may exceed the limit `most`."""
        self._most = sys.maxsize
        self._recovery = recovery
        self._not_operational = Timeline[int]()
        # The first rounds, and the rounds after the last ones, in which nodes are not operational; ascending.
        self._starts: list[int] = []
        self._ends: list[int] = []
        for outage in outages:
            self.take([outage])
        self._most = most

    def take(self, outages: Sequence[Outage]) -> bool:
        """Adds `outages`, each of a different node, to the counts, unless a count would exceed the limit.

        Returns whether `outages` were added. Either all of them are added, or none.
        """
        spans = [(node, start, end + self._recovery) for node, start, end in outages]
        added = [gap for span in spans for gap in self._not_operational.gaps(*span)]
        for start, end in added:
            insort(self._starts, start)
            insort(self._ends, end)
        if any(self._peak(*gap) > self._most for gap in added):
            for start, end in added:
                del self._starts[bisect_left(self._starts, start)]
                del self._ends[bisect_left(self._ends, end)]
            return False
        for span in spans:
            self._not_operational.add(*span)
        return True

    def _peak(self, first: int, end: int) -> int:
        begun = self._starts[bisect_right(self._starts, first) : bisect_left(self._starts, end)]
        return max(bisect_right(self._starts, at) - bisect_right(self._ends, at) for at in (first, *begun))


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


def alternating(
    rate: CrashRate, nodes: Ints, rounds: tuple[int, int], seed: int, purpose: str, place: KeyPath
) -> list[Outage]:
    """Returns the outages of nodes that alternate between up and down; every node is up at first.

    The outages of a node do not depend on the other nodes. `rounds` contains the first and the last round in which a
    node may crash. `place` is the path of the generator of the crashes.

    Raises:
        InputError: The nodes have more than `MAX_OUTAGES` crashes.
    """

    def draw(node: Ints, cycle: Ints) -> tuple[Ints, Ints]:
        up = renewal_times(rate.up, seed, f"{purpose}.up", node, cycle)
        if rate.down is None:
            return up, np.full_like(up, FOR_GOOD)
        return up, renewal_times(rate.down, seed, f"{purpose}.down", node, cycle)

    found: list[Outage] = []
    for columns in cycles(nodes, rounds[0], rounds[1] + 1, draw):
        found += [Outage(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]
        if len(found) > MAX_OUTAGES:
            message = f"it makes more than {MAX_OUTAGES} crashes; give fewer rounds, nodes or links, or longer times"
            raise InputError(Problem((*place, "rate"), message))
    return found


def cycles(
    places: Ints, first: int, end: int, draw: Callable[[Ints, Ints], tuple[Ints, Ints]]
) -> Iterator[tuple[Ints, Ints, Ints]]:
    """Yields the down times of places that alternate between up and down, as arrays (place, start, end).

    Every place is up in round `first`. All down times that start before round `end` are yielded. `draw` maps places,
    shape (places, 1), and cycle numbers, shape (cycles,), to up times and down times, shape (places, cycles).
    """
    now, cycle = np.full(len(places), first, dtype=np.int64), np.arange(_CYCLES, dtype=np.int64)
    while len(places):
        up, down = draw(places[:, None], cycle)
        over = now[:, None] + np.cumsum(up + down, axis=1)
        row, column = np.nonzero(over - down < end)
        yield places[row], (over - down)[row, column], over[row, column]
        goes_on = over[:, -1] < end
        places, now, cycle = places[goes_on], over[goes_on, -1], cycle + _CYCLES
