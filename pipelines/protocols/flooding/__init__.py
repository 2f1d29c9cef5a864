"""Flooding: every publication goes over every link, on overlays with cycles."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipelines.contract.protocol import Protocol
from pipelines.contract.settings import Strict
from pipelines.protocols.flooding.audits import AUDITS
from pipelines.protocols.flooding.bound import beyond
from pipelines.protocols.flooding.check import problems
from udfs.flooding import Flooding


class FloodingSettings(Strict):
    """Settings of protocol ``flooding``."""

    name: Literal["flooding"] = "flooding"
    max_hops: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = Field(
        None,
        description="null: nodes remember publications and drop later copies; a number: nodes remember nothing, and a"
        " copy ends after that many links",
    )


PROTOCOL = Protocol(
    name="flooding",
    summary="every publication goes over every link, duplicates are dropped, the overlay may have cycles",
    settings=FloodingSettings,
    program=Flooding,
    audits=AUDITS,
    bound=beyond,
    assumes=frozenset({"no_loss"}),
    draws=False,
    application=("PUB",),
    check=problems,
)
