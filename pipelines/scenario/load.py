"""Reads scenario files: finds and parses a file, applies ``--set``, expands the grid, and places errors in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import product
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import TypeAdapter, ValidationError

from pipelines.errors import InputError, KeyPath, PredicateError, Problem, ScenarioError, nearest, shortened
from pipelines.files import installed_data
from pipelines.protocols import BROKEN, PROTOCOLS
from pipelines.scenario.faults import Fault
from pipelines.scenario.model import MAX_RUNS, Call, Scenario, ValueRange, call_problems
from pipelines.scenario.overlay import OverlaySpec
from pipelines.scenario.shape import Schema, at_path, describe, keys, parse_path, unknown_step
from pipelines.scenario.times import CALLS, TimeSpec
from pipelines.scenario.workload import WorkloadSpec
from pipelines.scenario.yaml_text import (
    Complaint,
    SourcePlace,
    ValueNode,
    nearest_node,
    plain,
    read_yaml,
    replaced,
    scenario_error,
    shown,
    walk,
)

_NUMBERS = frozenset({"integer", "number"})
MAX_BYTES = 10_000_000
_MAX_COMPLAINTS = 100
Combination: TypeAlias = "tuple[tuple[str, ValueNode], ...]"
_FIXED = {
    "name": "an experiment has one name",
    "engine": "all runs of an experiment are executed by one engine",
    "form": "all runs of an experiment are executed in one form",
    "runs": "the grid cannot change itself",
}
_PARTS: dict[KeyPath, Any] = {
    **{("workload", name): TypeAdapter(WorkloadSpec.model_fields[name].rebuild_annotation()) for name in CALLS},
    ("faults",): TypeAdapter(list[Fault]),
}


def shipped() -> dict[str, Path]:
    """Returns the installed scenario files, sorted and keyed by name; a file in a folder is named ``folder/file``."""
    packages = [import_module(spec.scenarios) for spec in PROTOCOLS.values() if spec.scenarios]
    folders = [Path(folder) for package in packages for folder in package.__path__]
    found = {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for folder in (*folders, _own())
        for path in folder.rglob("*.yaml")
    }
    return dict(sorted(found.items()))


def find_scenario(path: Path) -> Path:
    """Returns the path of a scenario file: `path` itself, or the file of the installed scenario named `path`.

    If neither exists and `path` has a suffix, `path` is returned unchanged.

    Examples of names are ``quickstart``, ``compared/loss`` and ``conf/scenarios/quickstart.yaml``.

    Raises:
        ScenarioError: `path` has no suffix, and neither a file nor an installed scenario has this name; or no file can
            have this name.
    """
    try:
        if path.is_file() or path.is_absolute():
            return path
    except OSError as error:
        message = f"{shortened(str(path), 100)}: the file cannot be read ({error.strerror}); check its name and rights"
        raise ScenarioError([message]) from None
    is_own = path.parts[:2] == _own().parts[-2:]
    name = (Path(*path.parts[2:]) if is_own else path).as_posix().removesuffix(".yaml")
    if path.suffix in ("", ".yaml"):
        found = shipped()
        if name in found:
            return found[name]
        if not path.suffix:
            message = f"{path}: neither a file nor an installed scenario of this name exists;"
            broken = "".join(f"; protocol {name!r} is not available: {reason}" for name, reason in BROKEN.items())
            listed = "`roundtable list scenarios` lists the names"
            raise ScenarioError([f"{message}{nearest(path.name, found)} {listed}{broken}"])
    return path


def _own() -> Path:
    return installed_data() / "conf" / "scenarios"


def complaints_of(error: ValidationError, root: ValueNode) -> Iterator[Complaint]:
    """Yields a complaint for each error that pydantic found in the values of `root`."""
    for detail in error.errors(include_url=False, include_input=False):
        location = detail["loc"]
        path = tuple(step for step, _ in walk(root, location))
        last = str(location[-1]) if location else ""
        context: Mapping[str, Any] = detail.get("ctx", {})
        match detail["type"]:
            case "missing" if isinstance(location[-1], str):
                yield _missing(root, path, last)
            case "extra_forbidden":
                yield _unknown(root, path[:-1], last)
            case "choice":
                yield _no_choice(root, path, context["key"])
            case "value_error":
                yield from _from_error(root, path, context["error"])
            case _:
                yield _mismatch(root, path)


def placed(problems: Iterable[Problem], root: ValueNode) -> Iterator[Complaint]:
    """Yields a complaint for each problem, at the value at the problem's path or at its nearest ancestor."""
    for problem in problems:
        yield Complaint(nearest_node(root, problem.path).place, problem.message)


