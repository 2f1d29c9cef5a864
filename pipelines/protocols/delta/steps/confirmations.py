"""Confirmations (Alg. 1, lines 19 to 31): CONF removes a next hop; a message without next hops is finished.

A *finished* row is a multicast message whose processing ends at a node in this round, with columns `FINISHED`. Column
``trigger`` is the id of the message that ended the processing. ``origin_distance`` and ``origin_hop`` are the length
and the first hop of the path from the node to ``origin``, if the message was Guided; else they are null.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.rows import KEY, NODE
from pipelines.protocols.delta.tables import PROCESSING, to_send

_BODY = ["kind", "sender", "subscription_id", "origin", "join_point"]
_ORIGIN = ["size(origin_path) - 1 as origin_distance", "get(origin_path, 1) as origin_hop"]
_CONFIRMED_BY = "array_sort(collect_list(case when conf_trigger is not null then responsible end)) as confirmed_by"
FINISHED = [
    *KEY, "kind", "trigger", "round", "sender", "subscription_id", "origin", "join_point",
    "origin_distance", "origin_hop",
]  # fmt: skip


def received_confirmations(inbox: DataFrame) -> DataFrame:
    """Returns the CONF messages of an inbox: `KEY`, ``responsible`` (the sender), ``trigger, round``."""
    return inbox.where("kind = 'CONF'").selectExpr(
        "run_id", "dst as node_id", "source", "source_seq", "src as responsible", "message_id as trigger",
        "due_round as round",
    )  # fmt: skip


def progress(processing: DataFrame, confirmation: DataFrame) -> DataFrame:
    """Returns the messages of ProcessingList that a next hop (member of Out) confirms in this round.

    A CONF from a node outside Out, or for an unknown message, has no effect. The result has the columns `FINISHED`,
    ``is_finished`` (Out is empty now), and ``confirmed_by`` (the confirming next hops).
    """
    own = confirmation.groupBy(*KEY, "responsible").agg(
        F.expr("max(trigger) as conf_trigger"), F.expr("max(round) as conf_round")
    )
    message = confirmation.selectExpr(*KEY).distinct()
    touched = processing.join(message.hint("shuffle_hash"), KEY, "left_semi")
    row = touched.join(own.hint("shuffle_hash"), [*KEY, "responsible"], "left")
    marked = row.withColumn("is_confirmed", F.expr("is_confirmed or conf_trigger is not null"))
    return _by_message(marked, _CONFIRMED_BY)


def after_confirmations(processing: DataFrame, moved: DataFrame) -> DataFrame:
    """Returns ProcessingList with the confirmations in `moved` (`progress`), without finished messages (line 30)."""
    now = moved.selectExpr(*KEY, "is_finished", "confirmed_by")
    kept = (
        "is_confirmed or coalesce(array_contains(confirmed_by, responsible), false) as is_confirmed"
        if name == "is_confirmed" else name
        for name in PROCESSING.columns
    )  # fmt: skip
    left = processing.join(now.hint("shuffle_hash"), KEY, "left").where("not coalesce(is_finished, false)")
    return left.selectExpr(*kept)


def abandoned_messages(processing: DataFrame, row: DataFrame) -> DataFrame:
    """Returns the messages in `row` whose next hops (Out) have all confirmed, after they have lost a next hop.

    `processing` has all processing rows of these messages. Column ``now_round`` of `row` is the present round.
    """
    message = row.groupBy(KEY).agg({"now_round": "max"}).toDF(*KEY, "conf_round")
    unanswered = processing.join(message, KEY).selectExpr("*", "cast(-1 as bigint) as conf_trigger")
    return _by_message(unanswered).where("is_finished").selectExpr(*FINISHED)


def _by_message(row: DataFrame, *more: str) -> DataFrame:
    changed = row.selectExpr(*KEY, *_BODY, *_ORIGIN, "responsible", "is_confirmed", "conf_trigger", "conf_round")
    measures = (
        "max(conf_trigger) as trigger",
        "max(conf_round) as round",
        "bool_and(responsible is null or is_confirmed) as is_finished",
        *more,
    )
    grouped = changed.groupBy(*KEY, *_BODY, "origin_distance", "origin_hop").agg(*map(F.expr, measures))
    return grouped.where("trigger is not null")


def without_finished(processing: DataFrame, finished: DataFrame) -> DataFrame:
    """Returns ProcessingList without the messages `finished` (Algorithm 1, line 30)."""
    return processing.join(finished.selectExpr(*KEY).hint("shuffle_hash"), KEY, "left_anti").selectExpr(
        *PROCESSING.columns
    )


def finished_at_once(first: DataFrame, processing_row: DataFrame) -> DataFrame:
    """Returns the first copies without next hops (Out), as finished messages of this round (rule R13)."""
    out = processing_row.where("responsible is not null and responsible <> node_id")
    left = first.join(out.selectExpr(*KEY).distinct().hint("shuffle_hash"), KEY, "left_anti")
    return left.selectExpr(*KEY, *_BODY, *_ORIGIN, "trigger", "round").selectExpr(*FINISHED)


def waiting_senders(duplicate: DataFrame, processing: DataFrame) -> DataFrame:
    """Returns the senders of duplicates of messages in ProcessingList, as rows of ``waiting`` (Algorithm 1, line 3)."""
    message = processing.selectExpr(*KEY).distinct()
    return duplicate.selectExpr(*KEY, "sender").join(message, KEY, "left_semi").distinct()


def unfinished_rows(row: DataFrame) -> DataFrame:
    """Returns the processing rows of messages with an unconfirmed next hop."""
    busy = row.where("responsible is not null and not is_confirmed").selectExpr(*KEY).distinct()
    return row.join(busy.hint("shuffle_hash"), KEY, "left_semi")


def refused(late: DataFrame, known: DataFrame, synchronising: DataFrame) -> DataFrame:
    """Returns duplicates of J, SUB and UNSUB that synchronising nodes lack in ProcessingList (`known`), as finished.

    A node applies the routing information of these duplicates, which it may lack: the failure of a sender may have lost
    the PAR_SUB that contained it, and newer messages have raised the highest number in the duplicate detector.
    """
    routing = late.where("kind in ('J', 'SUB', 'UNSUB')").join(synchronising, NODE, "left_semi")
    body = ["cast(null as bigint) as sender" if name == "sender" else name for name in _BODY]
    return (
        routing.join(known.selectExpr(*KEY).distinct(), KEY, "left_anti")
        .selectExpr(*KEY, *body, *_ORIGIN, "trigger", "round")
        .selectExpr(*FINISHED)
    )


def answered_at_once(duplicate: DataFrame, processing: DataFrame) -> DataFrame:
    """Returns the senders of duplicates of finished messages, which get CONF in this round (Algorithm 1, line 5)."""
    return duplicate.join(processing.selectExpr(*KEY).distinct(), KEY, "left_anti").selectExpr(
        *KEY, "trigger", "round", "sender"
    )


def answered_waiting(finished: DataFrame, waiting: DataFrame) -> DataFrame:
    """Returns the waiting senders of the messages `finished` (Algorithm 1, lines 27 to 29)."""
    return (
        finished.selectExpr(*KEY, "trigger", "round").join(waiting, KEY).selectExpr(*KEY, "trigger", "round", "sender")
    )


def send_confirmations(to: DataFrame) -> DataFrame:
    """Returns a CONF message for each row of `to` with a sender. Columns of `to`: `KEY`, ``trigger, round, sender``."""
    return to_send(
        to.where("sender is not null"), trigger="trigger", rank="3", kind="'CONF'", dst="sender", source="source",
        source_seq="source_seq",
    )  # fmt: skip


def confirmed_nodes(finished: DataFrame, kind: str) -> DataFrame:
    """Returns the nodes whose own J or REJOIN is confirmed (Alg. 5, line 23): ``run_id, node_id, trigger, round``."""
    return finished.where(f"kind = '{kind}' and source = node_id").selectExpr(*NODE, "trigger", "round")


def confirmed_calls(finished: DataFrame) -> DataFrame:
    """Returns ``call_event`` rows that confirm the calls of the messages `finished` at their source."""
    return finished.where("source = node_id").selectExpr(
        "run_id", "source", "source_seq", "round", "'confirmed' as event"
    )
