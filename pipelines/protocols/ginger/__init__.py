"""Ginger: eventual, causal and total delivery over one broker tree (Matos, Ginger, chapters 3 to 5)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from pipelines.contract.protocol import Protocol, Shown
from pipelines.contract.settings import NodeName, Strict
from pipelines.protocols.ginger.audits import AUDITS
from pipelines.protocols.ginger.bound import beyond
from pipelines.protocols.ginger.check import problems
from pipelines.protocols.ginger.waits import WAITED, WAITS
from udfs.ginger.program import Ginger
from udfs.ginger.records import Locked, locked_rows


class GingerSettings(Strict):
    """Settings of protocol ``ginger``."""

    name: Literal["ginger"] = "ginger"
    root: NodeName | None = Field(None, description="the broker at the root of the tree (default: the first)")
    start_balance: Annotated[int, Field(ge=0, le=10**15, strict=True)] = Field(
        100_000, description="workload bank: cents on every account at the start"
    )
    total_degree: Annotated[int, Field(ge=1, le=1000, strict=True)] = Field(
        8, description="connections of a broker beyond which it takes in no more, unless it has to (totalDegree)"
    )
    detection_rounds: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = Field(
        5, description="rounds after the last message of a failed neighbour could come until its failure is noticed"
    )
    timer_rounds: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = Field(
        200, description="how long a node waits for the answers of an election; three times as long for others"
    )
    buffer_size: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = Field(
        150, description="events of a topic that a node keeps to send them again (bufferSize); of older ones the ids"
    )
    collect_every: Annotated[int, Field(ge=0, le=1_000_000, strict=True)] = Field(
        0,
        description="messages of a topic after which a node tells what it has had, so that buffers forget it; 0: never",
    )
    max_hops: Annotated[int, Field(ge=1, le=100, strict=True)] = Field(
        3, description="hops over which a broker's entry in a path is passed on (maxHops)"
    )


PROTOCOL = Protocol(
    name="ginger",
    summary="eventual, causal and total order on one tree of brokers, with locks on key items",
    settings=GingerSettings,
    program=Ginger,
    audits=AUDITS,
    bound=beyond,
    assumes=frozenset({"no_loss", "no_duplicates", "order"}),
    waits=WAITS,
    waited=WAITED,
    shown=[Shown("locked", Locked, "pending", locked_rows)],
    needs_tree=True,
    confirms=True,
    steps="pipelines.protocols.ginger.dataflow",
    steps_bear_faults=False,
    draws=False,
    variants=(*({"max_hops": hops} for hops in (2, 3, 5)), *({"total_degree": degree} for degree in (4, 16))),
    application=("Metadata",),
    acknowledgement=(
        "TotalAck",
        "TotalProcessed",
        "Received",
        "Collect",
    ),
    recovery=(
        "Failed",
        "ParentRequest",
        "ParentResponse",
        "ParentBuffer",
        "LostMessageRequest",
        "LostMessages",
        "TreeViewUpdate",
        "RootElection",
        "Exception",
        "Repeat",
        "NeighborDown",
    ),
    views="pipelines.protocols.ginger.views",
    orders=("eventual", "causal", "total"),
    check=problems,
)
