"""Protocol ``forwarding`` as the engine sees its node program, `udfs.forwarding`."""

from __future__ import annotations

from pipelines.contract.nodes import NodeProtocol
from pipelines.protocols.forwarding.protocol import ForwardingProtocol
from udfs.forwarding import Forwarding

PROTOCOL = NodeProtocol(Forwarding, bound=ForwardingProtocol.bound, assumes=ForwardingProtocol.assumes)
