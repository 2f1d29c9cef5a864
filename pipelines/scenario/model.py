"""The scenario file as a model: one experiment, for one or many runs."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from pipelines.scenario.base import MAX_ROUND, Positive, Seed, Strict
from pipelines.scenario.overlay_spec import OverlaySpec
from pipelines.scenario.workload_spec import WorkloadSpec

EngineName = Literal["spark", "sail"]


class TimeSpec(Strict):
    """How long a run may last, and what a round is in wall-clock time."""

    rounds: Annotated[int, Field(ge=1, le=MAX_ROUND, strict=True)] = Field(1000, description="the horizon")
    round_ms: Positive = Field(10.0, description="milliseconds of one round")


class RunsSpec(Strict):
    """The runs of the experiment: every seed with every combination of the grid."""

    seeds: list[Seed] = Field(default_factory=lambda: [0], min_length=1)
    grid: dict[str, list[Any]] = Field(default_factory=dict, description="path of a value → the values it takes")


class Scenario(Strict):
    """One experiment: a protocol on an overlay under a workload."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)]
    protocol: Any = Field(description="name, and the protocol's own settings")
    overlay: OverlaySpec
    workload: WorkloadSpec = Field(default_factory=WorkloadSpec)
    faults: Annotated[list[Any], Field(max_length=0)] = Field(default_factory=list, description="no fault kind is available yet")
    time: TimeSpec = Field(default_factory=TimeSpec)
    runs: RunsSpec = Field(default_factory=RunsSpec)
    engine: EngineName = "spark"
