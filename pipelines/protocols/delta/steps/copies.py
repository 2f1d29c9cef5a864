"""Copies of multicast messages: what comes, what goes on, what is sent again (Algorithm 1; rules R12, R20, R22).

A *copy* is one row a multicast message (J, SUB, UNSUB, PUB, REJOIN) that reaches a node, or is issued there:
``run_id, node_id, source, source_seq, kind, trigger, sender, round, hops, issued_round, subscription_id, origin,
join_point, matches, guide, origin_path, visited``; ``sender`` is null at the source. What routes by the sender also
has ``sender_hop``, the neighbour of N that lies towards it.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame

from pipelines.contract.rows import KEY, NODE, called, deliveries, received
from pipelines.protocols.delta.messages import GUIDE, MULTICAST, PAYLOAD
from pipelines.protocols.delta.tables import PROCESSING

_CARRIED = ["issued_round", "subscription_id", "origin", "join_point", "matches", "origin_path", "visited"]
_FIELDS = ["hops", *_CARRIED, "guide"]
SENT_FIELDS = ("hops", *_CARRIED)
"""What a copy in the outbox says beside its head."""
_PAIR = "array(named_struct('node', node_id, 'msg_id', msg_id))"
PASSED = f"""case when msg_id is null then null when visited is null then {_PAIR} else concat(visited, {_PAIR}) end
  as visited"""
"""SQL for m.visited with N's own pair; `address.visited_lists` cuts it."""
BODY = ["kind", "round", "trigger", "sender", "hops", *_CARRIED, "msg_id"]
"""What ProcessingList keeps of a message, beside its KEY."""
COPY = [*KEY, "kind", "trigger", "sender", "round", *_FIELDS]
NOT_GUIDED = [
    "cast(null as array<bigint>) as origin_path",
    "cast(null as array<struct<node: bigint, msg_id: bigint>>) as visited",
    f"cast(null as {GUIDE}) as guide",
]
"""SQL for what a copy lacks that no other node sent."""
_CALLS = {"publish": "PUB", "subscribe": "SUB", "unsubscribe": "UNSUB"}
_AGAIN = f"round - {1 << 40} as trigger"
"""SQL for the trigger of what is sent again: behind STATUS, before PAR_TOP, and in the order of MsgId_N."""


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


def guided_deliveries(first: DataFrame, recipient: DataFrame) -> DataFrame:
    """Returns the deliveries of publications that RECOVERING subscribers accepted as Guided.

    Args:
        first: First copies.
        recipient: Rows of `recipients.guided_recipients`.
    """
    here = recipient.where("recipient = node_id").select(KEY).distinct()
    return deliveries(first.where("kind = 'PUB'").join(here, KEY, "left_semi"))


def with_rows(processing: DataFrame, row: DataFrame) -> DataFrame:
    """Returns ProcessingList with these rows instead of those that it has for their recipients."""
    key = [*KEY, "recipient"]
    rest = processing.join(row.select(key).hint("shuffle_hash"), key, "left_anti")
    return rest.unionByName(row.select(PROCESSING.columns))


def held_back(processing: DataFrame, answer: DataFrame) -> DataFrame:
    """Returns what waited for a peer that answers now (rule R20): rows of `resent_copies`.

    A SYN_REQUEST is answered with more than that (`recovery.earlier_messages`).
    """
    fresh = answer.where("is_new and kind <> 'SYN_REQUEST'")
    ready = fresh.selectExpr(*NODE, "peer as responsible", "round as now_round")
    return processing.where("not is_confirmed").join(ready.hint("shuffle_hash"), [*NODE, "responsible"])


def resent_copies(*row: DataFrame) -> DataFrame:
    """Returns messages of ProcessingList as rows of the outbox, in their order (rule R22), once per receiver.

    Args:
        row: Processing rows with ``now_round``: when they are sent; a frame a step, as several may send some.
    """
    carried = [PASSED if name == "visited" else name for name in SENT_FIELDS if name != "hops"]
    again = [one.where("responsible is not null").select(*KEY, "responsible", *BODY, "now_round") for one in row]
    message = reduce(DataFrame.unionByName, again).distinct()
    return message.selectExpr(
        "run_id", _AGAIN, "trigger as rank", "kind", "node_id as src", "responsible as dst", "now_round as sent_round",
        "source", "source_seq", "hops + 1 as hops", *carried,
    )  # fmt: skip
