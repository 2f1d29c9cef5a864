"""Routing information and recipient sets: SUBS_SET_N, TOP_N, Γ_N^m (Algorithm 1, lines 12 to 15).

Sections 4.3, 4.6 to 4.8, and 6.1 of the report.

A *recipient* row has columns `KEY`, ``recipient, responsible, path``. ``recipient`` is a recipient (in Γ_N^m) of
message m at node N. ``responsible`` is the next hop on the path to the recipient (member of Out_N^m), or null if N
suspects every node on the path. Column ``path`` is set only for Guided messages.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.rows import KEY, NODE, EntryChanges, seen_entries
from pipelines.protocols.delta.tables import PATH, TOPOLOGY

Keep = Callable[[str, DataFrame], DataFrame]


def added_entries(finished: DataFrame, path: DataFrame) -> DataFrame:
    """update_routing_information^SUB: returns the entries ⟨id, from⟩ of finished SUBs with the path to ``from``.

    Column ``trigger`` is the id of the message that ended the SUB. If ``from`` is outside of the node's view, column
    ``responsible`` is null, and distance and first hop come from the Guided SUB.
    """
    added = finished.where("kind = 'SUB'").selectExpr(
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
    """Returns the rows of `added` for subscriptions of which the node has neither an entry nor a tombstone.

    The node may have an entry already, because PAR_SUB may arrive before the SUB.
    """
    known = routing_entry.selectExpr(*NODE, "subscription_id").unionByName(tombstone)
    return added.join(known, [*NODE, "subscription_id"], "left_anti")


def removed_entries(finished: DataFrame) -> DataFrame:
    """update_routing_information^UNSUB: returns the entries that UNSUBs end, with ``removed_trigger`` of the UNSUB."""
    return finished.where("kind = 'UNSUB'").selectExpr(*NODE, "subscription_id", "trigger as removed_trigger")


def joined_links(message: DataFrame, *, is_marked: bool) -> DataFrame:
    """Returns the link between source and join point for each J: RCPT^J marks it, and the end of J removes the mark."""
    ends = "least(source, join_point) as a", "greatest(source, join_point) as b"
    return message.where("kind = 'J'").selectExpr(*NODE, *ends, f"{'true' if is_marked else 'false'} as is_marked")


def merge_links(topology: DataFrame, *links: DataFrame) -> DataFrame:
    """Returns relation `topology` with `links` added. A link keeps its mark only if all its rows have it (rule R7)."""
    for link in links:
        topology = topology.unionByName(link)
    return (
        topology.groupBy(*NODE, "a", "b").agg(F.expr("bool_and(is_marked) as is_marked")).selectExpr(*TOPOLOGY.columns)
    )


def unknown_links(told: DataFrame, topology: DataFrame) -> DataFrame:
    """Returns the links in `told` that are not in the receiver's view, or are marked there and unmarked in `told`."""
    known = topology.withColumnRenamed("is_marked", "was_marked")
    return (
        told.join(known.hint("shuffle_hash"), [*NODE, "a", "b"], "left")
        .where("was_marked is null or (was_marked and not is_marked)")
        .selectExpr(*TOPOLOGY.columns)
    )


def view_paths(topology: DataFrame, radius: int, peer: DataFrame | None, keep: Keep) -> DataFrame:
    """Returns the path from each node to itself and to each node of its view, as rows of relation ``path``.

    Paths may contain marked links (rules R7 and R17). `radius` is the largest δ+1 of the runs. If `peer` is ``None``,
    no node is suspected. `keep` materialises the paths of each length before the paths of the next length are computed.
    """
    ends = topology.selectExpr(*NODE, "a as here", "b as there").unionByName(
        topology.selectExpr(*NODE, "b as here", "a as there")
    )
    paths = reached = own_paths(topology.selectExpr(*NODE).distinct())
    for hop in range(1, radius + 1):
        responsible = "there as responsible" if hop == 1 else "responsible"
        reached = (
            reached.join(ends.withColumnRenamed("here", "target"), [*NODE, "target"])
            .where("not array_contains(path, there)")
            .selectExpr(
                *NODE, "there as target", f"{hop} as distance", "concat(path, array(there)) as path", responsible
            )
        )  # fmt: skip
        reached = keep("reached", reached)
        paths = paths.unionByName(reached)
    return paths if peer is None else responsible_peers(paths, peer)