def _name(path: KeyPath) -> str:
    return ".".join(map(str, path)) or "the scenario"


def _description(schemas: list[Schema]) -> str:
    texts = {schema["description"] for schema in schemas if "description" in schema and "pattern" not in schema}
    return f" ({texts.pop()})" if len(texts) == 1 and schemas[0].get("type") != "object" else ""


def _missing(root: ValueNode, path: KeyPath, key: str) -> Complaint:
    found = at_path((*path, key), root)
    message = f"{_name(path)} lacks the key {key!r}; write it with {describe(found)}{_description(found)}"
    return Complaint(nearest_node(root, path).place, message)


def _unknown(root: ValueNode, path: KeyPath, key: str) -> Complaint:
    names = keys(at_path(path, root))
    parent = nearest_node(root, path)
    before, colon, _ = key.partition(":")
    is_joined = bool(colon) and before in names
    hint = f" write a space after the colon of {before!r};" if is_joined else nearest(key, names)
    message = f"{_name(path)} has no key {key!r};{hint} allowed: {', '.join(names)}"
    return Complaint(parent.key_places.get(key, parent.place), message)


def _no_choice(root: ValueNode, path: KeyPath, key: str) -> Complaint:
    node = nearest_node(root, path)
    if not isinstance(node.value, dict):
        names = describe(at_path((*path, key)))
        message = f"{_name(path)} is {shown(node)}; allowed: a mapping with the key {key!r}, {names}"
        return Complaint(node.place, message)
    return _missing(root, path, key) if key not in node.value else _mismatch(root, (*path, key))


def _from_error(root: ValueNode, path: KeyPath, error: Exception) -> Iterator[Complaint]:
    node = nearest_node(root, path)
    if isinstance(error, InputError):
        yield from placed(error.problems, node)
        return
    column = error.column if isinstance(error, PredicateError) else None
    if column is not None and node.text_column is not None and node.place.line:
        yield Complaint(node.place._replace(column=node.text_column + column - 1), f"{path[-1]}: {error}")
    else:
        yield Complaint(node.place, f"{_name(path)}: {error}")


def _mismatch(root: ValueNode, path: KeyPath) -> Complaint:
    node = nearest_node(root, path)
    found = at_path(path, root)
    allowed = f"allowed: {describe(found)}{_description(found)}"
    return Complaint(node.place, f"{_name(path)} is {shown(node)};{_hint(node, found)} {allowed}")


def _hint(node: ValueNode, schemas: list[Schema]) -> str:
    kinds = {schema.get("type") for schema in schemas}
    names = [str(name) for schema in schemas for name in (schema.get("enum") or [schema.get("const")]) if name]
    if isinstance(node.value, str):
        return nearest(node.value, names) if names else _unquoted(node.value, kinds)
    if isinstance(node.value, bool) and "string" in kinds and not names:
        return f" YAML reads {node.raw} as {str(node.value).lower()}, so quote it: '{node.raw}';"
    if isinstance(node.value, (int, float)) and "string" in kinds and not kinds & _NUMBERS:
        return f" a string is needed, not a number, so quote it: '{shown(node)}';"
    return ""


