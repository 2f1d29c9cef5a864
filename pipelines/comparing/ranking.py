"""Candidates in the order in which they do what is wanted, from view `comparison` of a store with all of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from pipelines.comparing.wants import Want


@dataclass(frozen=True)
class Ranked:
    """A protocol with settings, and how it did.

    Attributes:
        protocol: Its name.
        settings: The settings that were set, by name.
        n_runs: Runs that it played.
        n_as_wanted: Those in which all wants hold.
        n_beyond: Those in which the faults were more than the protocol promises to bear.
        broken: Wants that do not hold in all runs, as they were written, and in how many they do not.
        measure: Mean over its runs of the measure that is to be small; None: no run has a value.
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
        """Whether all wants hold in all runs."""
        return self.n_as_wanted == self.n_runs


def ranked(
    rows: Iterable[Mapping[str, Any]], settings: Mapping[int, Mapping[str, Any]], wants: Sequence[Want], measure: str
) -> list[Ranked]:
    """Ranks candidates by the mean number of wants missed in a run, then by the measure, the smallest first.

    Args:
        rows: View `comparison`, a row a run.
        settings: The protocol of a run and its settings, by run_id.
        wants: What is wanted.
        measure: The column that is to be small.
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(json.dumps(settings[row["run_id"]], sort_keys=True), []).append(row)
    return sorted((_ranked(json.loads(key), rows, wants, measure) for key, rows in groups.items()), key=_order)


def _ranked(settings: dict[str, Any], rows: Sequence[Mapping[str, Any]], wants: Sequence[Want], measure: str) -> Ranked:
    name = settings.pop("name")
    broken = {want.text: sum(not want.holds(row) for row in rows) for want in wants}
    values = [row[measure] for row in rows if row[measure] is not None]
    return Ranked(
        protocol=name,
        settings=settings,
        n_runs=len(rows),
        n_as_wanted=sum(all(want.holds(row) for want in wants) for row in rows),
        n_beyond=sum(row["within_bound"] is False for row in rows),
        broken={text: number for text, number in broken.items() if number},
        measure=fmean(values) if values else None,
    )


def _order(one: Ranked) -> tuple[Any, ...]:
    size = float("inf") if one.measure is None else one.measure
    return sum(one.broken.values()) / one.n_runs, size, one.protocol, json.dumps(one.settings, sort_keys=True)
