"""Protocol ``forwarding``, the baseline: reverse-path forwarding without repairs (report, sections 2 and 3)."""

from __future__ import annotations

from pipelines.contract.protocol import Protocol
from udfs.forwarding import Forwarding

BOUND = """select run_id, min(round) as round, 'a node crashed' as reason
from fault_event where kind = 'crash' group by run_id"""
"""Any crash exceeds the bound: a broker loses its routing table in a crash, and no message is repeated."""
PROTOCOL = Protocol(
    name="forwarding",
    summary="plain reverse-path subscription forwarding without confirmations, the baseline",
    program=Forwarding,
    bound=BOUND,
    assumes=frozenset({"no_loss", "no_duplicates", "order"}),
    keeps_source_order=True,
    needs_tree=True,
    steps="pipelines.protocols.forwarding.dataflow",
    draws=False,
    application=("PUB",),
)
