"""Ranks the candidates of a comparison by the rows of view `comparison`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pipelines.comparing.wants import Want


@dataclass(frozen=True)
class Ranked:
    """A candidate, which is a protocol with settings, and the results of its runs.

    ``n_runs`` is the number of runs. ``n_as_wanted`` is the number of runs that satisfy all criteria. ``n_beyond`` is
    the number of runs whose faults exceed the protocol's fault model. ``broken`` maps each violated criterion to the
    number of runs that violate it. ``measure`` is the mean of the measure to minimise, or None if no run has a value.
    """

    protocol: str
    settings: Mapping[str, Any]
    n_runs: int
    n_as_wanted: int
    n_beyond: int
    broken: Mapping[str, int]
    measure: float | None

    @property
    def keeps_all(self) -> bool:
        """Whether all runs satisfy all criteria."""
        return self.n_as_wanted == self.n_runs


def ranked(
    rows: Iterable[Mapping[str, Any]], settings: Mapping[int, Mapping[str, Any]], wants: Sequence[Want], measure: str
) -> list[Ranked]:
    """Ranks candidates by the mean number of violated criteria per run; the lowest mean comes first.

    Candidates with equal means are ordered by the mean of ``measure``. ``rows`` contains the rows of view `comparison`.
    ``settings`` maps each run id to the result of `candidates.settings_of`.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(json.dumps(settings[row["run_id"]], sort_keys=True), []).append(row)
    return sorted((_ranked(json.loads(key), rows, wants, measure) for key, rows in groups.items()), key=_order)


def _ranked(settings: dict[str, Any], rows: Sequence[Mapping[str, Any]], wants: Sequence[Want], measure: str) -> Ranked:
    name = settings.pop("name")
    broken = {want.text: sum(not want.holds(row) for row in rows) for want in wants}
    values = [row[measure] for row in rows if row[measure] is not None]
    n_as_wanted = sum(all(want.holds(row) for want in wants) for row in rows)
    n_beyond = sum(row["within_bound"] is False for row in rows)
    broken = {text: number for text, number in broken.items() if number}
    return Ranked(name, settings, len(rows), n_as_wanted, n_beyond, broken, fmean(values) if values else None)


def _order(one: Ranked) -> tuple[Any, ...]:
    size = float("inf") if one.measure is None else one.measure
    return sum(one.broken.values()) / one.n_runs, size, one.protocol, json.dumps(one.settings, sort_keys=True)
