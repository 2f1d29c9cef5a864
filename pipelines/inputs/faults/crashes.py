"""From the crashes of a scenario, listed and generated, to the down times of one run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from pipelines.contract.run_inputs import Ints, Overlay
from pipelines.errors import DataFileError, FaultError, InputError, Problem
from pipelines.files import find_file
from pipelines.inputs import draws_numpy
from pipelines.inputs.faults.named_outages import named_format, outages_of_file
from pipelines.inputs.faults.placed_crashes import Chains, place_chains
from pipelines.inputs.faults.renewal import TooManyError, alternating
from pipelines.inputs.faults.timeline import FOR_GOOD, Outage, Room, Timeline
from pipelines.inputs.faults.traces import UnknownSystemError, load_trace, mapped, trace_file
from pipelines.inputs.overlay.nodes import choose_nodes, ids_by_name, unknown_node
from pipelines.scenario.faults import Crash, CrashGenerator, CrashRate, CrashTrace, Fault, FaultGenerator
from pipelines.scenario.times import Clock

Place: TypeAlias = tuple[str | int, ...]

_RECOVERY_LATENCIES = 20


@dataclass(frozen=True)
class _Context:
    """The run that a generator works for, where the generator stands in the scenario, and what its draws are for."""

    overlay: Overlay
    seed: int
    horizon: int
    beside: Path | None
    place: Place
    purpose: str
    clock: Clock

    def problem(self, *key: str | int, message: str) -> FaultError:
        """Returns the error of one of the generator's settings."""
        return FaultError(Problem((*self.place, *key), message))


def crash_times(
    faults: Sequence[Fault], *, overlay: Overlay, seed: int, horizon: int, beside: Path | None, clock: Clock
) -> list[Outage]:
    """Returns when nodes are down, in order of (start, node); the times of a node are apart.

    1. Take the crashes that are listed.
    2. Let one generator after the other add to them; a node that several take down is down as long as any says so.
    3. Leave out what comes after the horizon; a recovery after it never comes.

    Args:
        faults: The faults of the scenario; crashes of nodes that the overlay lacks are left out.
        overlay: The run's overlay.
        seed: The run's seed.
        horizon: The last round in which something can go wrong.
        beside: The scenario file's folder, where traces are looked up first.
        clock: How times in traces become rounds.

    Raises:
        FaultError: All that is wrong with the generators, each problem at its place in the scenario.
    """
    ids, timeline, problems = ids_by_name(overlay), Timeline(), list[Problem]()
    for fault in faults:
        if isinstance(fault, Crash) and fault.node in ids:
            until = FOR_GOOD if fault.until is None else fault.until
            timeline.add(Outage(ids[fault.node], fault.round, until))
    generators = [
        (i, fault.generate)
        for i, fault in enumerate(faults)
        if isinstance(fault, FaultGenerator) and isinstance(fault.generate, CrashGenerator)
    ]
    for number, (i, generator) in enumerate(generators):
        context = _Context(overlay, seed, horizon, beside, ("faults", i, "generate"), f"faults.{number}.crash", clock)
        try:
            timeline = _generated(timeline, generator, context)
        except InputError as error:
            problems += error.problems
    if problems:
        raise FaultError(*problems)
    times = [outage for outage in timeline.outages() if outage.start <= horizon]
    return [time if time.end <= horizon else time._replace(end=FOR_GOOD) for time in times]


def _generated(timeline: Timeline, generator: CrashGenerator, context: _Context) -> Timeline:
    """Returns a timeline with the crashes of a generator."""
    nodes = _nodes(generator, context)
    rounds = generator.rounds or (0, context.horizon)
    recovery = generator.recovery
    if recovery is None:
        recovery = _RECOVERY_LATENCIES * int(context.overlay.directed_rounds.max(initial=1))
    if generator.count is not None:
        wanted = Chains(
            count=generator.count, length=generator.consecutive, stagger=generator.stagger, down=generator.down,
            rounds=rounds, most=generator.at_most, recovery=recovery,
        )  # fmt: skip
        return _placed(timeline, wanted, nodes, context)
    if generator.rate is not None:
        outages = _rated(generator.rate, nodes, rounds, context)
    elif generator.trace is not None:
        outages = _traced(generator.trace, nodes, rounds, context)
    else:
        raise TypeError("the model lets no generator be without count, rate and trace")
    if generator.at_most is not None:
        room = Room(timeline.outages(), generator.at_most, recovery)
        outages = [outage for outage in _in_order(outages, context) if room.take([outage])]
    for outage in outages:
        timeline.add(outage)
    return timeline


