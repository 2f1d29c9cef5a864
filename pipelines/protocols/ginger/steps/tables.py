"""Tables entry_queue and pending after a round, and the lock table that follows from pending."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.protocols.ginger.steps.entries import brought
from pipelines.protocols.ginger.steps.rows import ID, TOPIC

_LEFT, _DONE = "what in ('passed', 'locked')", "what = 'processed'"


def next_queue(queue: DataFrame, message: DataFrame, arrival: DataFrame, decision: DataFrame) -> DataFrame:
    """Returns table entry_queue after a round: what clients have brought, without what has entered.

    Args:
        queue: Table entry_queue.
        message: *message*.
        arrival: See `locks.arrivals`.
        decision: See `entries.decided`.
    """
    first = arrival.where("rank = 0").select(*ID, "arrival").hint("shuffle_hash")
    new = brought(message).join(first, ID).selectExpr("*", "sender as client").select(queue.columns)
    return queue.unionByName(new).join(decision.where(_LEFT).select(ID).hint("shuffle_hash"), ID, "left_anti")


def entered_locks(turn: DataFrame) -> DataFrame:
    """Returns the locks of total-order messages that leave entry queues, as `locks.broker_locks` has locks of others.

    Args:
        turn: Decided turns: TURN.
    """
    return turn.where("what = 'locked'").selectExpr("*", "cast(array() as array<bigint>) as acked")


def next_pending(
    table: DataFrame, pending: DataFrame, locks: list[DataFrame], arrival: DataFrame, turn: DataFrame
) -> DataFrame:
    """Returns table pending after a round.

    Args:
        table: Table pending.
        pending: The rows of brokers and topics at which something is due, see `locks.acknowledged`.
        locks: New locks, see `locks.broker_locks` and `entered_locks`.
        arrival: See `locks.arrivals`.
        turn: All turns: TURN.
    """
    touched = pending.select(ID).hint("shuffle_hash")
    rows = table.join(touched, ID, "left_anti").unionByName(pending.select(table.columns))
    for lock in locks:
        new = lock.join(arrival.hint("shuffle_hash"), [*ID, "rank"])
        rows = rows.unionByName(new.selectExpr("*", "cast(null as array<bigint>) as sent").select(table.columns))
    told = turn.where("what = 'sent'").selectExpr(*ID, "covered as told").hint("shuffle_hash")
    columns = [f"coalesce(told, {name}) as {name}" if name == "sent" else name for name in table.columns]
    rows = rows.join(told, ID, "left").selectExpr(*columns)
    return rows.join(turn.where(_DONE).select(ID).hint("shuffle_hash"), ID, "left_anti")


def locked_items(pending: DataFrame) -> DataFrame:
    """Returns the key items of pending messages: table locked."""
    return pending.selectExpr(*TOPIC, "source", "source_seq", "explode(keys) as key_item")
