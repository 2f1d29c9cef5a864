"""The scenario file as a model: one experiment, its seeds and its grid."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, Tag, model_validator

from pipelines.contract.forms import AskedForm
from pipelines.contract.settings import Count, Number, Positive, Seed, Strict, by_form, by_name, repetition_problems
from pipelines.engines.names import AskedEngine, current_name
from pipelines.errors import InputError, Problem
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.consistency import call_problems, calls
from pipelines.scenario.faults import Fault
from pipelines.scenario.overlay import OverlaySpec
from pipelines.scenario.times import TimeSpec, time_problems, with_rounds
from pipelines.scenario.workload import WorkloadSpec

MAX_RUNS = 1_000_000
_Values = Annotated[list[Any], Field(min_length=1)]


def _form(value: Any) -> str | None:  # noqa: ANN401 - any value of the file
    if isinstance(value, (list, tuple)):
        return "<list>"
    return "<range>" if isinstance(value, (Mapping, Strict)) else None


class SeedRange(Strict):
    """Seeds one after another."""

    count: Annotated[Count, Field(ge=1, le=MAX_RUNS, description="how many seeds")]
    first: Seed = Field(0, alias="from", description="the first of them")


class ValueRange(Strict):
    """Numbers at equal distances, the bounds included."""

    low: Annotated[int, Field(strict=True)] | Number = Field(alias="from", description="the first number")
    high: Annotated[int, Field(strict=True)] | Number = Field(alias="to", description="the last one, if it is met")
    step: Annotated[int, Field(ge=1, strict=True)] | Positive = Field(1, description="the distance between two")

    @model_validator(mode="after")
    def _is_ascending(self) -> ValueRange:
        if self.low > self.high:
            raise InputError(
                Problem(
                    ("to",), f"the range goes from {self.low} to {self.high}; allowed: from <= to; a list goes down"
                )
            )
        if (self.high - self.low) / self.step >= MAX_RUNS:
            raise InputError(Problem(("step",), f"the range has more than {MAX_RUNS} values; take a larger step"))
        return self

    def values(self) -> list[int | float]:
        """Returns the numbers; with a fraction anywhere, all of them are such, to 12 digits."""
        number = math.floor((self.high - self.low) / self.step * (1 + 1e-12)) + 1
        exact = [self.low + place * self.step for place in range(number)]
        if all(isinstance(given, int) for given in (self.low, self.high, self.step)):
            return exact
        return [float(f"{value:.12g}") for value in exact]


class RunsSpec(Strict):
    """The runs of the experiment: every seed with every combination of the grid."""

    seeds: Annotated[
        Annotated[list[Seed], Field(min_length=1), Tag("<list>")] | Annotated[SeedRange, Tag("<range>")],
        by_form(_form),
    ] = Field(default_factory=lambda: [0], description="one run each: a list, or {count: 1000}")
    grid: dict[
        str, Annotated[Annotated[_Values, Tag("<list>")] | Annotated[ValueRange, Tag("<range>")], by_form(_form)]
    ] = Field(
        default_factory=dict,
        description="path of a value or a part, e.g. protocol.delta → what it takes: a list, or {from: 0, to: 4}",
    )

    @model_validator(mode="after")
    def _no_repetition(self) -> RunsSpec:
        problems = [*repetition_problems(("seeds",), self.seeds)] if isinstance(self.seeds, list) else []
        for path, values in self.grid.items():
            if isinstance(values, list):
                problems += repetition_problems(("grid", path), values, _identity)
        if problems:
            raise InputError(*problems)
        return self

    def all_seeds(self) -> Sequence[int]:
        """Returns the seeds of each combination."""
        if isinstance(self.seeds, SeedRange):
            return range(self.seeds.first, self.seeds.first + self.seeds.count)
        return self.seeds

    def grid_values(self, path: str) -> Sequence[Any]:
        """Returns the values of a path of the grid."""
        values = self.grid[path]
        return values.values() if isinstance(values, ValueRange) else values


def _identity(value: object) -> Hashable:
    return json.dumps(value, sort_keys=True) if isinstance(value, (list, dict)) else (isinstance(value, bool), value)


if TYPE_CHECKING:
    ProtocolSettings = Any
else:
    _BRANCHES = (Annotated[spec.settings, Tag(f"<{name}>")] for name, spec in PROTOCOLS.items())
    ProtocolSettings = Annotated[reduce(or_, _BRANCHES), by_name("name")]


class Scenario(Strict):
    """One experiment: a protocol on an overlay under a workload and faults."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)] = Field(
        description="letters, digits, _ . and -, the first a letter or a digit; names the store's folder"
    )
    protocol: ProtocolSettings = Field(description="name, and the protocol's own settings")
    overlay: OverlaySpec
    workload: WorkloadSpec = Field(default_factory=WorkloadSpec)
    faults: list[Fault] = Field(default_factory=list, description="what goes wrong, and when")
    time: TimeSpec = Field(default_factory=TimeSpec)
    runs: RunsSpec = Field(default_factory=RunsSpec)
    engine: Annotated[AskedEngine, BeforeValidator(current_name)] = Field(
        "auto", description="what runs it, unless --engine or ROUNDTABLE_ENGINE says otherwise"
    )

    form: AskedForm = Field(
        "auto", description="what plays it: a node program, dataflow steps; --form and ROUNDTABLE_FORM win over it"
    )

    @model_validator(mode="before")
    @classmethod
    def _in_rounds(cls, data: Any) -> Any:  # noqa: ANN401 - any value of the file
        return with_rounds(data)

    @model_validator(mode="after")
    def _parts_fit(self) -> Scenario:
        problems = list(time_problems(self.time, calls(self.workload, self.faults)))
        problems += call_problems(self.overlay, self.time.rounds, calls(self.workload, self.faults))
        if problems:
            raise InputError(*problems)
        return self
