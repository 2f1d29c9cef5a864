"""Down times of nodes in one run: listed crashes, drawn crashes, and recorded outages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, partial
from heapq import heapify, heappop, heappush
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np

from pipelines.contract.run_inputs import Ints, Overlay
from pipelines.errors import InputError, KeyPath, Problem, blamed_on, raise_problems
from pipelines.files import find_file
from pipelines.inputs import draws_numpy
from pipelines.inputs.faults.recorded import recorded_outages
from pipelines.inputs.faults.timeline import FOR_GOOD, Outage, OutageLimitError, Room, Timeline, alternating
from pipelines.inputs.overlay.build import choose_faulty, graph_of, ids_by_name
from pipelines.scenario.faults import Crash, CrashGenerator, Fault, FaultGenerator
from pipelines.scenario.times import TimeSpec

_ATTEMPTS = 8
_TRIES = 32
_MAX_STEPS = 200_000
_MAX_PATHS = 20_000
_RECOVERY_LATENCIES = 20


@dataclass(frozen=True)
class _Crashes:
    """A generator of crashes and the inputs of its run. A chain is a path of nodes that crash one after another.

    `wanted` is the generator, `place` its path in the scenario, and `purpose` the name of its random draws.
    """

    wanted: CrashGenerator
    overlay: Overlay
    seed: int
    time: TimeSpec
    beside: Path | None
    place: KeyPath
    purpose: str

    @property
    def rounds(self) -> tuple[int, int]:
        """First and last round in which a node may crash."""
        return self.wanted.rounds or (0, self.time.rounds)

    @cached_property
    def recovery(self) -> int:
        """The number of rounds between the recovery of a node and the round in which it is operational."""
        if self.wanted.recovery is not None:
            return self.wanted.recovery
        return _RECOVERY_LATENCIES * int(self.overlay.directed_rounds.max(initial=1))

    @property
    def last_start(self) -> int:
        """The last round in which a chain may begin."""
        return self.rounds[1] - (self.wanted.consecutive - 1) * self.wanted.stagger

    def outages(self, path: Sequence[int], start: int, extra: int) -> list[Outage]:
        """Returns the outages of the nodes of the chain `path`; the first outage begins in round `start`.

        An outage lasts ``down[0] + extra`` rounds; if key `down` of the generator is not set, it never ends.
        """
        starts = [start + index * self.wanted.stagger for index in range(len(path))]
        down = self.wanted.down
        ends = [FOR_GOOD if down is None else begin + down[0] + extra for begin in starts]
        return [Outage(*row) for row in zip(path, starts, ends, strict=True)]

    def problem(self, *key: str | int, message: str) -> InputError:
        return InputError(Problem((*self.place, *key), message))

    def draw(self, what: str, high: int, *keys: draws_numpy.Key) -> Ints:
        return draws_numpy.integers(self.seed, f"{self.purpose}.{what}", 0, high, *keys)


_Add: TypeAlias = Callable[[Sequence[Outage]], bool]
"""A function that adds the outages of a chain to a timeline if all of them fit, and returns whether they fit."""


def _with_chains(timeline: Timeline[int], count: int, nodes: Ints, of: _Crashes) -> Timeline[int]:
    """Returns a copy of `timeline` with `count` chains of crashes of `nodes`.

    1. For each chain, draw a path of `nodes`, a round and a down time until the chain fits into the timeline.
    2. If a chain does not fit after 32 draws, start again with all chains. The last 4 of 8 attempts use the shortest
       down time.
    3. If no attempt places all chains, place each chain in the earliest round in which it fits.
    """
    if (late := of.rounds[0] - of.last_start) > 0:
        raise of.problem("stagger", message=f"a chain takes {late} rounds more than there are; give a smaller one")
    allowed, linked = {*nodes.tolist()}, graph_of(of.overlay).adj
    adjacent = {node: [other for other in linked[node] if other in allowed] for node in nodes.tolist()}
    best, most = 0, of.wanted.at_most
    for attempt in range(_ATTEMPTS + 1):
        trial = deepcopy(timeline)
        add = partial(_added, trial, None if most is None else Room(trial.outages(), most, of.recovery))
        if attempt < _ATTEMPTS:
            n_placed = _draw(add, count, adjacent, attempt, of)
        else:
            n_placed = _pack(add, count, adjacent, timeline.outages(), of)
        if n_placed == count:
            return trial
        best = max(best, n_placed)
    raise of.problem("count", message=_no_room(of, best, len(nodes)))


def _added(timeline: Timeline[int], room: Room | None, outages: Sequence[Outage]) -> bool:
    if not all(timeline.is_free(*outage) for outage in outages) or not (room is None or room.take(outages)):
        return False
    for outage in outages:
        timeline.add(*outage)
    return True


def _draw(add: _Add, count: int, neighbours: dict[int, list[int]], attempt: int, of: _Crashes) -> int:
    nodes, down, first = list(neighbours), of.wanted.down, of.rounds[0]
    tries = np.arange(_TRIES, dtype=np.int64)
    longest = 0 if down is None or attempt >= _ATTEMPTS // 2 else down[1] - down[0]
    indexes = np.arange(of.wanted.consecutive, dtype=np.int64)
    for chain in range(count):
        starts = of.draw("round", of.last_start - first, chain, attempt, tries).tolist()
        extra = of.draw("down", longest, chain, attempt, tries).tolist()
        turns = of.draw("path", FOR_GOOD, chain, attempt, tries[:, None], indexes).tolist()
        options = zip(turns, starts, extra, strict=True)
        paths = ((_path(neighbours, nodes, turn), first + start, more) for turn, start, more in options)
        if not any(path and add(of.outages(path, start, more)) for path, start, more in paths):
            return chain
    return count


def _path(neighbours: dict[int, list[int]], nodes: list[int], turns: Sequence[int]) -> list[int]:
    path: list[int] = []
    for turn in turns:
        onward = [node for node in neighbours[path[-1]] if node not in path] if path else nodes
        if not onward:
            return []  # a dead end
        path.append(onward[turn % len(onward)])
    return path


def _pack(
    add: _Add, count: int, neighbours: dict[int, list[int]], known: Sequence[Outage], of: _Crashes
) -> int:  # fmt: skip
    # A chain is tried only in the first round, and in rounds in which one of its crashes directly follows an outage or
    # a recovery. A chain that fits in a later round also fits in one of these rounds.
    paths = list(islice(_all_paths(neighbours, of), _MAX_PATHS))
    starts = [of.rounds[0], *_ends(known, of)]
    heapify(starts)
    n_placed, n_steps, tried = 0, 0, -1
    while starts and starts[0] <= of.last_start and n_steps < _MAX_STEPS:
        start = heappop(starts)
        for path in paths if start > tried else ():
            n_steps += 1
            outages = of.outages(path, start, 0)
            if add(outages):
                n_placed += 1
                for end in _ends(outages, of):
                    heappush(starts, end)
            if n_placed == count:
                return n_placed
        tried = start
    return n_placed


def _ends(outages: Sequence[Outage], of: _Crashes) -> Iterator[int]:
    for outage in outages:
        for index in range(of.wanted.consecutive):
            for end in (outage.end, outage.end + 1, outage.end + of.recovery):
                yield max(end - index * of.wanted.stagger, of.rounds[0])


def _all_paths(neighbours: dict[int, list[int]], of: _Crashes) -> Iterator[list[int]]:
    nodes = np.array(list(neighbours), dtype=np.int64)
    order = nodes[np.argsort(of.draw("order", FOR_GOOD, nodes), kind="stable")].tolist()
    n_steps = 0
    for first in order:
        stack = [[first]]
        while stack and n_steps < _MAX_STEPS:
            path = stack.pop()
            n_steps += 1
            if len(path) == of.wanted.consecutive:
                yield path
            else:
                stack += [[*path, node] for node in neighbours[path[-1]] if node not in path]


def crash_times(
    faults: Mapping[int, Fault], *, overlay: Overlay, seed: int, time: TimeSpec, beside: Path | None
) -> list[Outage]:
    """Returns the down times of nodes in order of (start, node). The down times of one node are disjoint.

    `faults` maps the index of each fault in the scenario to the fault. Crashes after the horizon are omitted. An outage
    that ends after the horizon gets the end `FOR_GOOD`.
    """
    ids, timeline, problems = ids_by_name(overlay), Timeline[int](), list[Problem]()
    for fault in faults.values():
        if isinstance(fault, Crash):
            until = FOR_GOOD if fault.until is None else fault.until
            timeline.add(ids[fault.node], fault.round, until)
    generators = [
        (i, fault.generate)
        for i, fault in faults.items()
        if isinstance(fault, FaultGenerator) and isinstance(fault.generate, CrashGenerator)
    ]
    for number, (i, generator) in enumerate(generators):
        place: KeyPath = ("faults", i, "generate")
        purpose = f"faults.{number}.crash"
        try:
            of = _Crashes(generator, overlay, seed, time, beside, place, purpose)
            timeline = _generated(timeline, of)
        except InputError as error:
            problems += error.problems
    raise_problems(problems)
    outages = [outage for outage in timeline.outages() if outage.start <= time.rounds]
    return [outage if outage.end <= time.rounds else outage._replace(end=FOR_GOOD) for outage in outages]


def _generated(timeline: Timeline[int], of: _Crashes) -> Timeline[int]:
    nodes = _nodes(of)
    if of.wanted.count is not None:
        return _with_chains(timeline, of.wanted.count, nodes, of)
    outages = _outages(nodes, of)
    if of.wanted.at_most is not None:
        room = Room(timeline.outages(), of.wanted.at_most, of.recovery)
        # Outages are taken in order of their starts; outages that start in one round are in random order.
        node, start = (np.array([outage[i] for outage in outages], dtype=np.int64) for i in (0, 1))
        drawn = draws_numpy.bits(of.seed, f"{of.purpose}.order", node, start)
        outages = [outages[i] for i in np.lexsort((drawn, start)).tolist() if room.take([outages[i]])]
    for outage in outages:
        timeline.add(*outage)
    return timeline


def _nodes(of: _Crashes) -> Ints:
    ids, spare = ids_by_name(of.overlay), of.wanted.spare
    chosen = choose_faulty(of.wanted.nodes, of.overlay, (*of.place, "nodes"))
    nodes = np.setdiff1d(chosen, np.array([ids[name] for name in spare], dtype=np.int64))
    if not len(nodes):
        message = f"all {len(chosen)} nodes that may crash are spared; allowed: at most {len(chosen) - 1} of them"
        raise of.problem("spare", message=message)
    return nodes


def _no_room(of: _Crashes, n_placed: int, n_nodes: int) -> str:
    wanted, (first, last) = of.wanted, of.rounds
    what = "crashes" if wanted.consecutive == 1 else f"chains of {wanted.consecutive} neighbours"
    down = "for good" if wanted.down is None else f"for {wanted.down[0]} rounds or more"
    bound = cure = ""
    if wanted.at_most is not None:
        bound = (
            f", at most {wanted.at_most} of them not operational at once, also for {of.recovery} rounds after recovery"
        )
        cure = ", or a larger at_most"
    room = f"room for {n_placed} from round {first} to {last} at {n_nodes} nodes"
    cure = f"allowed: a smaller count, more rounds or nodes, shorter down times{cure}"
    return f"{wanted.count} {what} are requested, but the run of seed {of.seed} has {room}, each {down}{bound}; {cure}"


def _outages(nodes: Ints, of: _Crashes) -> list[Outage]:
    rate, trace = of.wanted.rate, of.wanted.trace
    try:
        if rate is not None:
            return alternating(rate, nodes, of.rounds, of.seed, of.purpose)
        if trace is None:
            return []
        with blamed_on(*of.place, "trace"):
            path = find_file(trace.path, of.beside)
            return recorded_outages(path, trace, of.overlay, nodes, of.rounds, of.time, of.seed, of.purpose)
    except OutageLimitError as error:
        key, cure = ("trace", "more hours_per_round") if rate is None else ("rate", "longer times")
        raise of.problem(key, message=f"{error}; give fewer rounds or nodes, or {cure}") from error
