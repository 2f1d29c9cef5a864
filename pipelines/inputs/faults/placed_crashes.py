"""Exactly n crashes, or chains of crashes, at drawn rounds and nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from itertools import islice
from typing import Protocol

import numpy as np

from pipelines.contract.run_inputs import Ints, Overlay
from pipelines.inputs import draws_numpy
from pipelines.inputs.faults.timeline import FOR_GOOD, Outage, Room, Timeline

_ATTEMPTS = 8
_TRIES = 32
_MAX_STEPS = 200_000
_MAX_PATHS = 20_000


class _Draws(Protocol):
    def __call__(self, what: str, high: int, *keys: draws_numpy.Key) -> Ints: ...


@dataclass(frozen=True)
class Chains:
    """What is wanted.

    Attributes:
        count: How many chains.
        length: Nodes of each.
        stagger: Rounds from the crash of one node of a chain to that of the next.
        down: Fewest and most rounds for which a node is down; None: for good.
        rounds: First and last round in which a node may crash.
        most: Most nodes that may be not operational at once; None: any number.
        recovery: Rounds for which a node is not operational after it recovered.
    """

    count: int
    length: int
    stagger: int
    down: tuple[int, int] | None
    rounds: tuple[int, int]
    most: int | None
    recovery: int

    @property
    def last_start(self) -> int:
        """The last round in which a chain may begin."""
        return self.rounds[1] - (self.length - 1) * self.stagger

    def outages(self, path: Sequence[int], start: int, extra: int) -> list[Outage]:
        """Returns the outages of a chain that begins in a round and is down for ``extra`` more than the fewest."""
        starts = [start + place * self.stagger for place in range(len(path))]
        ends = [FOR_GOOD if self.down is None else begin + self.down[0] + extra for begin in starts]
        return [Outage(*row) for row in zip(path, starts, ends, strict=True)]


class _Placing:
    """One attempt to place all chains."""

    def __init__(self, timeline: Timeline, wanted: Chains) -> None:
        self.timeline = deepcopy(timeline)
        self.wanted = wanted
        self.n_placed = 0
        self._room = None
        if wanted.most is not None:
            self._room = Room(self.timeline.outages(), wanted.most, wanted.recovery)

    @property
    def is_done(self) -> bool:
        return self.n_placed == self.wanted.count

    def place(self, outages: Sequence[Outage]) -> bool:
        if not all(map(self.timeline.is_free, outages)) or not (self._room is None or self._room.take(outages)):
            return False
        for outage in outages:
            self.timeline.add(outage)
        self.n_placed += 1
        return True


def place_chains(
    timeline: Timeline, wanted: Chains, overlay: Overlay, nodes: Ints, seed: int, purpose: str
) -> tuple[Timeline, int]:
    """Places chains of crashes beside what a timeline has.

    1. Draw path, round and down time of one chain after the other, and again where there is no room.
    2. If one finds no room, start again; later attempts take the fewest rounds of down time.
    3. If no attempt places all, pack them: each as early as there is room.

    Args:
        timeline: What is there already; it is not changed.
        wanted: How many chains, and how they look.
        overlay: A chain is a path of it.
        nodes: The nodes that may crash, in order of their ids.
        seed: The run's seed.
        purpose: What the draws are for.

    Returns:
        The timeline with the chains, and how many were placed: fewer than wanted where no more have room.
    """

    def draws(what: str, high: int, *keys: draws_numpy.Key) -> Ints:
        return draws_numpy.integers(seed, f"{purpose}.{what}", 0, high, *keys)

    neighbours = _neighbours(overlay, nodes)
    best = 0
    for attempt in range(_ATTEMPTS):
        placing = _Placing(timeline, wanted)
        _draw(placing, neighbours, attempt, draws)
        if placing.is_done:
            return placing.timeline, placing.n_placed
        best = max(best, placing.n_placed)
    placing = _Placing(timeline, wanted)
    _pack(placing, neighbours, draws)
    return placing.timeline, max(best, placing.n_placed)


def _neighbours(overlay: Overlay, nodes: Ints) -> dict[int, list[int]]:
    """Returns the neighbours of each node that may crash, as far as they may too."""
    found: dict[int, list[int]] = {node: [] for node in nodes.tolist()}
    for a, b in zip(overlay.a.tolist(), overlay.b.tolist(), strict=True):
        if a in found and b in found:
            found[a].append(b)
            found[b].append(a)
    return found


def _draw(placing: _Placing, neighbours: dict[int, list[int]], attempt: int, draws: _Draws) -> None:
    """Places chains at drawn paths and rounds until one finds no room."""
    wanted, nodes = placing.wanted, list(neighbours)
    tries = np.arange(_TRIES, dtype=np.int64)
    longest = 0 if wanted.down is None or attempt >= _ATTEMPTS // 2 else wanted.down[1] - wanted.down[0]
    places = np.arange(wanted.length, dtype=np.int64)
    for chain in range(wanted.count):
        starts = draws("round", wanted.last_start - wanted.rounds[0], chain, attempt, tries).tolist()
        extra = draws("down", longest, chain, attempt, tries).tolist()
        turns = draws("path", FOR_GOOD, chain, attempt, tries[:, None], places).tolist()
        options = zip(turns, starts, extra, strict=True)
        paths = ((_path(neighbours, nodes, turn), wanted.rounds[0] + start, more) for turn, start, more in options)
        if not any(path and placing.place(wanted.outages(path, start, more)) for path, start, more in paths):
            return


def _path(neighbours: dict[int, list[int]], nodes: list[int], turns: Sequence[int]) -> list[int]:
    """Returns a drawn path, or nothing where it ends before it is long enough."""
    path: list[int] = []
    for turn in turns:
        onward = [node for node in neighbours[path[-1]] if node not in path] if path else nodes
        if not onward:
            return []
        path.append(onward[turn % len(onward)])
    return path


def _pack(placing: _Placing, neighbours: dict[int, list[int]], draws: _Draws) -> None:
    """Places each chain as early as there is room, with the fewest rounds of down time.

    A chain can begin at the first round, or where moving it to an earlier round would meet an outage.
    """
    wanted = placing.wanted
    paths = list(islice(_all_paths(neighbours, wanted.length, draws), _MAX_PATHS))
    starts = [wanted.rounds[0], *_ends(placing.timeline.outages(), wanted)]
    heapify(starts)
    n_steps, tried = 0, -1
    while starts and starts[0] <= wanted.last_start and n_steps < _MAX_STEPS:
        start = heappop(starts)
        for path in paths if start > tried else ():
            n_steps += 1
            outages = wanted.outages(path, start, 0)
            if placing.place(outages):
                for end in _ends(outages, wanted):
                    heappush(starts, end)
            if placing.is_done:
                return
        tried = start


def _ends(outages: Sequence[Outage], wanted: Chains) -> Iterator[int]:
    """Yields the first rounds in which a chain can begin after outages, by each of its nodes."""
    for outage in outages:
        for place in range(wanted.length):
            for end in (outage.end, outage.end + 1, outage.end + wanted.recovery):
                yield max(end - place * wanted.stagger, wanted.rounds[0])


def _all_paths(neighbours: dict[int, list[int]], length: int, draws: _Draws) -> Iterator[list[int]]:
    """Yields the paths of ``length`` nodes, by their first node in drawn order; stops after many steps."""
    nodes = np.array(list(neighbours), dtype=np.int64)
    order = nodes[np.argsort(draws("order", FOR_GOOD, nodes), kind="stable")].tolist()
    n_steps = 0
    for first in order:
        stack = [[first]]
        while stack and n_steps < _MAX_STEPS:
            path = stack.pop()
            n_steps += 1
            if len(path) == length:
                yield path
            else:
                stack += [[*path, node] for node in neighbours[path[-1]] if node not in path]