def own_paths(node: DataFrame) -> DataFrame:
    """Returns the path from each node to itself, as rows of relation ``path``."""
    return node.selectExpr(
        *NODE, "node_id as target", "0 as distance", "array(node_id) as path", "node_id as responsible"
    )  # fmt: skip


def responsible_peers(path: DataFrame, peer: DataFrame) -> DataFrame:
    """Recomputes ``responsible``: the closest node on a path that the node has a connection to (Alg. 1, line 15)."""
    responsible = f"case when distance = 0 then node_id else {CLOSEST} end as responsible"
    of_peer = path.join(peer_lists(peer).hint("shuffle_hash"), NODE, "left")
    return of_peer.selectExpr(*NODE, "target", "distance", "path", responsible).selectExpr(*PATH.columns)


_BEHIND = "slice(path, 2, 100)"
CLOSEST = f"""case when failed is null or not array_contains(failed, get(path, 1)) then get(path, 1)
  else get(array_except({_BEHIND}, array_except({_BEHIND}, opened)), 0) end"""
"""SQL for the first node on a path that the node has a connection to: a live neighbour or an open peer."""
NEAREST_LIVE = f"get(array_except({_BEHIND}, failed), 0)"
"""SQL for the first node on a path that ``node_id`` does not suspect, with or without a connection to that node."""


def peer_lists(peer: DataFrame) -> DataFrame:
    """Returns the suspected and the connected peers of each node as arrays: ``run_id, node_id, failed, opened``."""
    failed = "array_sort(collect_list(case when status = 'FAILED' then peer end)) as failed"
    opened = "array_sort(collect_list(case when status <> 'FAILED' then peer end)) as opened"
    return peer.groupBy(NODE).agg(F.expr(failed), F.expr(opened))


def next_paths(
    path: DataFrame, topology: DataFrame, changed: DataFrame, radius: int, peer: DataFrame | None, keep: Keep
) -> DataFrame:
    """Returns relation ``path`` with new paths of the nodes in `changed`, whose links or failed peers have changed."""
    node = changed.selectExpr(*NODE).distinct()
    recomputed = view_paths(topology.join(node.hint("shuffle_hash"), NODE, "left_semi"), radius, peer, keep)
    return path.join(node.hint("shuffle_hash"), NODE, "left_anti").unionByName(recomputed)


def next_responsible(path: DataFrame, changed: DataFrame, peer: DataFrame) -> DataFrame:
    """Returns relation ``path`` with ``responsible`` recomputed at the nodes `changed`, whose links are unchanged."""
    node = changed.hint("shuffle_hash")
    recomputed = responsible_peers(path.join(node, NODE, "left_semi"), peer)
    return path.join(node, NODE, "left_anti").unionByName(recomputed)


def rerouted_entries(routing_entry: DataFrame, path: DataFrame, changed: DataFrame) -> DataFrame:
    """Returns the routing entries with distance, first hop and responsible node from `path` at the nodes `changed`."""
    node = changed.selectExpr(*NODE).distinct().hint("shuffle_hash")
    way = path.selectExpr(
        *NODE, "target as origin", "distance as seen", "coalesce(get(path, 1), node_id) as hop", "responsible as now"
    )
    recomputed = (
        routing_entry.join(node, NODE, "left_semi")
        .join(way, [*NODE, "origin"], "left")
        .selectExpr(
            *NODE, "subscription_id", "origin", "coalesce(seen, distance) as distance",
            "coalesce(hop, first_hop) as first_hop", "now as responsible",
        )
    )  # fmt: skip
    return routing_entry.join(node, NODE, "left_anti").unionByName(recomputed)


SEEN = "cast(null as array<bigint>) as path"
"""SQL for column ``path`` of a recipient row: null, which means that relation ``path`` has the path."""
UNCONFIRMED = "false as is_confirmed"
"""SQL for column ``is_confirmed`` of a new recipient row."""


def publication_recipients(
    first: DataFrame, routing_entry: DataFrame, changes: EntryChanges | None = None
) -> DataFrame:  # fmt: skip
    """Returns the recipients (Γ) of publications: the origins of matching entries (section 4.8).

    Entries whose first hop is the neighbour toward the sender are excluded (rule R2). The recipient rows have ``round,
    hops, issued_round`` of the received copy. The node itself may be a recipient.
    """
    matched = first.where("kind = 'PUB'").selectExpr(
        *KEY, "trigger", "sender_hop", "round", "hops", "issued_round", "explode(matches) as subscription_id"
    )
    return (
        seen_entries(matched, routing_entry, changes)
        .where("sender_hop is null or first_hop <> sender_hop")
        .selectExpr(*KEY, "origin as recipient", "responsible", "round", "hops", "issued_round")
        .distinct()
    )


