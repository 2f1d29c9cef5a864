"""Subscription entries that change within a round, for protocols that route by them.

Messages that a node handles before the one that changes an entry still see the entry as it was: that keeps the outcome
of handling them one by one, in the order of their triggers.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

_KEY = ["run_id", "node_id", "subscription_id"]


@dataclass(frozen=True)
class EntryChanges:
    """What comes and goes in a round.

    Attributes:
        added: New entries, with the ``trigger`` of the message that brings each.
        removed: ``run_id, node_id, subscription_id, removed_trigger``: the trigger of the message that removes
            an entry.
    """

    added: DataFrame
    removed: DataFrame


def remaining_entries(entry: DataFrame, changes: EntryChanges) -> DataFrame:
    """Returns the entries after a round.

    Args:
        entry: Those before: ``run_id, node_id, subscription_id`` and others.
        changes: What the round changes.
    """
    whole = entry.unionByName(changes.added.drop("trigger"))
    return whole.join(changes.removed.hint("shuffle_hash"), _KEY, "left_anti")


def seen_entries(message: DataFrame, entry: DataFrame, changes: EntryChanges | None) -> DataFrame:
    """Joins messages with the entries that they see at their node.

    Args:
        message: ``run_id, node_id, subscription_id, trigger`` and others.
        entry: The entries before the round.
        changes: What the round changes; None for nothing.

    Returns:
        The columns of both.
    """
    # The few messages come first: engines that do not know sizes build the hash table of that side.
    seen = message.hint("shuffle_hash").join(entry, _KEY)
    if changes is None:
        return seen
    fresh = changes.added.withColumnRenamed("trigger", "added_trigger")
    seen = seen.unionByName(
        message.hint("shuffle_hash").join(fresh, _KEY).where("trigger > added_trigger").drop("added_trigger")
    )
    kept = seen.join(changes.removed.hint("shuffle_hash"), _KEY, "left")
    return kept.where("removed_trigger is null or trigger < removed_trigger").drop("removed_trigger")
