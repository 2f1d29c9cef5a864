"""Copies of multicast messages: received, forwarded and resent ones (Algorithm 1; rules R12, R20, R22).

A *copy* is a row for a multicast message (J, SUB, UNSUB, PUB, REJOIN) that a node receives or issues: ``run_id,
node_id, source, source_seq, kind, trigger, sender, round, hops, issued_round, subscription_id, origin, join_point,
matches, guide, origin_path, visited``. Column ``sender`` is null at the source. Column ``sender_hop``, if present, is
the neighbour of the node on the path to the sender.

`udfs.delta.forwarding` describes the two duplicate detectors (section 5). The test of a visited list depends on the
copies of the round that the node has accepted before, so an Arrow function tests the copies one after the other.

A sent message gets m.from for its receiver, a visited list and the incarnation of its connection (sections 4.7, 5). A
message to a RECOVERING node is Guided: it contains the paths from the receiver to the recipients (section 6). A
multicast message to a node that has not answered a request is not sent; it stays in ProcessingList.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.audit import arrow_rows
from pipelines.contract.round import OUTBOX, outbox_types
from pipelines.contract.rows import KEY, NODE, called, deliveries, received, row_number
from pipelines.engines.frames import union
from pipelines.protocols.delta.steps.routing import Keep
from pipelines.protocols.delta.tables import DETECTOR, MULTICAST, PAYLOAD, PROCESSING, SENT_AS, to_send
from udfs.delta.forwarding import ACCEPTED, accepted_copies

_CARRIED = ["issued_round", "subscription_id", "origin", "join_point", "matches", "origin_path", "visited"]
_FIELDS = ["hops", *_CARRIED, "guide"]
_PAIR = "array(named_struct('node', node_id, 'msg_id', msg_id))"
PASSED = f"case when msg_id is null then null when visited is null then {_PAIR} else concat(visited, {_PAIR}) end"
"""SQL for m.visited with the node's own pair; `visited_lists` cuts the list to its last δ+1 pairs."""
FORWARDED = {
    **{name: name for name in ("kind", "source", "source_seq", *_CARRIED)}, "hops": "hops + 1", "visited": PASSED,
    "dst": "responsible",
}  # fmt: skip
"""SQL for columns of a copy that a node sends to the responsible node of a recipient."""
BODY = ["kind", "round", "trigger", "sender", "hops", *_CARRIED, "msg_id"]
"""The columns that describe a message in ProcessingList, without its KEY."""
COPY = [*KEY, "kind", "trigger", "sender", "round", *_FIELDS]
_CALLS = {"publish": "PUB", "subscribe": "SUB", "unsubscribe": "UNSUB"}
_AGAIN = f"round - {1 << 40}"
"""SQL for the trigger of a resent message. These triggers ascend with MsgId_N, and sort behind STATUS, before PAR_TOP.
"""


def received_copies(inbox: DataFrame) -> DataFrame:
    """Returns the multicast messages of an inbox as copies."""
    return received(inbox.where(f"kind in {MULTICAST}"), *_FIELDS)


def issued_copies(call: DataFrame) -> DataFrame:
    """Returns a copy for each publish, subscribe and unsubscribe call, at the node that issues the call."""
    own = {"hops": "0", "issued_round": "round", "subscription_id": "subscription_id", "matches": "matches"}
    origin = "case when kind <> 'publish' then node_id end"
    return called(call, _CALLS, PAYLOAD, **{**dict.fromkeys(_FIELDS, "null"), **own, "origin": origin})


def new_copies(rows: DataFrame, **columns: str) -> DataFrame:
    """Returns a copy for each row: a J or REJOIN that a node issues. `columns` has SQL for columns of `COPY`.

    By default ``hops`` is 0, ``run_id`` is unchanged, and all other columns are null.
    """
    given, types = {"run_id": "run_id", "hops": "0", **columns}, outbox_types(PAYLOAD)
    typed = ((given.get(name, "null"), types.get(name, "bigint"), name) for name in COPY)
    return rows.selectExpr(*(f"cast({sql} as {kind}) as {name}" for sql, kind, name in typed))


