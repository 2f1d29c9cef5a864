"""Down times of nodes in one run: listed crashes, drawn crashes, and recorded outages."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import numpy as np

from pipelines.contract.run_inputs import Ints, Overlay
from pipelines.errors import DataFileError, InputError, KeyPath, Problem
from pipelines.files import find_file
from pipelines.inputs import draws_numpy
from pipelines.inputs.faults.named_outages import named_format, outages_of_file
from pipelines.inputs.faults.timeline import FOR_GOOD, Outage, OutageLimitError, Room, Timeline, alternating
from pipelines.inputs.faults.traces import UnknownSystemError, load_trace, mapped
from pipelines.inputs.overlay.nodes import choose_faulty, graph_of, ids_by_name
from pipelines.scenario.faults import Crash, CrashGenerator, CrashTrace, Fault, FaultGenerator
from pipelines.scenario.times import Clock

_ATTEMPTS = 8
_TRIES = 32
_MAX_STEPS = 200_000
_MAX_PATHS = 20_000
_RECOVERY_LATENCIES = 20


@dataclass(frozen=True)
class _Context:
    """The inputs that all draws of one generator share; `place` is the path of the generator in the scenario."""

    overlay: Overlay
    seed: int
    horizon: int
    beside: Path | None
    place: KeyPath
    purpose: str
    clock: Clock

    def problem(self, *key: str | int, message: str) -> InputError:
        return InputError(Problem((*self.place, *key), message))

    def draw(self, what: str, high: int, *keys: draws_numpy.Key) -> Ints:
        return draws_numpy.integers(self.seed, f"{self.purpose}.{what}", 0, high, *keys)


@dataclass(frozen=True)
class _Chains:
    """The parameters of drawn chains of crashes; a chain is a path in the overlay whose nodes crash one after another.

    Attributes:
        count: The number of chains.
        length: The number of nodes in a chain.
        stagger: Rounds between the crashes of consecutive nodes in a chain.
        down: The smallest and the largest number of rounds for which a node is down; None if nodes never recover.
        rounds: First and last round in which a node may crash.
        most: The largest number of nodes that may be non-operational in one round; None sets no limit.
        recovery: The number of rounds between the recovery of a node and the round in which it is operational.
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
        """Returns the outages of the nodes of `path`; the first outage begins in round `start`.

        An outage lasts ``down[0] + extra`` rounds; if `down` is `None`, it never ends.
        """
        starts = [start + place * self.stagger for place in range(len(path))]
        ends = [FOR_GOOD if self.down is None else begin + self.down[0] + extra for begin in starts]
        return [Outage(*row) for row in zip(path, starts, ends, strict=True)]


_Place: TypeAlias = Callable[[Sequence[Outage]], bool]
"""A function that adds the outages of a chain to a timeline if all of them fit, and returns whether they fit."""


def _with_chains(timeline: Timeline[int], wanted: _Chains, nodes: Ints, context: _Context) -> Timeline[int]:
    """Returns a copy of `timeline` with chains of crashes of `nodes`.

    1. For each chain, draw a path of `nodes`, a round and a down time until the chain fits into the timeline.
    2. If a chain does not fit after 32 draws, start again with all chains; later attempts use the shortest down time.
    3. If none of 8 attempts places all chains, place each chain in the earliest round in which it fits.

    Raises:
        InputError: No attempt places all chains.
    """
    if wanted.last_start < wanted.rounds[0]:
        late = wanted.rounds[0] - wanted.last_start
        raise context.problem("stagger", message=f"a chain takes {late} rounds more than there are; give a smaller one")
    allowed, linked = {*nodes.tolist()}, graph_of(context.overlay).adj
    adjacent = {node: [other for other in linked[node] if other in allowed] for node in nodes.tolist()}
    best = 0
    for attempt in range(_ATTEMPTS + 1):
        trial = deepcopy(timeline)
        room = None if wanted.most is None else Room(trial.outages(), wanted.most, wanted.recovery)
        place = partial(_place, trial, room)
        if attempt < _ATTEMPTS:
            n_placed = _draw(place, wanted, adjacent, attempt, context)
        else:
            n_placed = _pack(place, wanted, adjacent, timeline.outages(), context)
        if n_placed == wanted.count:
            return trial
        best = max(best, n_placed)
    raise context.problem("count", message=_no_room(wanted, best, len(nodes), context.seed))


