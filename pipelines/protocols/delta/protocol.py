"""Protocol ``delta``: one round of δ-fault-tolerant publish/subscribe (report, sections 4 to 6).

A round at every node, in this order (the phases keep the outcome of handling messages one by one):

1. faults: nodes come back, failure detectors report, connections are made, routing information is handed over
   (`failures`);
2. confirm: CONF messages shrink Out; messages that all recipients confirmed are finished (Alg. 1, 19 to 31);
3. join: JOIN_REQUEST, PAR_TOP, PAR_SUB and the marks of J, before any recipient set is computed (rule R6);
4. forward: first copies of J, SUB, UNSUB, PUB and REJOIN, issued calls among them; Γ and Out (Alg. 1, 1 to 18);
5. finish: routing information changes (line 26), CONF to the senders (27 to 29);
6. a PUB sees the entries that were there when its turn came.

Steps whose kinds are absent are left out of the plan; without any crash so far phase 1 is.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from pipelines.contract.assumptions import Assumption
from pipelines.contract.round import Protocol, Round, RoundResult, Start
from pipelines.contract.rows import KEY, NODE, issued
from pipelines.protocols.delta import (
    DeltaSettings,
    confirm,
    duplicates,
    failures,
    finish,
    forward,
    joining,
    recovery,
)
from pipelines.protocols.delta.audits import AUDITS
from pipelines.protocols.delta.bound import BOUND
from pipelines.protocols.delta.tables import BODY, KINDS, MULTICAST, PATH, PAYLOAD, STATES
from pipelines.protocols.delta.work import SENT, Phase, Work, names, union


class DeltaProtocol(Protocol):
    """The protocol as the engine sees it."""

    kinds = KINDS
    payload = PAYLOAD
    body = BODY
    states = STATES
    audits = AUDITS
    bound = BOUND
    assumes: frozenset[Assumption] = frozenset({"no_loss", "no_duplicates", "order"})

    def start(self, start: Start) -> dict[str, DataFrame]:
        """Returns routing information as it is when the overlay stands, and the nodes that are still to join."""
        return starting_state(start, _radius(start.settings))

    def round(self, round_: Round) -> RoundResult:
        """Makes one round: the phases of the module's summary."""
        work = Work(round_, round_.due.inbox, _radius(round_.settings))
        for phase in PHASES:
            if phase.when(work):
                phase.run(work)
        return work.result


def _radius(settings: Sequence[DeltaSettings]) -> int:
    """Returns how far the views of all runs reach: δ+1 with the largest δ."""
    return 1 + max(setting.delta for setting in settings)


def _confirm(work: Work) -> None:
    """Phase 2: reads inbox and processing; writes processing, finished."""
    confirmation = confirm.confirmations(work.inbox)
    processing = work.now("processing")
    moved = work.keep("progress", confirm.progress(processing, confirmation))
    if not work.is_empty(moved):
        work.finished.append(moved.where("is_finished").select(confirm.FINISHED))
        work.change("processing", confirm.after_confirmations(processing, moved))


def _join(work: Work) -> None:
    """Phase 3: the copies to forward are those that come, and the calls that may be issued."""
    calls = joining.handle_joins(work)
    if calls is not None:
        work.copies.append(forward.issued_copies(calls))
        work.events.append(issued(calls))
    if work.has(*MULTICAST):
        work.copies.append(forward.received_copies(work.inbox))


def _forward(work: Work) -> None:
    """Phase 4: reads copies, detector, routing; writes processing, detector, deliveries, copies."""
    path = work.now("path")
    copy = union(*work.copies)
    if work.is_recovering:
        copy = _accepted(work, copy)
    first = _first_copies(work, copy)
    first = work.keep("first", forward.sender_hops(first, path if work.is_disturbed else None))
    if work.round.faults.may_duplicate:
        late = work.keep("duplicate", forward.later_copies(copy, first))
    if work.is_recovering and not work.is_empty(late):
        known = work.now("processing").select(KEY).unionByName(first.select(KEY))
        refused = recovery.refused(late, known, failures.synchronising(work))
        work.finish("refused", confirm.taken_anyway(refused))
    here = _route(work, first)
    if work.round.faults.may_duplicate and not work.is_empty(late):
        _drop_duplicates(work, late)
    if work.again:
        here.append(_compute_again(work, union(*work.again)))
    if here:
        finish.deliver(work, union(*here))