def _nodes(generator: CrashGenerator, context: _Context) -> Ints:
    """Returns the nodes that may crash, in order of their ids."""
    overlay, ids = context.overlay, ids_by_name(context.overlay)
    wrong = [
        Problem((*context.place, "spare", i), unknown_node(name, overlay))
        for i, name in enumerate(generator.spare)
        if name not in ids
    ]
    if wrong:
        raise FaultError(*wrong)
    chosen = choose_nodes(generator.nodes, overlay, context.seed, context.purpose, (*context.place, "nodes"))
    nodes = np.setdiff1d(chosen, np.array([ids[name] for name in generator.spare], dtype=np.int64))
    if not len(nodes):
        message = f"all {len(chosen)} nodes that may crash are spared; allowed: at most {len(chosen) - 1} of them"
        raise context.problem("spare", message=message)
    return nodes


def _placed(timeline: Timeline, wanted: Chains, nodes: Ints, context: _Context) -> Timeline:
    if wanted.last_start < wanted.rounds[0]:
        late = wanted.rounds[0] - wanted.last_start
        raise context.problem("stagger", message=f"a chain takes {late} rounds more than there are; give a smaller one")
    placed, n_placed = place_chains(timeline, wanted, context.overlay, nodes, context.seed, context.purpose)
    if n_placed < wanted.count:
        raise context.problem("count", message=_no_room(wanted, n_placed, len(nodes), context.seed))
    return placed


def _no_room(wanted: Chains, n_placed: int, n_nodes: int, seed: int) -> str:
    what = "crashes" if wanted.length == 1 else f"chains of {wanted.length} neighbours"
    down = "for good" if wanted.down is None else f"for {wanted.down[0]} rounds or more"
    bound = ""
    if wanted.most is not None:
        bound = (
            f", at most {wanted.most} of them not operational at once, where a node counts for {wanted.recovery} rounds"
            " more when it recovered"
        )
    return (
        f"{wanted.count} {what} are wanted, and in the run of seed {seed} there is room for {n_placed} from round"
        f" {wanted.rounds[0]} to {wanted.rounds[1]}: {n_nodes} nodes may crash, each {down}{bound}; allowed: a smaller"
        f" count, more rounds or nodes, shorter down times{', or a larger at_most' if bound else ''}"
    )


def _rated(rate: CrashRate, nodes: Ints, rounds: tuple[int, int], context: _Context) -> list[Outage]:
    try:
        return alternating(rate, nodes, rounds, context.seed, context.purpose)
    except TooManyError as error:
        message = f"{error}; give fewer rounds or nodes, or longer times"
        raise context.problem("rate", message=message) from error


def _traced(trace: CrashTrace, nodes: Ints, rounds: tuple[int, int], context: _Context) -> list[Outage]:
    try:
        path = find_file(trace.path, context.beside)
        if named_format(path, trace.format) is not None:
            return outages_of_file(path, trace, context.overlay, nodes, rounds, context.clock)
        recorded = load_trace(trace_file(path, trace))
        return mapped(recorded, trace, nodes, rounds, context.seed, context.purpose)
    except UnknownSystemError as error:
        raise context.problem("trace", "system", message=str(error)) from error
    except DataFileError as error:
        raise context.problem("trace", "path", message=str(error)) from error
    except TooManyError as error:
        message = f"{error}; give fewer rounds or nodes, or more hours_per_round"
        raise context.problem("trace", message=message) from error


def _in_order(outages: list[Outage], context: _Context) -> list[Outage]:
    """Returns outages by their start, those of one round in drawn order."""
    node, start = (np.array([outage[i] for outage in outages], dtype=np.int64) for i in (0, 1))
    order = np.lexsort((draws_numpy.bits(context.seed, f"{context.purpose}.order", node, start), start))
    return [outages[i] for i in order.tolist()]
