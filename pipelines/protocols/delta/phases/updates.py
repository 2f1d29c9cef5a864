"""How a round changes routing information: by finished messages (Algorithm 1, lines 25 and 26), links, failures."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.rows import NODE, EntryChanges, remaining_entries
from pipelines.protocols.delta.steps import recovery, routing
from pipelines.protocols.delta.tables import ROUTING_ENTRY
from pipelines.protocols.delta.work import Work, union


def change_entries(work: Work) -> tuple[DataFrame, EntryChanges | None]:
    """SUBS_SET_N: writes routing_entry, tombstone.

    Returns:
        The entries before, and how they change, if they do.
    """
    entries = work.now("routing_entry")
    if not (work.finished and work.may_change_entries):
        return entries, None
    if work.is_disturbed:
        # Publications end in most rounds, and change no entries.
        finished = work.keep("ending", union(*(ended.where("kind in ('SUB', 'UNSUB')") for ended in work.finished)))
        if work.is_empty(finished) and not work.added:
            return entries, None
    else:
        finished = union(*work.finished)
    added = routing.added_entries(finished, work.now("path"))
    if work.is_disturbed:
        tombstone = _bury(work, finished)
        for told in work.added:
            # A joining node gets the SUB as well where its join point recovers.
            added = routing.unknown_entries(added, told, tombstone)
        added = routing.unknown_entries(union(added, *work.added), entries, tombstone)
    else:
        added = union(added, *work.added)
    changes = EntryChanges(
        work.keep("added_entries", added.select(*ROUTING_ENTRY.columns, "trigger")),
        work.keep("removed_entries", routing.removed_entries(finished)),
    )
    if work.round.faults.may_crash:
        _store_own(work, finished)
    if work.is_empty(changes.added) and work.is_empty(changes.removed):
        return entries, None
    work.change("routing_entry", remaining_entries(entries, changes))
    return entries, changes


def _bury(work: Work, finished: DataFrame) -> DataFrame:
    """Notes the subscriptions that end, where PAR_SUB may still bring them: writes tombstone, and returns it."""
    ended = work.of_disturbed(finished.where("kind = 'UNSUB'").select(*NODE, "subscription_id").distinct())
    return work.put("tombstone", work.now("tombstone").unionByName(ended).distinct())


def entries_after(work: Work, finished: DataFrame, path: DataFrame) -> DataFrame:
    """Returns SUBS_SET_N as it is when these messages are finished."""
    entries, added = work.now("routing_entry"), routing.added_entries(finished, path)
    if work.is_disturbed:
        added = routing.unknown_entries(added, entries, work.now("tombstone"))
    return remaining_entries(entries, EntryChanges(added, routing.removed_entries(finished)))


def take_in(work: Work, finished: DataFrame, path: DataFrame) -> None:
    """Line 26 for messages that end with a failure: whoever synchronises in this round gets what they changed.

    They are not sent again to a recovering node, which was the last to confirm them, and what is handed over is made
    before the end of the round, when everything else changes routing information (`change_entries`, `finish.close`).
    """
    if work.round.facts["processing"]["joining"]:
        work.put("topology", routing.merge_links(work.now("topology"), routing.unmarked_links(finished)))
    _bury(work, finished)
    work.put("routing_entry", entries_after(work, finished, path))


def _store_own(work: Work, finished: DataFrame) -> None:
    """Own subscriptions are durable from their confirmation on (rule R31): writes own_subscription."""
    mine = work.of_crashing(finished).where("source = node_id").select(*NODE, "subscription_id", "kind")
    begun = mine.where("kind = 'SUB'").select(*NODE, "subscription_id")
    ended = mine.where("kind = 'UNSUB'").select(*NODE, "subscription_id")
    own = work.now("own_subscription").unionByName(begun).distinct()
    work.change("own_subscription", own.join(ended, [*NODE, "subscription_id"], "left_anti"))


def look_again(work: Work, changed: DataFrame) -> DataFrame:
    """Computes the ways of nodes anew whose links or failed peers changed: writes path, routing_entry.

    The paths themselves are those of TOP_N, so they stay where that does.
    """
    node, peer = work.keep("changed", changed.select(NODE).distinct()), work.now("peer")
    if work.is_empty(node):
        return work.now("path")
    if "topology" in work.changed:
        next_path = routing.next_paths(work.now("path"), work.now("topology"), node, work.radius, peer, work.keep)
    else:
        next_path = routing.other_ways(work.now("path"), node, peer)
    path = work.put("path", next_path)
    work.put("routing_entry", routing.rerouted_entries(work.now("routing_entry"), path, node))
    return path


def learn_links(work: Work, links: DataFrame) -> None:
    """Adds links to TOP, as far as they are within reach; writes topology.

    Without joins every node has all its links from the start.
    """
    if not work.round.facts["join"]["joiners"]:
        return
    told = work.keep("told_links", routing.unknown_links(links, work.now("topology")))
    if work.is_empty(told):
        return
    node = told.select(NODE).distinct()
    merged = work.now("topology").join(node, NODE, "left_semi").unionByName(told)
    paths = routing.view_paths(work.keep("merged_links", merged.distinct()), work.radius, None, work.keep).distinct()
    near = recovery.within_reach(told, paths, work.setting)
    work.put("topology", routing.merge_links(work.now("topology"), near))