def _unquoted(text: str, kinds: set[Any]) -> str:
    try:
        float(text)
    except ValueError:
        return ""
    return " write the number without quotes;" if kinds & _NUMBERS else ""


def apply_overrides(root: ValueNode, overrides: Sequence[str]) -> tuple[ValueNode, list[Complaint]]:
    """Sets values in the tree `root` of a scenario.

    Returns the changed tree, and a complaint about each invalid override. An override is ``path=value``. The path is
    dotted, with indexes from 0 for list items; the value is YAML.
    """
    complaints: list[Complaint] = []
    for rank, text in enumerate(overrides, start=1):
        place = SourcePlace(rank, 0, 0, f"--set {text if len(text) <= 100 else text[:97] + '...'}")
        try:
            root, found = _applied(root, text, place)
            complaints += found
        except LookupError as error:
            complaints.append(Complaint(place, str(error.args[0])))
    return root, complaints


def _applied(root: ValueNode, text: str, place: SourcePlace) -> tuple[ValueNode, list[Complaint]]:
    path_text, separator, value_text = text.partition("=")
    if not separator or not path_text.strip():
        raise LookupError("the override has not the form path=value; write e.g. --set protocol.delta=2")
    path = parse_path(path_text.strip())
    if path[:2] == ("runs", "grid") and len(path) > 2:
        path = (*path[:2], ".".join(map(str, path[2:])))  # the keys of the grid are dotted paths
    if (wrong := unknown_step(path)) is not None:
        raise LookupError(wrong)
    try:
        node, complaints = read_yaml(value_text, lambda _line, _column: place)
    except ScenarioError as error:
        raise LookupError(str(error).removeprefix(f"{place}: ")) from None
    return replaced(_without_axis(root, path), path, node), complaints


def _without_axis(root: ValueNode, path: KeyPath) -> ValueNode:
    """Returns the tree without the values of the grid for `path`, which would replace the override."""
    runs = root.child("runs")
    grid = None if runs is None else runs.child("grid")
    if grid is None or not isinstance(grid.value, dict):
        return root
    key = ".".join(map(str, path))
    for axis in grid.value:
        if key.startswith(f"{axis}."):
            raise LookupError(f"runs.grid varies {axis}, and replaces this value; set runs.grid.{axis} instead")
    if key not in grid.value:
        return root
    others = {axis: values for axis, values in grid.value.items() if axis != key}
    return replaced(root, ("runs", "grid"), replace(grid, value=others))


@dataclass(frozen=True)
class LoadedScenario:
    """A scenario with the positions of its values.

    Attributes:
        path: The path of the file, as the user wrote it.
        scenario: The model with the overrides, but without values of the grid.
        root: The values with their positions.
        text: The content of the file.
        overrides: The values of ``--set``, each ``path=value``.
    """

    path: Path
    scenario: Scenario
    root: ValueNode
    text: str
    overrides: tuple[str, ...]


def load_scenario(path: Path, overrides: Sequence[str] = ()) -> LoadedScenario:
    """Reads a scenario file, and replaces values by `overrides`, each ``path=value``.

    Raises:
        ScenarioError: The file or an override is invalid. The error lists all problems of the file and the overrides.
    """
    return read_scenario(path, scenario_source(path), overrides)


def read_scenario(path: Path, text: str, overrides: Sequence[str] = ()) -> LoadedScenario:
    """Parses the content `text` of the scenario file `path`; other arguments and errors as in `load_scenario`."""
    root, complaints = read_yaml(text, lambda line, column: SourcePlace(0, line, column, str(path)))
    if root.value is None and not complaints:
        raise ScenarioError([f"{path}:1:1: the file holds no scenario; write at least name, protocol and overlay"])
    if not isinstance(root.value, dict):
        message = f"the file holds {shown(root)}; allowed: a mapping with the keys {', '.join(Scenario.model_fields)}"
        raise scenario_error(complaints or [Complaint(root.place, message)])
    root, wrong = apply_overrides(root, overrides)
    complaints += wrong
    scenario, found = validate(root)
    refused = {complaint.place for complaint in complaints}
    complaints += [complaint for complaint in found if complaint.place not in refused]
    if scenario is None or complaints:
        raise scenario_error(complaints)
    return LoadedScenario(path, scenario, root, text, tuple(overrides))


