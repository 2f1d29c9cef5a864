"""Confirmations (Algorithm 1, lines 19 to 31): Out shrinks, and what is confirmed by all is finished.

A *finished* row is a multicast message whose processing ends at a node in this round: KEY, ``kind, trigger, round,
sender, subscription_id, origin, join_point``; ``trigger`` is the message that ended it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.protocols.delta.forward import KEY

FINISHED = [*KEY, "kind", "trigger", "round", "sender", "subscription_id", "origin", "join_point"]


def confirmations(inbox: DataFrame) -> DataFrame:
    """Gives the CONF messages of an inbox: KEY, ``via`` (who confirms), ``trigger, round``."""
    return inbox.where("kind = 'CONF'").selectExpr(
        "run_id", "dst as node_id", "source", "source_seq", "src as via", "message_id as trigger", "due_round as round"
    )


def touched(processing: DataFrame, confirmation: DataFrame) -> DataFrame:
    """Gives every processing row of a message that is confirmed by someone in this round.

    Returns:
        Processing rows with ``conf_trigger, conf_round`` of their own confirmation, null where it is not there yet.
    """
    message = confirmation.select(KEY).distinct()
    own = confirmation.groupBy(*KEY, "via").agg(
        F.expr("max(trigger) as conf_trigger"), F.expr("max(round) as conf_round")
    )
    return processing.join(message.hint("shuffle_hash"), KEY, "left_semi").join(
        own.hint("shuffle_hash"), [*KEY, "via"], "left"
    )


def unconfirmed(processing: DataFrame, confirmation: DataFrame) -> DataFrame:
    """Gives the processing rows that stay; a CONF from outside Out or for an unknown message changes nothing."""
    return processing.join(confirmation.select(*KEY, "via").hint("shuffle_hash"), [*KEY, "via"], "left_anti")


def finished_by_confirmation(touched_row: DataFrame) -> DataFrame:
    """Gives the messages of which no recipient is left unconfirmed."""
    body = ["kind", "sender", "subscription_id", "origin", "join_point"]
    return (
        touched_row.groupBy(*KEY, *body)
        .agg(
            F.expr("max(conf_trigger) as trigger"),
            F.expr("max(conf_round) as round"),
            F.expr("bool_and(conf_trigger is not null) as is_finished"),
        )
        .where("is_finished")
        .select(FINISHED)
    )


def finished_at_once(first: DataFrame, processing_row: DataFrame) -> DataFrame:
    """Gives the first copies with an empty Out: their processing ends where it begins."""
    return first.join(processing_row.select(KEY).distinct().hint("shuffle_hash"), KEY, "left_anti").select(FINISHED)


def waiting_senders(duplicate: DataFrame, processing: DataFrame) -> DataFrame:
    """A duplicate of a message in ProcessingList: its sender waits too (line 3). Rows of relation ``waiting``."""
    message = processing.select(KEY).distinct()
    return duplicate.select(*KEY, "sender").join(message, KEY, "left_semi").distinct()


def answered_at_once(duplicate: DataFrame, processing: DataFrame) -> DataFrame:
    """A duplicate of a message that is finished: its sender gets CONF at once (line 5)."""
    return duplicate.join(processing.select(KEY).distinct(), KEY, "left_anti").select(
        *KEY, "trigger", "round", "sender"
    )


def answered_waiting(finished: DataFrame, waiting: DataFrame) -> DataFrame:
    """The senders of duplicates of a message that is finished now (lines 27 to 29)."""
    return finished.select(*KEY, "trigger", "round").join(waiting, KEY)


def send_confirmations(to: DataFrame) -> DataFrame:
    """Gives CONF messages to senders.

    Args:
        to: KEY, ``trigger, round, sender``; rows without a sender are the source's own and send nothing.
    """
    return to.where("sender is not null").selectExpr(
        "run_id", "trigger", "cast(3 as bigint) as rank", "'CONF' as kind", "node_id as src", "sender as dst",
        "round as sent_round", "source", "source_seq",
    )  # fmt: skip


def confirmed_calls(finished: DataFrame) -> DataFrame:
    """A source that finishes its own message has its call confirmed."""
    return finished.where("source = node_id").selectExpr(
        "run_id", "source", "source_seq", "round", "'confirmed' as event"
    )
