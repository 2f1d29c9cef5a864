"""The runs of a scenario: every combination of the grid with every seed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TypeAlias

from pipelines.errors import ScenarioError
from pipelines.scenario.load import LoadedScenario, validate
from pipelines.scenario.model import Scenario
from pipelines.scenario.shape import parse_path
from pipelines.scenario.tree import Complaint, Node, Scalar, nearest_node, replaced, scenario_error

MAX_RUNS = 1_000_000
_MAX_COMPLAINTS = 100

Combination: TypeAlias = "tuple[tuple[str, Node], ...]"


@dataclass(frozen=True, slots=True)
class RunConfig:
    """One run of an experiment.

    Attributes:
        run_id: From 0, in the order of the grid and then of the seeds.
        seed: What its random draws start from.
        scenario: The scenario with the grid's values; the seeds of a combination share it.
        parameters: The grid's values by path; the seed is not among them.
    """

    run_id: int
    seed: int
    scenario: Scenario
    parameters: Mapping[str, Scalar]


def expand(loaded: LoadedScenario) -> list[RunConfig]:
    """Returns all runs: the grid's combinations in the file's order (the last path varies fastest), times the seeds.

    Raises:
        ScenarioError: There are too many runs, or a value of the grid is wrong, cited at its place.
    """
    seeds = loaded.scenario.runs.seeds
    _check_number(loaded)
    scenarios: list[tuple[Scenario, dict[str, Scalar]]] = []
    complaints: set[Complaint] = set()
    for combination in _combinations(loaded):
        scenario, found = _with_values(loaded, combination)
        complaints.update(found)
        if len(complaints) >= _MAX_COMPLAINTS:
            break
        if scenario is not None:
            scenarios.append((scenario, {path: _scalar(node) for path, node in combination}))
    if complaints:
        raise scenario_error(complaints)
    runs = ((scenario, parameters, seed) for scenario, parameters in scenarios for seed in seeds)
    return [RunConfig(run_id, seed, scenario, parameters) for run_id, (scenario, parameters, seed) in enumerate(runs)]


def _check_number(loaded: LoadedScenario) -> None:
    runs = loaded.scenario.runs
    factors = [len(values) for values in runs.grid.values()]
    number = prod(factors) * len(runs.seeds)
    if number > MAX_RUNS:
        counts = " x ".join(map(str, [*factors, len(runs.seeds)]))
        message = f"grid and seeds make {counts} = {number} runs; allowed: {MAX_RUNS}, so drop seeds or values"
        raise ScenarioError([f"{loaded.locate(('runs',))}: {message}"])


def _combinations(loaded: LoadedScenario) -> Iterator[Combination]:
    grid = loaded.scenario.runs.grid
    dimensions = [
        [(path, nearest_node(loaded.root, ("runs", "grid", path, index))) for index in range(len(values))]
        for path, values in grid.items()
    ]
    yield from product(*dimensions)


def _scalar(node: Node) -> Scalar:
    if isinstance(node.value, (dict, list)):
        raise TypeError("the model lets no list or mapping be a value of the grid")
    return node.value


def _with_values(loaded: LoadedScenario, combination: Combination) -> tuple[Scenario | None, list[Complaint]]:
    """Returns the scenario of a combination, or complaints at the values that are to blame."""
    if not combination:
        return loaded.scenario, []
    scenario, found = _validated(loaded, combination)
    places = {node.place for _, node in combination}
    return scenario, [c if c.place in places else _blamed(loaded, combination, c) for c in found]


def _validated(loaded: LoadedScenario, combination: Combination) -> tuple[Scenario | None, list[Complaint]]:
    root = loaded.root
    for path, node in combination:
        try:
            root = replaced(root, parse_path(path), node)
        except LookupError as error:
            return None, [Complaint(node.place, str(error.args[0]))]
    return validate(root)


def _blamed(loaded: LoadedScenario, combination: Combination, complaint: Complaint) -> Complaint:
    """Cites a complaint about another value at the first grid value that brings it about alone, or at the last one."""
    alone = [(path, node) for path, node in combination if complaint in _validated(loaded, ((path, node),))[1]]
    values = alone[:1] or list(combination)
    given = ", ".join(f"{path} = {node.raw}" for path, node in values)
    return Complaint(values[-1][1].place, f"with {given}: {complaint.message} (at {complaint.place})")
