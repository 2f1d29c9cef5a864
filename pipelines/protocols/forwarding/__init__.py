"""Plain reverse-path subscription forwarding: the baseline without reliability (report, sections 2 and 3)."""

from __future__ import annotations

from typing import Literal

from pipelines.contract.spec import ProtocolSpec
from pipelines.spec.base import Strict


class ForwardingSettings(Strict):
    """Settings of protocol ``forwarding``: none."""

    name: Literal["forwarding"] = "forwarding"


SPEC = ProtocolSpec(
    name="forwarding",
    summary="plain reverse-path subscription forwarding without confirmations, the baseline",
    settings=ForwardingSettings,
    needs_tree=True,
    confirms=False,
    program="pipelines.protocols.forwarding.program",
    steps="pipelines.protocols.forwarding.protocol",
    draws=False,
    application=("PUB",),
)
