"""The runs of a scenario: which seeds, and which values the grid takes."""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Annotated, Any

from pydantic import Field, Tag, model_validator

from pipelines.errors import InputError, Problem
from pipelines.spec.base import Count, Number, Positive, Seed, Strict, by_form
from pipelines.spec.rules import repetition_problems

MAX_RUNS = 1_000_000


def _form(value: Any) -> str | None:  # noqa: ANN401 - whatever the file holds
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


_Values = Annotated[list[Any], Field(min_length=1)]


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
