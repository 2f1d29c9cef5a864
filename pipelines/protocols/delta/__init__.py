"""δ-fault-tolerant publish/subscribe (Kazemzadeh and Jacobsen, TR CSRG-570, 2007).

`udfs.delta` defines the terms of the report that the docstrings of phases and steps use. Relation ``processing`` is
the report's ProcessingList.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipelines.contract.protocol import DerivedTable, Protocol
from pipelines.contract.settings import Natural, Strict
from pipelines.protocols.delta.audits import AUDITS, BOUND, RELATIONS
from udfs.delta.program import Delta, ProcessingRow, processing_rows


class DeltaSettings(Strict):
    """Settings of protocol ``delta``."""

    name: Literal["delta"] = Field("delta", description="selects this protocol")
    delta: Annotated[int, Field(ge=0, le=10, strict=True)] = Field(
        1, description="δ: no publication is lost if at most δ nodes are down or recovering at once"
    )
    detector: Literal["identifier", "visited"] = Field(
        "identifier",
        description="detection of duplicate messages; identifier: by the number that the source assigned; visited: by "
        "the ids that the last δ+1 nodes on the path assigned (visited list)",
    )
    detection_rounds: Natural = Field(
        5,
        description="rounds from a crash to its report at a neighbour; the report takes at least the latency of the "
        "link",
    )
    par_rows: Natural = Field(
        100,
        description="number of rows of routing information (PAR_TOP, PAR_SUB) that a node sends to a recovering node "
        "per round, at low priority",
    )


CALL_WAITS = """
select run_id, node_id, node_id as source, source_seq,
  'it is issued once the node has joined and is OPERATIONAL' as reason
from state_call
where kind = 'publish'
"""
"""SQL for the publications whose publish call waits at the node and is not issued yet (rule R33)."""

PROTOCOL = Protocol(
    name="delta",
    summary="δ-fault-tolerant publish/subscribe: confirmations, routing tables replicated within δ+1 hops",
    settings=DeltaSettings,
    program=Delta,
    audits=AUDITS,
    audit_relations=RELATIONS,
    bound=BOUND,
    assumes=frozenset({"no_loss", "no_duplicates", "order"}),
    shown=[DerivedTable("processing", ProcessingRow, "processing_list", processing_rows)],
    waits={"call": CALL_WAITS},
    keeps_source_order=True,
    starts_by_joins=True,
    needs_tree=True,
    confirms=True,
    steps="pipelines.protocols.delta.dataflow",
    draws=False,
    variants=tuple({"delta": delta} for delta in (1, 2, 3)),
    application=("PUB",),
    acknowledgement=("CONF",),
    recovery=(
        "PAR_TOP",
        "PAR_SUB",
        "REJOIN",
        "DETECT",
        "CON_REQUEST",
        "SYN_REQUEST",
        "STATUS",
    ),
    views="pipelines.protocols.delta.views",
)
