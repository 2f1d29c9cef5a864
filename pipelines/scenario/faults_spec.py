"""The ``faults`` part of a scenario file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from pipelines.errors import FaultError, Problem
from pipelines.scenario.base import NodeName, Round, Strict


class Crash(Strict):
    """A crash of a node: it handles nothing from one round on, for good or up to the round of its recovery."""

    kind: Literal["crash"] = Field(description="what goes wrong")
    node: NodeName = Field(description="the node that crashes")
    round: Round = Field(description="the first round in which it is down")
    until: Round | None = Field(None, description="the round of its recovery; without it the node stays down")

    @model_validator(mode="after")
    def _ends_later(self) -> Crash:
        if self.until is not None and self.until <= self.round:
            message = f"until is {self.until}, not after round {self.round}; allowed: {self.round + 1} or later"
            raise FaultError(Problem(("until",), message))
        return self


Fault = Crash
