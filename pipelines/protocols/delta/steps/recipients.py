"""Recipient sets Γ_N^m (Algorithm 1, lines 12 to 15; 4.6 to 4.8; of Guided messages 6.1).

A *recipient* row is a member of Γ_N^m with the member of Out_N^m that is responsible for it: KEY, ``recipient,
responsible, path``; ``responsible`` is null where N suspects every node on the way, ``path`` is null where N's own
view has it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.rows import KEY, NODE, EntryChanges, seen_entries
from pipelines.protocols.delta.steps.routing import CLOSEST, peer_lists

SEEN = "cast(null as array<bigint>) as path"
"""SQL for ``path`` of a recipient row where N's own view has it."""
UNCONFIRMED = "false as is_confirmed"
"""SQL for ``is_confirmed`` of a recipient row of which nothing is done yet."""


def publication_recipients(
    first: DataFrame, routing_entry: DataFrame, changes: EntryChanges | None = None
) -> DataFrame:  # fmt: skip
    """Γ of PUB: the origins of matching entries of SUBS_SET_N, none of them back towards the sender (4.8).

    Args:
        first: First copies.
        routing_entry: Relation ``routing_entry`` before the round.
        changes: Which entries come and go in the round; None for none.

    Returns:
        Recipient rows, N itself among them, with ``round, hops, issued_round`` of the copy.
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
    """Γ of SUB and UNSUB: every other node of the view that is not behind the sender (4.7)."""
    message = first.where("kind in ('SUB', 'UNSUB')").select(*KEY, "sender_hop")
    return (
        path.where("distance > 0")
        .join(message.hint("shuffle_hash"), NODE)
        .where("sender_hop is null or get(path, 1) <> sender_hop")
        .selectExpr(*KEY, "target as recipient", "responsible", SEEN)
    )


def join_recipients(first: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """Γ of J: the nodes X of the view with d(X, M) ≤ δ and N on P(X, M); from the joining node all go by M (4.6).

    Γ of REJOIN is the same with the recovered node R for M and δ+1 for δ (Alg. 5, line 19).
    """
    message = first.where("kind in ('J', 'REJOIN')").select(*KEY, "kind", "sender_hop", "join_point")
    to_join_point = path.selectExpr(*NODE, "target as join_point", "distance as to_join_point")
    scoped = to_join_point.join(message.hint("shuffle_hash"), [*NODE, "join_point"]).join(
        setting.select("run_id", "delta").hint("shuffle_hash"), "run_id"
    )
    in_scope = "distance + to_join_point <= case when kind = 'J' then delta else delta + 1 end"
    return (
        path.where("distance > 0")
        .join(scoped.hint("shuffle_hash"), NODE)
        .where(f"sender_hop is null or (get(path, 1) <> sender_hop and {in_scope})")
        .selectExpr(*KEY, "target as recipient", "responsible", SEEN)
    )


def in_view(message: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """Returns Γ of J, REJOIN, SUB and UNSUB by the node's own view: recipient rows with ``way``: P(N, recipient).

    Args:
        message: Copies with ``sender_hop``.
        path: Relation ``path``.
        setting: One row a run with ``delta``.
    """
    reach = subscription_recipients(message, path).unionByName(join_recipients(message, path, setting))
    way = path.selectExpr(*NODE, "target as recipient", "path as way")
    return reach.join(way, [*NODE, "recipient"])


def new_members(reach: DataFrame, processing: DataFrame) -> DataFrame:
    """Returns the recipients that have come into view: not in Γ yet, nor behind one that has confirmed.

    Args:
        reach: Recipient rows of messages in ProcessingList, with ``way``: P(N, recipient).
        processing: Relation ``processing``.
    """
    done = processing.where("is_confirmed").groupBy(KEY).agg(F.expr("array_sort(collect_list(recipient)) as done"))
    return (
        reach.join(processing.select(*KEY, "recipient"), [*KEY, "recipient"], "left_anti")
        .join(done, KEY, "left")
        .where("done is null or not arrays_overlap(way, done)")
        .drop("done")
    )


def guided_recipients(first: DataFrame, own: DataFrame, peer: DataFrame) -> DataFrame:
    """Γ of a Guided message at a RECOVERING node: the ends of the paths in g.to (6.1, rule R32).

    Args:
        first: First copies at RECOVERING nodes.
        own: Relation ``own_subscription``.
        peer: Relation ``peer``.

    Returns:
        Recipient rows with ``is_confirmed``: what is done behind the node counts as confirmed. The node itself is among
        them where its one-node path is in g.to, for a publication only if a subscription of its own matches.
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
    here = wanted.join(own, [*NODE, "subscription_id"], "left_semi").select(row).distinct()
    return end.where("recipient <> node_id or kind <> 'PUB'").select(row).unionByName(here)
