"""Flooding: every publication goes over every link, on overlays with cycles."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipelines.contract.spec import ProtocolSpec
from pipelines.protocols.flooding.check import problems
from pipelines.spec.base import Strict


class FloodingSettings(Strict):
    """Settings of protocol ``flooding``."""

    name: Literal["flooding"] = "flooding"
    max_hops: Annotated[int, Field(ge=1, le=1_000, strict=True)] | None = Field(
        None,
        description="null: nodes remember publications and drop later copies; a number: nodes remember nothing, and a"
        " copy ends after that many links",
    )


SPEC = ProtocolSpec(
    name="flooding",
    summary="every publication goes over every link, duplicates are dropped, the overlay may have cycles",
    settings=FloodingSettings,
    needs_tree=False,
    confirms=False,
    program="pipelines.protocols.flooding.protocol",
    keeps_source_order=False,
    builds_overlay=False,
    draws=False,
    application=("PUB",),
    check=problems,
)
