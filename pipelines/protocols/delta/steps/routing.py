"""Routing information: SUBS_SET_N and TOP_N, and how finished messages change them (4.6, 4.7)."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.rows import NODE
from pipelines.protocols.delta.tables import PATH, ROUTING_ENTRY, TOPOLOGY

_ENTRY = ROUTING_ENTRY.columns
Keep = Callable[[str, DataFrame], DataFrame]


def added_entries(finished: DataFrame, path: DataFrame) -> DataFrame:
    """update_routing_information^SUB: entry ⟨id, from⟩ with P(N, from), and its ``trigger``.

    What was accepted as Guided says itself how far ``from`` is; N may not see it yet (``responsible`` is null then).
    """
    added = finished.where("kind = 'SUB'").select(
        *NODE, "subscription_id", "origin", "trigger", "origin_distance", "origin_hop"
    )
    known = path.selectExpr(
        *NODE, "target as origin", "distance as seen", "coalesce(get(path, 1), node_id) as hop", "responsible"
    )
    return (
        added.hint("shuffle_hash")
        .join(known, [*NODE, "origin"], "left")
        .selectExpr(
            *NODE, "subscription_id", "origin", "coalesce(origin_distance, seen) as distance",
            "coalesce(origin_hop, hop) as first_hop", "responsible", "trigger",
        )
    )  # fmt: skip


def unknown_entries(added: DataFrame, routing_entry: DataFrame, tombstone: DataFrame) -> DataFrame:
    """Returns new entries without those that the node has, or knows to have ended: PAR_SUB may precede the SUB.

    Args:
        added: Rows of `added_entries`.
        routing_entry: Relation ``routing_entry``.
        tombstone: Relation ``tombstone``.
    """
    known = routing_entry.select(*NODE, "subscription_id").unionByName(tombstone)
    return added.join(known, [*NODE, "subscription_id"], "left_anti")


def removed_entries(finished: DataFrame) -> DataFrame:
    """update_routing_information^UNSUB: entries that go: ``run_id, node_id, subscription_id, removed_trigger``."""
    return finished.where("kind = 'UNSUB'").selectExpr(*NODE, "subscription_id", "trigger as removed_trigger")


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
    """Returns TOP_N with links added or unmarked: a link that is there unmarked stays so."""
    for link in links:
        topology = topology.unionByName(link)
    return topology.groupBy(*NODE, "a", "b").agg(F.expr("bool_and(is_marked) as is_marked")).select(TOPOLOGY.columns)


def unknown_links(told: DataFrame, topology: DataFrame) -> DataFrame:
    """Returns the told links that `merge_links` would change TOP_N by.

    Args:
        told: Rows of relation ``topology``.
        topology: The relation.
    """
    known = topology.withColumnRenamed("is_marked", "was_marked")
    return (
        told.join(known.hint("shuffle_hash"), [*NODE, "a", "b"], "left")
        .where("was_marked is null or (was_marked and not is_marked)")
        .select(TOPOLOGY.columns)
    )


def view_paths(topology: DataFrame, radius: int, peer: DataFrame | None, keep: Keep) -> DataFrame:
    """Returns P(N, X) for every node X of the views that is given: marked links count (rules R7 and R17).

    Args:
        topology: Relation ``topology``, of the nodes whose paths are wanted.
        radius: The largest δ+1 of the runs; no view reaches farther.
        peer: Relation ``peer``; None where no node is suspected.
        keep: Materialises the paths of one length, from which the longer ones come.

    Returns:
        Rows of relation ``path``, the node itself included.
    """
    ends = topology.selectExpr(*NODE, "a as here", "b as there").unionByName(
        topology.selectExpr(*NODE, "b as here", "a as there")
    )
    reached = topology.select(NODE).distinct().selectExpr(
        *NODE, "node_id as target", "0 as distance", "array(node_id) as path", "node_id as responsible"
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
                "there as responsible" if hop == 1 else "responsible",
            )
        )
        reached = keep("reached", reached)
        paths = paths.unionByName(reached)
    return paths if peer is None else responsible_peers(paths, peer)


def responsible_peers(path: DataFrame, peer: DataFrame) -> DataFrame:
    """Returns paths with ``responsible`` anew: the closest node on the way that N is connected to (line 15)."""
    return (
        path.join(peer_lists(peer).hint("shuffle_hash"), NODE, "left")
        .selectExpr(
            *NODE,
            "target",
            "distance",
            "path",
            f"case when distance = 0 then node_id else {CLOSEST} end as responsible",
        )
        .select(PATH.columns)
    )


_BEHIND = "slice(path, 2, 100)"
CLOSEST = f"""case when failed is null or not array_contains(failed, get(path, 1)) then get(path, 1)
  else get(array_except({_BEHIND}, array_except({_BEHIND}, opened)), 0) end"""
"""SQL for the closest node of a path that N is connected to, null for none; neighbours are, unless they failed."""
NEAREST_LEFT = f"get(array_except({_BEHIND}, failed), 0)"
"""SQL for the closest node of a path that N does not suspect, whether it is connected to it or not."""


def peer_lists(peer: DataFrame) -> DataFrame:
    """Returns the nodes that N suspects, and those it is connected to: ``run_id, node_id, failed, opened``."""
    failed = "array_sort(collect_list(case when status = 'FAILED' then peer end)) as failed"
    opened = "array_sort(collect_list(case when status <> 'FAILED' then peer end)) as opened"
    return peer.groupBy(NODE).agg(F.expr(failed), F.expr(opened))


def next_paths(
    path: DataFrame, topology: DataFrame, changed: DataFrame, radius: int, peer: DataFrame | None, keep: Keep
) -> DataFrame:
    """Returns relation ``path`` with the views of changed nodes computed anew.

    Args:
        path: Relation ``path`` before.
        topology: TOP_N after the change.
        changed: ``run_id, node_id`` of the nodes whose links or failed peers changed, with repetition.
        radius: The largest δ+1 of the runs.
        peer: As in `view_paths`.
        keep: As in `view_paths`.
    """
    node = changed.select(NODE).distinct()
    anew = view_paths(topology.join(node.hint("shuffle_hash"), NODE, "left_semi"), radius, peer, keep)
    return path.join(node.hint("shuffle_hash"), NODE, "left_anti").unionByName(anew)


def other_ways(path: DataFrame, changed: DataFrame, peer: DataFrame) -> DataFrame:
    """Returns relation ``path`` with ``responsible`` anew at changed nodes whose links are the same as before.

    Args:
        path: Relation ``path`` before.
        changed: ``run_id, node_id``, once each.
        peer: Relation ``peer``.
    """
    node = changed.hint("shuffle_hash")
    anew = responsible_peers(path.join(node, NODE, "left_semi"), peer)
    return path.join(node, NODE, "left_anti").unionByName(anew)


def rerouted_entries(routing_entry: DataFrame, path: DataFrame, changed: DataFrame) -> DataFrame:
    """Returns SUBS_SET_N with the ways to ``from`` as the changed nodes' paths are now."""
    node = changed.select(NODE).distinct().hint("shuffle_hash")
    way = path.selectExpr(
        *NODE, "target as origin", "distance as seen", "coalesce(get(path, 1), node_id) as hop", "responsible as now"
    )
    anew = (
        routing_entry.join(node, NODE, "left_semi")
        .join(way, [*NODE, "origin"], "left")
        .selectExpr(
            *NODE, "subscription_id", "origin", "coalesce(seen, distance) as distance",
            "coalesce(hop, first_hop) as first_hop", "now as responsible",
        )
    )  # fmt: skip
    return routing_entry.join(node, NODE, "left_anti").unionByName(anew)
