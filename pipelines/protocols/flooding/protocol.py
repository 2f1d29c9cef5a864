"""Protocol ``flooding``: the node program `udfs.flooding` as the engine sees it."""

from __future__ import annotations

from pipelines.contract.nodes import NodeProtocol
from pipelines.protocols.flooding.audits import AUDITS
from pipelines.protocols.flooding.bound import beyond
from udfs.flooding import Flooding

PROTOCOL = NodeProtocol(Flooding, audits=AUDITS, bound=beyond, assumes=frozenset({"no_loss"}))
