"""Subscription entries that change within a round, for protocols that route by them.

Messages that a node handles before the one that changes an entry still see the entry as it was: that keeps the outcome
of handling them one by one, in the order of their triggers.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

_ALWAYS = "cast(-1 as bigint)"
_NEVER = "9223372036854775807"
_KEY = ["run_id", "node_id", "subscription_id"]


def visible_entries(subscription: DataFrame, added: DataFrame, removed: DataFrame) -> DataFrame:
    """Gives all entries of a round with the triggers between which they are there.

    Args:
        subscription: Entries before the round: ``run_id, node_id, subscription_id`` and others.
        added: New entries: the same columns and ``trigger``.
        removed: ``run_id, node_id, subscription_id, gone``: the trigger with which an entry goes.

    Returns:
        The columns of ``subscription``, ``since`` and ``gone``: a message with trigger t sees the entry when
        since < t < gone.
    """
    columns = subscription.columns
    entry = subscription.selectExpr(*columns, f"{_ALWAYS} as since").unionByName(
        added.selectExpr(*columns, "trigger as since")
    )
    return entry.join(removed.hint("shuffle_hash"), _KEY, "left").selectExpr(
        *columns, "since", f"coalesce(gone, {_NEVER}) as gone"
    )


def remaining_entries(visible: DataFrame) -> DataFrame:
    """Gives the entries after the round."""
    return visible.where(f"gone = {_NEVER}").drop("since", "gone")
