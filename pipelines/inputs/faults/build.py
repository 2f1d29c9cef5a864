"""Builds the faults of one run from the faults and the fault generators of a scenario."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import networkx as nx
import numpy as np

from pipelines.contract.run_inputs import CRASH, PAUSE, REPLACEMENT, Faults, Ints, Overlay, table_of
from pipelines.contract.settings import MAX_ROUND
from pipelines.errors import InputError, KeyPath, Problem, nearest, raise_problems
from pipelines.files import find_file
from pipelines.inputs import draws_numpy
from pipelines.inputs.faults.crashes import crash_times
from pipelines.inputs.faults.links import LinkRows, drawn_replacements, plan_replacements
from pipelines.inputs.faults.timeline import FOR_GOOD, Outage, OutageLimitError, Timeline, alternating
from pipelines.inputs.overlay.build import choose_faulty, graph_of, ids_by_name, named_links
from pipelines.scenario.faults import (
    Break,
    BreakGenerator,
    CrashGenerator,
    CrashTrace,
    DrawnTimes,
    Fault,
    FaultGenerator,
    LinkFaultSpec,
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
        try:
            return alternating(wanted.rate, places, rounds, seed, purpose)
        except OutageLimitError as error:
            message = f"{error}; give fewer rounds or places, or longer times"
            raise InputError(Problem((*at, "rate"), message)) from error
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


def build_faults(
    faults: Sequence[Fault], *, overlay: Overlay, seed: int, time: TimeSpec, beside: Path | None,
    kinds: Sequence[str],
) -> Faults:  # fmt: skip
    """Returns the faults of one run: crashes, pauses, link faults and replacements of links.

    Equal seeds give equal faults on every machine. `kinds` contains the message kinds of the run's protocol.
    """
    problems, horizon = list(_unknown(faults, overlay, kinds)), time.rounds
    wrong = {problem.path[1] for problem in problems}
    listed: list[tuple[int, Fault]] = []
    for number, fault in enumerate(faults):
        try:
            if number not in wrong:
                listed += [(number, one) for one in concrete_faults(fault, number, overlay, seed, horizon)]
        except InputError as error:
            problems += error.problems
    try:
        known = {number: fault for number, fault in enumerate(faults) if number not in wrong}
        crashes = crash_times(known, overlay=overlay, seed=seed, time=time, beside=beside)
    except InputError as error:
        raise InputError(*problems, *error.problems) from error
    raise_problems(problems)
    ids, rows = ids_by_name(overlay), LinkRows(overlay, seed, horizon)
    wanted = [Outage(ids[fault.node], fault.round, fault.until) for _, fault in listed if isinstance(fault, Pause)]
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
    of crashes, it yields nothing, because `crash_times` draws crashes. It yields any other fault unchanged.
    """
    if not isinstance(fault, FaultGenerator):
        yield fault
    elif isinstance(fault.generate, DrawnTimes):
        yield from _drawn_faults(fault.generate, number, overlay, seed, horizon)
    elif isinstance(fault.generate, ReplaceGenerator):
        yield from drawn_replacements(fault.generate, overlay, horizon, seed, f"faults.{number}.replace")


def _drawn_faults(generator: DrawnTimes, number: int, overlay: Overlay, seed: int, horizon: int) -> Iterator[Fault]:
    purpose, at = f"faults.{number}.{generator.kind}", ("faults", number, "generate")
    # All partitions are drawn at one place. Intervals at one place are disjoint, so partitions never overlap.
    places = np.zeros(1, dtype=np.int64)
    if isinstance(generator, PauseGenerator):
        places = choose_faulty(generator.nodes, overlay, (*at, "nodes"))
    elif isinstance(generator, BreakGenerator):
        places = np.arange(len(overlay.a), dtype=np.int64)
        if not len(places):
            message = "the overlay has no links, so none can break; allowed: kind partition, pause or crash"
            raise InputError(Problem((*at, "kind"), message))
        if generator.links is not None:
            ids = ids_by_name(overlay)
            ends = zip(overlay.a.tolist(), overlay.b.tolist(), strict=True)
            chosen = {frozenset((ids[a], ids[b])) for a, b in generator.links}
            places = np.flatnonzero([frozenset(pair) in chosen for pair in ends])
    times = drawn_intervals(generator, places, horizon, seed, purpose, at)
    for order, (place, start, end) in enumerate(time for time in times if time.start <= horizon):
        when = {"round": start, "until": None if end > horizon else end}
        if isinstance(generator, PauseGenerator):
            when["until"] = min(end, MAX_ROUND)
            yield Pause.model_validate({"kind": "pause", "node": overlay.names[place], **when})
        elif isinstance(generator, PartitionGenerator):
            group = [overlay.names[node] for node in drawn_group(overlay, generator.share, seed, purpose, order)]
            yield Partition.model_validate({"kind": "partition", "groups": [group], **when})
        else:
            link = (overlay.names[int(overlay.a[place])], overlay.names[int(overlay.b[place])])
            yield Break.model_validate({"kind": "break", "links": [link], **when})


def _unknown(faults: Sequence[Fault], overlay: Overlay, kinds: Sequence[str]) -> Iterator[Problem]:
    parts = ((("faults", number), fault) for number, fault in enumerate(faults))
    yield from name_problems(parts, overlay.names, named_links(overlay))
    for number, fault in enumerate(faults):
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
