"""The join operation (section 4.6, Algorithm 2; rules R5, R6, R16, R17).

`udfs.delta.joining` lists the steps for a joining node N and its join point M.

An *accepted* row is a JOIN_REQUEST that M answers: ``run_id, node_id`` (M), ``joiner, source_seq, incarnation, trigger,
round``. A request that M cannot answer yet waits in relation ``join_request``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.round import CALL_TRIGGER
from pipelines.contract.rows import NODE, row_number
from pipelines.protocols.delta.steps.copies import FORWARDED, new_copies
from pipelines.protocols.delta.tables import CALL, JOIN_REQUEST, PROCESSING, SENT_AS, to_send


def send_join_requests(asked: DataFrame, status: DataFrame) -> DataFrame:
    """Returns JOIN_REQUESTs (Alg. 2) for `asked`: ``run_id, node_id, join_point, source_seq, trigger, round``."""
    own = status.selectExpr(*NODE, "incarnation as known")
    return to_send(
        asked.join(own.hint("shuffle_hash"), NODE, "left"), trigger="trigger", kind="'JOIN_REQUEST'", dst="join_point",
        source="node_id", source_seq="source_seq", incarnation="coalesce(known, 0)",
    )  # fmt: skip


def asked_now(call: DataFrame) -> DataFrame:
    """Returns the join calls in `call` with the columns of argument ``asked`` of `send_join_requests`."""
    return call.where("kind = 'join'").selectExpr(
        *NODE, "join_point", "source_seq", f"{CALL_TRIGGER} as trigger", "round"
    )


def waiting_connections(join: DataFrame, link: DataFrame) -> DataFrame:
    """Returns the connections of joining nodes to the join points that they have asked, as `connections.connected`."""
    latency = link.selectExpr("run_id", "src as node_id", "dst as peer", "latency_rounds")
    waits = join.where("status = 'DETACHED' and is_asked").selectExpr(*NODE, "join_point as peer")
    return waits.join(latency, [*NODE, "peer"]).selectExpr(
        *NODE, "peer", "cast(null as bigint) as incarnation", "latency_rounds"
    )


def next_join(join: DataFrame, inbox: DataFrame, confirmed: DataFrame, waits: DataFrame) -> DataFrame:
    """Returns relation ``join`` after the round.

    A node becomes ATTACHED when PAR_TOP arrives, and CONFIRMED when its J is confirmed (`confirmed`). It then becomes
    VALID_JOINED, unless one of its synchronisation points has not answered (`waits`).
    """
    attached = inbox.where("kind = 'PAR_TOP' and source_seq is not null").selectExpr(
        "run_id", "dst as node_id", "true as is_attached"
    )
    confirmed = confirmed.selectExpr(*NODE, "true as is_confirmed").distinct()
    waits = waits.selectExpr(*NODE).distinct().selectExpr(*NODE, "true as is_waiting")
    status = """case
      when (is_confirmed or status = 'CONFIRMED') and is_waiting then 'CONFIRMED'
      when is_confirmed or status = 'CONFIRMED' then 'VALID_JOINED'
      when is_attached and status = 'DETACHED' then 'ATTACHED'
      else status end as status"""
    return (
        join.join(attached.distinct(), NODE, "left").join(confirmed, NODE, "left").join(waits, NODE, "left")
        .selectExpr(*NODE, "join_point", "source_seq", "is_asked", status)
    )  # fmt: skip


def started_again(join: DataFrame, recovered: DataFrame) -> DataFrame:
    """Returns the unfinished joins of the nodes `recovered`: rows of relation ``join`` with ``round``."""
    return join.where("status <> 'VALID_JOINED'").join(recovered.selectExpr(*NODE, "round"), NODE).selectExpr(
        *NODE, "join_point", "source_seq", "is_asked", "round"
    )  # fmt: skip


def gone_joiners(inbox: DataFrame, path: DataFrame, blocked: DataFrame) -> DataFrame:
    """Returns the failures of the previous incarnations of nodes that send JOIN_REQUEST, as `connections.failures`.

    A sender that is a neighbour in the view of the join point has crashed and restarted. A join point in `blocked`
    suspects all senders, because it suspects a joining node until it answers the node.
    """
    asked = inbox.where("kind = 'JOIN_REQUEST'").selectExpr(
        "run_id", "dst as node_id", "src as peer", "due_round as round", "incarnation - 1 as incarnation"
    )
    known = path.where("distance = 1").selectExpr(*NODE, "target as peer")
    waiting = asked.join(blocked, NODE, "left_semi")
    return asked.join(known, [*NODE, "peer"], "left_semi").unionByName(waiting)


def status_changes(before: DataFrame, after: DataFrame, present: str) -> DataFrame:
    """Returns ``node_status`` rows for the changes between two versions of relation ``join``; `present` is SQL."""
    was = before.selectExpr(*NODE, "status as was")
    changed = after.where("status <> 'CONFIRMED'").join(was, NODE).where("status <> was")
    return changed.selectExpr(*NODE, present, "status")


def open_requests(inbox: DataFrame, request: DataFrame, now: DataFrame) -> DataFrame:
    """Returns the join requests that arrive in this round or wait at their join point.

    A new request replaces the waiting request of its sender: a joining node may repeat its request before the answer.
    `now` has the join points that answer waiting requests in this round. Its columns ``trigger, round`` are null in the
    result for a request that continues to wait.
    """
    arrived = inbox.where("kind = 'JOIN_REQUEST'").selectExpr(
        "run_id", "dst as node_id", "src as joiner", "source_seq", "incarnation", "message_id as trigger",
        "due_round as round",
    )  # fmt: skip
    every = arrived.unionByName(request.join(now, NODE, "left").selectExpr(*JOIN_REQUEST.columns, "trigger", "round"))
    newest = [F.expr(f"max({name}) as {name}") for name in ("source_seq", "incarnation", "trigger", "round")]
    return every.groupBy(*NODE, "joiner").agg(*newest).selectExpr(*JOIN_REQUEST.columns, "trigger", "round")


def requested_links(accepted: DataFrame) -> DataFrame:
    """Returns the marked link between joining node and join point for each accepted request (Algorithm 2)."""
    return accepted.selectExpr(
        *NODE, "least(node_id, joiner) as a", "greatest(node_id, joiner) as b", "true as is_marked"
    )


def send_topology(
    accepted: DataFrame, topology: DataFrame, path: DataFrame, status: DataFrame, setting: DataFrame
) -> DataFrame:
    """Returns PAR_TOP messages with the links whose two ends are within δ hops of the join point (Algorithm 2)."""
    near = (
        path.join(setting.selectExpr("run_id", "delta"), "run_id")
        .where("distance <= delta")
        .selectExpr(*NODE, "target")
    )
    link = (
        topology.join(near.withColumnRenamed("target", "a"), [*NODE, "a"], "left_semi")
        .join(near.withColumnRenamed("target", "b"), [*NODE, "b"], "left_semi")
        .groupBy(NODE)
        .agg(F.expr("array_sort(collect_list(struct(a, b, false as is_marked))) as links"))
    )
    own = status.selectExpr(*NODE, "incarnation as known")
    return to_send(
        accepted.join(link, NODE, "left").join(own, NODE, "left"), trigger="trigger", kind="'PAR_TOP'", dst="joiner",
        source="joiner", source_seq="source_seq", links="links", incarnation="coalesce(known, 0)",
    )  # fmt: skip


def send_entries(accepted: DataFrame, routing_entry: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """Returns PAR_SUB messages with the entries of the join point (rule R16).

    An origin more than δ hops from the join point is replaced by the node δ hops away on the path.
    """
    to_origin = path.selectExpr(*NODE, "target as origin", "distance as to_origin", "path as origin_path")
    rewritten = "case when to_origin > delta then get(origin_path, delta) else origin end"
    entry = (
        routing_entry.join(accepted.selectExpr(*NODE).distinct(), NODE, "left_semi")
        .join(to_origin, [*NODE, "origin"])
        .join(setting.selectExpr("run_id", "delta"), "run_id")
        .selectExpr(*NODE, "subscription_id", f"{rewritten} as origin", "least(to_origin + 1, delta + 1) as distance")
        .groupBy(NODE)
        .agg(F.expr("array_sort(collect_list(struct(subscription_id, origin, distance))) as entries"))
    )
    return to_send(
        accepted.join(entry, NODE), trigger="trigger", rank="1", kind="'PAR_SUB'", dst="joiner", source="joiner",
        source_seq="source_seq", entries="entries",
    )  # fmt: skip


def processing_for_joiner(accepted: DataFrame, processing: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """Returns processing rows that add each joining node to the recipients of messages of its join point.

    These messages are all SUB, UNSUB and REJOIN, and each J whose scope contains the joining node. A J that the joining
    node issued before a crash is excluded: the two nodes would wait for each other's confirmation. The rows have
    ``new_trigger, new_round`` of the request.
    """
    joiner = accepted.selectExpr(*NODE, "joiner", "trigger as new_trigger", "round as new_round")
    to_join_point = path.selectExpr(*NODE, "target as join_point", "distance as to_join_point")
    row = {"recipient", "path", "responsible", "is_confirmed", "is_reopened"}
    kept = [name for name in PROCESSING.columns if name not in row]
    return (
        processing.where("kind <> 'PUB'").selectExpr(*kept).distinct()
        .join(joiner, NODE)
        .join(to_join_point, [*NODE, "join_point"], "left")
        .join(setting.selectExpr("run_id", "delta"), "run_id")
        .where("kind <> 'J' or (to_join_point < delta and source <> joiner)")
        .selectExpr(
            *kept, "joiner as recipient", "cast(null as array<bigint>) as path", "joiner as responsible",
            "false as is_confirmed", "false as is_reopened", "new_trigger", "new_round",
        )
    )  # fmt: skip


def copies_for_joiner(added: DataFrame) -> DataFrame:
    """Returns a copy for the joining node of each message in `added` (`processing_for_joiner`), in their order.

    The copies leave the join point after PAR_TOP and PAR_SUB.
    """
    order = row_number("messages for a joining node", "run_id, node_id, responsible", "round, trigger")
    sent = {**FORWARDED, "issued_round": "null", "matches": "null"}
    return to_send(added, trigger="new_trigger", rank=f"1 + {order}", sent_round="new_round", **sent)


def behind_answers(sent: DataFrame, accepted: DataFrame) -> DataFrame:
    """Returns `sent` with reordered copies for joining nodes: each follows the answer of the join point (rule R16).

    The join point adds the link before it forwards the copies of the round. Without the reordering, a copy that arrived
    before JOIN_REQUEST would precede PAR_TOP, PAR_SUB and the messages from ProcessingList.
    """
    asked = accepted.selectExpr("run_id", "node_id as src", "joiner as dst", "trigger as asked").hint("shuffle_hash")
    moved = {
        "trigger": "greatest(trigger, asked) as trigger",
        "rank": "case when asked > trigger then trigger else rank end as rank",
    }
    columns = [moved.get(name, name) for name in SENT_AS]
    return sent.join(asked, ["run_id", "src", "dst"], "left").selectExpr(*columns)


def received_links(inbox: DataFrame) -> DataFrame:
    """Returns the links that joining nodes add to their views when they receive PAR_TOP.

    These are the links in PAR_TOP, unmarked, and the link of the joining node to its join point, marked.
    """
    reply = inbox.where("kind = 'PAR_TOP' and source_seq is not null")
    given = reply.selectExpr("run_id", "dst as node_id", "inline(links)").drop("is_marked")
    own = reply.selectExpr(
        "run_id", "dst as node_id", "least(src, dst) as a", "greatest(src, dst) as b", "true as is_marked"
    )
    return given.selectExpr(*NODE, "a", "b", "false as is_marked").unionByName(own)


def received_entries(inbox: DataFrame) -> DataFrame:
    """Returns the entries that joining nodes receive in PAR_SUB. The first hop of each entry is the join point."""
    return inbox.where("kind = 'PAR_SUB' and source_seq is not null").selectExpr(
        "run_id", "dst as node_id", "src as first_hop", "src as responsible", "message_id as trigger", "inline(entries)"
    )


def issued_joins(inbox: DataFrame, join: DataFrame) -> DataFrame:
    """Returns the J that each joining node issues when it receives PAR_TOP, as rows with the columns `COPY`.

    Only a DETACHED node issues J: a join point that has received JOIN_REQUEST twice sends two answers.
    """
    detached = join.where("status = 'DETACHED'").selectExpr("run_id", "node_id as dst")
    return new_copies(
        inbox.where("kind = 'PAR_TOP' and source_seq is not null").join(detached, ["run_id", "dst"], "left_semi"),
        node_id="dst", source="source", kind="'J'", source_seq="source_seq", trigger="message_id", round="due_round",
        issued_round="due_round", join_point="src",
    )  # fmt: skip


def open_calls(call: DataFrame | None, waiting: DataFrame, present: str) -> DataFrame:
    """Returns the calls in `waiting`, and the due calls in `call` except joins; `present` is SQL for ``round``."""
    opened = waiting.selectExpr(*CALL.columns, present)
    if call is None:
        return opened
    return opened.unionByName(call.where("kind <> 'join'").selectExpr(*CALL.columns, "round"))
