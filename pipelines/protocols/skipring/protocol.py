"""Protocol ``skipring``: the node program `udfs.skipring.program` as the engine sees it."""

from __future__ import annotations

from pipelines.contract.nodes import NodeProtocol
from udfs.skipring.program import SkipRing

PROTOCOL = NodeProtocol(SkipRing)
