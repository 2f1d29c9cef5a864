"""The runs of a scenario: every combination of the grid with every seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, TypeAlias

from pipelines.errors import ScenarioError
from pipelines.scenario.load import LoadedScenario, validate
from pipelines.scenario.model import MAX_RUNS, Scenario, ValueRange
from pipelines.scenario.shape import parse_path
from pipelines.scenario.yaml_text import (
    Complaint,
    SourcePlace,
    ValueNode,
    nearest_node,
    plain,
    replaced,
    scenario_error,
    shown,
)

_MAX_COMPLAINTS = 100

Combination: TypeAlias = "tuple[tuple[str, ValueNode], ...]"


@dataclass(frozen=True, slots=True)
class RunConfig:
    """One run of an experiment.

    Attributes:
        run_id: Index of the run. Runs are ordered by protocol, then by combination of the grid, then by seed.
        seed: The seed of the run's random draws.
        scenario: The scenario with the grid's values for this run. All seeds of a combination share this object.
        parameters: The grid's values for this run by path, without the seed.
        protocols: All protocols of the experiment if it has several, else empty.
    """

    run_id: int
    seed: int
    scenario: Scenario
    parameters: Mapping[str, Any]
    protocols: tuple[str, ...] = ()


def expand(loaded: LoadedScenario) -> list[RunConfig]:
    """Returns all runs of a scenario: every combination of the grid with every seed.

    The last path of the grid varies fastest. If the grid has several protocols, the combinations are grouped by
    protocol, because a job computes the rounds of one protocol only.

    Raises:
        ScenarioError: The number of runs is above `MAX_RUNS`, or a value of the grid is invalid.
    """
    seeds, grid = loaded.scenario.runs.all_seeds(), loaded.scenario.runs.grid
    counts = (len(values.values() if isinstance(values, ValueRange) else values) for values in grid.values())
    factors = [*counts, len(seeds)]
    if (number := prod(factors)) > MAX_RUNS:
        message = f"grid and seeds make {' x '.join(map(str, factors))} = {number} runs; allowed: {MAX_RUNS}"
        raise ScenarioError([f"{nearest_node(loaded.root, ('runs',)).place}: {message}, so drop seeds or values"])
    scenarios: list[tuple[Scenario, dict[str, Any]]] = []
    complaints: set[Complaint] = set()
    for combination in product(*([(path, node) for node in _values(loaded, path)] for path in grid)):
        scenario, found = _with_values(loaded, combination)
        complaints.update(found)
        if len(complaints) >= _MAX_COMPLAINTS:
            break
        if scenario is not None:
            scenarios.append((scenario, {path: plain(node) for path, node in combination}))
    if complaints:
        raise scenario_error(complaints)
    protocols = list(dict.fromkeys(str(scenario.protocol.name) for scenario, _ in scenarios))
    scenarios.sort(key=lambda one: protocols.index(one[0].protocol.name))
    several = tuple(protocols) if len(protocols) > 1 else ()
    runs = ((scenario, parameters, seed) for scenario, parameters in scenarios for seed in seeds)
    return [
        RunConfig(run_id, seed, scenario, parameters, several)
        for run_id, (scenario, parameters, seed) in enumerate(runs)
    ]


def _values(loaded: LoadedScenario, path: str) -> list[ValueNode]:
    node, values = nearest_node(loaded.root, ("runs", "grid", path)), loaded.scenario.runs.grid[path]
    if isinstance(values, ValueRange):
        return [ValueNode(value, node.place, raw=str(value)) for value in values.values()]
    return [nearest_node(node, (index,)) for index in range(len(values))]


def _with_values(loaded: LoadedScenario, combination: Combination) -> tuple[Scenario | None, list[Complaint]]:
    if not combination:
        return loaded.scenario, []
    scenario, found = _validated(loaded, combination)
    places = {place for _, node in combination for place in _places(node)}
    return scenario, [c if c.place in places else _blamed(loaded, combination, c) for c in found]


def _places(node: ValueNode) -> Iterator[SourcePlace]:
    yield node.place
    yield from node.key_places.values()
    if isinstance(node.value, (dict, list)):
        for child in node.value.values() if isinstance(node.value, dict) else node.value:
            yield from _places(child)


def _validated(loaded: LoadedScenario, combination: Combination) -> tuple[Scenario | None, list[Complaint]]:
    root = loaded.root
    for path, node in combination:
        try:
            root = replaced(root, parse_path(path), node)
        except LookupError as error:
            return None, [Complaint(node.place, str(error.args[0]))]
    return validate(root)


def _blamed(loaded: LoadedScenario, combination: Combination, complaint: Complaint) -> Complaint:
    # The complaint is placed at the first value that causes it on its own, else at the last value of the combination.
    alone = [(path, node) for path, node in combination if complaint in _validated(loaded, ((path, node),))[1]]
    values = alone[:1] or list(combination)
    given = ", ".join(f"{path} = {node.raw or shown(node)}" for path, node in values)
    return Complaint(values[-1][1].place, f"with {given}: {complaint.message} (at {complaint.place})")
