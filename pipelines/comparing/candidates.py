"""Selects the candidates of a comparison: the scenario's own protocol settings, and variants of all protocols."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.errors import ScenarioError
from pipelines.experiment.plan import check
from pipelines.experiment.prepared import Prepared, expand_runs
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.expand import RunConfig
from pipelines.scenario.load import read_scenario

_PROTOCOL = "protocol"


@dataclass(frozen=True)
class Compared:
    """A scenario whose grid lists the candidates of a comparison.

    ``refused`` maps each protocol without a candidate to the reason why it cannot run the scenario.
    """

    prepared: Prepared
    refused: Mapping[str, str]


def settings_of(run: RunConfig) -> dict[str, Any]:
    """Returns the protocol settings that a run sets explicitly, including ``name``; defaults are not included."""
    return dict(run.scenario.protocol.model_dump(mode="json", exclude_unset=True))


def with_candidates(prepared: Prepared) -> Compared:
    """Returns the scenario with a grid that lists the candidates.

    If the grid already lists protocols (``runs.grid.protocol``), the scenario is unchanged. Otherwise the candidates
    are the protocol settings in the scenario, and the variants of each protocol (`Protocol.variants`). A variant that
    does not support the overlay, workload or faults of the scenario is omitted.

    Raises:
        ScenarioError: The scenario is invalid before candidates are added.
    """
    check(prepared)
    if _PROTOCOL in prepared.scenario.runs.grid:
        return Compared(prepared, {})
    own = [*{json.dumps(one, sort_keys=True): one for one in map(settings_of, prepared.combinations())}.values()]
    chosen, refused = list(own), dict[str, str]()
    for name, spec in PROTOCOLS.items():
        base = next((one for one in own if one["name"] == name), {"name": name})
        variants = [one for one in ({**base, **variant} for variant in spec.variants) if one not in own]
        why = _refusal(prepared, [*own, *variants])
        taken = variants if why is None else [one for one in variants if _refusal(prepared, [*own, one]) is None]
        chosen += taken
        if why is not None and not taken:
            refused[name] = why
    return Compared(_with_grid(prepared, chosen), refused)


def _refusal(prepared: Prepared, candidates: Sequence[Mapping[str, Any]]) -> str | None:
    """Returns the first reason why the candidates cannot run a scenario; None if all candidates can run it."""
    try:
        check(_with_grid(prepared, candidates))
    except ScenarioError as error:
        return error.problems[0]
    return None


def _with_grid(prepared: Prepared, candidates: Sequence[Mapping[str, Any]]) -> Prepared:
    """Returns the scenario with a grid whose protocol values are the candidates."""
    loaded = prepared.loaded
    grid = loaded.scenario.runs.model_dump(mode="json", exclude_unset=True).get("grid", {})
    kept = {path: values for path, values in grid.items() if path.split(".")[0] != _PROTOCOL}
    override = f"runs.grid={json.dumps({**kept, _PROTOCOL: list(candidates)}, ensure_ascii=False)}"
    return expand_runs(read_scenario(loaded.path, loaded.text, [*loaded.overrides, override]))