def sender_hops(copy: DataFrame, path: DataFrame | None) -> DataFrame:
    """Adds column ``sender_hop``, the first node on the path to the sender.

    A `path` of ``None`` means that no run has a bypass: every sender is a neighbour.
    """
    if path is None:
        return copy.selectExpr("*", "sender as sender_hop")
    hop = path.selectExpr(*NODE, "target as sender", "get(path, 1) as known_hop")
    hops = "coalesce(known_hop, sender) as sender_hop"
    return copy.join(hop, [*NODE, "sender"], "left").selectExpr("*", hops).drop("known_hop")


def later_copies(copy: DataFrame, first: DataFrame) -> DataFrame:
    """Returns the duplicates: the rows of `copy` that are not in `first`."""
    return copy.join(first.selectExpr("run_id", "node_id", "trigger"), ["run_id", "node_id", "trigger"], "left_anti")


def processing_rows(first: DataFrame, recipient: DataFrame) -> DataFrame:
    """Returns the new rows of ProcessingList: one for each recipient of a first copy other than the node itself.

    A recipient with a true ``is_confirmed`` is not sent the message (Algorithm 1, lines 13 to 15). ``matches`` is null
    in runs that never resend a publication.
    """
    body = first.selectExpr(*KEY, *BODY)
    return (
        recipient.where("recipient <> node_id")
        .join(body.hint("shuffle_hash"), KEY)
        .selectExpr(*KEY, *BODY, "recipient", "path", "responsible", "is_confirmed", "false as is_reopened")
        .selectExpr(*PROCESSING.columns)
    )


def copies_to_send(first: DataFrame, recipient: DataFrame) -> DataFrame:
    """Returns outbox rows: for each first copy, one copy to each next hop (member of Out; Alg. 1, lines 16 to 18)."""
    out = recipient.where("responsible <> node_id").selectExpr(*KEY, "responsible").distinct()
    rows = first.join(out.hint("shuffle_hash"), KEY)
    return to_send(rows, trigger="trigger", rank="2", **FORWARDED)


def matched_deliveries(matched: DataFrame) -> DataFrame:
    """Returns deliveries of the publications whose first copy reaches a matching subscriber (Alg. 1, line 26; R12)."""
    return deliveries(matched.where("recipient = node_id"))


def guided_deliveries(first: DataFrame, recipient: DataFrame) -> DataFrame:
    """Returns the deliveries of publications that RECOVERING subscribers accept as Guided."""
    here = recipient.where("recipient = node_id").selectExpr(*KEY).distinct()
    return deliveries(first.where("kind = 'PUB'").join(here, KEY, "left_semi"))


def with_rows(processing: DataFrame, row: DataFrame) -> DataFrame:
    """Returns `processing` (ProcessingList) with the rows of `row` added. They replace rows with equal keys."""
    key = [*KEY, "recipient"]
    rest = processing.join(row.selectExpr(*key).hint("shuffle_hash"), key, "left_anti")
    return rest.unionByName(row.selectExpr(*PROCESSING.columns))


def held_back(processing: DataFrame, answer: DataFrame) -> DataFrame:
    """Returns the processing rows that waited for the answer of a peer (rule R20), as input of `resent_copies`.

    The sender of a SYN_REQUEST gets `recovery.earlier_messages` instead.
    """
    fresh = answer.where("is_new and kind <> 'SYN_REQUEST'")
    ready = fresh.selectExpr(*NODE, "peer as responsible", "round as now_round")
    return processing.where("not is_confirmed").join(ready.hint("shuffle_hash"), [*NODE, "responsible"])


def resent_copies(*row: DataFrame) -> DataFrame:
    """Returns messages of ProcessingList as outbox rows, in ProcessingList order and once per receiver (rule R22).

    Each argument has the processing rows that one step resends, with ``now_round``, the sending round. Several steps
    may resend one message.
    """
    again = [one.where("responsible is not null").selectExpr(*KEY, "responsible", *BODY, "now_round") for one in row]
    return to_send(union(again).distinct(), trigger=_AGAIN, rank="trigger", sent_round="now_round", **FORWARDED)


_IDENTITY = "case when kind = 'REJOIN' then -1 - source else source end"
_COPY = [*NODE, "trigger"]
_IN_TURN = row_number("first copies of a node", "run_id, node_id", "trigger, source, source_seq")
_MSG_ID = f"cast(round * 1048576 + {_IN_TURN} as bigint) as msg_id"
_COPY_RANK = row_number("copies of a message", "run_id, node_id, source, source_seq", "trigger")


