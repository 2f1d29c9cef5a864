"""Phase 5 of a round: CONF, confirmed calls, marks, and the outbox (Algorithm 1, lines 27 to 31)."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame

from pipelines.contract.round import OUTBOX
from pipelines.contract.rows import KEY
from pipelines.protocols.delta.messages import SENT_AS
from pipelines.protocols.delta.phases import updates
from pipelines.protocols.delta.steps import address, confirmations, copies, detectors, routing
from pipelines.protocols.delta.work import ROUTING, Phase, Work, names, union


def _answer_senders(work: Work, finished: DataFrame) -> None:
    """Lines 27 to 30: CONF to every sender of a finished message."""
    sender = finished.select(*KEY, "trigger", "round", "sender")
    if work.round.faults.may_duplicate:
        waiting = work.now("waiting")
        # The sender of the first copy waits, too, where it sent a second one.
        sender = sender.unionByName(confirmations.answered_waiting(finished, waiting)).distinct()
    work.send(confirmations.send_confirmations(sender))
    if work.round.faults.may_duplicate:
        work.change("waiting", waiting.join(finished.select(KEY), KEY, "left_anti"))


def _finish(work: Work, finished: DataFrame) -> None:
    """CONF to the senders, confirmed calls, links without marks: writes topology, waiting."""
    _answer_senders(work, finished)
    work.events.append(confirmations.confirmed_calls(finished))
    if work.may_finish_joins:
        unmarked = routing.unmarked_links(finished)
        work.change("topology", routing.merge_links(work.now("topology"), unmarked))


def close(work: Work) -> None:
    """Phase 5: CONF, confirmed calls, marks; puts the outbox together."""
    if work.finished:
        if not work.copies and work.may_change_entries:
            updates.change_entries(work)
        finished = work.keep("finished", union(*work.finished))
        if not work.is_empty(finished):
            _finish(work, finished)
    if work.broken:
        reports = detectors.crash_reports(union(*work.broken), work.now("status"), work.setting)
        work.send(reports, *detectors.REPORT)
    if work.resent:
        work.send(copies.resent_copies(*work.resent), *copies.SENT_FIELDS)
    work.outbox = [sent for sent in work.outbox if not work.is_empty(sent.row)]
    if work.outbox:
        work.result.outbox = _addressed(work)
    work.result.call_event = union(*work.events) if work.events else None
    work.result.node_status = union(*work.statuses) if work.statuses else None
    work.result.fate = union(*work.fates) if work.fates else None


def _addressed(work: Work) -> DataFrame:
    """Returns the outbox with what each message needs to leave (see `steps.address`)."""
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
        return addressed.selectExpr(*address.plain(addressed.columns))
    return address.guided(work.keep("addressed", addressed), work.now("processing"), work.now("path"))


PHASE = Phase(
    "finish", lambda work: True, close,
    reads=names(ROUTING, "own_subscription peer processing status tombstone waiting"),
    writes=names("own_subscription routing_entry tombstone topology waiting"),
)  # fmt: skip
