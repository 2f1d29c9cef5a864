"""Reliable forwarding (Algorithm 1): first copies, recipient sets Γ, Out, and the copies that go on.

A *copy* is one row a multicast message (J, SUB, UNSUB, PUB) that reaches a node, or is issued there:
``run_id, node_id, source, source_seq, kind, trigger, sender, round, hops, issued_round, subscription_id, origin,
join_point, matches, guide, origin_path, visited``; ``sender`` is null at the source. What routes by the sender also
has ``sender_hop``, the neighbour of N that lies towards it. A *recipient* row is a member of Γ_N^m with the member of
Out_N^m that is responsible for it: KEY, ``recipient, responsible, path``; ``responsible`` is null where N suspects
every node on the way, ``path`` is null where N's own view has it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.routing_entries import EntryChanges, seen_entries
from pipelines.contract.rows import KEY, NODE, called, deliveries, received
from pipelines.protocols.delta.tables import GUIDE, MULTICAST, PAYLOAD, PROCESSING

_CARRIED = ["issued_round", "subscription_id", "origin", "join_point", "matches", "origin_path", "visited"]
_FIELDS = ["hops", *_CARRIED, "guide"]
SENT_FIELDS = ("hops", *_CARRIED)
_PAIR = "array(named_struct('node', node_id, 'msg_id', msg_id))"
PASSED = f"""case when msg_id is null then null when visited is null then {_PAIR} else concat(visited, {_PAIR}) end
  as visited"""
"""SQL for m.visited with N's own pair; `address.visited_lists` cuts it."""
"""What a copy in the outbox says beside its head."""
BODY = ["kind", "round", "trigger", "sender", "hops", *_CARRIED, "msg_id"]
"""What ProcessingList keeps of a message, beside its KEY."""
COPY = [*KEY, "kind", "trigger", "sender", "round", *_FIELDS]
NOT_GUIDED = [
    "cast(null as array<bigint>) as origin_path",
    "cast(null as array<struct<node: bigint, msg_id: bigint>>) as visited",
    f"cast(null as {GUIDE}) as guide",
]
"""SQL for what a copy lacks that no other node sent."""
SEEN = "cast(null as array<bigint>) as path"
"""SQL for ``path`` of a recipient row where N's own view has it."""
UNCONFIRMED = "false as is_confirmed"
"""SQL for ``is_confirmed`` of a recipient row of which nothing is done yet."""
_CALLS = {"publish": "PUB", "subscribe": "SUB", "unsubscribe": "UNSUB"}


def received_copies(inbox: DataFrame) -> DataFrame:
    """Returns the multicast messages among an inbox as copies."""
    return received(inbox.where(f"kind in {MULTICAST}"), *_FIELDS)


def issued_copies(call: DataFrame) -> DataFrame:
    """Returns publish, subscribe and unsubscribe calls as the copies that their nodes handle first."""
    own = {"hops": "0", "issued_round": "round", "subscription_id": "subscription_id", "matches": "matches"}
    origin = "case when kind <> 'publish' then node_id end"
    return called(call, _CALLS, PAYLOAD, **{**dict.fromkeys(_FIELDS, "null"), **own, "origin": origin})


def sender_hops(copy: DataFrame, path: DataFrame | None) -> DataFrame:
    """Adds ``sender_hop``: the sender itself where it is a neighbour, as everywhere without bypasses (path None)."""
    if path is None:
        return copy.selectExpr("*", "sender as sender_hop")
    hop = path.selectExpr(*NODE, "target as sender", "get(path, 1) as known_hop")
    hops = "coalesce(known_hop, sender) as sender_hop"
    return copy.join(hop, [*NODE, "sender"], "left").selectExpr("*", hops).drop("known_hop")


def later_copies(copy: DataFrame, first: DataFrame) -> DataFrame:
    """Returns the duplicates: the copies that are not first ones."""
    return copy.join(first.select("run_id", "node_id", "trigger"), ["run_id", "node_id", "trigger"], "left_anti")


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


def processing_rows(first: DataFrame, recipient: DataFrame) -> DataFrame:
    """Returns the new rows of ProcessingList_N: one for each recipient other than N itself (lines 13 to 15).

    Args:
        first: First copies; without ``matches`` where no publication may have to be sent again.
        recipient: Their recipient rows, with ``is_confirmed``: true for those that have nothing to do.
    """
    body = first.select(*KEY, *BODY)
    return (
        recipient.where("recipient <> node_id")
        .join(body.hint("shuffle_hash"), KEY)
        .selectExpr(*KEY, *BODY, "recipient", "path", "responsible", "is_confirmed", "false as is_reopened")
        .select(PROCESSING.columns)
    )


def copies_to_send(first: DataFrame, recipient: DataFrame) -> DataFrame:
    """Returns one outgoing copy for each member of Out_N^m other than N (lines 16 to 18), as rows of the outbox."""
    out = recipient.where("responsible <> node_id").select(*KEY, "responsible").distinct()
    return first.join(out.hint("shuffle_hash"), KEY).selectExpr(
        "run_id", "trigger", "cast(2 as bigint) as rank", "kind", "node_id as src", "responsible as dst",
        "round as sent_round",
        "source", "source_seq", "hops + 1 as hops", *(PASSED if name == "visited" else name for name in _CARRIED),
    )  # fmt: skip


def matched_deliveries(matched: DataFrame) -> DataFrame:
    """A PUB whose first copy reaches a matching subscriber is delivered at once (line 26; rule R12)."""
    return deliveries(matched.where("recipient = node_id"))