def subscription_recipients(first: DataFrame, path: DataFrame) -> DataFrame:
    """Returns the recipients (Γ) of SUB and UNSUB: the view but the nodes toward the sender (section 4.7, rule R2)."""
    message = first.where("kind in ('SUB', 'UNSUB')").selectExpr(*KEY, "sender_hop")
    return (
        path.where("distance > 0")
        .join(message.hint("shuffle_hash"), NODE)
        .where("sender_hop is null or get(path, 1) <> sender_hop")
        .selectExpr(*KEY, "target as recipient", "responsible", SEEN)
    )


def join_recipients(first: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """Returns the recipients (Γ) of J at node N: the nodes X with d(X, M) ≤ δ and N on the path from X to join point M.

    At the joining node these are all nodes of the view (section 4.6). The recipients of REJOIN follow from the same
    rule, with the recovered node in place of M and δ+1 in place of δ (Alg. 5, line 19).
    """
    message = first.where("kind in ('J', 'REJOIN')").selectExpr(*KEY, "kind", "sender_hop", "join_point")
    to_join_point = path.selectExpr(*NODE, "target as join_point", "distance as to_join_point")
    scoped = to_join_point.join(message.hint("shuffle_hash"), [*NODE, "join_point"]).join(
        setting.selectExpr("run_id", "delta"), "run_id"
    )
    in_scope = "distance + to_join_point <= case when kind = 'J' then delta else delta + 1 end"
    return (
        path.where("distance > 0")
        .join(scoped.hint("shuffle_hash"), NODE)
        .where(f"sender_hop is null or (get(path, 1) <> sender_hop and {in_scope})")
        .selectExpr(*KEY, "target as recipient", "responsible", SEEN)
    )


def in_view(message: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """Returns the recipients (Γ) of J, REJOIN, SUB and UNSUB as recipient rows. Column ``way`` is the whole path."""
    reach = subscription_recipients(message, path).unionByName(join_recipients(message, path, setting))
    way = path.selectExpr(*NODE, "target as recipient", "path as way")
    return reach.join(way, [*NODE, "recipient"])


def new_members(reach: DataFrame, processing: DataFrame) -> DataFrame:
    """Returns the rows of `reach` whose recipient is not in `processing`, and not behind a confirmed recipient."""
    done = processing.where("is_confirmed").groupBy(KEY).agg(F.expr("array_sort(collect_list(recipient)) as done"))
    return (
        reach.join(processing.selectExpr(*KEY, "recipient"), [*KEY, "recipient"], "left_anti")
        .join(done, KEY, "left")
        .where("done is null or not arrays_overlap(way, done)")
        .drop("done")
    )


def guided_recipients(first: DataFrame, own: DataFrame, peer: DataFrame) -> DataFrame:
    """Returns the recipients (Γ) of Guided messages at RECOVERING nodes: the ends of the paths in g.to (section 6.1).

    Column ``is_confirmed`` is true if the path in g.to has its flag ``is_done`` set. The node itself is a recipient if
    its one-node path is in g.to. If the message is a publication, a subscription of the node must also match it (rule
    R32).
    """
    way = first.selectExpr(*KEY, "kind", "matches", "explode(guide) as step").selectExpr(
        *KEY, "kind", "matches", "step.path as path", "step.is_done as is_done"
    )
    end = way.join(peer_lists(peer), NODE, "left").selectExpr(
        *KEY, "kind", "matches", "element_at(path, -1) as recipient", "path", "is_done as is_confirmed",
        f"case when size(path) = 1 then node_id when not is_done then {CLOSEST} end as responsible",
    )  # fmt: skip
    row = [*KEY, "recipient", "responsible", "path", "is_confirmed"]
    wanted = end.where("recipient = node_id and kind = 'PUB'").selectExpr(*row, "explode(matches) as subscription_id")
    here = wanted.join(own, [*NODE, "subscription_id"], "left_semi").selectExpr(*row).distinct()
    return end.where("recipient <> node_id or kind <> 'PUB'").selectExpr(*row).unionByName(here)
