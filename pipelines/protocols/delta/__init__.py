"""δ-fault-tolerant publish/subscribe (Kazemzadeh and Jacobsen, TR CSRG-570, 2007).

`udfs.delta` defines the terms of the report that the docstrings of phases and steps use. Relation ``processing`` is
the report's ProcessingList.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from pipelines.contract.audit import SLOW_CRASHING_RUN, Evidence, sql_audits, sql_files
from pipelines.contract.protocol import DerivedTable, Protocol
from pipelines.contract.run_inputs import Faults, Overlay, Workload
from pipelines.contract.settings import Natural, Strict
from pipelines.errors import Problem
from udfs.delta.program import Delta, ProcessingRow, processing_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_MAX_PATHS = 100_000_000
"""The maximum number of paths that the brokers of a run store. A path takes 0.4 KB as program, 1.3 KB as dataflow."""
_PATHS_PER_ROW = 5
"""The number of paths that take as much memory as a row of another table."""


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


def n_paths(settings: Any, overlay: Overlay) -> int:  # noqa: ANN401
    """Returns the number of paths of up to δ+1 hops, which the brokers store."""
    n_nodes = len(overlay.names)
    return n_nodes + sum(int(n) for n in islice(overlay.n_walks(np.ones(n_nodes)), settings.delta + 1))


def problems(settings: Any, overlay: Overlay, workload: Workload, faults: Faults) -> Iterator[Problem]:  # noqa: ANN401
    """Yields a problem if the paths of up to δ+1 hops in the overlay are more than `_MAX_PATHS`."""
    found = n_paths(settings, overlay)
    if found > _MAX_PATHS:
        most = int(np.bincount(np.concatenate(overlay.directed_links)).max(initial=0)) // 2
        message = (
            f"with δ = {settings.delta} each broker stores the paths to all nodes within {settings.delta + 1} hops; "
            f"the overlay has {found:,} such paths, allowed: {_MAX_PATHS:,}; reduce δ, or the degree of the brokers, "
            f"which is up to {most:,}"
        )
        yield Problem(("protocol", "delta"), message)


_SQL = sql_files("pipelines.protocols.delta.audits")
BOUND = f"{_SQL['bound']}\nunion all\n{SLOW_CRASHING_RUN}"
"""The runs in which more than δ nodes are down or recovering at once, or nodes crash and messages are slow.

Only runs with crashes depend on latencies: a failure detector reports a crash after a fixed delay, and the last
messages of the node must arrive before the report (rule R21).
"""


def tree_paths(evidence: Evidence) -> DataFrame:
    """Returns the paths between members of the overlay, with the columns of `pipelines.engines.paths.delta_paths`.

    The paths have up to δ+1 hops, for the largest δ of all runs. They are computed in Python, because not every engine
    has recursive SQL.
    """
    (reach,) = evidence.sql("select coalesce(max(delta), 0) + 1 from member").collect()[0]
    ends = "join member s on s.run_id = l.run_id and s.node_id = l.src join member d on d.run_id = l.run_id"
    link = evidence.sql(f"select l.run_id, l.src, l.dst from link l {ends} and d.node_id = l.dst")  # noqa: S608 - constant
    return evidence.paths(link, reach)


_READ = (
    "path", "judged_path", "rejoin", "detached", "unreachable", "time_limit", "due_subscription", "near", "entry",
    "judged_entry", "broken_view", "broken_entry",
)  # fmt: skip
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
    audits=sql_audits("pipelines.protocols.delta.audits"),
    audit_relations={
        **{name: _SQL[name] for name in ("member", "judged")},
        "tree_path": tree_paths,
        **{name: _SQL[name] for name in _READ},
    },
    bound=BOUND,
    assumes=frozenset({"no_loss", "no_duplicates", "order"}),
    shown=[DerivedTable("processing", ProcessingRow, "processing_list", processing_rows)],
    waits={"call": CALL_WAITS},
    keeps_source_order=True,
    check=problems,
    more_rows=lambda settings, overlay: n_paths(settings, overlay) // _PATHS_PER_ROW,
    starts_by_joins=True,
    needs_tree=True,
    confirms=True,
    steps="pipelines.protocols.delta.dataflow",
    draws=False,
    variants=tuple({"delta": delta} for delta in (1, 2, 3)),
    application=("PUB",),
    acknowledgement=("CONF",),
    recovery=("PAR_TOP", "PAR_SUB", "REJOIN", "DETECT", "CON_REQUEST", "SYN_REQUEST", "STATUS"),
    views="pipelines.protocols.delta.views",
)
