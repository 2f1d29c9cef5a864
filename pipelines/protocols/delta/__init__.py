"""δ-fault-tolerant publish/subscribe (Kazemzadeh and Jacobsen, TR CSRG-570, 2007)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipelines.protocols.base import ProtocolSpec
from pipelines.scenario.base import Strict


class DeltaSettings(Strict):
    """Settings of protocol ``delta``."""

    name: Literal["delta"] = "delta"
    delta: Annotated[int, Field(ge=0, le=10, strict=True)] = Field(
        1, description="how many nodes may be down or recovering at once without loss"
    )


SPEC = ProtocolSpec(
    name="delta",
    summary="δ-fault-tolerant publish/subscribe: confirmations, routing tables replicated within δ+1 hops",
    settings=DeltaSettings,
    needs_tree=True,
    confirms=True,
    module="pipelines.protocols.delta.protocol",
)
