"""Which runs and nodes the audits of protocol ``delta`` judge, and the paths of the tree.

The last state of quiescent runs is judged. Nodes that have joined are *members*: they make the
tree, whether they are up or not, for a crash changes no view. Judged are the members that are OPERATIONAL at the end:
the others have no state, or not all of it yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import FOUND, IN_FLIGHT_RUN, Evidence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NODE = ["run_id", "node_id"]
NO_SOURCE = ("cast(null as bigint) as source", "cast(null as bigint) as source_seq")

_DELTA_OF_RUN = """select run_id, cast(get_json_object(parameters, "$['protocol.delta']") as int) as delta from run"""
QUIET_RUN = f"""
select r.run_id
from run r left join ({IN_FLIGHT_RUN}) busy on busy.run_id = r.run_id
where busy.run_id is null
"""  # noqa: S608 - built of constants
"""Runs with nothing in flight at the end."""

MEMBER = "select distinct run_id, node_id from node_status where status = 'VALID_JOINED'"
_AWAY = "select run_id, node_id from node_recovery where end_round is null"
_DOWN = """
select run_id, array_sort(collect_list(node_id)) as down
from node_recovery
where end_round is null and recovery_round is null
group by run_id
"""
"""The nodes that are down at the end."""

_CLOSEST = """case when distance = 0 then node_id when down is null then first_hop
  else get(array_except(slice(path, 2, 100), down), 0) end as responsible"""


def quiescent(evidence: Evidence) -> DataFrame:
    """Returns the runs that are judged: ``run_id``."""
    return evidence.sql(QUIET_RUN)


def members(evidence: Evidence) -> DataFrame:
    """Returns the nodes that have joined, in all runs: ``run_id, node_id, delta``."""
    return evidence.sql(MEMBER).join(evidence.sql(_DELTA_OF_RUN), "run_id").select(*NODE, "delta")


def judged(evidence: Evidence) -> DataFrame:
    """Returns the members that are OPERATIONAL at the end of a quiescent run: ``run_id, node_id, delta``."""
    return evidence.keep("judged", lambda: _find_judged(evidence))


def _find_judged(evidence: Evidence) -> DataFrame:
    return (
        members(evidence)
        .join(quiescent(evidence), "run_id")
        .join(evidence.sql(_AWAY).selectExpr(*NODE, "true as is_away"), NODE, "left")
        .where("is_away is null")
        .select(*NODE, "delta")
    )


def unreachable(evidence: Evidence) -> DataFrame:
    """Returns the nodes whose join blocks: their join points are down for good, or block themselves."""
    gone = evidence.table("node_recovery").where("recovery_round is null").select(NODE)
    outside = evidence.table("state_join").where("status <> 'VALID_JOINED'").select(NODE)
    no_point = gone.unionByName(outside).distinct().withColumnRenamed("node_id", "join_point")
    detached = evidence.table("state_join").where("status = 'DETACHED'").join(no_point, ["run_id", "join_point"])
    return detached.select(NODE).distinct()


def paths(evidence: Evidence) -> DataFrame:
    """Returns P(N, X) up to δ+1 hops between members, N itself included.

    Returns:
        ``run_id, node_id, target, distance, path, first_hop, responsible, delta``; ``responsible`` is the node of the
        path closest to N that is not down at the end; null if all are down.
    """
    return evidence.keep("paths", lambda: _find_paths(evidence))


def _find_paths(evidence: Evidence) -> DataFrame:
    member = members(evidence)
    link = evidence.table("link").select("run_id", "src", "dst")
    for end in ("src", "dst"):
        link = link.join(member.selectExpr("run_id", f"node_id as {end}"), ["run_id", end])
    reach = 1 + max(int(parameters["protocol.delta"]) for parameters in evidence.parameters)
    found = evidence.paths(link.select("run_id", "src", "dst"), reach).join(evidence.sql(_DELTA_OF_RUN), "run_id")
    columns = [*NODE, "target", "distance", "path", "first_hop", "delta"]
    own = member.selectExpr(
        *NODE, "node_id as target", "0 as distance", "array(node_id) as path", "node_id as first_hop", "delta"
    )
    others = found.where("distance > 0 and distance <= delta + 1").withColumnRenamed("responsible", "first_hop")
    return (
        own.unionByName(others.select(columns))
        .join(evidence.sql(_DOWN), "run_id", "left")
        .selectExpr(*columns, _CLOSEST)
    )


def judged_paths(evidence: Evidence) -> DataFrame:
    """Returns the rows of `paths` of the nodes that are judged."""
    return paths(evidence).join(judged(evidence).select(NODE), NODE, "left_semi")


def violating(evidence: Evidence, rows: DataFrame, detail: str, *ids: str) -> DataFrame:
    """Returns the rows of an audit; for each of the ids, columns of nodes, the detail may use ``<id>_name``."""
    name = evidence.table("node").select("run_id", "node_id", "name")
    for column in ids:
        rows = rows.join(name.selectExpr("run_id", f"node_id as {column}", "name"), ["run_id", column], "left")
        rows = rows.selectExpr("*", f"coalesce(name, cast({column} as string), 'nowhere') as {column}_name").drop(
            "name"
        )
    return rows.selectExpr(*NODE, "cast(null as bigint) as round", *NO_SOURCE, f"{detail} as detail").select(*FOUND)
