"""The join operation (4.6, Algorithm 2; settled rules 5, 6, 16, 17).

Rows that the steps read and write, for a joining node N and its join point M:

1. join call at N: JOIN_REQUEST to M; N stays DETACHED.
2. JOIN_REQUEST at M, once M is VALID_JOINED: marked link N-M into TOP_M; PAR_TOP and PAR_SUB back; N becomes a
   recipient of every J, SUB and UNSUB in M's ProcessingList whose scope holds it.
3. PAR_TOP at N: TOP_N, own link marked; N is ATTACHED and issues J. PAR_SUB at N: SUBS_SET_N.
4. J's own confirmation at N: N is VALID_JOINED; calls that waited are issued.

An *accepted* row is a JOIN_REQUEST that M takes: ``run_id, node_id`` (M), ``joiner, source_seq, trigger, round``.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract import CALL_TRIGGER
from pipelines.protocols.delta.forward import COPY, KEY, NODE
from pipelines.protocols.delta.tables import CALL, JOIN, JOIN_REQUEST, PROCESSING


def send_join_requests(call: DataFrame) -> DataFrame:
    """Algorithm 2, N: the request goes to the join point."""
    return call.where("kind = 'join'").selectExpr(
        "run_id", f"{CALL_TRIGGER} as trigger", "cast(0 as bigint) as rank", "'JOIN_REQUEST' as kind", "node_id as src",
        "join_point as dst", "round as sent_round", "node_id as source", "source_seq",
    )  # fmt: skip


def joined_now(finished: DataFrame) -> DataFrame:
    """Gives the nodes that become VALID_JOINED by their own confirmation: ``run_id, node_id, trigger, round``."""
    return finished.where("kind = 'J' and source = node_id").select(*NODE, "trigger", "round")


def next_join(join: DataFrame, inbox: DataFrame, now: DataFrame) -> DataFrame:
    """Gives relation ``join`` with the nodes that become ATTACHED (PAR_TOP arrives) or VALID_JOINED."""
    attached = inbox.where("kind = 'PAR_TOP'").selectExpr("run_id", "dst as node_id", "true as is_attached")
    joined = now.selectExpr(*NODE, "true as is_joined")
    status = "case when is_joined then 'VALID_JOINED' when is_attached then 'ATTACHED' else status end as status"
    return (
        join.join(attached, NODE, "left").join(joined, NODE, "left").selectExpr(*NODE, "join_point", status)
    ).select(JOIN.columns)


def status_changes(inbox: DataFrame, now: DataFrame) -> DataFrame:
    """Gives the same changes as rows of ``node_status``."""
    attached = inbox.where("kind = 'PAR_TOP'").selectExpr(
        "run_id", "dst as node_id", "due_round as round", "'ATTACHED' as status"
    )
    return attached.unionByName(now.selectExpr(*NODE, "round", "'VALID_JOINED' as status"))


def open_requests(inbox: DataFrame, request: DataFrame, now: DataFrame) -> DataFrame:
    """Gives all join requests at hand: those that arrive, and those that waited at a join point.

    Returns:
        ``run_id, node_id`` (M), ``joiner, source_seq, trigger, round``; the last two are null for a request that
        still waits: nothing in this round concerns it.
    """
    arrived = inbox.where("kind = 'JOIN_REQUEST'").selectExpr(
        "run_id", "dst as node_id", "src as joiner", "source_seq", "message_id as trigger", "due_round as round"
    )
    return arrived.unionByName(request.join(now, NODE, "left").select(*JOIN_REQUEST.columns, "trigger", "round"))


def accepted_requests(opened: DataFrame, join: DataFrame) -> DataFrame:
    """Gives the requests whose join point is VALID_JOINED."""
    return opened.join(join.where("status <> 'VALID_JOINED'").select(NODE), NODE, "left_anti")


def waiting_requests(opened: DataFrame, join: DataFrame) -> DataFrame:
    """Gives relation ``join_request`` after the round."""
    return opened.join(join.where("status <> 'VALID_JOINED'").select(NODE), NODE, "left_semi").select(
        JOIN_REQUEST.columns
    )


def requested_links(accepted: DataFrame) -> DataFrame:
    """Algorithm 2, M: the link N-M, marked."""
    return accepted.selectExpr(
        *NODE, "least(node_id, joiner) as a", "greatest(node_id, joiner) as b", "true as is_marked"
    )


def send_topology(accepted: DataFrame, topology: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """Algorithm 2, M: PAR_TOP with the links of TOP_M whose ends are within δ of M."""
    near = path.join(setting.select("run_id", "delta"), "run_id").where("distance <= delta").select(*NODE, "target")
    link = (
        topology.join(near.withColumnRenamed("target", "a"), [*NODE, "a"], "left_semi")
        .join(near.withColumnRenamed("target", "b"), [*NODE, "b"], "left_semi")
        .groupBy(NODE)
        .agg(F.expr("array_sort(collect_list(struct(a, b))) as links"))
    )
    return accepted.join(link, NODE, "left").selectExpr(
        "run_id", "trigger", "cast(0 as bigint) as rank", "'PAR_TOP' as kind", "node_id as src", "joiner as dst",
        "round as sent_round", "joiner as source", "source_seq", "links",
    )  # fmt: skip


def send_entries(accepted: DataFrame, subscription: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """PAR_SUB: the entries of SUBS_SET_M, rewritten for N as a SUB would be (settled rule 16)."""
    to_origin = path.selectExpr(*NODE, "target as origin", "distance as to_origin", "path as origin_path")
    rewritten = "case when to_origin > delta then get(origin_path, delta) else origin end"
    entry = (
        subscription.join(accepted.select(NODE).distinct(), NODE, "left_semi")
        .join(to_origin, [*NODE, "origin"])
        .join(setting.select("run_id", "delta"), "run_id")
        .selectExpr(*NODE, "subscription_id", f"{rewritten} as origin")
        .groupBy(NODE)
        .agg(F.expr("array_sort(collect_list(struct(subscription_id, origin))) as entries"))
    )
    return accepted.join(entry, NODE).selectExpr(
        "run_id", "trigger", "cast(1 as bigint) as rank", "'PAR_SUB' as kind", "node_id as src", "joiner as dst",
        "round as sent_round", "joiner as source", "source_seq", "entries",
    )  # fmt: skip


def processing_for_joiner(accepted: DataFrame, processing: DataFrame, path: DataFrame, setting: DataFrame) -> DataFrame:
    """N becomes a recipient of what M still processes and N must know: SUB, UNSUB, and J with N in its scope.

    Returns:
        Rows of relation ``processing`` with ``new_trigger, new_round`` of the request.
    """
    joiner = accepted.selectExpr(*NODE, "joiner", "trigger as new_trigger", "round as new_round")
    to_join_point = path.selectExpr(*NODE, "target as join_point", "distance as to_join_point")
    kept = [column for column in PROCESSING.columns if column not in {"recipient", "via"}]
    return (
        processing.where("kind <> 'PUB'")
        .select(kept)
        .distinct()
        .join(joiner, NODE)
        .join(to_join_point, [*NODE, "join_point"], "left")
        .join(setting.select("run_id", "delta"), "run_id")
        .where("kind <> 'J' or to_join_point < delta")
        .selectExpr(*kept, "joiner as recipient", "joiner as via", "new_trigger", "new_round")
    )


def copies_for_joiner(added: DataFrame) -> DataFrame:
    """Gives the copies that go with `processing_for_joiner`, behind PAR_TOP and PAR_SUB, in ProcessingList order."""
    order = "row_number() over (partition by run_id, node_id, via order by round, trigger)"
    return added.selectExpr(
        *KEY, "new_trigger as trigger", f"cast(1 + {order} as bigint) as rank", "kind", "via", "new_round as round",
        "hops + 1 as hops", "cast(null as bigint) as issued_round", "subscription_id", "origin", "join_point",
        "cast(null as array<bigint>) as matches",
    )  # fmt: skip


def received_links(inbox: DataFrame) -> DataFrame:
    """PAR_TOP at N: TOP_N, without marks, and N's own link, marked."""
    reply = inbox.where("kind = 'PAR_TOP'")
    given = reply.selectExpr("run_id", "dst as node_id", "inline(links)")
    own = reply.selectExpr(
        "run_id", "dst as node_id", "least(src, dst) as a", "greatest(src, dst) as b", "true as is_marked"
    )
    return given.selectExpr(*NODE, "a", "b", "false as is_marked").unionByName(own)


