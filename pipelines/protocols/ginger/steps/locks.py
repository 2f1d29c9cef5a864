"""The lock table and acknowledgements: what locks key items at a broker, and who below has done so (section 3.5)."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.rows import NODE, row_number
from pipelines.protocols.ginger.steps.rows import ABOUT, FROM_BROKER, ID, TOPIC, united
from udfs.ginger.node import POSITIONS

_NONE = "cast(array() as array<bigint>)"


def branch_summaries(branch: DataFrame) -> DataFrame:
    """Returns the parts of sub-trees around brokers: TOPIC, ``n_children, is_root, clients``.

    A broker is the topic's root when its parent is not in the sub-tree (rule G2).

    Args:
        branch: *branch*.
    """
    return branch.groupBy(TOPIC).agg(
        F.expr("count_if(relationship = 'child') as n_children"),
        F.expr("count_if(relationship = 'parent') = 0 as is_root"),
        F.expr("collect_list(case when relationship = 'client' then neighbour end) as clients"),
    )


def broker_locks(message: DataFrame, summary: DataFrame) -> DataFrame:
    """Returns the locks of total-order messages that brokers bring.

    Columns: those of table pending but ``arrival`` and ``sent``, ``sender, trigger, round``, and ``is_ready``: no other
    child has to acknowledge it.

    Args:
        message: *message*.
        summary: See `branch_summaries`.
    """
    came = message.where(f"kind = 'Metadata' and guarantee = 'total' and {FROM_BROKER}").hint("shuffle_hash")
    acked = f"case relationship when 'child' then array(sender) else {_NONE} end as acked"
    came = came.selectExpr(
        *ABOUT, "case relationship when 'parent' then 'above' else 'below' end as came_from", "hops",
        "covered as told", acked, "sender", "trigger", "round",
    )  # fmt: skip
    return summary.join(came, TOPIC).selectExpr(
        *ABOUT, "came_from", "hops", f"{covering('told')} as covered", "acked", "sender", "trigger", "round",
        "size(acked) >= n_children as is_ready", "cast(0 as bigint) as rank",
    )  # fmt: skip


def covering(told: str) -> str:
    """Returns SQL for the nodes that have locked key items: the broker, its clients and those that it is told of."""
    return f"array_sort(array_distinct(concat(array(node_id), clients, {told})))"


def acknowledged(pending: DataFrame, ack: DataFrame, summary: DataFrame) -> DataFrame:
    """Returns pending messages with the acknowledgements of a round, and ``ready_trigger``, the last one that it needs.

    ``was_ready``: all children had acknowledged it before the round. ``ready_trigger`` is null where that is so, or
    where acknowledgements are still to come.

    Args:
        pending: Table pending, of brokers and topics at which something is due.
        ack: The TotalAck messages: *message*.
        summary: See `branch_summaries`.
    """
    number = row_number("acknowledgements of a message", ", ".join(ID), "trigger")
    numbered = ack.selectExpr(*ID, "sender", "covered as told", "trigger as ack_trigger", f"{number} as number")
    wanted = pending.join(summary.select(*TOPIC, "n_children").hint("shuffle_hash"), TOPIC)
    wanted = wanted.selectExpr("*", "n_children - size(acked) as n_missing")
    of = numbered.join(wanted.select(*ID, "n_missing").hint("shuffle_hash"), ID).groupBy(ID).agg(
        F.expr("collect_list(sender) as senders"), F.expr("flatten(collect_list(told)) as told"),
        F.expr("max(case when number = n_missing then ack_trigger end) as ready_trigger"),
    )  # fmt: skip
    return wanted.join(of.hint("shuffle_hash"), ID, "left").selectExpr(
        *ABOUT, "arrival", "came_from", "hops",
        f"array_sort(array_distinct(concat(covered, coalesce(told, {_NONE})))) as covered",
        f"array_sort(array_distinct(concat(acked, coalesce(senders, {_NONE})))) as acked", "sent",
        "n_missing <= 0 as was_ready", "ready_trigger",
    )  # fmt: skip


def arrivals(taken: list[DataFrame]) -> DataFrame:
    """Numbers what comes into the queues and lock tables of a broker in a round: ID, ``arrival``.

    Args:
        taken: Rows with ID, ``trigger``, ``rank`` and ``round``: what clients bring, and what is locked.
    """
    rows = united([one.select(*ID, "trigger", "rank", "round") for one in taken])
    number = row_number("arrivals at a broker", ", ".join(NODE), "trigger, rank")
    return rows.selectExpr(*ID, "rank", f"round * {POSITIONS} + {number} as arrival")
