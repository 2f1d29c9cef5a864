"""Seeds that draw nothing: runs that are equal but for their number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipelines.experiment.build import build_mapped_run
from pipelines.experiment.mapping import Mapped
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.expand import RunConfig

_MAX_COMPARED = 4


def equal_seeds(runs: Sequence[RunConfig], beside: Path) -> str:
    """Returns that the seeds of one combination of the grid draw nothing, or an empty string.

    Args:
        runs: One run for each seed; overlays, workloads and faults of the first four are compared.
        beside: The scenario file's folder.
    """
    if len(runs) < 2 or PROTOCOLS[runs[0].scenario.protocol.name].draws:
        return ""
    first = build_mapped_run(runs[0], beside)
    if _draws_later(first):
        return ""
    for run in runs[1:_MAX_COMPARED]:
        if not _are_equal(first, build_mapped_run(run, beside)):
            return ""
    return (
        f"the {len(runs):,} seeds draw nothing, as neither the scenario nor its protocol leaves anything to chance: "
        "their runs are equal, and one seed is enough"
    )


def _draws_later(built: Mapped) -> bool:
    """Returns whether faults of links draw while the run goes on."""
    faults = built.faults.link_fault.to_pylist() + built.faults.nth_fault.to_pylist()
    return any(0 < row.get("rate", 1.0) < 1 or row["low"] != row["high"] for row in faults)


def _are_equal(one: Mapped, other: Mapped) -> bool:
    return one.overlay.names == other.overlay.names and all(
        left.equals(right) if isinstance(left, pa.Table) else np.array_equal(left, right)
        for left, right in zip(_parts(one), _parts(other), strict=True)
    )


def _parts(built: Mapped) -> Iterator[pa.Table | np.ndarray]:
    yield from (built.overlay.a, built.overlay.b, built.overlay.directed_rounds)
    yield from (getattr(built.workload, name) for name in built.workload.__dataclass_fields__)
    for name in built.faults.__dataclass_fields__:
        table = getattr(built.faults, name)
        # The salt of draws differs from seed to seed, also where nothing is drawn.
        yield table.drop_columns(["salt"]) if "salt" in table.column_names else table
