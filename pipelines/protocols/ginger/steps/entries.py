"""The turns of messages at brokers: who enters, what is locked, what goes up, and what is processed (rules G1, G2)."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.rows import mapped
from pipelines.protocols.ginger.steps.rows import ABOUT, FROM_BROKER, ID, TOPIC, TURN, united
from udfs.ginger.turns import TURN as DECIDED, turns

_DUE = [*ID, "guarantee", "keys", "trigger", "what", "is_ready", "round"]


def brought(message: DataFrame) -> DataFrame:
    """Returns the messages of clients at their edge brokers: *message*."""
    return message.where("kind = 'Metadata' and relationship = 'client'")


def due_rows(message: DataFrame, lock: DataFrame, pending: DataFrame) -> DataFrame:
    """Returns the messages that brokers decide about: ID, ``guarantee, keys, trigger, what, is_ready, round``.

    Args:
        message: *message*.
        lock: See `locks.broker_locks`.
        pending: See `locks.acknowledged`; with ``round``.
    """
    came = brought(message).selectExpr("*", "'came' as what", "false as is_ready")
    locked = lock.selectExpr("*", "'locked' as what")
    ready = pending.where("ready_trigger is not null").selectExpr(
        *ABOUT, "ready_trigger as trigger", "'ready' as what", "true as is_ready", "round"
    )
    processed = message.where("kind = 'TotalProcessed'").selectExpr("*", "'processed' as what", "false as is_ready")
    return united([one.select(_DUE) for one in (came, locked, ready, processed)])


def decided(due: DataFrame, queue: DataFrame, pending: DataFrame, summary: DataFrame) -> DataFrame:
    """Decides the turns at each broker and topic: columns `udfs.ginger.turns.TURN`.

    Each decision depends on earlier ones over chains of key items, so one function goes over the rows of a broker and
    topic in order (`udfs.ginger.turns`).

    Args:
        due: See `due_rows`.
        queue: Table entry_queue.
        pending: See `locks.acknowledged`.
        summary: See `locks.branch_summaries`.
    """
    own = due.groupBy(TOPIC).agg(
        F.expr("max(round) as round"),
        F.expr("collect_list(struct(trigger, what, source, source_seq, guarantee, keys, is_ready)) as due"),
    )
    topics = own.select(TOPIC).hint("shuffle_hash")
    waiting = queue.join(topics, TOPIC).groupBy(TOPIC).agg(
        F.expr("collect_list(struct(arrival, source, source_seq, guarantee, keys)) as queue")
    )  # fmt: skip
    locked = pending.join(topics, TOPIC).groupBy(TOPIC).agg(F.expr(
        "collect_list(struct(arrival, source, source_seq, keys, was_ready as is_ready, sent is not null as is_sent))"
        " as pending"
    ))  # fmt: skip
    whole = own.join(summary.select(*TOPIC, "n_children", "is_root").hint("shuffle_hash"), TOPIC)
    whole = whole.join(waiting.hint("shuffle_hash"), TOPIC, "left").join(locked.hint("shuffle_hash"), TOPIC, "left")
    given = (*TOPIC, "round", "is_root", "n_children", "queue", "pending", "due")
    return mapped(whole, given, turns, DECIDED)


def known_messages(message: DataFrame, queue: DataFrame, pending: DataFrame, lock: DataFrame) -> DataFrame:
    """Returns the messages that decisions are about: ABOUT, ``hops, sender, came_from, covered``.

    Args:
        message: *message*.
        queue: Table entry_queue.
        pending: See `locks.acknowledged`.
        lock: See `locks.broker_locks`.
    """
    none = "cast(array() as array<bigint>) as covered"
    parts = [
        brought(message).selectExpr(*ABOUT, "hops", "sender", "'below' as came_from", none),
        queue.selectExpr(*ABOUT, "hops", "client as sender", "'below' as came_from", none),
        pending.selectExpr(*ABOUT, "hops", "cast(null as bigint) as sender", "came_from", "covered"),
        lock.select(*ABOUT, "hops", "sender", "came_from", "covered"),
    ]
    return united(parts)


def broker_turns(message: DataFrame, lock: DataFrame) -> DataFrame:
    """Returns the turns that need no decision: TURN.

    What brokers bring passes, or locks its key items; what is processed at the topic's root is processed here.

    Args:
        message: *message*.
        lock: See `locks.broker_locks`.
    """
    none = "cast(array() as array<bigint>) as covered"
    rest = ["trigger", "cast(0 as bigint) as rank", "round"]
    passed = message.where(f"kind = 'Metadata' and guarantee <> 'total' and {FROM_BROKER}")
    processed = message.where("kind = 'TotalProcessed'")
    return united([
        passed.selectExpr(*ABOUT, "hops", "sender", "'below' as came_from", none, "'passed' as what", *rest),
        lock.selectExpr(*ABOUT, "hops", "sender", "came_from", "covered", "'locked' as what", *rest),
        processed.selectExpr(*ABOUT, "hops", "sender", "'below' as came_from", none, "'processed' as what", *rest),
    ])  # fmt: skip


def decided_turns(decision: DataFrame, known: DataFrame, summary: DataFrame) -> DataFrame:
    """Returns decisions as turns: TURN.

    Args:
        decision: See `decided`.
        known: See `known_messages`.
        summary: See `locks.branch_summaries`.
    """
    found = known.join(decision.hint("shuffle_hash"), ID)
    found = found.join(summary.select(*TOPIC, "clients").hint("shuffle_hash"), TOPIC)
    return found.selectExpr(
        *ABOUT, "hops", "case when what <> 'processed' then sender end as sender", "came_from",
        "array_sort(array_distinct(concat(array(node_id), clients, covered))) as covered", "what", "trigger", "rank",
        "round",
    ).select(TURN)  # fmt: skip
