"""libp2p's gossipsub, specification v1.1 without scores."""

from __future__ import annotations

from pipelines.contract.spec import ProtocolSpec
from pipelines.protocols.gossipsub.check import problems
from pipelines.protocols.gossipsub.settings import GossipSubSettings

SPEC = ProtocolSpec(
    name="gossipsub",
    summary="libp2p's pubsub v1.1 without scores: a mesh a topic, and gossip about what came",
    settings=GossipSubSettings,
    needs_tree=False,
    confirms=False,
    program="pipelines.protocols.gossipsub.protocol",
    keeps_source_order=False,
    builds_overlay=False,
    maintenance=("HELLO", "ANNOUNCE", "GRAFT", "PRUNE"),
    application=("PUB",),
    recovery=("IHAVE", "IWANT", "REPLY", "HELLO"),
    variants=({}, {"flood_publish": False}),
    views="pipelines.protocols.gossipsub.views",
    check=problems,
)