def to_scenario_error(loaded: LoadedScenario, error: InputError) -> ScenarioError:
    """Returns the problems of `error` as a `ScenarioError` with positions in the scenario file."""
    return scenario_error(placed(error.problems, loaded.root))


def validate(root: ValueNode) -> tuple[Scenario | None, list[Complaint]]:
    """Validates the tree of a scenario; returns the model (None if the tree is invalid) and all complaints."""
    complaints = [*_broken_complaints(root), *_grid_complaints(root)]
    data = plain(root)
    try:
        return Scenario.model_validate(data), complaints
    except ValidationError as error:
        known = {complaint.place for complaint in complaints}
        complaints += [found for found in complaints_of(error, root) if found.place not in known]
    overlay = _valid(TypeAdapter(OverlaySpec), plain(nearest_node(root, ("overlay",))))
    time = _valid(TypeAdapter(TimeSpec), plain(node)) if (node := root.child("time")) else TimeSpec()
    horizon = time.rounds if time is not None else None
    complaints += placed(call_problems(overlay, horizon, _valid_calls(root)), root)
    return None, complaints


def _valid(adapter: Any, value: object) -> Any:  # noqa: ANN401 - any part of the model
    # The consistency of valid parts is checked even if other parts are invalid.
    try:
        return adapter.validate_python(value)
    except ValidationError:
        return None


def _valid_calls(root: ValueNode) -> Iterator[Call]:
    for path, adapter in _PARTS.items():
        part = plain(nearest_node(root, path))
        if isinstance(part, list):
            for index, item in enumerate(part):
                if valid := _valid(adapter, [item]):
                    yield (*path, index), valid[0]
        elif valid := _valid(adapter, part):
            yield path, valid


def _broken_complaints(root: ValueNode) -> Iterator[Complaint]:
    name = nearest_node(root, ("protocol", "name"))
    if isinstance(name.value, str) and name.value in BROKEN and name.value not in PROTOCOLS:
        message = f"protocol {name.value!r} is not available: {BROKEN[name.value]}; correct or remove this package"
        yield Complaint(name.place, message)


def _grid_complaints(root: ValueNode) -> Iterator[Complaint]:
    grid = nearest_node(root, ("runs", "grid"))
    runs = root.child("runs")
    if runs is None or grid is not runs.child("grid"):
        return
    for text, place in grid.key_places.items():
        path = parse_path(text)
        wrong = unknown_step(path)
        if wrong is not None:
            yield Complaint(place, wrong)
        elif path[0] in _FIXED:
            message = f"{text} cannot be varied: {_FIXED[str(path[0])]}; allowed: values of the other parts"
            yield Complaint(place, message)


def scenario_source(path: Path) -> str:
    """Returns the content of a scenario file; errors as in `load_scenario`."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise ScenarioError([f"{path}: this is a directory; name a scenario file (.yaml)"]) from None
    except FileNotFoundError:
        raise ScenarioError([f"{path}: the file does not exist; check the name and the folder"]) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ScenarioError([f"{path}: the file cannot be read ({reason}); check its name and rights"]) from None
    if len(data) > MAX_BYTES:
        limit = f"{MAX_BYTES // 1_000_000} MB"
        raise ScenarioError([f"{path}: the file is larger than {limit}; put large lists into files of their own"])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8-sig", errors="replace")
        place = f"{path}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
        raise ScenarioError([f"{place}: byte {data[error.start]:#04x} is not UTF-8; save the file as UTF-8"]) from None


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
