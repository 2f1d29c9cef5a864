"""Routing information: SUBS_SET_N and TOP_N, and how finished messages change them (4.6, 4.7)."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.protocols.delta.forward import NODE
from pipelines.protocols.delta.tables import SUBSCRIPTION, TOPOLOGY

_ENTRY = SUBSCRIPTION.columns


def added_entries(finished: DataFrame, path: DataFrame) -> DataFrame:
    """update_routing_information^SUB: entry ⟨id, from⟩ with the first hop of P(N, from), and its ``trigger``."""
    added = finished.where("kind = 'SUB'").select(*NODE, "subscription_id", "origin", "trigger")
    hop = path.selectExpr(*NODE, "target as origin", "via")
    return hop.join(added.hint("shuffle_hash"), [*NODE, "origin"]).select(*_ENTRY, "trigger")


def removed_entries(finished: DataFrame) -> DataFrame:
    """update_routing_information^UNSUB: the entry goes; gives ``run_id, node_id, subscription_id, gone``."""
    return finished.where("kind = 'UNSUB'").selectExpr(*NODE, "subscription_id", "trigger as gone")


def marked_links(first: DataFrame) -> DataFrame:
    """RCPT^J: a node that gets J adds its link, marked."""
    return first.where("kind = 'J'").selectExpr(
        *NODE, "least(source, join_point) as a", "greatest(source, join_point) as b", "true as is_marked"
    )


def unmarked_links(finished: DataFrame) -> DataFrame:
    """update_routing_information^J: the mark of the link goes."""
    return finished.where("kind = 'J'").selectExpr(
        *NODE, "least(source, join_point) as a", "greatest(source, join_point) as b", "false as is_marked"
    )


def merge_links(topology: DataFrame, *links: DataFrame) -> DataFrame:
    """Gives TOP_N with links added or unmarked: a link that is there unmarked stays so."""
    for link in links:
        topology = topology.unionByName(link)
    return topology.groupBy(*NODE, "a", "b").agg(F.expr("bool_and(is_marked) as is_marked")).select(TOPOLOGY.columns)


def view_paths(topology: DataFrame, radius: int) -> DataFrame:
    """Gives P(N, X) for every node X of the views that is given: marked links count (settled rules 7 and 17).

    Args:
        topology: Relation ``topology``, of the nodes whose paths are wanted.
        radius: The largest δ+1 of the runs; no view reaches farther.

    Returns:
        Rows of relation ``path``, the node itself included.
    """
    ends = topology.selectExpr(*NODE, "a as here", "b as there").unionByName(
        topology.selectExpr(*NODE, "b as here", "a as there")
    )
    reached = topology.select(NODE).distinct().selectExpr(
        *NODE, "node_id as target", "0 as distance", "array(node_id) as path", "node_id as via"
    )  # fmt: skip
    paths = reached
    for hop in range(1, radius + 1):
        reached = (
            reached.join(ends.withColumnRenamed("here", "target"), [*NODE, "target"])
            .where("not array_contains(path, there)")
            .selectExpr(
                *NODE,
                "there as target",
                f"{hop} as distance",
                "concat(path, array(there)) as path",
                "there as via" if hop == 1 else "via",
            )
        )
        paths = paths.unionByName(reached)
    return paths


def next_paths(path: DataFrame, topology: DataFrame, changed: DataFrame, radius: int) -> DataFrame:
    """Gives relation ``path`` with the views of changed nodes computed anew.

    Args:
        path: Relation ``path`` before.
        topology: TOP_N after the change.
        changed: ``run_id, node_id`` of the nodes whose links changed, with repetition.
        radius: The largest δ+1 of the runs.
    """
    node = changed.select(NODE).distinct()
    anew = view_paths(topology.join(node.hint("shuffle_hash"), NODE, "left_semi"), radius)
    return path.join(node.hint("shuffle_hash"), NODE, "left_anti").unionByName(anew)
