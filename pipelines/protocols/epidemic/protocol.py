"""Protocol ``epidemic`` as the engine sees it; what its nodes do is the node program `udfs.epidemic.program`."""

from __future__ import annotations

from pipelines.contract.nodes import NodeProtocol
from pipelines.protocols.epidemic.audits import AUDITS
from pipelines.protocols.epidemic.bound import BOUND
from udfs.epidemic.program import Epidemic

PROTOCOL = NodeProtocol(Epidemic, audits=AUDITS, bound=BOUND, assumes=frozenset({"no_loss", "order"}))
