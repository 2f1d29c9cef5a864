"""`Prepared`: a scenario that was read, checked and expanded into its runs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.contract.forms import NTH, AskedForm, asked_form
from pipelines.experiment.jobs import forms_of
from pipelines.scenario.faults import MessageFault
from pipelines.scenario.load import LoadedScenario, RunConfig, expand, find_scenario, load_scenario, read_scenario
from pipelines.scenario.model import Scenario
from pipelines.scenario.yaml_text import scenario_text

_NAMING = ("name", "kind")


@dataclass(frozen=True)
class Prepared:
    """A scenario that was read and expanded into its runs.

    Attributes:
        loaded: The scenario with the line of each value in its file.
        runs: One run for each combination of the grid and each seed.
    """

    loaded: LoadedScenario
    runs: Sequence[RunConfig]

    @property
    def scenario(self) -> Scenario:
        """The scenario as written in the file, before a grid replaces values."""
        return self.loaded.scenario

    @property
    def protocols(self) -> list[str]:
        """The protocols of the runs, in order of their first run."""
        return list(dict.fromkeys(str(run.scenario.protocol.name) for run in self.runs))

    @property
    def horizon(self) -> int:
        """The largest horizon of all runs: the last possible round."""
        return max(run.scenario.time.rounds for run in self.combinations())

    @property
    def beside(self) -> Path:
        """The folder of the scenario file."""
        return self.loaded.path.parent

    def form(self, given: AskedForm | None) -> AskedForm:
        """Returns the requested form: ``given`` (by the caller), else ROUNDTABLE_FORM, else the form in the scenario.

        Raises:
            FormError: ROUNDTABLE_FORM is not a form, or a protocol lacks the requested form.
        """
        asked = asked_form(given, self.scenario.form)
        forms_of(self.protocols, asked, 0, [NTH] * self.has_nth)
        return asked

    @property
    def has_nth(self) -> bool:
        """Whether any run has a fault with ``nth``, which affects only the n-th of the messages that match it."""
        faults = (fault for run in self.runs for fault in run.scenario.faults)
        return any(isinstance(fault, MessageFault) and fault.nth is not None for fault in faults)

    def combinations(self) -> list[RunConfig]:
        """Returns the run of the first seed for each combination of the grid."""
        return list(self.runs[:: len(self.scenario.runs.all_seeds())])


def prepare(scenario: str | Path | Mapping[str, Any], overrides: str | Sequence[str] = ()) -> Prepared:
    """Reads a scenario from a path, a name, a YAML string or a dict, and expands its runs.

    Args:
        scenario: A file, or the name of an installed scenario; a YAML string of several lines; or a dict. Relative
            paths inside a YAML string or a dict are resolved against the working directory.
        overrides: One or several strings ``path=value`` that replace values of the scenario.

    Raises:
        ScenarioError: The scenario is invalid.
    """
    overrides = (overrides,) if isinstance(overrides, str) else tuple(overrides)
    if isinstance(scenario, Mapping):
        scenario = scenario_text(dict(scenario)) + "\n"
    if isinstance(scenario, str) and "\n" in scenario:
        return expand_runs(read_scenario(Path("<scenario>"), scenario, overrides))
    return expand_runs(load_scenario(find_scenario(Path(scenario)), overrides))


def expand_runs(loaded: LoadedScenario) -> Prepared:
    """Expands a loaded scenario into its runs; raises `ScenarioError` if a combination of the grid is invalid."""
    return Prepared(loaded, expand(loaded))


def labelled(parameters: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Returns ``parameters``, with each value that is an object replaced by a short label.

    The label contains only the parts in which the objects differ, e.g. ``random_tree nodes 100``. ``parameters`` has a
    dict from path to value for each grid combination; a combination may lack a path.
    """
    found: list[dict[str, Any]] = [dict(values) for values in parameters]
    for path in dict.fromkeys(path for values in parameters for path in values):
        having = [values for values in found if path in values]
        for values, label in zip(having, _labels([values[path] for values in having]), strict=True):
            values[path] = label
    return found


def _labels(values: Sequence[Any]) -> Sequence[Any]:
    objects = {json.dumps(value, sort_keys=True): dict(_leaves(value)) for value in values if isinstance(value, dict)}
    if not objects:
        return values
    first = next(iter(objects.values()))
    shared = {path for path, leaf in first.items() if all(of.get(path, ...) == leaf for of in objects.values())}
    told = {
        text: _label({path: leaf for path, leaf in of.items() if path not in shared}) for text, of in objects.items()
    }
    if "" in told.values() or len({*told.values()}) < len(told):
        told = {text: text for text in told}
    return [told[json.dumps(value, sort_keys=True)] if isinstance(value, dict) else value for value in values]


def _leaves(value: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, part in value.items():
        if isinstance(part, dict):
            yield from _leaves(part, (*above, name))
        else:
            yield (*above, name), part


def _label(leaves: Mapping[tuple[str, ...], Any]) -> str:
    """Returns the values of ``leaves`` (path to value) as one string.

    Values of keys ``name`` and ``kind`` come first, then all other strings. The remaining values follow, each preceded
    by its key.
    """
    ordered = sorted(leaves.items(), key=lambda one: (one[0][-1] not in _NAMING, not isinstance(one[1], str)))
    return " ".join(leaf if isinstance(leaf, str) else f"{path[-1]} {json.dumps(leaf)}" for path, leaf in ordered)
