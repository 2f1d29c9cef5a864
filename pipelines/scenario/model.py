"""The scenario file as a model: one experiment, for one or many runs."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, Tag, model_validator

from pipelines.contract.forms import AskedForm
from pipelines.engines.names import AskedEngine, current_name
from pipelines.errors import InputError
from pipelines.protocols import PROTOCOLS
from pipelines.scenario.consistency import call_problems, calls
from pipelines.spec.base import Strict, by_name
from pipelines.spec.faults import Fault
from pipelines.spec.overlay import OverlaySpec
from pipelines.spec.runs import RunsSpec
from pipelines.spec.times import TimeSpec, time_problems, with_rounds
from pipelines.spec.workload import WorkloadSpec

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
    def _in_rounds(cls, data: Any) -> Any:  # noqa: ANN401 - whatever the file holds
        return with_rounds(data)

    @model_validator(mode="after")
    def _parts_fit(self) -> Scenario:
        problems = list(time_problems(self.time, calls(self.workload, self.faults)))
        problems += call_problems(self.overlay, self.time.rounds, calls(self.workload, self.faults))
        if problems:
            raise InputError(*problems)
        return self
