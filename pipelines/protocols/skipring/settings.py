"""The settings of protocol ``skipring``."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from pipelines.contract.settings import Count, Round, Strict

Rounds = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]


class SkipRingSettings(Strict):
    """Settings of protocol ``skipring``."""

    name: Literal["skipring"] = "skipring"
    start: Literal[
        "empty", "legitimate", "arbitrary", "labels", "edges", "shortcuts", "database", "messages", "tries"
    ] = Field(
        "empty",
        description="the state before the first round: empty (all join by calls), legitimate (the subscribers of the"
        " workload form the skip ring), arbitrary, or arbitrary in one part only",
    )
    start_until: Round | None = Field(
        None,
        description="start other than empty: subscribers whose call is due up to this round are there from the start"
        " (default: all)",
    )
    start_publications: Count = Field(
        0, description="start other than empty: publications of each topic from before the first round"
    )
    timeout_interval: Rounds = Field(10, description="rounds from one Timeout of a node to the next")
    min_delay: Rounds = Field(1, description="rounds that a message takes at least")
    max_delay: Rounds = Field(10, description="rounds that a message takes at most; each draws its own delay")
    silence_intervals: Rounds = Field(
        8, description="Timeouts without an introduction by a ring neighbour after which a subscriber asks"
    )
    detection_rounds: Rounds = Field(5, description="rounds from a crash to the report at the supervisors")
    key_bits: Annotated[int, Field(ge=8, le=256, strict=True)] = Field(
        64,
        description="bits of a publication's key: as many of the SHA-256 of its publisher, number and topic; too few"
        " for the number of publications are refused",
    )
    hash_bits: Annotated[int, Field(ge=32, le=256, multiple_of=4, strict=True)] = Field(
        128, description="bits of a hash in a trie: as many of a SHA-256"
    )
    max_label_bits: Annotated[int, Field(ge=4, le=61, strict=True)] = Field(
        20, description="bits of the longest label in an arbitrary start"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.min_delay > self.max_delay:
            raise ValueError(
                f"min_delay {self.min_delay} is above max_delay {self.max_delay}; allowed: min_delay <= max_delay"
            )
        longest = -(-self.max_delay // self.timeout_interval)
        if self.silence_intervals <= longest:
            raise ValueError(
                f"silence_intervals is {self.silence_intervals}, and a message may take {longest} intervals;"
                f" allowed: more than {longest}"
            )
        return self
