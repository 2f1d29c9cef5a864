"""A scenario made ready to be run: read, expanded and checked, with its inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import ScenarioError
from pipelines.scenario.expand import RunConfig, expand
from pipelines.scenario.load import LoadedScenario, load_scenario
from pipelines.scenario.model import Scenario
from pipelines.scenario.shape import parse_path
from pipelines.scenario.tree import nearest_node


@dataclass(frozen=True)
class Prepared:
    """A scenario that was read, and its runs.

    Attributes:
        loaded: The scenario with the places of its values.
        runs: Every combination of the grid with every seed.
    """

    loaded: LoadedScenario
    runs: Sequence[RunConfig]

    @property
    def scenario(self) -> Scenario:
        """What the file says, without the grid's values."""
        return self.loaded.scenario

    @property
    def protocol(self) -> str:
        """The protocol of all runs."""
        return str(self.runs[0].scenario.protocol.name)

    @property
    def horizon(self) -> int:
        """The last round that may happen in any run."""
        return max(run.scenario.time.rounds for run in self.combinations())

    @property
    def beside(self) -> Path:
        """The scenario file's folder."""
        return self.loaded.path.parent

    def combinations(self) -> list[RunConfig]:
        """Returns one run, that of the first seed, for each combination of the grid."""
        return list(self.runs[:: len(self.scenario.runs.all_seeds())])


def prepare(path: Path, overrides: Sequence[str] = ()) -> Prepared:
    """Reads a scenario and expands its runs.

    Args:
        path: The scenario file.
        overrides: Values set from outside, each ``path=value``.

    Raises:
        ScenarioError: The file is wrong, or its runs cannot go through one job.
    """
    return expand_runs(load_scenario(path, overrides))


def expand_runs(loaded: LoadedScenario) -> Prepared:
    """Expands the runs of a scenario that was read; errors as in `prepare`."""
    runs = expand(loaded)
    _check_one_protocol(loaded, runs)
    return Prepared(loaded, runs)


def _check_one_protocol(loaded: LoadedScenario, runs: Sequence[RunConfig]) -> None:
    """All runs of an experiment go through the same steps and tables."""
    names = list(dict.fromkeys(str(run.scenario.protocol.name) for run in runs))
    if len(names) == 1:
        return
    places = nearest_node(loaded.root, ("runs", "grid")).key_places
    path = next(path for path in places if parse_path(path)[0] == "protocol")
    raise ScenarioError([
        f"{places[path]}: the runs are of the protocols {' and '.join(names)}, but the runs of one job run one "
        f"protocol; allowed: one, so run the file once for each, with --set protocol.name={names[0]} and so on"
    ])  # fmt: skip