def first_copies(copy: DataFrame, detector: DataFrame) -> DataFrame:
    """Returns the first copies in runs with detector ``identifier`` (Algorithm 1, lines 1 to 12)."""
    asked = copy.selectExpr(*KEY, f"{_IDENTITY} as asked_source").distinct()
    known = (
        detector.withColumnRenamed("source", "asked_source")
        .join(asked.hint("shuffle_hash"), ["run_id", "node_id", "asked_source"])
        .where("last_seq >= abs(source_seq)")
        .selectExpr(*KEY)
    )
    ranked = copy.selectExpr("*", f"{_COPY_RANK} as copy_rank").where("copy_rank = 1").drop("copy_rank")
    return ranked.join(known.hint("shuffle_hash"), KEY, "left_anti")


def first_visits(copy: DataFrame, detector: DataFrame, keep: Keep) -> DataFrame:
    """Returns the first copies in runs with detector ``visited``. A copy at its source is always a first copy."""
    pair = copy.selectExpr(*_COPY, "inline(visited)").where("msg_id is not null")
    passed = detector.withColumnRenamed("source", "node")
    old = keep("old_copy", pair.join(passed, [*NODE, "node"]).where("msg_id <= last_seq").selectExpr(*_COPY).distinct())
    fresh = copy.where("sender is not null").selectExpr(*_COPY, "visited").join(old, _COPY, "left_anti")
    of_node = fresh.groupBy(NODE).agg(F.expr("collect_list(struct(trigger, visited)) as copies"))
    accepted = arrow_rows(of_node, accepted_copies, ACCEPTED)
    own = copy.where("sender is null").selectExpr(*_COPY)
    return copy.join(keep("accepted_copy", accepted.unionByName(own)), _COPY, "left_semi")


def numbered(first: DataFrame) -> DataFrame:
    """Adds ``msg_id`` (MsgId_N) to first copies. It ascends with the round and the trigger (Alg. 1, line 10; R4)."""
    return first.selectExpr("*", _MSG_ID)


def detector_rows(first: DataFrame) -> DataFrame:
    """Returns the identifiers of first copies as new rows of relation ``detector`` (Algorithm 1, line 11)."""
    return first.selectExpr("run_id", "node_id", f"{_IDENTITY} as source", "abs(source_seq) as last_seq").selectExpr(
        *DETECTOR.columns
    )


def visited_rows(first: DataFrame) -> DataFrame:
    """Returns new rows of relation ``detector``: the MsgIds in the visited lists of first copies.

    The source of a message adds its own MsgId of the message (rule R18).
    """
    pair = first.selectExpr(*NODE, "inline(visited)").where("msg_id is not null")
    own = first.where("sender is null").selectExpr(*NODE, "node_id as source", "msg_id as last_seq")
    return pair.selectExpr(*NODE, "node as source", "msg_id as last_seq").unionByName(own).selectExpr(*DETECTOR.columns)


_MULTICAST = f"kind in {MULTICAST}"
_END = ["run_id", "src", "dst"]
_BEFORE = "slice(path, array_position(path, dst), 100)"


def rewrite_origins(outbox: DataFrame, path: DataFrame, setting: DataFrame, *, is_disturbed: bool) -> DataFrame:
    """make_copy_send^SUB: replaces an origin more than δ+1 hops from the receiver by the node δ+1 hops away (rule R1).

    If `is_disturbed` is false, all receivers are neighbours, and no message is Guided. Otherwise ``origin_path`` of the
    result is the path from the receiver to the origin.
    """
    to_origin = path.selectExpr("run_id", "node_id as src", "target as origin", "distance", "path as seen_path")
    kept = [column for column in SENT_AS if column not in {"origin", "origin_path"}]
    row = outbox.join(to_origin.hint("shuffle_hash"), ["run_id", "src", "origin"], "left").join(
        setting.selectExpr("run_id", "delta"), "run_id"
    )
    if not is_disturbed:
        origin = "case when distance > delta then get(seen_path, delta) else origin end as origin"
        return row.selectExpr(*kept, origin, "cast(null as array<bigint>) as origin_path")
    to_receiver = path.selectExpr("run_id", "node_id as src", "target as dst", "path as to_receiver")
    way = "concat(slice(reverse(to_receiver), 1, size(to_receiver) - 1), coalesce(origin_path, seen_path))"
    return (
        row.join(to_receiver, _END, "left")
        .selectExpr(
            *kept, "origin", "delta", f"case when origin is not null then slice({way}, 1, delta + 2) end as origin_path"
        )
        .selectExpr(*kept, "coalesce(element_at(origin_path, -1), origin) as origin", "origin_path")
    )


