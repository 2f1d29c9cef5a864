"""Which nodes join, gather routing information, or accept nothing yet."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.rows import NODE
from pipelines.protocols.delta.work import Work


def joining_nodes(work: Work) -> DataFrame:
    """Returns the nodes whose join is under way: their join points have answered."""
    return work.now("join").where("status in ('ATTACHED', 'CONFIRMED')").select(NODE)


def synchronising(work: Work) -> DataFrame:
    """Returns the nodes that gather routing information: RECOVERING ones, and those whose join is under way."""
    recovering = work.now("status").where("status = 'RECOVERING'").select(NODE)
    if not work.round.facts["join"]["detached"]:
        return recovering
    return work.keep("synchronising", recovering.unionByName(joining_nodes(work)))


def blocked_nodes(work: Work) -> DataFrame:
    """Returns the nodes that accept neither calls nor join requests: ``run_id, node_id``."""
    joining = work.now("join").where("status <> 'VALID_JOINED'").select(NODE)
    if not work.is_recovering:
        return joining
    return joining.unionByName(work.now("status").where("status <> 'OPERATIONAL'").select(NODE))
