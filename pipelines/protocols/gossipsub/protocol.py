"""Protocol ``gossipsub``: the node program `udfs.gossipsub` as the engine sees it."""

from __future__ import annotations

from pipelines.contract.nodes import NodeProtocol
from pipelines.protocols.gossipsub.audits import AUDITS, UNDECIDED, WAITS
from pipelines.protocols.gossipsub.bound import beyond
from udfs.gossipsub import GossipSub

PROTOCOL = NodeProtocol(
    GossipSub,
    audits=AUDITS,
    bound=beyond,
    undecided=UNDECIDED,
    assumes=frozenset({"no_loss", "order"}),
    waits={"cached": WAITS},
)
