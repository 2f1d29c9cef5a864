"""Recovery (section 6, Algorithms 5 to 7; rules R25 to R33).

The steps for a recovering node R and a synchronisation point S:

1. R recovers: it reads TOP_R and its own subscriptions from the store and gets ``status`` RECOVERING. Relations
   ``synch`` and ``peer`` contain the neighbours of R; R sends SYN_REQUEST with TOP_R to each of them.
2. SYN_REQUEST at S: S adds the links of TOP_R to TOP_S and answers with STATUS. S resends each message of
   ProcessingList_S that has R on the path to a recipient. Relation ``syn_request`` contains R until step 3.
3. S sends PAR_TOP and PAR_SUB at low priority (Algorithm 7, lines 13 to 20; rule R30). If S itself is RECOVERING, it
   first waits for the answers of its own synchronisation points, except those behind the same neighbour as R (R28).
4. PAR_TOP and PAR_SUB at R extend TOP_R and SUBS_SET_R; PAR_SUB completes the answer of S.
5. After all answers R is OPERATIONAL* (``status`` REJOINING): it sends STATUS to all its peers, computes Γ of accepted
   Guided messages again, and issues REJOIN. When REJOIN is confirmed, R is OPERATIONAL.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.rows import KEY, NODE, row_number
from pipelines.protocols.delta.steps.copies import BODY, COPY, new_copies
from pipelines.protocols.delta.tables import GUIDE, LINKS, PROCESSING, ROUTING_ENTRY, STATUS, TOPOLOGY, to_send

_PAIR = [*NODE, "peer"]


def returned_status(recovered: DataFrame) -> DataFrame:
    """Returns the rows of relation ``status`` that set the `recovered` nodes to RECOVERING."""
    return recovered.selectExpr(*NODE, "'RECOVERING' as status", "incarnation").selectExpr(*STATUS.columns)


def own_entries(own: DataFrame, node: DataFrame) -> DataFrame:
    """Returns the routing entries of the recovered nodes in `node` for their own stored subscriptions."""
    return own.join(node.selectExpr(*NODE), NODE, "left_semi").selectExpr(
        *NODE, "subscription_id", "node_id as origin", "0 as distance", "node_id as first_hop", "node_id as responsible"
    ).selectExpr(*ROUTING_ENTRY.columns)  # fmt: skip


def neighbours(path: DataFrame, node: DataFrame) -> DataFrame:
    """Returns the first Synch_R of recovered nodes: their neighbours, with ``path, round`` (Alg. 5, line 2)."""
    return path.where("distance = 1").join(node.selectExpr(*NODE, "round"), NODE).selectExpr(
        *NODE, "target as peer", "path", "round"
    )  # fmt: skip


def more_synch(synch: DataFrame, asked: DataFrame) -> DataFrame:
    """Returns relation ``synch`` (Synch_R) with the peers in `asked` as unanswered synchronisation points."""
    others = synch.join(asked.selectExpr(*_PAIR), _PAIR, "left_anti")
    return others.unionByName(asked.selectExpr(*_PAIR, "false as is_answered"))


def told_links(inbox: DataFrame) -> DataFrame:
    """Returns the links in SYN_REQUEST, CON_REQUEST and the PAR_TOP of synchronisation points: ``topology`` rows."""
    told = inbox.where("kind in ('SYN_REQUEST', 'CON_REQUEST') or (kind = 'PAR_TOP' and source_seq is null)")
    return told.selectExpr("run_id", "dst as node_id", "inline(links)").selectExpr(*TOPOLOGY.columns)


def stored_links(topology: DataFrame, failure: DataFrame, synchronising: DataFrame) -> DataFrame:
    """Returns the stored links of failed nodes, as ``topology`` rows of the synchronising nodes that suspect them.

    A node that joined during the recovery may be only in the view of a failed node.
    """
    missed = failure.join(synchronising, NODE, "left_semi").selectExpr(
        "run_id", "node_id as learner", "peer as node_id"
    )
    return topology.join(missed, NODE).selectExpr("run_id", "learner as node_id", "a", "b", "is_marked")


def within_reach(told: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """Returns the links in `told` with both ends within δ+1 hops of the receiver on known or received links (Eq. 1)."""
    near = (
        path.join(setting.selectExpr("run_id", "delta"), "run_id")
        .where("distance <= delta + 1")
        .selectExpr(*NODE, "target")
    )
    return told.join(near.withColumnRenamed("target", "a"), [*NODE, "a"], "left_semi").join(
        near.withColumnRenamed("target", "b"), [*NODE, "b"], "left_semi"
    )


def under_way(message: DataFrame, node: DataFrame) -> DataFrame:
    """Returns the messages of the processing rows `message` at the nodes in `node`, as copies with ``now_round``."""
    now = node.groupBy(NODE).agg({"round": "max"}).toDF(*NODE, "now_round")
    guide = f"cast(null as {GUIDE}) as guide"
    copy = message.join(now, NODE).selectExpr(*KEY, *BODY, guide, "now_round")
    return copy.distinct().selectExpr(*COPY, "msg_id", "now_round")


def earlier_messages(processing: DataFrame, reach: DataFrame, answer: DataFrame, path: DataFrame) -> DataFrame:
    """Returns PrevOut: the unconfirmed recipients whose path from S leads through a recovering node R (rule R26).

    R is the sender and S the receiver of a SYN_REQUEST. R becomes responsible for these recipients. R itself is a
    recipient of the messages in `reach`, even if R has confirmed them before its crash (``is_reopened``). R has lost
    the effect of these messages, which PAR_SUB contains only after S has finished them. The processing rows have
    ``now_round`` and ``asked``, the trigger of the request. If two nodes on one path send SYN_REQUEST in one round, a
    recipient has a row for each of the two nodes (see `asked_last`).
    """
    asked = answer.where("kind = 'SYN_REQUEST'").selectExpr(*NODE, "peer", "round as now_round", "trigger as asked")
    seen = path.selectExpr(*NODE, "target as recipient", "path as seen_path")
    kept = [name for name in PROCESSING.columns if name not in {"responsible", "is_confirmed", "is_reopened"}]
    again = reach.join(asked.selectExpr(*NODE, "peer as recipient"), [*NODE, "recipient"], "left_semi")
    unconfirmed = (
        processing.where("not is_confirmed")
        .join(asked.hint("shuffle_hash"), NODE)
        .join(seen, [*NODE, "recipient"], "left")
        .where("array_contains(coalesce(path, seen_path), peer)")
        .selectExpr(*kept, "peer as responsible", "false as is_confirmed", "is_reopened", "now_round", "asked")
    )
    mine = again.selectExpr(*KEY, "recipient").join(
        unconfirmed.selectExpr(*KEY, "recipient"), [*KEY, "recipient"], "left_anti"
    )
    body = processing.selectExpr(*KEY, *BODY).distinct()
    own = (
        mine.join(body, KEY)
        .join(asked.withColumnRenamed("peer", "recipient"), [*NODE, "recipient"])
        .selectExpr(
            *KEY, *BODY, "recipient", "cast(null as array<bigint>) as path", "recipient as responsible",
            "false as is_confirmed", "true as is_reopened", "now_round", "asked",
        )
    )  # fmt: skip
    return unconfirmed.unionByName(own)


def asked_last(earlier: DataFrame) -> DataFrame:
    """Returns the row of `earlier` (`earlier_messages`) with the highest ``asked`` for each message and recipient."""
    last = row_number("nodes that ask for a recipient", f"{', '.join(KEY)}, recipient", "asked desc")
    return earlier.selectExpr("*", f"{last} as position").where("position = 1").drop("position")


def more_syn_requests(request: DataFrame, answer: DataFrame) -> DataFrame:
    """Returns relation ``syn_request`` with the SYN_REQUESTs of this round added."""
    asked = answer.where("kind = 'SYN_REQUEST'").selectExpr(*_PAIR)
    return request.unionByName(asked).distinct()


def asked_again(answer: DataFrame, synch: DataFrame, joining: DataFrame) -> DataFrame:
    """Returns the recovered peers that get SYN_REQUEST again (rule R28).

    A recovering node sends SYN_REQUEST to the recovered peers that have not answered. A node in `joining` sends it to
    all recovered peers, because the crash may have lost a SUB or UNSUB for the joining node.
    """
    asked = answer.where("kind = 'SYN_REQUEST' and is_new").selectExpr(*_PAIR, "round")
    lost = asked.join(synch.where("not is_answered").selectExpr(*_PAIR), _PAIR, "left_semi")
    return lost.unionByName(asked.join(joining.selectExpr(*NODE), NODE, "left_semi")).distinct()


def told_entries(inbox: DataFrame) -> DataFrame:
    """Returns the entries of received PAR_SUB messages: ``run_id, node_id, subscription_id, origin, distance``."""
    told = inbox.where("kind = 'PAR_SUB' and source_seq is null")
    return told.selectExpr("run_id", "dst as node_id", "inline(entries)").selectExpr(
        *NODE, "subscription_id", "origin", "distance"
    )


def told_tombstones(inbox: DataFrame) -> DataFrame:
    """Returns the tombstones of received PAR_SUB messages, as rows of relation ``tombstone``."""
    told = inbox.where("kind = 'PAR_SUB' and source_seq is null")
    return told.selectExpr("run_id", "dst as node_id", "explode(tombstones) as subscription_id")


def merged_entries(routing_entry: DataFrame, told: DataFrame, tombstone: DataFrame) -> DataFrame:
    """Returns SUBS_SET with the entries `told` that recovering nodes have received (rule R30).

    Entries of subscriptions with a tombstone are dropped. If a subscription has several entries, the entry with the
    most distant origin stays.
    """
    key = [*NODE, "subscription_id"]
    way = ["cast(null as bigint) as first_hop", "cast(null as bigint) as responsible"]
    both = routing_entry.unionByName(told.selectExpr(*key, "origin", "distance", *way))
    best = row_number("entries of a subscription", ", ".join(key), "distance desc, origin, first_hop nulls last")
    known = both.join(tombstone, key, "left_anti").distinct()
    return known.selectExpr("*", f"{best} as position").where("position = 1").selectExpr(*ROUTING_ENTRY.columns)


def ready_nodes(status: DataFrame, synch: DataFrame) -> DataFrame:
    """Returns ``run_id, node_id, incarnation`` of nodes that wait for no synchronisation point (Alg. 5, line 8)."""
    waits = synch.where("not is_answered").selectExpr(*NODE).distinct()
    return status.where("status = 'RECOVERING'").join(waits, NODE, "left_anti").selectExpr(*NODE, "incarnation")


def isolated_nodes(ready: DataFrame, path: DataFrame) -> DataFrame:
    """Returns the nodes of `ready` whose view has no live node, so that their REJOIN would have no recipient."""
    return ready.join(
        path.where("distance > 0 and responsible is not null").selectExpr(*NODE).distinct(), NODE, "left_anti"
    )


def issued_rejoins(ready: DataFrame) -> DataFrame:
    """Returns the REJOIN of each node in `ready` as a copy (Alg. 5, line 19); its number is the negated incarnation."""
    return new_copies(
        ready, node_id="node_id", source="node_id", source_seq="-incarnation", kind="'REJOIN'", trigger="0",
        round="round", issued_round="round", join_point="node_id",
    )  # fmt: skip


def guided_again(late: DataFrame, processing: DataFrame, status: DataFrame) -> DataFrame:
    """Returns the messages in ProcessingList of RECOVERING nodes of which a Guided duplicate arrives in this round.

    The copies have ``now_round``, and ``guide`` of the duplicate, which may have new recipients.
    """
    recovering = status.where("status = 'RECOVERING'").selectExpr(*NODE)
    guide = (
        late.join(recovering, NODE, "left_semi")
        .where("guide is not null")
        .selectExpr(*KEY, "guide", "round as now_round")
    )
    return processing.selectExpr(*KEY, *BODY).distinct().join(guide, KEY).selectExpr(*COPY, "msg_id", "now_round")


_SHARED = "size(array_intersect(to_peer, path))"
_FROM_PEER = f"concat(slice(reverse(to_peer), 1, size(to_peer) - {_SHARED} + 1), slice(path, {_SHARED} + 1, 100))"
"""SQL for P(R, X), the path from R to X in a tree. It leads back from R to the fork, and then on to X.

