"""Down times of a run and the number of nodes that are down in each round; alternating up and down times."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from pipelines.contract.run_inputs import Ints
from pipelines.inputs import draws_numpy
from pipelines.scenario.faults import CrashRate, Exponential, LogNormal, Pareto, Times, Weibull

FOR_GOOD = 2**40
"""An end after every round."""
Floats: TypeAlias = npt.NDArray[np.float64]
MAX_OUTAGES = 1_000_000
_LONGEST = 2**31
_CYCLES = 32


class Outage(NamedTuple):
    """A time for which a node is down: from ``start`` on, and before ``end``."""

    node: int
    start: int
    end: int


class Spans:
    """The down intervals ``[start, end)`` of a node, in order and disjoint: adding merges them."""

    def __init__(self) -> None:
        """Creates an empty set."""
        self.items: list[tuple[int, int]] = []

    def _overlapping(self, start: int, end: int) -> slice:
        """Returns the slice of the times that overlap or touch a span."""
        first = bisect_left(self.items, start, key=lambda span: span[1])
        return slice(first, bisect_right(self.items, end, lo=first, key=lambda span: span[0]))

    def meets(self, start: int, end: int) -> bool:
        """Returns whether an interval overlaps or touches an interval of the set."""
        return bool(self.items[self._overlapping(start, end)])

    def gaps(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yields the parts of an interval that no interval of the set covers."""
        for low, high in self.items[self._overlapping(start, end)]:
            if start < low:
                yield start, low
            start = max(start, high)
        if start < end:
            yield start, end

    def add(self, start: int, end: int) -> None:
        """Adds an interval, merged with the intervals that it overlaps or touches."""
        met = self._overlapping(start, end)
        around = self.items[met]
        if around:
            start, end = min(start, around[0][0]), max(end, around[-1][1])
        self.items[met] = [(start, end)]


class Levels:
    """A number for each round, 0 at first, as a step function."""

    def __init__(self) -> None:
        """Starts with 0 everywhere."""
        self._rounds = [0]
        self._levels = [0]

    def _split(self, round_: int) -> int:
        """Starts a step at a round; returns the index of the step."""
        place = bisect_left(self._rounds, round_)
        if place == len(self._rounds) or self._rounds[place] != round_:
            self._rounds.insert(place, round_)
            self._levels.insert(place, self._levels[place - 1])
        return place

    def peak(self, start: int, end: int) -> int:
        """Returns the largest number in the rounds from ``start`` to ``end``, exclusive."""
        first = bisect_right(self._rounds, start) - 1
        return max(self._levels[first : bisect_left(self._rounds, end)])

    def change(self, start: int, end: int, by: int) -> None:
        """Adds ``by`` to the numbers of the rounds from ``start`` to ``end``, exclusive."""
        for place in range(self._split(start), self._split(end)):
            self._levels[place] += by


class Timeline:
    """The outages of all nodes of a run."""

    def __init__(self) -> None:
        """Starts without a crash."""
        self._of_node: defaultdict[int, Spans] = defaultdict(Spans)

    def is_free(self, outage: Outage) -> bool:
        """Whether the node is up for all of the time, and in the rounds before and after it."""
        return not self._of_node[outage.node].meets(outage.start, outage.end)

    def add(self, outage: Outage) -> None:
        """Adds an outage, merged with the node's outages that it overlaps or touches."""
        self._of_node[outage.node].add(outage.start, outage.end)

    def outages(self) -> list[Outage]:
        """Returns all outages in order of (start, node)."""
        found = (Outage(node, *span) for node, spans in self._of_node.items() for span in spans.items)
        return sorted(found, key=lambda outage: (outage.start, outage.node))


class Room:
    """How many nodes are not operational in each round: down, or back for fewer than ``recovery`` rounds."""

    def __init__(self, outages: Sequence[Outage], most: int, recovery: int) -> None:
        """Starts with outages, which may exceed the limit.

        Args:
            outages: Disjoint down times of nodes.
            most: How many nodes may be not operational at once.
            recovery: Rounds for which a node is not operational after it recovered.
        """
        self._most = most
        self._recovery = recovery
        self._levels = Levels()
        self._of_node: defaultdict[int, Spans] = defaultdict(Spans)
        for outage in outages:
            for gap in self._new(outage):
                self._levels.change(*gap, 1)
            self._of_node[outage.node].add(outage.start, outage.end + self._recovery)

    def _new(self, outage: Outage) -> list[tuple[int, int]]:
        """Returns when the node would be not operational because of this outage alone."""
        return list(self._of_node[outage.node].gaps(outage.start, outage.end + self._recovery))

    def take(self, outages: Sequence[Outage]) -> bool:
        """Takes outages of different nodes if there is room for all of them; returns whether there was."""
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
    """There are more crashes than a run can have."""


def renewal_times(times: Times, seed: int, purpose: str, *keys: draws_numpy.Key) -> Ints:
    """Returns times in whole rounds, at least 1; shape of the broadcast keys."""
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
    """Returns the outages of nodes that alternate between up and down, all up before the first round.

    A node's times depend on its id, not on which other nodes take part.

    Args:
        rate: Distributions of up and down times.
        nodes: The nodes that may crash.
        rounds: First and last round in which a node may crash.
        seed: The run's seed.
        purpose: What the draws are for.

    Raises:
        TooManyError: More than `MAX_OUTAGES` crashes.
    """
    found: list[Outage] = []
    for some in _cycles(rate, nodes, rounds, seed, purpose):
        found += some
        if len(found) > MAX_OUTAGES:
            raise OutageLimitError(f"it makes more than {MAX_OUTAGES} crashes")
    return found


def _cycles(rate: CrashRate, nodes: Ints, rounds: tuple[int, int], seed: int, purpose: str) -> Iterator[list[Outage]]:
    """Yields some outages of each node at a time, until every node is past the last round."""
    first, last = rounds
    now, cycle = np.full(len(nodes), first, dtype=np.int64), np.arange(_CYCLES, dtype=np.int64)
    while len(nodes):
        up = renewal_times(rate.up, seed, f"{purpose}.up", nodes[:, None], cycle)
        down = np.full_like(up, FOR_GOOD)
        if rate.down is not None:
            down = renewal_times(rate.down, seed, f"{purpose}.down", nodes[:, None], cycle)
        end = now[:, None] + np.cumsum(up + down, axis=1)
        row, column = np.nonzero(end - down <= last)
        yield [
            Outage(*values)
            for values in zip(
                nodes[row].tolist(), (end - down)[row, column].tolist(), end[row, column].tolist(), strict=True
            )
        ]
        goes_on = end[:, -1] < last
        nodes, now, cycle = nodes[goes_on], end[goes_on, -1], cycle + _CYCLES
