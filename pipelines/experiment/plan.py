"""Describes an experiment before it runs: nodes, calls and faults of its runs, notes for the user, and store tables.

The functions of this module neither start an engine nor write files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import networkx as nx
import pyarrow.compute as pc

from pipelines.contract.run_inputs import Inputs, Overlay
from pipelines.errors import InputError, Problem
from pipelines.experiment.build import build_inputs, build_run, build_run_overlay, n_state_rows, run_calls, run_tables
from pipelines.experiment.mapping import Mapped, needs_tree
from pipelines.experiment.prepared import Prepared, labelled
from pipelines.inputs.faults.build import named_traces
from pipelines.inputs.faults.recorded import outage_notes
from pipelines.inputs.overlay.build import graph_of
from pipelines.inputs.workload.build import literal_wildcards, workload_files
from pipelines.inputs.workload.calls import move_notes
from pipelines.inputs.workload.file_source import file_notes
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.load import RunConfig, to_scenario_error
from pipelines.scenario.model import calls
from pipelines.scenario.times import rounding_error_ms

FINAL_CROSSINGS = 4
"""Number of times that messages cross the overlay from end to end after a call or a fault.

A call and its confirmation cross the overlay once each. After a crash, both cross the overlay again on another path.
"""
_EXACT_STEPS = 5_000_000
_MAX_PROBLEMS = 100
_INPUTS = {"overlay", "workload", "faults", "time"}
"""The parts of a scenario that determine overlay, workload and faults."""
_NOTED = {
    "overlay": {"overlay", "time"},
    "workload": {"overlay", "time", "workload"},
    "faults": {"time", "workload", "faults"},
    "time": {"time", "workload", "faults"},
    "runs": _INPUTS | {"protocol"},
}
"""Maps each part of a scenario that has notes to the parts on which its notes depend, in the order of the notes."""
_MAX_COMPARED = 4


@dataclass(frozen=True)
class Combination:
    """A combination of grid values, with the numbers of nodes, calls and faults in its run of the first seed.

    Attributes:
        parameters: The grid values, keyed by path.
        n_links: Number of undirected links.
        diameter: Diameter of the overlay in links; a lower bound if ``is_diameter_exact`` is false.
        n_unsubscriptions: Number of unsubscriptions up to the horizon.
        n_joins: Number of nodes that join during the run.
        n_crashes: Number of crashes up to the horizon.
        n_faults: Number of events of link faults and pauses up to the horizon, ends excluded. Each direction of a link
            counts. If a link is replaced, its break, its removal and the new link count.
        last_round: The last round, up to the horizon, with a call or a fault.
        n_busy_rounds: Estimated number of rounds, up to the horizon, with a call, a fault or a message of a call.
        n_state_rows: Estimated number of state rows of a run.
        most_latency: Largest latency of a link in rounds; 0 for an overlay without links.
    """

    parameters: Mapping[str, Any]
    n_nodes: int
    n_links: int
    diameter: int
    is_diameter_exact: bool
    n_subscriptions: int
    n_unsubscriptions: int
    n_publications: int
    n_joins: int
    n_other_calls: int
    n_crashes: int
    n_faults: int
    last_round: int
    n_busy_rounds: int
    n_state_rows: int
    most_latency: int

    @property
    def n_calls(self) -> int:
        """Number of all calls of applications."""
        return self.n_subscriptions + self.n_unsubscriptions + self.n_publications + self.n_joins + self.n_other_calls

    @property
    def n_crossings(self) -> int:
        """Estimated number of messages of one type, if the message of each call crosses each link once."""
        return self.n_calls * self.n_links


def build(prepared: Prepared, observe: Callable[[int], None] = lambda _: None) -> Inputs:
    """Builds the input tables of all runs; after each run, it calls ``observe`` with the number of runs built so far.

    Raises:
        ScenarioError: The inputs of a run are invalid. The error locates each problem in the scenario.
    """
    try:
        return build_inputs(prepared.runs, prepared.beside, observe)
    except InputError as error:
        check(prepared)
        raise to_scenario_error(prepared.loaded, error) from error


def check(prepared: Prepared) -> None:
    """Builds and checks the inputs of each grid combination for the first seed.

    Raises:
        ScenarioError: The inputs of a combination are invalid. The error locates each problem in the scenario.
    """
    for _ in built(prepared):
        pass


def built(prepared: Prepared) -> Iterator[tuple[RunConfig, Mapped]]:
    """Yields the first run of each grid combination, and the overlay, workload and faults of this run.

    Combinations with equal inputs share the overlay, the workload and the faults.

    Raises:
        ScenarioError: The inputs of a combination are invalid. The error is raised after the last combination, and
            locates each problem in the scenario.
    """
    combinations = prepared.combinations()
    made: dict[str, Mapped | InputError] = {}
    wrong: dict[Problem, list[RunConfig]] = {}
    for run in combinations:
        key = _inputs_key(run, _INPUTS | ({"protocol"} if PROTOCOLS[run.scenario.protocol.name].check else set()))
        if key not in made:
            try:
                made[key] = build_run(run, prepared.beside)
            except InputError as error:
                made[key] = error
        found = made[key]
        if isinstance(found, InputError):
            for problem in found.problems:
                wrong.setdefault(problem, []).append(run)
        elif not wrong:
            yield run, found
        if len(wrong) >= _MAX_PROBLEMS:
            break
    if wrong:
        raise to_scenario_error(prepared.loaded, InputError(*_with_values(combinations, wrong)))


def _inputs_key(run: RunConfig, parts: set[str]) -> str:
    """Returns a cache key for results that depend only on the seed and the ``parts`` of the scenario of ``run``.

    In a scenario with several protocols, results also depend on the protocol (`mapping`), so the key includes it.
    """
    name = run.scenario.protocol.name
    is_tree = needs_tree(run.protocols or [name])
    whose = f"{name} " if run.protocols else ""
    return f"{run.seed} {is_tree} {whose}{run.scenario.model_dump_json(include=parts)}"


def _with_values(
    combinations: Sequence[RunConfig], found: Mapping[Problem, Sequence[RunConfig]]
) -> Iterator[Problem]:  # fmt: skip
    """Yields the problems, each with the grid values of its first run if it concerns only some combinations."""
    labels = labelled([run.parameters for run in combinations])
    values = {run.run_id: given for run, given in zip(combinations, labels, strict=True)}
    for problem, runs in found.items():
        given = ", ".join(f"{path} = {value}" for path, value in values[runs[0].run_id].items())
        is_general = len(runs) == len(combinations)
        yield problem if is_general else Problem(problem.path, f"with {given}: {problem.message}")


def notes(prepared: Prepared) -> list[tuple[str, str]]:
    """Returns notes for the user about overlay, workload, faults, times and seeds, from the runs of the first seed.

    The scenario must be valid, see `check`. Each note is a pair of a scenario part and a sentence.
    """
    runs = prepared.combinations()
    n_seeds = len(prepared.scenario.runs.all_seeds())
    told: dict[tuple[str, str], Sequence[str]] = {}
    found: dict[Problem, list[RunConfig]] = {}
    for (part, parts), (place, run) in product(_NOTED.items(), enumerate(runs)):
        key = part, _inputs_key(run, parts)
        if key not in told:
            of_seeds = prepared.runs[place * n_seeds : (place + 1) * n_seeds]
            told[key] = [*dict.fromkeys(filter(None, _notes_on(part, of_seeds, prepared.beside)))]
        for note in told[key]:
            found.setdefault(Problem((part,), note), []).append(run)
    return [(str(note.path[0]), note.message) for note in _with_values(runs, found)]


def _notes_on(part: str, runs: Sequence[RunConfig], beside: Path) -> Sequence[str]:
    """Returns notes on a part of the scenario; ``runs`` are the runs of a combination for all seeds."""
    run, scenario = runs[0], runs[0].scenario
    match part:
        case "overlay":
            return build_run_overlay(run, beside, notes_rounding=True).notes
        case "workload":
            workload, time, overlay = scenario.workload, scenario.time, build_run_overlay(run, beside)
            literal = literal_wildcards(workload, overlay=overlay, seed=run.seed, time=time, beside=beside)
            files = workload_files(workload)
            of_files = [note for place, file in files for note in file_notes(file, place, time, beside)]
            return [*of_files, literal, *move_notes(workload.moves)]
        case "faults":
            traces = named_traces(scenario.faults, beside)
            return [note for _, path, trace in traces for note in outage_notes(path, trace, scenario.time)]
        case "time":
            error, place = rounding_error_ms(scenario.time, calls(scenario.workload, scenario.faults))
            found = f"rounds are up to {error:.3g} ms away from at_ms and until_ms, farthest at"
            return [f"{found} {'.'.join(map(str, place))}"] if error else []
        case _:
            return [equal_seeds(runs, beside)]


def mappings(prepared: Prepared) -> list[str]:
    """Returns sentences about the changes that module `mapping` makes to the inputs of each protocol.

    The scenario must be valid, see `check`. Each sentence begins with protocol names.
    """
    told: dict[str, dict[str, None]] = {}
    for run, of_run in built(prepared) if len(prepared.protocols) > 1 else ():
        for note in of_run.notes:
            told.setdefault(note, {})[run.scenario.protocol.name] = None
    return [f"{', '.join(names)}: {note}" for note, names in told.items()]


def combinations(prepared: Prepared) -> list[Combination]:
    """Returns a `Combination` for each combination of grid values; raises the errors of `built`."""
    diameters: dict[int, tuple[Overlay, int, bool]] = {}  # references to overlays keep ids unique
    rows = []
    for run, of_run in built(prepared):
        overlay = of_run.overlay
        if id(overlay) not in diameters:
            diameters[id(overlay)] = (overlay, *diameter(overlay))
        rows.append(_measured(run, of_run, *diameters[id(overlay)][1:]))
    return rows


def _measured(run: RunConfig, built: Mapped, hops: int, is_exact: bool) -> Combination:
    overlay, workload, faults, _ = built
    calls = run_calls(run, overlay, workload)
    n_of = Counter(calls["kind"].to_pylist())
    n_joins = len(calls) - calls["join_point"].null_count
    n_others = len(calls) - n_joins - sum(n_of[kind] for kind in ("subscribe", "unsubscribe", "publish"))
    rounds = (calls["round"], faults.crash["round"], faults.crash["end_round"], faults.fault_event["round"])
    events = {value for column in rounds for value in pc.unique(column).to_pylist() if value is not None}
    horizon, most_latency = run.scenario.time.rounds, int(overlay.directed_rounds.max(initial=0))
    known = sorted(value for value in events if value <= horizon)
    n_after = FINAL_CROSSINGS * hops * most_latency
    n_busy = sum(min(after - before, n_after + 1) for before, after in pairwise([*known, horizon + 1]))
    return Combination(
        parameters=run.parameters, n_nodes=len(overlay.names), n_links=len(overlay.a),
        diameter=hops, is_diameter_exact=is_exact,
        n_subscriptions=n_of["subscribe"], n_unsubscriptions=n_of["unsubscribe"], n_publications=n_of["publish"],
        n_joins=n_joins, n_other_calls=n_others, n_crashes=len(faults.crash),
        n_faults=sum(not kind.endswith("_end") for kind in faults.fault_event["kind"].to_pylist()),
        last_round=known[-1] if known else 0, n_busy_rounds=n_busy,
        n_state_rows=n_state_rows(run, overlay, workload, len(calls)), most_latency=most_latency,
    )  # fmt: skip


def diameter(overlay: Overlay) -> tuple[int, bool]:
    """Returns the diameter of an overlay in links, and whether it is exact.

    The diameter is exact for trees and for overlays of moderate size, and a lower bound for large overlays with cycles.
    It is 0 for an overlay without links.
    """
    if not overlay.has_links:
        return 0, True
    graph = graph_of(overlay)
    if not overlay.is_tree and len(overlay.names) * len(overlay.a) <= _EXACT_STEPS:
        return nx.diameter(graph, usebounds=True), True
    # In a tree, the node that is farthest from any given node is an end of a longest path.
    hops = nx.single_source_shortest_path_length(graph, 0)
    hops = nx.single_source_shortest_path_length(graph, max(hops, key=hops.__getitem__))
    return max(hops.values()), overlay.is_tree


def equal_seeds(runs: Sequence[RunConfig], beside: Path) -> str:
    """Returns a note if the runs of a grid combination are equal for all seeds, else an empty string.

    ``runs`` contains one run for each seed. The function compares the inputs of the first `_MAX_COMPARED` runs.
    """
    if len(runs) < 2 or PROTOCOLS[runs[0].scenario.protocol.name].draws:
        return ""
    first = run_tables(runs[0], build_run(runs[0], beside))
    draws = first["link_fault"].to_pylist() + first["nth_fault"].to_pylist()
    if any(0 < row.get("rate", 1.0) < 1 or row["low"] != row["high"] for row in draws):
        return ""
    # The salts of draws differ between seeds even if a fault draws nothing.
    plain = {name: [column for column in table.column_names if column != "salt"] for name, table in first.items()}
    for run in runs[1:_MAX_COMPARED]:
        tables = run_tables(run, build_run(run, beside))
        if any(not first[name].select(columns).equals(tables[name].select(columns)) for name, columns in plain.items()):
            return ""
    return (
        f"the {len(runs):,} seeds draw nothing, as neither the scenario nor its protocol leaves anything to chance: "
        "their runs are equal, and one seed is enough"
    )
