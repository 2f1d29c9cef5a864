"""What every message gets when it leaves a node: m.from for its receiver, and the connection that it takes.

A message to a RECOVERING node is Guided: it carries the paths from there to the recipients (section 6). Multicast
messages to a node that has not answered yet wait in ProcessingList.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.round import OUTBOX
from pipelines.contract.rows import KEY, NODE
from pipelines.protocols.delta.messages import MULTICAST, PAYLOAD, SENT_AS

_MULTICAST = f"kind in {MULTICAST}"
_END = ["run_id", "src", "dst"]
_BEFORE = "slice(path, array_position(path, dst), 100)"


def rewrite_origins(outbox: DataFrame, path: DataFrame, setting: DataFrame, *, is_disturbed: bool) -> DataFrame:
    """make_copy_send^SUB: beyond δ+1 hops of its receiver the copy names the node δ+1 hops away (rule R1).

    Args:
        outbox: The outbox; those without an origin stay as they are.
        path: Relation ``path``.
        setting: One row a run with ``delta``.
        is_disturbed: Whether a receiver may be farther than a neighbour, or a message Guided.

    Returns:
        The outbox; ``origin_path`` becomes P(receiver, origin) where it has been disturbed.
    """
    to_origin = path.selectExpr("run_id", "node_id as src", "target as origin", "distance", "path as seen_path")
    kept = [column for column in SENT_AS if column not in {"origin", "origin_path"}]
    row = outbox.join(to_origin.hint("shuffle_hash"), ["run_id", "src", "origin"], "left").join(
        setting.select("run_id", "delta").hint("shuffle_hash"), "run_id"
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
    """Inserts bypassed nodes into m.visited, as pairs without MsgId, and cuts it to the last δ+1 (section 5).

    Args:
        outbox: All messages; those without a list stay as they are.
        path: Relation ``path``.
        setting: One row a run with ``delta``.
    """
    hops = path.selectExpr("run_id", "node_id as src", "target as dst", "distance")
    kept = [name for name in SENT_AS if name != "visited"]
    nil = "named_struct('node', cast(null as bigint), 'msg_id', cast(null as bigint))"
    whole = (
        f"case when distance > 1 then concat(visited, array_repeat({nil}, distance - 1)) else visited end as visited"
    )
    return (
        outbox.join(hops, _END, "left")
        .join(setting.select("run_id", "delta").hint("shuffle_hash"), "run_id")
        .selectExpr(*kept, whole, "delta")
        .selectExpr(*kept, "slice(visited, greatest(size(visited) - delta, 1), delta + 1) as visited")
        .select(*SENT_AS)
    )


def addressed(outbox: DataFrame, peer: DataFrame, link: DataFrame) -> DataFrame:
    """Returns the outbox with what the sender knows of its peers, without what has to wait for their answer.

    A Conf to a bypassing node that failed, or that the node has no connection to any more, is lost (rule R15).

    Args:
        outbox: All messages; ``latency_rounds, for_incarnation`` where they are known already, ``delay_rounds``
            for messages that take longer than their connection does.
        peer: Relation ``peer``.
        link: Table ``link``.

    Returns:
        The outbox, its ``latency_rounds`` null where the link's is meant, and ``peer_status``.
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
            "coalesce(latency_rounds, known_rounds + coalesce(delay_rounds, 0)) as latency_rounds", "peer_status",
        )
    )  # fmt: skip


def plain(columns: Sequence[str]) -> list[str]:
    """Returns SQL for the outbox where no message is Guided: P(receiver, m.from) is a Guided message's alone.

    Args:
        columns: The columns of `addressed`.
    """
    shown = {"origin_path": "cast(null as array<bigint>) as origin_path"}
    return [shown.get(name, name) for name in columns if name != "peer_status"]


def guided(outbox: DataFrame, processing: DataFrame, path: DataFrame) -> DataFrame:
    """Returns the outbox with Guided messages for RECOVERING receivers: g.to from ProcessingList as it is now.

    What is not there any more, all its recipients have confirmed in this very round: it need not be sent.

    Args:
        outbox: Rows of `addressed`.
        processing: Relation ``processing``.
        path: Relation ``path``.
    """
    key = [*_END, "source", "source_seq"]
    is_guided = f"{_MULTICAST} and peer_status = 'RECOVERING'"
    message = outbox.where(is_guided).select(key).distinct()
    seen = path.selectExpr(*NODE, "target as recipient", "path as seen_path")
    row = (
        processing.select(*KEY, "recipient", "path", "is_confirmed", "is_reopened")
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