def _place(timeline: Timeline[int], room: Room | None, outages: Sequence[Outage]) -> bool:
    if not all(timeline.is_free(*outage) for outage in outages) or not (room is None or room.take(outages)):
        return False
    for outage in outages:
        timeline.add(*outage)
    return True


def _draw(
    place: _Place, wanted: _Chains, neighbours: dict[int, list[int]], attempt: int, context: _Context
) -> int:  # fmt: skip
    nodes = list(neighbours)
    tries = np.arange(_TRIES, dtype=np.int64)
    longest = 0 if wanted.down is None or attempt >= _ATTEMPTS // 2 else wanted.down[1] - wanted.down[0]
    places = np.arange(wanted.length, dtype=np.int64)
    for chain in range(wanted.count):
        starts = context.draw("round", wanted.last_start - wanted.rounds[0], chain, attempt, tries).tolist()
        extra = context.draw("down", longest, chain, attempt, tries).tolist()
        turns = context.draw("path", FOR_GOOD, chain, attempt, tries[:, None], places).tolist()
        options = zip(turns, starts, extra, strict=True)
        paths = ((_path(neighbours, nodes, turn), wanted.rounds[0] + start, more) for turn, start, more in options)
        if not any(path and place(wanted.outages(path, start, more)) for path, start, more in paths):
            return chain
    return wanted.count


def _path(neighbours: dict[int, list[int]], nodes: list[int], turns: Sequence[int]) -> list[int]:
    path: list[int] = []
    for turn in turns:
        onward = [node for node in neighbours[path[-1]] if node not in path] if path else nodes
        if not onward:
            return []  # a dead end
        path.append(onward[turn % len(onward)])
    return path


def _pack(
    place: _Place, wanted: _Chains, neighbours: dict[int, list[int]], known: Sequence[Outage], context: _Context
) -> int:  # fmt: skip
    # Only the first round and the rounds directly after an outage are tried. A chain that fits in a later round also
    # fits in one of these rounds.
    paths = list(islice(_all_paths(neighbours, wanted.length, context), _MAX_PATHS))
    starts = [wanted.rounds[0], *_ends(known, wanted)]
    heapify(starts)
    n_placed, n_steps, tried = 0, 0, -1
    while starts and starts[0] <= wanted.last_start and n_steps < _MAX_STEPS:
        start = heappop(starts)
        for path in paths if start > tried else ():
            n_steps += 1
            outages = wanted.outages(path, start, 0)
            if place(outages):
                n_placed += 1
                for end in _ends(outages, wanted):
                    heappush(starts, end)
            if n_placed == wanted.count:
                return n_placed
        tried = start
    return n_placed


def _ends(outages: Sequence[Outage], wanted: _Chains) -> Iterator[int]:
    for outage in outages:
        for place in range(wanted.length):
            for end in (outage.end, outage.end + 1, outage.end + wanted.recovery):
                yield max(end - place * wanted.stagger, wanted.rounds[0])


def _all_paths(neighbours: dict[int, list[int]], length: int, context: _Context) -> Iterator[list[int]]:
    nodes = np.array(list(neighbours), dtype=np.int64)
    order = nodes[np.argsort(context.draw("order", FOR_GOOD, nodes), kind="stable")].tolist()
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


