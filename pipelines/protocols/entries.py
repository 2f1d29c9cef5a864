"""Subscription entries that change within a round, for protocols that route by them.

Messages that a node handles before the one that changes an entry still see the entry as it was: that keeps the outcome
of handling them one by one, in the order of their triggers.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

_ALWAYS = "cast(-1 as bigint)"
_NEVER = "9223372036854775807"
_KEY = ["run_id", "node_id", "subscription_id"]
SEEN = "trigger > since and trigger < gone"
"""SQL for whether a message sees an entry, over columns of both."""


def visible_entries(subscription: DataFrame, added: DataFrame, removed: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Gives all entries of a round with the triggers between which they are there.

    Args:
        subscription: Entries before the round.
        added: New entries: the same columns and ``trigger``.
        removed: ``run_id, node_id, subscription_id, gone``: the trigger with which an entry goes.
        columns: The columns of ``subscription``: ``run_id, node_id, subscription_id`` and others.

    Returns:
        The columns of ``subscription``, ``since`` and ``gone``: a message with trigger t sees the entry when
        since < t < gone.
    """
    entry = subscription.selectExpr(*columns, f"{_ALWAYS} as since").unionByName(
        added.selectExpr(*columns, "trigger as since")
    )
    return entry.join(removed.hint("shuffle_hash"), _KEY, "left").selectExpr(
        *columns, "since", f"coalesce(gone, {_NEVER}) as gone"
    )


def remaining_entries(visible: DataFrame) -> DataFrame:
    """Gives the entries after the round."""
    return visible.where(f"gone = {_NEVER}").drop("since", "gone")