``to_peer`` is P(S, R) and ``path`` is P(S, X), the paths from S. They part at the fork.
"""


def answerable(request: DataFrame, status: DataFrame, synch: DataFrame, path: DataFrame) -> DataFrame:
    """Returns the SYN_REQUESTs in `request` that their receiver can answer in this round.

    A RECOVERING receiver answers only if it waits for no synchronisation point, except points in the direction of the
    requesting node (rule R28). All other receivers answer all requests.
    """
    hop = path.selectExpr(*NODE, "target as peer", "get(path, 1) as side")
    recovering = status.where("status = 'RECOVERING'").selectExpr(*NODE, "true as is_recovering")
    opened = synch.where("not is_answered").join(hop, _PAIR, "left").selectExpr(*NODE, "side as open_side")
    waits = (
        request.join(recovering, NODE).join(hop, _PAIR).join(opened, NODE).where("open_side <> side").selectExpr(*_PAIR)
    )
    return request.join(waits, _PAIR, "left_anti")


def _routes(ready: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """Returns the path from a recovering node R to each node X in the view of its synchronisation point S.

    Columns: ``node_id`` (S), ``peer`` (R), ``target`` (X), ``route`` (the path), ``is_behind`` (whether R is on the
    path from S to X), ``delta``.
    """
    to_peer = path.selectExpr(*NODE, "target as peer", "path as to_peer")
    return (
        path.selectExpr(*NODE, "target", "path")
        .join(ready.selectExpr(*_PAIR), NODE)
        .join(to_peer, _PAIR)
        .join(setting.selectExpr("run_id", "delta"), "run_id")
        .selectExpr(
            *_PAIR, "target", f"{_FROM_PEER} as route", "array_contains(path, peer) and target <> peer as is_behind",
            "delta",
        )
    )  # fmt: skip


def with_links(ready: DataFrame, topology: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """Adds ``links`` to requests: the links of the receiver's view whose ends are within δ+1 hops of the sender.

    A request has ``run_id, node_id`` (the receiver S), ``peer`` (the sender R) and ``round``.
    """
    near = _routes(ready, path, setting).where("size(route) <= delta + 2").selectExpr(*_PAIR, "target")
    link = (
        topology.join(near.withColumnRenamed("target", "a"), [*NODE, "a"])
        .join(near.withColumnRenamed("target", "b"), [*_PAIR, "b"])
        .groupBy(_PAIR)
        .agg(F.expr(LINKS))
    )
    return ready.join(link, _PAIR, "left")


def send_entries(
    ready: DataFrame, routing_entry: DataFrame, path: DataFrame, tombstone: DataFrame, subscriber: DataFrame,
    setting: DataFrame,
) -> DataFrame:  # fmt: skip
    """Returns the PAR_SUB messages that answer the requests `ready`, with entries and tombstones (rule R30).

    A message has each entry whose origin is not behind the recovering node R. An origin more than δ+1 hops from R is
    replaced by the node δ+1 hops away. The message also has each entry behind R whose origin is the subscriber itself
    and at most δ+1 hops from R.
    """
    route = _routes(ready, path, setting).withColumnRenamed("target", "origin")
    entry = (
        routing_entry.selectExpr(*NODE, "subscription_id", "origin")
        .join(route, [*NODE, "origin"])
        .join(subscriber, ["run_id", "subscription_id"])
        .where("origin <> peer and (not is_behind or (origin = subscriber and size(route) <= delta + 2))")
        .selectExpr(
            *_PAIR, "subscription_id",
            "case when size(route) > delta + 2 then get(route, delta + 1) else origin end as origin",
            "least(size(route) - 1, delta + 1) as distance",
        )
        .where("origin <> peer")
        .groupBy(_PAIR)
        .agg(F.expr("array_sort(collect_list(struct(subscription_id, origin, distance))) as entries"))
    )  # fmt: skip
    over = tombstone.groupBy(NODE).agg(F.expr("array_sort(collect_list(subscription_id)) as tombstones"))
    told = ready.join(entry, _PAIR, "left").join(over, NODE, "left")
    return low_priority(told, "PAR_SUB", ["entries", "tombstones"], setting)


def low_priority(row: DataFrame, kind: str, content: Sequence[str], setting: DataFrame) -> DataFrame:
    """Returns the answers of `kind` to the requests `row`, with the columns `content` (Alg. 7, line 13; rule R10).

    They sort behind normal messages, and their delay grows with their size. PAR_SUB waits at least as long as its
    PAR_TOP, so that the link keeps their order.
    """
    rank = 1_000_000 if kind == "PAR_TOP" else 1_000_001
    delay = f"cast(floor(greatest(size(links), size({content[0]}), 0) / par_rows) as bigint)"
    return to_send(
        row.join(setting.selectExpr("run_id", "par_rows"), "run_id"), trigger="-1", rank=str(rank), kind=f"'{kind}'",
        dst="peer", delay_rounds=f"coalesce({delay}, 0)", **{name: name for name in content},
    )  # fmt: skip
