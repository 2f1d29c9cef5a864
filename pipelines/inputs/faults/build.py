"""The faults of one run, built from the faults, the fault generators and the recorded outages of a scenario."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property, partial
from heapq import heapify, heappop, heappush
from itertools import islice
from pathlib import Path
from typing import TypeAlias

import networkx as nx
import numpy as np

from pipelines.contract.run_inputs import CRASH, PAUSE, REPLACEMENT, Faults, Ints, Overlay, table_of
from pipelines.errors import InputError, KeyPath, Problem, blamed_on, nearest, raise_problems
from pipelines.files import find_file
from pipelines.inputs import draws_numpy
from pipelines.inputs.faults.links import LinkRows, drawn_replacements, plan_replacements
from pipelines.inputs.faults.recorded import recorded_outages
from pipelines.inputs.faults.timeline import FOR_GOOD, Outage, Room, Timeline, alternating
from pipelines.inputs.overlay.build import choose_faulty, graph_of, ids_by_name, named_links
from pipelines.scenario.faults import (
    Break,
    BreakGenerator,
    Crash,
    CrashGenerator,
    CrashTrace,
    DrawnTimes,
    Fault,
    FaultGenerator,
    LinkFaultSpec,
    Loss,
    MessageFault,
    Partition,
    PartitionGenerator,
    Pause,
    PauseGenerator,
    Replace,
    ReplaceGenerator,
)
from pipelines.scenario.model import name_problems
from pipelines.scenario.times import TimeSpec

_TRIES = 64
_CHAIN_TRIES = 32
_ATTEMPTS = 8
_MAX_STEPS = 200_000
_MAX_PATHS = 20_000
_RECOVERY_LATENCIES = 20


def _pauses(pauses: Sequence[Outage], crashes: Sequence[Outage], horizon: int) -> list[Outage]:
    """Returns the pauses of nodes in order of (start, node). A node is never paused while it is down.

    Pauses of one node that overlap or touch are merged. A crash ends a pause, and the messages that wait for the node
    are lost. If the node is down in the first round of a pause, the pause starts in the round of the recovery. Pauses
    that begin after the horizon, or that end by the recovery, are omitted.
    """
    timeline, down = Timeline[int](), Timeline[int]()
    for pause in pauses:
        if pause.start <= horizon:
            timeline.add(*pause)
    for crash in crashes:
        down.add(*crash)
    found = ((pause.node, next(down.gaps(*pause), None)) for pause in timeline.outages())
    return [Outage(node, *gap) for node, gap in found if gap is not None]


def drawn_intervals(
    wanted: DrawnTimes, places: Ints, horizon: int, seed: int, purpose: str, at: KeyPath
) -> list[Outage]:
    """Returns drawn intervals of faults at `places`, which are node ids or link indexes.

    Intervals at one place are disjoint. `at` is the path of the generator in the scenario, for error messages.
    """
    rounds = wanted.rounds or (0, horizon)
    if wanted.rate is not None:
        return alternating(wanted.rate, places, rounds, seed, purpose, at)
    timeline, count = Timeline[int](), wanted.count or 0
    for number in range(count):
        found = next(
            (time for time in _tries(wanted, places, rounds, seed, purpose, number) if timeline.is_free(*time)), None
        )
        if found is None:
            room = f"room for {number} from round {rounds[0]} to {rounds[1]} at {len(places)} places"
            cure = "allowed: a smaller count, more rounds or places, or shorter times"
            message = f"{count} faults are requested, but the run of seed {seed} has {room}; {cure}"
            raise InputError(Problem((*at, "count"), message))
        timeline.add(*found)
    return timeline.outages()


def _tries(
    wanted: DrawnTimes, places: Ints, rounds: tuple[int, int], seed: int, purpose: str, number: int
) -> list[Outage]:
    attempt = np.arange(_TRIES, dtype=np.int64)
    place = places[draws_numpy.integers(seed, f"{purpose}.place", 0, len(places) - 1, number, attempt)]
    start = draws_numpy.integers(seed, f"{purpose}.start", *rounds, number, attempt)
    end = np.full(_TRIES, FOR_GOOD, dtype=np.int64)
    if wanted.down is not None:
        end = start + draws_numpy.integers(seed, f"{purpose}.down", *wanted.down, number, attempt)
    return [Outage(*row) for row in zip(place.tolist(), start.tolist(), end.tolist(), strict=True)]


def drawn_group(overlay: Overlay, share: float, seed: int, purpose: str, number: int) -> list[int]:
    """Returns the ids of a group of nodes: a drawn node, and the nodes with the fewest hops to this node.

    If the overlay has no links, all nodes of the group are drawn. The group contains the fraction `share` of all nodes,
    at least one node, and never all nodes.
    """
    n_nodes = len(overlay.names)
    size = min(max(round(share * n_nodes), 1), n_nodes - 1)
    centre = int(draws_numpy.integers(seed, f"{purpose}.centre", 0, n_nodes - 1, number))
    if overlay.has_links:
        near = (node for _, node in nx.bfs_edges(graph_of(overlay), centre))
    else:
        drawn = draws_numpy.bits(seed, f"{purpose}.group", np.arange(n_nodes, dtype=np.int64), number)
        near = (node for node in np.argsort(drawn, kind="stable").tolist() if node != centre)
    return sorted([centre, *islice(near, max(size - 1, 0))])


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
    tries = np.arange(_CHAIN_TRIES, dtype=np.int64)
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


def _crash_times(
    faults: Mapping[int, Fault], problems: list[Problem], *, overlay: Overlay, seed: int, time: TimeSpec,
    beside: Path | None,
) -> list[Outage]:  # fmt: skip
    """Returns the down times of nodes in order of (start, node). The down times of one node are disjoint.

    `faults` maps the index of each fault in the scenario to the fault. Crashes after the horizon are omitted. An outage
    that ends after the horizon gets the end `FOR_GOOD`. The problems of generators are appended to `problems`.
    """
    ids, timeline = ids_by_name(overlay), Timeline[int]()
    for fault in faults.values():
        if isinstance(fault, Crash):
            until = FOR_GOOD if fault.until is None else fault.until
            timeline.add(ids[fault.node], fault.round, until)
    generators = (
        (i, fault.generate)
        for i, fault in faults.items()
        if isinstance(fault, FaultGenerator) and isinstance(fault.generate, CrashGenerator)
    )
    for number, (i, generator) in enumerate(generators):
        place, purpose = ("faults", i, "generate"), f"faults.{number}.crash"
        try:
            timeline = _generated(timeline, _Crashes(generator, overlay, seed, time, beside, place, purpose))
        except InputError as error:
            problems += error.problems
    outages = [outage for outage in timeline.outages() if outage.start <= time.rounds]
    return [outage if outage.end <= time.rounds else outage._replace(end=FOR_GOOD) for outage in outages]


def _generated(timeline: Timeline[int], of: _Crashes) -> Timeline[int]:
    nodes = _nodes(of)
    if of.wanted.count is not None:
        return _with_chains(timeline, of.wanted.count, nodes, of)
    outages: list[Outage] = []
    if of.wanted.rate is not None:
        outages = alternating(of.wanted.rate, nodes, of.rounds, of.seed, of.purpose, of.place)
    elif (trace := of.wanted.trace) is not None:
        with blamed_on(*of.place, "trace"):
            path = find_file(trace.path, of.beside)
            outages = recorded_outages(path, trace, of.overlay, nodes, of.rounds, of.time, of.seed, of.purpose)
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


def build_faults(
    faults: Sequence[Fault], *, overlay: Overlay, linked: Overlay | None, seed: int, time: TimeSpec,
    beside: Path | None, kinds: Sequence[str],
) -> Faults:  # fmt: skip
    """Returns the faults of one run: crashes, pauses, link faults and replacements of links.

    Equal seeds give equal faults on every machine. `kinds` contains the message kinds of the run's protocol. `linked`
    is the overlay with the links of the protocol; None if the protocol builds its overlay.
    """
    problems, horizon = list(_unknown(faults, overlay, kinds)), time.rounds
    wrong = {problem.path[1] for problem in problems}
    listed: list[tuple[int, Fault]] = []
    known = {number: fault for number, fault in enumerate(faults) if number not in wrong}
    for number, fault in known.items():
        try:
            listed += [(number, one) for one in concrete_faults(fault, number, overlay, seed, horizon)]
        except InputError as error:
            problems += error.problems
    crashes = _crash_times(known, problems, overlay=overlay, seed=seed, time=time, beside=beside)
    raise_problems(problems)
    ids, rows = ids_by_name(overlay), LinkRows(overlay, linked, seed, horizon)
    wanted = [
        Outage(ids[fault.node], fault.round, horizon + 1 if fault.until is None else fault.until)
        for _, fault in listed
        if isinstance(fault, Pause)
    ]
    pauses = _pauses(wanted, crashes, horizon)
    for pause in pauses:
        rows.event("pause", (None, None), pause.start, pause.end, node=pause.node)
    for number, fault in listed:
        if isinstance(fault, LinkFaultSpec):
            rows.add(fault, number)
    crash = [(*down[:2], None if down.end == FOR_GOOD else down.end) for down in crashes]
    replaced = plan_replacements([(number, fault) for number, fault in listed if isinstance(fault, Replace)], overlay)
    replaced = [one for one in replaced if one.broken <= horizon]
    for one in replaced:
        rows.replace(one)
    link_fault, nth_fault, side, event = rows.tables()
    replacement = [(one.round, *one.old, *one.new, one.latency) for one in replaced if one.round <= horizon]
    return Faults(
        table_of(crash, CRASH), link_fault, nth_fault, side, table_of(pauses, PAUSE),
        table_of(replacement, REPLACEMENT), event,
    )  # fmt: skip


def concrete_faults(fault: Fault, number: int, overlay: Overlay, seed: int, horizon: int) -> Iterator[Fault]:
    """Expands a fault of the scenario; `number` is its index in the list of faults.

    For a generator of pauses, breaks, partitions or replacements, the function yields the drawn faults. For a generator
    of crashes, it yields nothing, because `_crash_times` draws crashes. It yields any other fault unchanged.
    """
    if not isinstance(fault, FaultGenerator):
        yield fault
    elif isinstance(fault.generate, DrawnTimes):
        yield from _drawn_faults(fault.generate, number, overlay, seed, horizon)
    elif isinstance(fault.generate, ReplaceGenerator):
        yield from drawn_replacements(fault.generate, overlay, horizon, seed, f"faults.{number}.replace")


def _drawn_faults(generator: DrawnTimes, number: int, overlay: Overlay, seed: int, horizon: int) -> Iterator[Fault]:
    purpose, at = f"faults.{number}.{generator.kind}", ("faults", number, "generate")
    links = list(named_links(overlay))
    # All partitions are drawn at one place. Intervals at one place are disjoint, so partitions never overlap.
    places = np.zeros(1, dtype=np.int64)
    if isinstance(generator, PauseGenerator):
        places = choose_faulty(generator.nodes, overlay, (*at, "nodes"))
    elif isinstance(generator, BreakGenerator):
        if not links:
            message = "the overlay has no links, so none can break; allowed: kind partition, pause or crash"
            raise InputError(Problem((*at, "kind"), message))
        chosen = {frozenset(link) for link in generator.links or links}
        places = np.flatnonzero([frozenset(link) in chosen for link in links])
    times = drawn_intervals(generator, places, horizon, seed, purpose, at)
    for order, (place, start, end) in enumerate(time for time in times if time.start <= horizon):
        when = {"round": start, "until": None if end > horizon else end}
        if isinstance(generator, PauseGenerator):
            yield Pause.model_validate({"kind": "pause", "node": overlay.names[place], **when})
        elif isinstance(generator, PartitionGenerator):
            group = [overlay.names[node] for node in drawn_group(overlay, generator.share, seed, purpose, order)]
            yield Partition.model_validate({"kind": "partition", "groups": [group], **when})
        else:
            yield Break.model_validate({"kind": "break", "links": [links[place]], **when})


def _unknown(faults: Sequence[Fault], overlay: Overlay, kinds: Sequence[str]) -> Iterator[Problem]:
    parts = ((("faults", number), fault) for number, fault in enumerate(faults))
    yield from name_problems(parts, overlay.names, named_links(overlay))
    for number, fault in enumerate(faults):
        if isinstance(fault, Loss) and fault.burst is not None and not overlay.has_links:
            message = (
                "the overlay has no links, so none can be bad; leave burst out, or restrict the loss to some rounds"
            )
            yield Problem(("faults", number, "burst"), message)
        for index, name in enumerate((fault.kinds if isinstance(fault, MessageFault) else None) or ()):
            if name not in kinds:
                message = f"the protocol has no messages of kind {name!r};{nearest(name, kinds)} allowed: "
                yield Problem(("faults", number, "kinds", index), message + ", ".join(kinds))


def named_traces(faults: Sequence[Fault], beside: Path | None) -> Iterator[tuple[str, Path, CrashTrace]]:
    """Yields (path of the key in the scenario, path of the file, settings) for each crash trace in `faults`."""
    for number, fault in enumerate(faults):
        if isinstance(fault, FaultGenerator) and isinstance(fault.generate, CrashGenerator) and fault.generate.trace:
            trace = fault.generate.trace
            yield f"faults.{number}.generate.trace", find_file(trace.path, beside), trace


def describe() -> list[tuple[str, str]]:
    """Returns the name and the description of each kind of fault, as ``roundtable list faults`` prints them."""
    return [
        ("crash", "a node is down from a round on, for good or until it recovers"),
        ("pause", "a node keeps its state, handles nothing for some rounds, and then all waiting messages"),
        ("loss", "links lose messages of given kinds, in one direction or both, independently or in bursts"),
        ("break", "links lose all messages for some rounds, in one direction or both"),
        ("partition", "for some rounds, groups of nodes cannot exchange messages, or some links are cut"),
        ("delay", "messages arrive some drawn rounds later; later messages wait for them, or overtake (reorder)"),
        ("duplicate", "messages arrive twice, the copy directly after its original or some rounds later"),
        ("replace", "a link breaks for good, and another link replaces it some rounds later"),
        ("generate crash count", "a number of crashes, or of chains of neighbours, at drawn nodes and rounds"),
        ("generate crash rate", "every node alternates between up and down: exponential, weibull, pareto, lognormal"),
        ("generate crash trace", "recorded outages: of named nodes (CSV, Parquet, SimGrid), or FTA and LANL traces"),
        ("generate break", "a number of drawn breaks of links, or every link alternates between whole and broken"),
        ("generate pause", "a number of pauses at drawn nodes and rounds, or every node pauses repeatedly"),
        ("generate partition", "partitions, one at a time: each cuts off a drawn node and the nodes nearest to it"),
        ("generate replace", "a number of drawn replacements of links; the overlay stays a tree"),
    ]
