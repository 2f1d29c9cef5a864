"""The end of a round: what finished messages change, deliveries, and the outbox (Alg. 1, 25 to 31)."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame

from pipelines.contract.round import OUTBOX
from pipelines.contract.routing_entries import EntryChanges, remaining_entries
from pipelines.contract.rows import KEY, NODE
from pipelines.protocols.delta import address, confirm, peers, routing
from pipelines.protocols.delta.forward import SENT_FIELDS
from pipelines.protocols.delta.tables import ROUTING_ENTRY
from pipelines.protocols.delta.work import SENT_AS, Work, union


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
    """Notes the subscriptions that end, where PAR_SUB may still bring them: writes tombstone; gives it."""
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
    before the end of the round, when everything else changes routing information (`change_entries`, `close`).
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


def deliver(work: Work, delivery: DataFrame) -> None:
    """Returns deliveries to the application, none twice: reads and writes delivered where nodes may crash."""
    if work.round.faults.may_crash:
        before = work.now("delivered").withColumnRenamed("node_id", "subscriber")
        known = before.groupBy("run_id", "subscriber", "source").agg({"last_seq": "max"}).toDF(
            "run_id", "subscriber", "source", "last_seq"
        )  # fmt: skip
        if work.is_disturbed:
            fresh = delivery.join(known, ["run_id", "subscriber", "source"], "left").where(
                "last_seq is null or last_seq < source_seq"
            )
            delivery = work.keep("delivery", fresh.drop("last_seq"))
        last = work.of_crashing(delivery).selectExpr(
            "run_id", "subscriber as node_id", "source", "source_seq as last_seq"
        )
        work.change("delivered", last)
    work.result.delivery = delivery


def _answer_senders(work: Work, finished: DataFrame) -> None:
    """Lines 27 to 30: CONF to every sender of a finished message."""
    sender = finished.select(*KEY, "trigger", "round", "sender")
    if work.round.faults.may_duplicate:
        waiting = work.now("waiting")
        # The sender of the first copy waits, too, where it sent a second one.
        sender = sender.unionByName(confirm.answered_waiting(finished, waiting)).distinct()
    work.send(confirm.send_confirmations(sender))
    if work.round.faults.may_duplicate:
        work.change("waiting", waiting.join(finished.select(KEY), KEY, "left_anti"))


def _finish(work: Work, finished: DataFrame) -> None:
    """CONF to the senders, confirmed calls, links without marks: writes topology, waiting."""
    _answer_senders(work, finished)
    work.events.append(confirm.confirmed_calls(finished))
    if work.may_finish_joins:
        unmarked = routing.unmarked_links(finished)
        work.change("topology", routing.merge_links(work.now("topology"), unmarked))


def close(work: Work) -> None:
    """Phase 5: CONF, confirmed calls, marks; puts the outbox together."""
    if work.finished:
        if not work.copies and work.may_change_entries:
            change_entries(work)
        finished = work.keep("finished", union(*work.finished))
        if not work.is_empty(finished):
            _finish(work, finished)
    if work.broken:
        reports = peers.crash_reports(union(*work.broken), work.now("status"), work.setting)
        work.send(reports, *peers.REPORT)
    if work.resent:
        work.send(peers.resent_copies(*work.resent), *SENT_FIELDS)
    work.outbox = [sent for sent in work.outbox if not work.is_empty(sent.row)]
    if work.outbox:
        work.result.outbox = _addressed(work)
    work.result.call_event = union(*work.events) if work.events else None
    work.result.node_status = union(*work.statuses) if work.statuses else None
    work.result.fate = union(*work.fates) if work.fates else None


def _addressed(work: Work) -> DataFrame:
    """Returns the outbox with what each message needs to leave (see `address`)."""
    columns = list(SENT_AS)
    if not (work.is_disturbed or work.sends_origins or "visited" in work.detectors):
        said = frozenset[str]().union(*(sent.fields for sent in work.outbox))
        columns = [name for name in SENT_AS if name in said or name in OUTBOX]
        work.result.sent_fields = said
    outbox = reduce(DataFrame.unionAll, (sent.with_columns(columns) for sent in work.outbox))
    if work.sends_origins:
        outbox = address.rewrite_origins(outbox, work.now("path"), work.setting, is_disturbed=work.is_disturbed)
    if "visited" in work.detectors:
        outbox = address.visited_lists(outbox, work.now("path"), work.setting)
    if not work.is_disturbed:
        return outbox
    addressed = address.addressed(outbox, work.now("peer"), work.round.run.link)
    if not work.is_recovering:
        return addressed.drop("peer_status")
    return address.guided(work.keep("addressed", addressed), work.now("processing"), work.now("path"))
