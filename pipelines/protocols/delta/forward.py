"""Reliable forwarding (Algorithm 1): first copies, recipient sets Γ, Out, and the copies that go on.

A *copy* is one row a multicast message (J, SUB, UNSUB, PUB) that reaches a node, or is issued there:
``run_id, node_id, source, source_seq, kind, trigger, sender, round, hops, issued_round, subscription_id, origin,
join_point, matches``; ``sender`` is null at the source. A *recipient* row is a member of Γ_N^m with the member of
Out_N^m that is responsible for it: KEY, ``recipient, via``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract import CALL_TRIGGER

KEY = ["run_id", "node_id", "source", "source_seq"]
NODE = ["run_id", "node_id"]
_FIELDS = ["hops", "issued_round", "subscription_id", "origin", "join_point", "matches"]
COPY = [*KEY, "kind", "trigger", "sender", "round", *_FIELDS]
_CALL_KIND = "case kind when 'publish' then 'PUB' when 'subscribe' then 'SUB' else 'UNSUB' end"


def received_copies(inbox: DataFrame) -> DataFrame:
    """Gives the multicast messages among an inbox as copies."""
    return inbox.where("kind in ('J', 'SUB', 'UNSUB', 'PUB')").selectExpr(
        "run_id", "dst as node_id", "source", "source_seq", "kind", "message_id as trigger", "src as sender",
        "due_round as round", *_FIELDS,
    )  # fmt: skip


def issued_copies(call: DataFrame) -> DataFrame:
    """Gives publish, subscribe and unsubscribe calls as the copies that their nodes handle first."""
    return call.where("kind <> 'join'").selectExpr(
        "run_id", "node_id", "node_id as source", "source_seq", f"{_CALL_KIND} as kind", f"{CALL_TRIGGER} as trigger",
        "cast(null as bigint) as sender", "round", "0 as hops", "round as issued_round", "subscription_id",
        "case when kind <> 'publish' then node_id end as origin", "cast(null as bigint) as join_point", "matches",
    )  # fmt: skip


def issued_calls(call: DataFrame) -> DataFrame:
    """Gives the calls that are issued as rows of ``call_event``."""
    return call.selectExpr("run_id", "node_id as source", "source_seq", "round", "'issued' as event")


def first_copies(copy: DataFrame, detector: DataFrame) -> DataFrame:
    """Drops what the node has handled before and, of several copies in a round, all but the first (lines 1 to 12).

    Args:
        copy: The round's copies.
        detector: Relation ``detector``, or increments of it.
    """
    known = (
        detector.join(copy.select(KEY).hint("shuffle_hash"), ["run_id", "node_id", "source"])
        .where("last_seq >= source_seq")
        .select(KEY)
    )
    order = "row_number() over (partition by run_id, node_id, source, source_seq order by trigger) as copy_rank"
    ranked = copy.selectExpr("*", order).where("copy_rank = 1").drop("copy_rank")
    return ranked.join(known.hint("shuffle_hash"), KEY, "left_anti")


def later_copies(copy: DataFrame, first: DataFrame) -> DataFrame:
    """Gives the duplicates: the copies that are not first ones."""
    return copy.join(first.select("run_id", "node_id", "trigger"), ["run_id", "node_id", "trigger"], "left_anti")


def publication_recipients(first: DataFrame, subscription: DataFrame) -> DataFrame:
    """Γ of PUB: the origins of matching entries of SUBS_SET_N, none of them back towards the sender (4.8).

    Args:
        first: First copies.
        subscription: Entries that a copy sees: relation ``subscription``, with ``since`` and ``gone`` where entries
            change in the round (triggers between which the entry is there).

    Returns:
        Recipient rows, N itself among them, with ``round, hops, issued_round`` of the copy.
    """
    matched = first.where("kind = 'PUB'").selectExpr(
        *KEY, "trigger", "sender", "round", "hops", "issued_round", "explode(matches) as subscription_id"
    )
    seen = "trigger > since and trigger < gone" if "since" in subscription.columns else "true"
    return (
        subscription.join(matched.hint("shuffle_hash"), [*NODE, "subscription_id"])
        .where(f"(sender is null or via <> sender) and {seen}")
        .selectExpr(*KEY, "origin as recipient", "via", "round", "hops", "issued_round")
        .distinct()
    )


def subscription_recipients(first: DataFrame, path: DataFrame) -> DataFrame:
    """Γ of SUB and UNSUB: every other node of the view that is not behind the sender (4.7)."""
    message = first.where("kind in ('SUB', 'UNSUB')").select(*KEY, "sender")
    return (
        path.where("distance > 0")
        .join(message.hint("shuffle_hash"), NODE)
        .where("sender is null or via <> sender")
        .selectExpr(*KEY, "target as recipient", "via")
    )


def join_recipients(first: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """Γ of J: the nodes X of the view with d(X, M) ≤ δ and N on P(X, M); from the joining node all go by M (4.6)."""
    message = first.where("kind = 'J'").select(*KEY, "sender", "join_point")
    to_join_point = path.selectExpr(*NODE, "target as join_point", "distance as to_join_point")
    scoped = to_join_point.join(message.hint("shuffle_hash"), [*NODE, "join_point"]).join(
        setting.select("run_id", "delta").hint("shuffle_hash"), "run_id"
    )
    return (
        path.where("distance > 0")
        .join(scoped.hint("shuffle_hash"), NODE)
        .where("sender is null or (via <> sender and distance + to_join_point <= delta)")
        .selectExpr(*KEY, "target as recipient", "via")
    )


def processing_rows(first: DataFrame, recipient: DataFrame) -> DataFrame:
    """Gives the new rows of ProcessingList_N: one for each recipient other than N itself (lines 13 to 15)."""
    body = first.select(
        *KEY, "kind", "round", "trigger", "sender", "hops", "subscription_id", "origin", "join_point"
    )  # fmt: skip
    return (
        recipient.where("recipient <> node_id")
        .join(body.hint("shuffle_hash"), KEY)
        .select(
            *KEY,
            "kind",
            "round",
            "trigger",
            "sender",
            "hops",
            "subscription_id",
            "origin",
            "join_point",
            "recipient",
            "via",
        )
    )


def copies_to_send(first: DataFrame, recipient: DataFrame) -> DataFrame:
    """Gives one outgoing copy for each member of Out_N^m other than N (lines 16 to 18), before `rewrite_origin`."""
    out = recipient.where("via <> node_id").select(*KEY, "via").distinct()
    return first.join(out.hint("shuffle_hash"), KEY).selectExpr(
        *KEY, "trigger", "cast(2 as bigint) as rank", "kind", "via", "round", "hops + 1 as hops", "issued_round",
        "subscription_id", "origin", "join_point", "matches",
    )  # fmt: skip


def rewrite_origin(sent: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """make_copy_send^SUB: beyond δ+1 hops the copy names the node δ+1 hops before the receiver (settled rule 1).

    Args:
        sent: Outgoing copies of `copies_to_send`; those without an origin stay as they are.
        path: Relation ``path``.
        setting: One row a run with ``delta``.
    """
    to_origin = path.selectExpr(*NODE, "target as origin", "distance as to_origin", "path as origin_path")
    delta = setting.select("run_id", "delta")
    kept = [column for column in sent.columns if column != "origin"]
    return (
        sent.join(to_origin.hint("shuffle_hash"), [*NODE, "origin"], "left")
        .join(delta.hint("shuffle_hash"), "run_id")
        .selectExpr(*kept, "case when to_origin > delta then get(origin_path, delta) else origin end as origin")
    )


def send_copies(sent: DataFrame) -> DataFrame:
    """Gives outgoing copies as rows of the outbox."""
    return sent.selectExpr(
        "run_id", "trigger", "rank", "kind", "node_id as src", "via as dst", "round as sent_round", "source",
        "source_seq", "hops", "issued_round", "subscription_id", "origin", "join_point", "matches",
    )  # fmt: skip


def deliveries(matched: DataFrame) -> DataFrame:
    """A PUB whose first copy reaches a matching subscriber is delivered at once (line 26; settled rule 12)."""
    return matched.where("recipient = node_id").selectExpr(
        "run_id", "node_id as subscriber", "source", "source_seq", "round", "round - issued_round as latency_rounds",
        "cast(hops as bigint) as hops",
    )  # fmt: skip
