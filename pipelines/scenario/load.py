"""A scenario file, read and checked: every error at once, each at its place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from pipelines.errors import InputError, ScenarioError
from pipelines.scenario import tree
from pipelines.scenario.complaints import complaints_of, placed
from pipelines.scenario.consistency import Call, call_problems
from pipelines.scenario.model import Scenario
from pipelines.scenario.overrides import apply_overrides
from pipelines.scenario.reading import read_yaml
from pipelines.scenario.shape import parse_path, unknown_step
from pipelines.scenario.tree import Complaint, Node, Place, plain, scenario_error
from pipelines.spec.calls import OtherCall
from pipelines.spec.faults import Fault
from pipelines.spec.overlay import OverlaySpec
from pipelines.spec.times import TimeSpec
from pipelines.spec.workload import (
    Join,
    JoinGenerator,
    Move,
    Publication,
    PublicationFileSource,
    PublicationGenerator,
    Subscription,
    SubscriptionFileSource,
    SubscriptionGenerator,
)

MAX_BYTES = 10_000_000
_FIXED = {
    "name": "an experiment has one name",
    "engine": "all runs of an experiment go through one engine",
    "form": "all runs of an experiment are played in one form",
    "runs": "the grid cannot change itself",
}
_ITEMS: dict[tree.Path, tuple[Any, Any]] = {
    ("workload", "subscriptions"): (
        TypeAdapter(Subscription),
        TypeAdapter(SubscriptionFileSource | SubscriptionGenerator),
    ),
    ("workload", "publications"): (TypeAdapter(Publication), TypeAdapter(PublicationFileSource | PublicationGenerator)),
    ("workload", "joins"): (TypeAdapter(Join), TypeAdapter(JoinGenerator)),
    ("workload", "moves"): (TypeAdapter(Move), TypeAdapter(Move)),
    ("workload", "calls"): (TypeAdapter(OtherCall), TypeAdapter(OtherCall)),
    ("faults",): (TypeAdapter(Fault), TypeAdapter(Fault)),
}


@dataclass(frozen=True)
class LoadedScenario:
    """A scenario with the places of its values.

    Attributes:
        path: The file under the name that the user gave.
        scenario: What it says, with the values set from outside; the grid is not applied.
        root: The values with their places.
        text: The text of the file.
        overrides: The values set from outside, each ``path=value``.
    """

    path: Path
    scenario: Scenario
    root: Node
    text: str
    overrides: tuple[str, ...]

    def locate(self, path: tree.Path) -> str:
        """Returns ``file:line:column`` (or the ``--set``) of a value, or of the nearest value around it."""
        return str(tree.nearest_node(self.root, path).place)


def load_scenario(path: Path, overrides: Sequence[str] = ()) -> LoadedScenario:
    """Reads a scenario file.

    Args:
        path: The YAML file.
        overrides: Values set from outside, each ``path=value``.

    Raises:
        ScenarioError: With every problem of the file and of the overrides.
    """
    return read_scenario(path, scenario_text(path), overrides)


def read_scenario(path: Path, text: str, overrides: Sequence[str] = ()) -> LoadedScenario:
    """Reads the text of a scenario file; arguments and errors as in `load_scenario`."""
    root, complaints = read_yaml(text, lambda line, column: Place(0, line, column, str(path)))
    if root.value is None and not complaints:
        raise ScenarioError([f"{path}:1:1: the file holds no scenario; write at least name, protocol and overlay"])
    if not isinstance(root.value, dict):
        raise scenario_error(complaints or [Complaint(root.place, _not_a_mapping(root))])
    root, wrong = apply_overrides(root, overrides)
    complaints += wrong
    scenario, found = validate(root)
    refused = {complaint.place for complaint in complaints}
    complaints += [complaint for complaint in found if complaint.place not in refused]
    if scenario is None or complaints:
        raise scenario_error(complaints)
    return LoadedScenario(path, scenario, root, text, tuple(overrides))


def to_scenario_error(loaded: LoadedScenario, error: InputError) -> ScenarioError:
    """Returns the problems that a builder found, with their places in the file."""
    return scenario_error(placed(error.problems, loaded.root))


def validate(root: Node) -> tuple[Scenario | None, list[Complaint]]:
    """Checks a scenario's tree against the model; returns the scenario, or None and what is wrong."""
    complaints = list(_grid_complaints(root))
    data = plain(root)
    try:
        return Scenario.model_validate(data), complaints
    except ValidationError as error:
        complaints += complaints_of(error, root)
    overlay = _valid(TypeAdapter(OverlaySpec), root, "overlay")
    time = _valid(TypeAdapter(TimeSpec), root, "time") if root.child("time") else TimeSpec()
    horizon = time.rounds if time is not None else None
    complaints += placed(call_problems(overlay, horizon, _valid_calls(root)), root)
    return None, complaints


def _valid(adapter: Any, root: Node, *path: str | int) -> Any:  # noqa: ANN401 - any part of the model
    """Returns one part of a scenario that is right by itself, or None."""
    try:
        return adapter.validate_python(plain(tree.nearest_node(root, path)))
    except ValidationError:
        return None


def _valid_calls(root: Node) -> Iterator[Call]:
    path: tree.Path
    for path, (item, source) in _ITEMS.items():
        part = tree.nearest_node(root, path)
        places = [(*path, index) for index in range(len(part.value))] if isinstance(part.value, list) else [path]
        for place in places:
            valid = _valid(item if len(place) > len(path) else source, root, *place)
            if valid is not None:
                yield place, valid


def _grid_complaints(root: Node) -> Iterator[Complaint]:
    grid = tree.nearest_node(root, ("runs", "grid"))
    runs = root.child("runs")
    if runs is None or grid is not runs.child("grid"):
        return
    for text, place in grid.key_places.items():
        path = parse_path(text)
        wrong = unknown_step(path)
        if wrong is not None:
            yield Complaint(place, wrong)
        elif path[0] in _FIXED:
            yield Complaint(
                place, f"{text} cannot be varied: {_FIXED[str(path[0])]}; allowed: values of the other parts"
            )


def _not_a_mapping(root: Node) -> str:
    return f"the file holds {tree.shown(root)}; allowed: a mapping with the keys {', '.join(Scenario.model_fields)}"


def scenario_text(path: Path) -> str:
    """Returns the text of a scenario file; errors as in `load_scenario`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise ScenarioError([f"{path}: this is a directory; name a scenario file (.yaml)"]) from None
    except FileNotFoundError:
        raise ScenarioError([f"{path}: there is no such file; check the name and the folder"]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ScenarioError([f"{path}: the file cannot be read ({reason}); check its name and rights"]) from None
    if len(data) > MAX_BYTES:
        raise ScenarioError(
            [f"{path}: the file is larger than {MAX_BYTES // 1_000_000} MB; put large lists into files of their own"]
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", errors="replace")
        place = f"{path}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
        raise ScenarioError([f"{place}: byte {data[error.start]:#04x} is not UTF-8; save the file as UTF-8"]) from None
