"""The self-stabilizing supervised skip ring (Feldmann, Kolb, Scheideler, Strothmann)."""

from __future__ import annotations

from pipelines.contract.spec import ProtocolSpec
from pipelines.protocols.skipring.check import problems
from pipelines.protocols.skipring.settings import SkipRingSettings

SPEC = ProtocolSpec(
    name="skipring",
    summary="self-stabilizing supervised skip ring: a ring a topic, healing from any state",
    settings=SkipRingSettings,
    needs_tree=False,
    confirms=False,
    program="pipelines.protocols.skipring.protocol",
    application=("PublishNew",),
    recovery=(
        "Publish",
        "CheckTrie",
        "CheckAndPublish",
    ),
    views="pipelines.protocols.skipring.views",
    keeps_source_order=False,
    builds_overlay=False,
    check=problems,
    maintenance=("Introduce", "IntroduceShortcut", "SetData", "GetConfiguration", "CheckTrie"),
    makes_overlay=True,
    edges="held_edge",
)