def crash_times(
    faults: Mapping[int, Fault], *, overlay: Overlay, seed: int, horizon: int, beside: Path | None, clock: Clock
) -> list[Outage]:
    """Returns the down times of nodes in order of (start, node). The down times of one node are disjoint.

    `faults` maps the index of each fault in the scenario to the fault.

    1. Take the listed crashes.
    2. Add the crashes of each generator; overlapping down times of a node are merged.
    3. Omit crashes after the horizon. An outage that ends after the horizon gets the end `FOR_GOOD`.

    Raises:
        InputError: A generator is invalid. The error lists all problems, each with its path in the scenario.
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
        context = _Context(overlay, seed, horizon, beside, ("faults", i, "generate"), f"faults.{number}.crash", clock)
        try:
            timeline = _generated(timeline, generator, context)
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(*problems)
    times = [outage for outage in timeline.outages() if outage.start <= horizon]
    return [time if time.end <= horizon else time._replace(end=FOR_GOOD) for time in times]


def _generated(timeline: Timeline[int], generator: CrashGenerator, context: _Context) -> Timeline[int]:
    nodes = _nodes(generator, context)
    rounds = generator.rounds or (0, context.horizon)
    recovery = generator.recovery
    if recovery is None:
        recovery = _RECOVERY_LATENCIES * int(context.overlay.directed_rounds.max(initial=1))
    if generator.count is not None:
        wanted = _Chains(
            count=generator.count, length=generator.consecutive, stagger=generator.stagger, down=generator.down,
            rounds=rounds, most=generator.at_most, recovery=recovery,
        )  # fmt: skip
        return _with_chains(timeline, wanted, nodes, context)
    outages = _outages(generator, nodes, rounds, context)
    if generator.at_most is not None:
        room = Room(timeline.outages(), generator.at_most, recovery)
        # Outages are taken in order of their starts; outages that start in one round are in random order.
        node, start = (np.array([outage[i] for outage in outages], dtype=np.int64) for i in (0, 1))
        drawn = draws_numpy.bits(context.seed, f"{context.purpose}.order", node, start)
        outages = [outages[i] for i in np.lexsort((drawn, start)).tolist() if room.take([outages[i]])]
    for outage in outages:
        timeline.add(*outage)
    return timeline


def _nodes(generator: CrashGenerator, context: _Context) -> Ints:
    ids = ids_by_name(context.overlay)
    chosen = choose_faulty(generator.nodes, context.overlay, (*context.place, "nodes"))
    nodes = np.setdiff1d(chosen, np.array([ids[name] for name in generator.spare], dtype=np.int64))
    if not len(nodes):
        message = f"all {len(chosen)} nodes that may crash are spared; allowed: at most {len(chosen) - 1} of them"
        raise context.problem("spare", message=message)
    return nodes


def _no_room(wanted: _Chains, n_placed: int, n_nodes: int, seed: int) -> str:
    what = "crashes" if wanted.length == 1 else f"chains of {wanted.length} neighbours"
    down = "for good" if wanted.down is None else f"for {wanted.down[0]} rounds or more"
    bound = cure = ""
    if wanted.most is not None:
        bound = (
            f", at most {wanted.most} of them not operational at once, also for {wanted.recovery} rounds after recovery"
        )
        cure = ", or a larger at_most"
    room = (
        f"there is room for {n_placed} from round {wanted.rounds[0]} to {wanted.rounds[1]}: {n_nodes} nodes may crash"
    )
    cure = f"allowed: a smaller count, more rounds or nodes, shorter down times{cure}"
    return f"{wanted.count} {what} are wanted, and in the run of seed {seed} {room}, each {down}{bound}; {cure}"


def _outages(
    generator: CrashGenerator, nodes: Ints, rounds: tuple[int, int], context: _Context
) -> list[Outage]:  # fmt: skip
    try:
        if generator.rate is not None:
            return alternating(generator.rate, nodes, rounds, context.seed, context.purpose)
        return _traced(generator.trace, nodes, rounds, context) if generator.trace is not None else []
    except OutageLimitError as error:
        key, cure = ("trace", "more hours_per_round") if generator.rate is None else ("rate", "longer times")
        raise context.problem(key, message=f"{error}; give fewer rounds or nodes, or {cure}") from error


def _traced(trace: CrashTrace, nodes: Ints, rounds: tuple[int, int], context: _Context) -> list[Outage]:
    try:
        path = find_file(trace.path, context.beside)
        if named_format(path, trace.format) is not None:
            return outages_of_file(path, trace, context.overlay, nodes, rounds, context.clock)
        recorded = load_trace(path, trace.format, trace.system)
        return mapped(recorded, trace, nodes, rounds, context.seed, context.purpose)
    except DataFileError as error:
        key = "system" if isinstance(error, UnknownSystemError) else "path"
        raise context.problem("trace", key, message=str(error)) from error
