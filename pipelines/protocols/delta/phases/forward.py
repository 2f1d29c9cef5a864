"""Phases 2, 4 and 5 of a round: the multicast messages (Algorithm 1).

- confirm: CONF removes next hops from Out; a message is finished when Out is empty (Algorithm 1, lines 19 to 31);
- forward: selects first copies, computes their recipients Γ and next hops Out, and delivers publications (Algorithm 1,
  lines 1 to 18);
- finish: sends CONF, confirms calls, unmarks links, and sets the outbox (Algorithm 1, lines 27 to 31).
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.rows import KEY, NODE
from pipelines.engines.frames import union
from pipelines.protocols.delta.phases import updates
from pipelines.protocols.delta.steps import confirmations, connections, copies, join, recovery, routing
from pipelines.protocols.delta.tables import SENT
from pipelines.protocols.delta.work import Work


def confirm(work: Work) -> None:
    """Runs phase 2: applies CONF messages to ProcessingList, and finishes messages without unconfirmed next hops."""
    confirmation = confirmations.received_confirmations(work.inbox)
    processing = work.now("processing")
    moved = work.keep("progress", confirmations.progress(processing, confirmation))
    if not work.is_empty(moved):
        work.finished.append(moved.where("is_finished").selectExpr(*confirmations.FINISHED))
        work.change("processing", confirmations.after_confirmations(processing, moved))


def forward_copies(work: Work) -> None:
    """Runs phase 4: forwards and delivers first copies, and answers duplicates. Writes processing and detector."""
    path = work.now("path")
    copy = union(work.copies)
    if work.is_recovering:
        copy = _accepted(work, copy)
    first = _first_copies(work, copy)
    first = work.keep("first", copies.sender_hops(first, path if work.is_disturbed else None))
    late = work.keep("duplicate", copies.later_copies(copy, first)) if work.round.faults.may_crash else None
    if late is not None and work.is_empty(late):
        late = None
    if late is not None and (work.is_recovering or work.round.facts["join"]["detached"]):
        known = work.now("processing").selectExpr(*KEY).unionByName(first.selectExpr(*KEY))
        work.finish("refused", confirmations.refused(late, known, updates.synchronising(work)))
    here = _route(work, first)
    if late is not None:
        _drop_duplicates(work, late)
    if work.again:
        here.append(_compute_again(work, union(work.again)))
    if here:
        deliver(work, union(here))


def _route(work: Work, first: DataFrame) -> list[DataFrame]:
    """Computes the recipients of first copies, and forwards the copies. Returns the deliveries.

    Writes routing_entry, processing and detector.
    """
    if work.is_empty(first):
        updates.change_entries(work)
        return []
    plain, guided = _by_receiver(work, first)
    routed = _routed_recipients(work, plain)
    entries, changes = updates.change_entries(work)
    matched = work.keep("matched", routing.publication_recipients(plain, entries, changes))
    out = matched.where("recipient <> node_id").selectExpr(*KEY, "recipient", "responsible", routing.SEEN)
    work.finished.append(confirmations.finished_at_once(plain.where("kind = 'PUB'"), out))
    recipient = union([*routed, out]).selectExpr("*", routing.UNCONFIRMED)
    if guided:
        recipient = work.keep("recipient", union([recipient, *guided]))
    sent = copies.copies_to_send(first, recipient)
    if work.accepted:
        sent = join.behind_answers(sent, union(work.accepted))
    work.send(sent)
    here = [copies.matched_deliveries(matched), *(copies.guided_deliveries(first, row) for row in guided)]
    rows = copies.processing_rows(work.round.faults.null_elsewhere(first, "matches"), recipient)
    if work.is_disturbed:
        work.put("processing", work.now("processing").unionByName(confirmations.unfinished_rows(rows)))
    else:
        work.add("processing", rows)
    learnt = {"identifier": copies.detector_rows, "visited": copies.visited_rows}
    work.add("detector", union(learnt[name](part) for name, part in _by_detector(work, first)))
    return here


def _by_detector(work: Work, copy: DataFrame) -> list[tuple[str, DataFrame]]:
    """Splits `copy` by the duplicate detector of its run. Returns the name of each detector with its part of `copy`."""
    if len(work.detectors) == 1:
        return [(name, copy) for name in work.detectors]
    parts = []
    for name in sorted(work.detectors):
        run = work.setting.where(f"detector = '{name}'").selectExpr("run_id")
        parts.append((name, copy.join(run, "run_id", "left_semi")))
    return parts


def _first_copies(work: Work, copy: DataFrame) -> DataFrame:
    """Returns the first copies with ``msg_id`` (Algorithm 1, lines 1 to 12).

    With detector ``identifier``, ``msg_id`` is null.
    """
    found = []
    for name, part in _by_detector(work, copy.selectExpr(*copies.COPY)):
        is_visited = name == "visited"
        if work.round.faults.may_crash and is_visited:
            part = copies.first_visits(work.keep("visiting", part), work.now("detector"), work.keep)
        elif work.round.faults.may_crash:
            part = copies.first_copies(part, work.now("detector"))
        found.append(copies.numbered(part) if is_visited else part.selectExpr("*", "cast(null as bigint) as msg_id"))
    return union(found)


def _accepted(work: Work, copy: DataFrame) -> DataFrame:
    """Returns the copies that nodes accept: a RECOVERING node drops copies that are not Guided (section 6.1)."""
    recovering = work.now("status").where("status = 'RECOVERING'").selectExpr(*NODE, "true as is_recovering")
    marked = copy.join(recovering.hint("shuffle_hash"), NODE, "left")
    marked = work.keep("copy", marked.selectExpr(*copies.COPY, "is_recovering and guide is null as is_discarded"))
    discarded = marked.where("is_discarded")
    work.fates.append(discarded.selectExpr("run_id", "trigger as message_id", "'lost_crash' as fate"))
    return marked.where("not coalesce(is_discarded, false)").drop("is_discarded")


def _by_receiver(work: Work, first: DataFrame) -> tuple[DataFrame, list[DataFrame]]:
    """Returns the first copies at nodes that are not RECOVERING, and the recipients of those at RECOVERING nodes."""
    if not work.is_recovering:
        return first, []
    recovering = work.now("status").where("status = 'RECOVERING'").selectExpr(*NODE)
    own, peer = work.now("own_subscription"), work.now("peer")
    guided = work.keep("guided", first.join(recovering.hint("shuffle_hash"), NODE, "left_semi"))
    if work.is_empty(guided):
        return first, []
    told = work.keep("guided_recipient", routing.guided_recipients(guided, own, peer))
    reach = work.keep("guided_reach", routing.in_view(guided, work.now("path"), work.setting))
    more = routing.new_members(reach, told).selectExpr(*KEY, "recipient", "responsible", "path", routing.UNCONFIRMED)
    recipient = work.keep("guided_recipients", told.unionByName(more))
    work.finish("guided_at_once", confirmations.finished_at_once(guided, recipient))
    return first.join(recovering.hint("shuffle_hash"), NODE, "left_anti"), [recipient]


def _routed_recipients(work: Work, first: DataFrame) -> list[DataFrame]:
    """Returns the recipients (Γ) of J, REJOIN, SUB and UNSUB. Messages without recipients are finished."""
    path, found = work.now("path"), []
    if work.has(*SENT) or work.may_release_calls:
        found.append(routing.subscription_recipients(first, path))
    if work.has("J", "PAR_TOP", "REJOIN") or work.is_recovering:
        found.append(routing.join_recipients(first, path, work.setting))
    if not found:
        return []
    routed = work.keep("routed", union(found))
    work.finish("at_once", confirmations.finished_at_once(first.where("kind <> 'PUB'"), routed))
    return [routed]


def _drop_duplicates(work: Work, late: DataFrame) -> None:
    """Answers the senders of the duplicates `late` (Algorithm 1, lines 1 to 9).

    A sender gets CONF if the message is finished at the node. Otherwise the sender is added to relation waiting.
    """
    processing = work.now("processing")
    work.send(confirmations.send_confirmations(confirmations.answered_at_once(late, processing)))
    work.change("waiting", work.now("waiting").unionByName(confirmations.waiting_senders(late, processing)).distinct())
    work.fates.append(late.selectExpr("run_id", "trigger as message_id", "'duplicate' as fate"))
    if work.is_recovering:
        again = work.keep("guided_late", recovery.guided_again(late, processing, work.now("status")))
        if work.is_empty(again):
            return
        _add_recipients(work, again, routing.guided_recipients(again, work.now("own_subscription"), work.now("peer")))


def _compute_again(work: Work, message: DataFrame) -> DataFrame:
    """Computes the recipients of Guided publications again, after the recovery of their receivers (rule R32).

    Resends the publications to recipients that ProcessingList lacks, and returns the deliveries at the recovered nodes.
    Writes processing.
    """
    message = work.keep("regarded", copies.sender_hops(message, work.now("path")))
    matched = work.keep("rematched", routing.publication_recipients(message, work.now("routing_entry")))
    away = matched.where("recipient <> node_id").selectExpr(
        *KEY, "recipient", "responsible", routing.SEEN, routing.UNCONFIRMED
    )
    _add_recipients(work, message, away)
    now = message.selectExpr(*KEY, "now_round as round").distinct()
    return copies.matched_deliveries(matched.drop("round").join(now, KEY))


def _add_recipients(work: Work, message: DataFrame, recipient: DataFrame) -> None:
    """Adds the recipients that ProcessingList lacks, and resends the messages in `message` to these recipients.

    A finished message is added again only if a new recipient has a live responsible node. Writes processing.
    """
    processing = work.now("processing")
    fresh = recipient.join(processing.selectExpr(*KEY, "recipient"), [*KEY, "recipient"], "left_anti")
    kept = processing.selectExpr(*KEY).unionByName(fresh.where("responsible is not null").selectExpr(*KEY)).distinct()
    fresh = fresh.join(kept, KEY, "left_semi")
    row = work.keep("wider", copies.processing_rows(message, fresh))
    if work.is_empty(row):
        return
    work.put("processing", processing.unionByName(row))
    work.resent.append(row.join(message.selectExpr(*KEY, "now_round").distinct(), KEY))


def deliver(work: Work, delivery: DataFrame) -> None:
    """Adds `delivery` to the result of the round, each publication at most once per subscriber.

    Reads and writes delivered in runs with a scheduled crash.
    """
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
        last = work.round.faults.crashing.of(delivery).selectExpr(
            "run_id", "subscriber as node_id", "source", "source_seq as last_seq"
        )
        work.add("delivered", last)
    work.result.delivery = delivery


def _answer_senders(work: Work, finished: DataFrame) -> None:
    """Sends CONF to every sender of a finished message (Algorithm 1, lines 27 to 30). Writes waiting."""
    sender = finished.selectExpr(*KEY, "trigger", "round", "sender")
    if work.round.faults.may_crash:
        waiting = work.now("waiting")
        # The sender of the first copy has a row in waiting, too, if it sent a second copy.
        sender = sender.unionByName(confirmations.answered_waiting(finished, waiting)).distinct()
    work.send(confirmations.send_confirmations(sender))
    if work.round.faults.may_crash:
        work.change("waiting", waiting.join(finished.selectExpr(*KEY), KEY, "left_anti"))


def close(work: Work) -> None:
    """Runs phase 5: sends CONF, confirms calls, unmarks links, and sets the outbox of the round."""
    if work.finished:
        if not work.copies and work.may_change_entries:
            updates.change_entries(work)
        finished = work.keep("finished", union(work.finished))
        if not work.is_empty(finished):
            _answer_senders(work, finished)
            work.events.append(confirmations.confirmed_calls(finished))
            if work.may_finish_joins:
                topology = routing.merge_links(work.now("topology"), routing.joined_links(finished, is_marked=False))
                work.change("topology", topology)
    if work.broken:
        work.send(connections.crash_reports(union(work.broken), work.now("status"), work.setting))
    if work.resent:
        work.send(copies.resent_copies(*work.resent))
    work.outbox = [sent for sent in work.outbox if not work.is_empty(sent)]
    if work.outbox:
        work.result.outbox = _addressed(work)
    work.result.call_event = union(work.events) if work.events else None
    work.result.node_status = union(work.statuses) if work.statuses else None
    work.result.fate = union(work.fates) if work.fates else None


def _addressed(work: Work) -> DataFrame:
    """Returns the outbox with the columns that are added to a message when it is sent (see `steps.copies`)."""
    outbox = reduce(DataFrame.unionAll, work.outbox)
    if work.may_send_subscriptions:
        outbox = copies.rewrite_origins(outbox, work.now("path"), work.setting, is_disturbed=work.is_disturbed)
    if "visited" in work.detectors:
        outbox = copies.visited_lists(outbox, work.now("path"), work.setting)
    if not work.is_disturbed:
        return outbox
    addressed = copies.addressed(outbox, work.now("peer"), work.round.run.link)
    if not work.is_recovering:  # no message is Guided
        return addressed.withColumn("origin_path", F.expr("cast(null as array<bigint>)"))
    return copies.guided(work.keep("addressed", addressed), work.now("processing"), work.now("path"))