def _route(work: Work, first: DataFrame) -> list[DataFrame]:
    """Returns first copies their recipients and sends them on; writes routing, processing, detector.

    Returns:
        Deliveries.
    """
    if work.is_empty(first):
        finish.change_entries(work)
        return []
    plain, guided = _by_receiver(work, first)
    routed = _routed_recipients(work, plain)
    entries, changes = finish.change_entries(work)
    matched = work.keep("matched", forward.publication_recipients(plain, entries, changes))
    out = matched.where("recipient <> node_id").selectExpr(*KEY, "recipient", "responsible", forward.SEEN)
    work.finished.append(confirm.finished_at_once(plain.where("kind = 'PUB'"), out))
    recipient = union(*routed, out).selectExpr("*", forward.UNCONFIRMED)
    if guided:
        recipient = work.keep("recipient", union(recipient, *guided))
    work.send(forward.copies_to_send(first, recipient), *forward.SENT_FIELDS)
    here = [forward.matched_deliveries(matched), *(recovery.guided_deliveries(first, row) for row in guided)]
    rows = forward.processing_rows(work.round.faults.null_elsewhere(first, "matches"), recipient)
    if work.is_disturbed:
        rows = confirm.under_way(rows)
    processing = work.now("processing").unionByName(rows)
    work.change("processing", work.keep("processing", processing) if work.is_disturbed else processing)
    learnt = {"identifier": duplicates.detector_rows, "visited": duplicates.visited_rows}
    work.change("detector", union(*(learnt[name](part) for name, part in _by_detector(work, first))))
    return here


def _by_detector(work: Work, copy: DataFrame) -> list[tuple[str, DataFrame]]:
    """Returns the copies of the runs that use each duplicate detector."""
    if len(work.detectors) == 1:
        return [(name, copy) for name in work.detectors]
    parts = []
    for name in sorted(work.detectors):
        run = work.setting.where(f"detector = '{name}'").select("run_id").hint("shuffle_hash")
        parts.append((name, copy.join(run, "run_id", "left_semi")))
    return parts


def _first_copies(work: Work, copy: DataFrame) -> DataFrame:
    """Lines 1 to 12, with MsgId_N where the visited lists need it."""
    if work.round.faults.may_duplicate:
        detector = work.now("detector")
        judge = {
            "identifier": lambda part: duplicates.first_copies(part, detector),
            "visited": lambda part: duplicates.first_visits(work.keep("visiting", part), detector, work.keep),
        }
        copy = union(*(judge[name](part) for name, part in _by_detector(work, copy)))
    if "visited" not in work.detectors:
        return copy.selectExpr("*", "cast(null as bigint) as msg_id")
    return duplicates.numbered(copy.select(forward.COPY))


def _accepted(work: Work, copy: DataFrame) -> DataFrame:
    """A RECOVERING node takes Guided messages only (6.1)."""
    recovering = work.now("status").where("status = 'RECOVERING'").selectExpr(*NODE, "true as is_recovering")
    marked = copy.join(recovering.hint("shuffle_hash"), NODE, "left")
    marked = work.keep("copy", marked.selectExpr(*forward.COPY, "is_recovering and guide is null as is_discarded"))
    discarded = marked.where("is_discarded")
    work.fates.append(discarded.selectExpr("run_id", "trigger as message_id", "'lost_crash' as fate"))
    return marked.where("not coalesce(is_discarded, false)").drop("is_discarded")


def _by_receiver(work: Work, first: DataFrame) -> tuple[DataFrame, list[DataFrame]]:
    """Parts first copies at RECOVERING nodes from the others; handles the former, and gives the recipients of those."""
    if not work.is_recovering:
        return first, []
    recovering = work.now("status").where("status = 'RECOVERING'").select(NODE)
    own, peer = work.now("own_subscription"), work.now("peer")
    guided = work.keep("guided", first.join(recovering.hint("shuffle_hash"), NODE, "left_semi"))
    if work.is_empty(guided):
        return first, []
    told = work.keep("guided_recipient", recovery.guided_recipients(guided, own, peer))
    reach = work.keep("guided_reach", failures.recipients_in_view(work, guided))
    more = recovery.new_members(reach, told).selectExpr(*KEY, "recipient", "responsible", "path", forward.UNCONFIRMED)
    recipient = work.keep("guided_recipients", told.unionByName(more))
    work.finish("guided_at_once", confirm.finished_at_once(guided, recipient))
    return first.join(recovering.hint("shuffle_hash"), NODE, "left_anti"), [recipient]


def _routed_recipients(work: Work, first: DataFrame) -> list[DataFrame]:
    """Returns Γ of J, REJOIN, SUB and UNSUB, where there may be any, and finishes those that nobody else needs."""
    path, recipients = work.now("path"), []
    if work.has(*SENT) or work.may_release_calls:
        recipients.append(forward.subscription_recipients(first, path))
    if work.has("J", "PAR_TOP", "REJOIN") or work.is_recovering:
        recipients.append(forward.join_recipients(first, path, work.setting))
    if not recipients:
        return []
    routed = work.keep("routed", union(*recipients))
    work.finish("at_once", confirm.finished_at_once(first.where("kind <> 'PUB'"), routed))
    return [routed]


