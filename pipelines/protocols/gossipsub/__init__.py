"""libp2p's gossipsub, specification v1.1 without scores."""

from __future__ import annotations

from pipelines.contract.protocol import Protocol
from pipelines.protocols.gossipsub.audits import AUDITS, UNDECIDED, WAITS
from pipelines.protocols.gossipsub.bound import beyond
from pipelines.protocols.gossipsub.check import problems
from pipelines.protocols.gossipsub.settings import GossipSubSettings
from udfs.gossipsub import GossipSub

PROTOCOL = Protocol(
    name="gossipsub",
    summary="libp2p's pubsub v1.1 without scores: a mesh a topic, and gossip about what came",
    settings=GossipSubSettings,
    program=GossipSub,
    audits=AUDITS,
    bound=beyond,
    undecided=UNDECIDED,
    assumes=frozenset({"no_loss", "order"}),
    waits={"cached": WAITS},
    maintenance=("HELLO", "ANNOUNCE", "GRAFT", "PRUNE"),
    application=("PUB",),
    recovery=("IHAVE", "IWANT", "REPLY", "HELLO"),
    variants=({}, {"flood_publish": False}),
    views="pipelines.protocols.gossipsub.views",
    check=problems,
)
