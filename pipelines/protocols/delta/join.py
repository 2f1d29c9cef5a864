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
from pipelines.protocols.delta.forward import COPY, NODE, NOT_GUIDED
from pipelines.protocols.delta.tables import CALL, JOIN, JOIN_REQUEST, PROCESSING

JOINER_FIELDS = ("hops", "subscription_id", "origin", "origin_path", "join_point", "visited")
"""What the copies for a joiner say in the outbox, beside their heads."""


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
    attached = inbox.where("kind = 'PAR_TOP' and source_seq is not null").selectExpr(
        "run_id", "dst as node_id", "true as is_attached"
    )
    joined = now.selectExpr(*NODE, "true as is_joined")
    status = "case when is_joined then 'VALID_JOINED' when is_attached then 'ATTACHED' else status end as status"
    return (
        join.join(attached, NODE, "left").join(joined, NODE, "left").selectExpr(*NODE, "join_point", status)
    ).select(JOIN.columns)


def status_changes(inbox: DataFrame, now: DataFrame) -> DataFrame:
    """Gives the same changes as rows of ``node_status``."""
    attached = inbox.where("kind = 'PAR_TOP' and source_seq is not null").selectExpr(
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


def accepted_requests(opened: DataFrame, blocked: DataFrame) -> DataFrame:
    """Gives the requests whose join point is VALID_JOINED and OPERATIONAL."""
    return opened.join(blocked, NODE, "left_anti")


def waiting_requests(opened: DataFrame, blocked: DataFrame) -> DataFrame:
    """Gives relation ``join_request`` after the round."""
    return opened.join(blocked, NODE, "left_semi").select(JOIN_REQUEST.columns)


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
        .agg(F.expr("array_sort(collect_list(struct(a, b, false as is_marked))) as links"))
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
        .selectExpr(*NODE, "subscription_id", f"{rewritten} as origin", "least(to_origin + 1, delta + 1) as distance")
        .groupBy(NODE)
        .agg(F.expr("array_sort(collect_list(struct(subscription_id, origin, distance))) as entries"))
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
    kept = [name for name in PROCESSING.columns if name not in {"recipient", "path", "via", "is_confirmed", "is_again"}]
    return (
        processing.where("kind <> 'PUB'")
        .select(kept)
        .distinct()
        .join(joiner, NODE)
        .join(to_join_point, [*NODE, "join_point"], "left")
        .join(setting.select("run_id", "delta"), "run_id")
        .where("kind <> 'J' or to_join_point < delta")
        .selectExpr(
            *kept,
            "joiner as recipient",
            "cast(null as array<bigint>) as path",
            "joiner as via",
            "false as is_confirmed",
            "false as is_again",
            "new_trigger",
            "new_round",
        )
    )


def copies_for_joiner(added: DataFrame) -> DataFrame:
    """Gives the copies that go with `processing_for_joiner`, behind PAR_TOP and PAR_SUB, in ProcessingList order."""
    order = "row_number() over (partition by run_id, node_id, via order by round, trigger)"
    return added.selectExpr(
        "run_id", "new_trigger as trigger", f"cast(1 + {order} as bigint) as rank", "kind", "node_id as src",
        "via as dst", "new_round as sent_round", "source", "source_seq", "hops + 1 as hops", "subscription_id",
        "origin", "origin_path", "join_point", "visited",
    )  # fmt: skip


def received_links(inbox: DataFrame) -> DataFrame:
    """PAR_TOP at N: TOP_N, without marks, and N's own link, marked."""
    reply = inbox.where("kind = 'PAR_TOP' and source_seq is not null")
    given = reply.selectExpr("run_id", "dst as node_id", "inline(links)").drop("is_marked")
    own = reply.selectExpr(
        "run_id", "dst as node_id", "least(src, dst) as a", "greatest(src, dst) as b", "true as is_marked"
    )
    return given.selectExpr(*NODE, "a", "b", "false as is_marked").unionByName(own)


def received_entries(inbox: DataFrame) -> DataFrame:
    """PAR_SUB at N: entries of SUBS_SET_N; all lie behind M."""
    return inbox.where("kind = 'PAR_SUB' and source_seq is not null").selectExpr(
        "run_id", "dst as node_id", "src as first_hop", "src as via", "message_id as trigger", "inline(entries)"
    )


def issued_joins(inbox: DataFrame) -> DataFrame:
    """PAR_TOP at N: N is ATTACHED and issues J."""
    return inbox.where("kind = 'PAR_TOP' and source_seq is not null").selectExpr(
        "run_id", "dst as node_id", "source", "source_seq", "'J' as kind", "message_id as trigger",
        "cast(null as bigint) as sender", "due_round as round", "0 as hops", "due_round as issued_round",
        "cast(null as bigint) as subscription_id", "cast(null as bigint) as origin", "src as join_point",
        "cast(null as array<bigint>) as matches", *NOT_GUIDED,
    ).select(COPY)  # fmt: skip


def open_calls(call: DataFrame | None, waiting: DataFrame, present: str) -> DataFrame:
    """Gives the calls at hand: due ones, without joins, and those that waited.

    Args:
        call: The due calls.
        waiting: Relation ``call``.
        present: SQL for column ``round``.
    """
    opened = waiting.selectExpr(*CALL.columns, present)
    if call is None:
        return opened
    return opened.unionByName(call.where("kind <> 'join'").select(*CALL.columns, "round"))


def ready_calls(opened: DataFrame, blocked: DataFrame) -> DataFrame:
    """Gives the calls that are issued in this round."""
    return opened.join(blocked, NODE, "left_anti")


def waiting_calls(opened: DataFrame, blocked: DataFrame) -> DataFrame:
    """Gives relation ``call`` after the round."""
    return opened.join(blocked, NODE, "left_semi").select(CALL.columns)
