"""The model of a scenario file: one experiment with its seeds and its grid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BeforeValidator, Field, TypeAdapter, model_validator

from pipelines.contract.forms import AskedForm
from pipelines.contract.settings import (
    BY_FORM,
    MAX_SEED,
    Branches,
    Count,
    Number,
    Positive,
    Seed,
    Strict,
    repetition_problems,
)
from pipelines.engines.names import AskedEngine, current_name
from pipelines.errors import Problem, raise_problems
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.consistency import call_problems, calls
from pipelines.scenario.faults import Fault
from pipelines.scenario.overlay import OverlaySpec
from pipelines.scenario.times import TimeSpec, time_problems, with_rounds
from pipelines.scenario.workload import WorkloadSpec

MAX_RUNS = 1_000_000
_Values = Annotated[list[Any], Field(min_length=1)]


class SeedRange(Strict):
    """Consecutive seeds."""

    count: Annotated[Count, Field(ge=1, le=MAX_RUNS, description="number of seeds")]
    first: Seed = Field(0, alias="from", description="the first seed")

    def _problems(self) -> Iterator[Problem]:
        if (last := self.first + self.count - 1) > MAX_SEED:
            yield Problem(("from",), f"the last seed is {last}; allowed: up to {MAX_SEED}")


class ValueRange(Strict):
    """Equidistant numbers: `from`, `from` + `step`, and so on, up to `to`."""

    low: Annotated[int, Field(strict=True)] | Number = Field(alias="from", description="the first number")
    high: Annotated[int, Field(strict=True)] | Number = Field(
        alias="to",
        description="upper limit of the numbers; it is included if a whole number of steps leads to it",
    )
    step: Annotated[int, Field(ge=1, strict=True)] | Positive = Field(
        1, description="difference between consecutive numbers"
    )

    def _problems(self) -> Iterator[Problem]:
        if self.low > self.high:
            message = f"the range goes from {self.low} to {self.high}; allowed: from <= to, or a descending list"
            yield Problem(("to",), message)
        elif (self.high - self.low) / self.step >= MAX_RUNS:
            yield Problem(("step",), f"the range has more than {MAX_RUNS} values; take a larger step")

    def values(self) -> list[int | float]:
        """Returns the numbers: ints if `low`, `high` and `step` are ints, else floats with 12 significant digits."""
        number = math.floor((self.high - self.low) / self.step * (1 + 1e-12)) + 1
        exact = [self.low + place * self.step for place in range(number)]
        if all(isinstance(given, int) for given in (self.low, self.high, self.step)):
            return exact
        return [float(f"{value:.12g}") for value in exact]


class RunsSpec(Strict):
    """The runs of an experiment: every combination of the grid with every seed."""

    seeds: Annotated[Annotated[list[Seed], Field(min_length=1)] | SeedRange, BY_FORM] = Field(
        default_factory=lambda: [0], description="one run for each seed: a list, or {count: 1000}"
    )
    grid: dict[str, Annotated[_Values | ValueRange, BY_FORM]] = Field(
        default_factory=dict,
        description="mapping of the path of a key, e.g. protocol.delta, to the values of the key: a list, or {from:"
        " 0, to: 4}",
    )

    def _problems(self) -> Iterator[Problem]:
        yield from repetition_problems(("seeds",), self.seeds) if isinstance(self.seeds, list) else ()
        for path, values in self.grid.items():
            if isinstance(values, list):
                yield from repetition_problems(("grid", path), values)

    def all_seeds(self) -> Sequence[int]:
        """Returns the seeds. Each combination of the grid runs once with each seed."""
        if isinstance(self.seeds, SeedRange):
            return range(self.seeds.first, self.seeds.first + self.seeds.count)
        return self.seeds


if TYPE_CHECKING:
    ProtocolSettings = Any
else:
    ProtocolSettings = Annotated[reduce(or_, (spec.settings for spec in PROTOCOLS.values())), Branches("name")]


class Scenario(Strict):
    """One experiment: a protocol on an overlay with a workload and faults."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$", max_length=100)] = Field(
        description="at most 100 letters, digits, _ . and -, the first a letter or a digit; it names the scenario and "
        "the folder of its store"
    )
    protocol: ProtocolSettings = Field(description="the protocol's name and settings")
    overlay: OverlaySpec = Field(description="nodes, links and latencies")
    workload: WorkloadSpec = Field(default_factory=WorkloadSpec, description="the calls of applications, by round")
    faults: list[Fault] = Field(default_factory=list, description="faults of nodes and links, with their rounds")
    time: TimeSpec = Field(default_factory=TimeSpec, description="length of a run, and duration of a round")
    runs: RunsSpec = Field(
        default_factory=RunsSpec, description="the seeds, and the values of keys that vary between runs"
    )
    engine: Annotated[AskedEngine, BeforeValidator(current_name)] = Field(
        "auto", description="the engine that executes the rounds; --engine and ROUNDTABLE_ENGINE override it"
    )
    form: AskedForm = Field(
        "auto",
        description="form of the protocol: program (one program per node) or dataflow (DataFrame steps over all "
        "nodes); --form and ROUNDTABLE_FORM override it",
    )

    @model_validator(mode="before")
    @classmethod
    def _in_rounds(cls, data: Any) -> Any:  # noqa: ANN401 - any value of the file
        return with_rounds(data)

    def varied(self, faults: Sequence[Mapping[str, Any]], runs: Mapping[str, Any]) -> Self:
        """Returns a copy of this scenario with the given faults and runs. Only these two parts are validated.

        Args:
            faults: The list at key ``faults``, with times in rounds.
            runs: The object at key ``runs``.

        Raises:
            ValidationError: A fault or ``runs`` is invalid.
            InputError: The faults contradict each other, the overlay or the horizon.
        """
        found = _FAULTS.validate_python(faults)
        raise_problems(self._problems_of(WorkloadSpec(), found))
        return self.model_copy(update={"faults": found, "runs": RunsSpec.model_validate(runs)})

    def _problems(self) -> Iterator[Problem]:
        return self._problems_of(self.workload, self.faults)

    def _problems_of(self, workload: WorkloadSpec, faults: Sequence[Fault]) -> Iterator[Problem]:
        yield from time_problems(self.time, calls(workload, faults))
        yield from call_problems(self.overlay, self.time.rounds, calls(workload, faults))


_FAULTS = TypeAdapter(list[Fault])