def _drop_duplicates(work: Work, late: DataFrame) -> None:
    """Lines 1 to 9: senders of duplicates wait for the confirmation, or get it at once; writes waiting."""
    processing = work.now("processing")
    work.send(confirm.send_confirmations(confirm.answered_at_once(late, processing)))
    work.change("waiting", work.now("waiting").unionByName(confirm.waiting_senders(late, processing)).distinct())
    work.fates.append(late.selectExpr("run_id", "trigger as message_id", "'duplicate' as fate"))
    if work.is_recovering:
        again = work.keep("guided_late", recovery.guided_again(late, processing, work.now("status")))
        if work.is_empty(again):
            return
        _add_recipients(work, again, recovery.guided_recipients(again, work.now("own_subscription"), work.now("peer")))


def _compute_again(work: Work, message: DataFrame) -> DataFrame:
    """Returns publications accepted as Guided to the recipients that their nodes know of by now; writes processing.

    Returns:
        Deliveries to the nodes themselves.
    """
    message = work.keep("regarded", forward.sender_hops(message, work.now("path")))
    matched = work.keep("rematched", forward.publication_recipients(message, work.now("routing_entry")))
    away = matched.where("recipient <> node_id").selectExpr(
        *KEY, "recipient", "responsible", forward.SEEN, forward.UNCONFIRMED
    )
    _add_recipients(work, message, away)
    now = message.selectExpr(*KEY, "now_round as round").distinct()
    return forward.matched_deliveries(matched.drop("round").join(now, KEY))


def _add_recipients(work: Work, message: DataFrame, recipient: DataFrame) -> None:
    """Sends messages of ProcessingList to recipients that they do not have yet; writes processing."""
    processing = work.now("processing")
    fresh = recipient.join(processing.select(*KEY, "recipient"), [*KEY, "recipient"], "left_anti")
    row = work.keep("wider", forward.processing_rows(message, fresh))
    if work.is_empty(row):
        return
    work.put("processing", processing.unionByName(row))
    work.resent.append(row.join(message.select(*KEY, "now_round").distinct(), KEY))


def starting_state(start: Start, radius: int) -> dict[str, DataFrame]:
    """Returns the relations before round 0: full views and no subscriptions at joined nodes, nothing at the others."""
    call = start.calls
    joins = call.where("kind = 'join'").selectExpr(
        "run_id", "node_id", "join_point", "source_seq", "false as is_asked", "'DETACHED' as status"
    )
    setting = start.run.setting.select("run_id", "delta")
    path = start.paths(radius).join(setting, "run_id").where("distance <= delta + 1").select(PATH.columns)
    near = path.select("run_id", "node_id", "target")
    link = start.run.link.where("src < dst").selectExpr("run_id", "src as a", "dst as b")
    topology = (
        link.join(near.withColumnRenamed("target", "a"), ["run_id", "a"])
        .join(near.withColumnRenamed("target", "b"), ["run_id", "node_id", "b"])
        .selectExpr("run_id", "node_id", "a", "b", "false as is_marked")
    )
    status = start.run.node.join(joins.select("run_id", "node_id"), ["run_id", "node_id"], "left_anti")
    return {
        "topology": topology,
        "path": path,
        "join": joins,
        "node_status": status.selectExpr(
            "run_id", "node_id", "cast(0 as bigint) as round", "'VALID_JOINED' as status"
        ).unionByName(joins.selectExpr("run_id", "node_id", "cast(0 as bigint) as round", "status")),
    }


_ROUTING = "path routing_entry topology"
PHASES = (
    Phase(
        "faults", lambda work: work.is_disturbed, failures.handle_faults,
        reads=names(_ROUTING, "join own_subscription peer processing status syn_request synch tombstone"),
        writes=names(_ROUTING, "join peer processing status syn_request synch tombstone"),
    ),
    Phase("confirm", lambda work: work.has("CONF"), _confirm, reads=names("processing"), writes=names("processing")),
    Phase(
        "join", lambda work: True, _join,
        reads=names(_ROUTING, "call join join_request peer processing status synch tombstone"),
        writes=names(_ROUTING, "call join join_request peer processing status"),
    ),
    Phase(
        "forward", lambda work: bool(work.copies), _forward,
        reads=names(
            "delivered detector join own_subscription path peer processing routing_entry status tombstone waiting"
        ),
        writes=names("delivered detector own_subscription processing routing_entry tombstone waiting"),
    ),
    Phase(
        "finish", lambda work: True, finish.close,
        reads=names(_ROUTING, "own_subscription peer processing status tombstone waiting"),
        writes=names("own_subscription routing_entry tombstone topology waiting"),
    ),
)  # fmt: skip
"""A round, in this order."""
PROTOCOL = DeltaProtocol()