def received_entries(inbox: DataFrame) -> DataFrame:
    """PAR_SUB at N: entries of SUBS_SET_N; all lie behind M."""
    return inbox.where("kind = 'PAR_SUB'").selectExpr(
        "run_id", "dst as node_id", "src as via", "message_id as trigger", "inline(entries)"
    )


def issued_joins(inbox: DataFrame) -> DataFrame:
    """PAR_TOP at N: N is ATTACHED and issues J."""
    return inbox.where("kind = 'PAR_TOP'").selectExpr(
        "run_id", "dst as node_id", "source", "source_seq", "'J' as kind", "message_id as trigger",
        "cast(null as bigint) as sender", "due_round as round", "0 as hops", "due_round as issued_round",
        "cast(null as bigint) as subscription_id", "cast(null as bigint) as origin", "src as join_point",
        "cast(null as array<bigint>) as matches",
    ).select(COPY)  # fmt: skip


def ready_calls(call: DataFrame, waiting: DataFrame, join: DataFrame, now: DataFrame) -> DataFrame:
    """Gives the calls that are issued in this round: due ones at joined nodes, and those that waited for the join.

    Args:
        call: The due calls, without joins.
        waiting: Relation ``call``.
        join: Relation ``join`` after the round.
        now: Nodes that become VALID_JOINED in the round.
    """
    columns = ["run_id", "node_id", "source_seq", "round", "kind", "subscription_id", "matches"]
    due = call.join(join.where("status <> 'VALID_JOINED'").select(NODE), NODE, "left_anti")
    released = waiting.join(now.select(*NODE, "round"), NODE)
    return due.select(columns).unionByName(released.select(columns))


def no_calls(waiting: DataFrame) -> DataFrame:
    """Gives calls without a row, for a round in which none is due."""
    return waiting.where("false").selectExpr("*", "cast(null as bigint) as round")


def waiting_calls(call: DataFrame, waiting: DataFrame, join: DataFrame) -> DataFrame:
    """Gives relation ``call`` after the round."""
    opened = waiting.unionByName(call.select(CALL.columns))
    return opened.join(join.where("status <> 'VALID_JOINED'").select(NODE), NODE, "left_semi")
