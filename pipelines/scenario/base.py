"""What all parts of a scenario file share: strict models and bounded numbers."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MAX_ROUND = 2**31 - 1
MAX_NODES = 1_000_000

Round = Annotated[int, Field(ge=0, le=MAX_ROUND, strict=True)]
LatencyRounds = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
NodeName = Annotated[str, Field(min_length=1, max_length=200)]
Seed = Annotated[int, Field(ge=0, le=2**62, strict=True)]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0.0, le=1e15, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, le=100_000_000, strict=True)]


class Strict(BaseModel):
    """A part of a scenario: immutable, and an unknown key is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True)