def visited_lists(outbox: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """Adds a pair of nulls to m.visited for each bypassed node, and keeps the last δ+1 pairs (section 5)."""
    hops = path.selectExpr("run_id", "node_id as src", "target as dst", "distance")
    kept = [name for name in SENT_AS if name != "visited"]
    nil = "named_struct('node', cast(null as bigint), 'msg_id', cast(null as bigint))"
    skipped = f"array_repeat({nil}, cast(distance - 1 as int))"
    whole = f"case when distance > 1 then concat(visited, {skipped}) else visited end as visited"
    return (
        outbox.join(hops, _END, "left")
        .join(setting.selectExpr("run_id", "delta"), "run_id")
        .selectExpr(*kept, whole, "delta")
        .selectExpr(*kept, "slice(visited, greatest(size(visited) - delta, 1), delta + 1) as visited")
        .selectExpr(*SENT_AS)
    )


def addressed(outbox: DataFrame, peer: DataFrame, link: DataFrame) -> DataFrame:
    """Adds the incarnation and latency of connections to the outbox.

    Drops multicast messages to peers that have not answered or have failed. Also drops each CONF without a connection
    (rule R15). ``latency_rounds`` and ``for_incarnation`` of a row take precedence over relation ``peer``, and the
    latency of a link over both. ``delay_rounds`` is added only to a latency that the row itself does not contain.

    Returns:
        The outbox with ``peer_status``; a null ``latency_rounds`` stands for the latency of the link.
    """
    known = peer.selectExpr(
        "run_id", "node_id as src", "peer as dst", "status as peer_status", "incarnation as known",
        "latency_rounds as known_rounds",
    )  # fmt: skip
    kept = [*OUTBOX, *(name for name in PAYLOAD.names if name != "for_incarnation")]
    direct = link.selectExpr(*_END, "latency_rounds as link_rounds")
    return (
        outbox.join(known.hint("shuffle_hash"), _END, "left")
        .join(direct, _END, "left")
        .where("kind <> 'CONF' or coalesce(known_rounds, link_rounds) is not null")
        .where(f"not ({_MULTICAST} and coalesce(peer_status, 'OPERATIONAL') in ('WAITING', 'FAILED'))")
        .selectExpr(
            *kept, "coalesce(for_incarnation, known) as for_incarnation",
            "case when latency_rounds is not null then coalesce(link_rounds, latency_rounds)"
            " when known_rounds is not null then coalesce(link_rounds, known_rounds) + coalesce(delay_rounds, 0)"
            " end as latency_rounds",
            "peer_status",
        )
    )  # fmt: skip


def guided(outbox: DataFrame, processing: DataFrame, path: DataFrame) -> DataFrame:
    """Adds g.to, computed from the current ProcessingList, to messages for RECOVERING receivers.

    Drops each message that is no longer in ProcessingList: all its recipients have confirmed in this round.
    """
    key = [*_END, "source", "source_seq"]
    is_guided = f"{_MULTICAST} and peer_status = 'RECOVERING'"
    message = outbox.where(is_guided).selectExpr(*key).distinct()
    seen = path.selectExpr(*NODE, "target as recipient", "path as seen_path")
    row = (
        processing.selectExpr(*KEY, "recipient", "path", "is_confirmed", "is_reopened")
        .join(seen, [*NODE, "recipient"], "left")
        .selectExpr(
            "run_id", "node_id as src", "source", "source_seq", "coalesce(path, seen_path) as path",
            "is_confirmed or is_reopened as is_done",
        )
    )  # fmt: skip
    guide = (
        row.join(message.hint("shuffle_hash"), ["run_id", "src", "source", "source_seq"])
        .where("array_contains(path, dst)")
        .selectExpr(*key, f"{_BEFORE} as path", "is_done")
        .groupBy(key)
        .agg(F.expr("array_sort(collect_list(struct(path, is_done))) as found"))
    )
    kept = [name for name in SENT_AS if name not in {"guide", "origin_path", "delay_rounds"}]
    told = outbox.join(guide, key, "left").where(f"found is not null or not coalesce({is_guided}, false)")
    return told.selectExpr(
        *kept, f"case when {is_guided} then found end as guide",
        f"case when {is_guided} then origin_path end as origin_path",
    )  # fmt: skip
