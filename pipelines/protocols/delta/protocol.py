"""Protocol ``delta``: one round of δ-fault-tolerant publish/subscribe, failure-free part (report, section 4).

A round at every node, in this order (the phases keep the outcome of handling messages one by one):

1. confirm: CONF messages shrink Out; messages that all recipients confirmed are finished (Alg. 1, 19 to 31);
2. join: JOIN_REQUEST, PAR_TOP, PAR_SUB and the marks of J, before any recipient set is computed (settled rule 6);
3. forward: first copies of J, SUB, UNSUB and PUB, issued calls among them; Γ and Out (Alg. 1, 1 to 18);
4. finish: routing information changes (line 26), CONF to the senders (27 to 29);
5. a PUB sees the entries that were there when its turn came.

Steps whose kinds are absent are left out of the plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce

from pyspark.sql import DataFrame

from pipelines.contract import Round, RoundResult, Start
from pipelines.protocols.delta import DeltaSettings, confirm, forward, join, routing
from pipelines.protocols.delta.audits import AUDITS
from pipelines.protocols.delta.tables import BODY, KINDS, MULTICAST, PATH, PAYLOAD, STATES
from pipelines.protocols.entries import remaining_entries, visible_entries

_SENT = ("SUB", "UNSUB", "subscribe", "unsubscribe")


def _union(*frames: DataFrame) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)


@dataclass
class _Work:
    """What a round has made so far."""

    due: Round
    radius: int
    result: RoundResult = field(default_factory=RoundResult)
    outbox: list[DataFrame] = field(default_factory=list)
    finished: list[DataFrame] = field(default_factory=list)
    added: list[DataFrame] = field(default_factory=list)
    copies: list[DataFrame] = field(default_factory=list)

    def now(self, name: str) -> DataFrame:
        """Gives the newest form of a relation."""
        return self.result.state.get(name, self.due.state[name])

    def has(self, *kinds: str) -> bool:
        return not self.due.kinds.isdisjoint(kinds)

    @property
    def setting(self) -> DataFrame:
        return self.due.fixed["setting"]

    @property
    def may_change_entries(self) -> bool:
        released = self.due.facts["calls"] > 0 and self.may_finish_joins
        return self.has(*_SENT, "PAR_SUB") or released or (self.has("CONF") and self.due.facts["routing"] > 0)

    @property
    def may_finish_joins(self) -> bool:
        return self.has("J") or (self.has("CONF") and self.due.facts["joining"] > 0)


class DeltaProtocol:
    """The protocol as the engine sees it."""

    kinds = KINDS
    payload = PAYLOAD
    body = BODY
    states = STATES
    audits = AUDITS

    def start(self, start: Start) -> dict[str, DataFrame]:
        """Gives routing information as it is when the overlay stands, and the nodes that are still to join."""
        return starting_state(start, _radius(start.settings))

    def round(self, due: Round) -> RoundResult:
        """Makes one round: the phases of the module's summary."""
        work = _Work(due, _radius(due.settings))
        if work.has("CONF"):
            _confirm(work)
        calls = due.calls
        if due.facts["detached"] or work.has("join", "JOIN_REQUEST", "J"):
            calls = _join(work)
        if calls is not None:
            work.copies.append(forward.issued_copies(calls))
        if work.has(*MULTICAST):
            work.copies.append(forward.received_copies(work.due.inbox))
        if work.copies:
            _forward(work)
        return _close(work, calls)


def _radius(settings: Sequence[DeltaSettings]) -> int:
    """Gives how far the views of all runs reach: δ+1 with the largest δ."""
    return 1 + max(setting.delta for setting in settings)


def _confirm(work: _Work) -> None:
    """Phase 1: reads inbox and processing; writes processing, finished."""
    processing = work.now("processing")
    confirmation = confirm.confirmations(work.due.inbox)
    touched = confirm.touched(processing, confirmation)
    finished = confirm.finished_by_confirmation(touched)
    if work.due.facts["detached"] or work.due.facts["routing"]:
        finished = work.due.keep("confirmed", finished)
    work.finished.append(finished)
    work.result.state["processing"] = confirm.unconfirmed(processing, confirmation)


def _join(work: _Work) -> DataFrame | None:
    """Phase 2: reads inbox, calls, join relations; writes topology, path, join relations; gives the ready calls."""
    due = work.due
    calls = due.calls
    if calls is not None and work.has("join"):
        work.outbox.append(join.send_join_requests(calls))
    changed: list[DataFrame] = []
    if due.facts["detached"]:
        now = join.joined_now(work.finished[0]) if work.may_finish_joins and work.finished else _nobody(work)
        if work.has("PAR_TOP") or work.may_finish_joins:
            joins = join.next_join(work.now("join"), due.inbox, now)
            work.result.state["join"] = due.keep("join", joins)
            work.result.node_status = join.status_changes(due.inbox, now)
        if work.has("JOIN_REQUEST") or (due.facts["requests"] and work.may_finish_joins):
            changed.append(_answer_requests(work, now))
        if work.has("PAR_TOP"):
            changed.append(join.received_links(due.inbox))
            work.copies.append(join.issued_joins(due.inbox))  # PAR_SUB comes with PAR_TOP, on the same link
            work.added.append(join.received_entries(due.inbox))
        calls = _ready_calls(work, now)
    if work.has("J"):
        changed.append(routing.marked_links(forward.received_copies(due.inbox)))
    if changed:
        links = due.keep("links", _union(*changed))
        topology = due.keep("topology", routing.merge_links(work.now("topology"), links))
        paths = routing.next_paths(work.now("path"), topology, links, work.radius)
        work.result.state |= {"topology": topology, "path": due.keep("path", paths)}
    return calls


def _nobody(work: _Work) -> DataFrame:
    columns = ("run_id", "node_id", "cast(null as bigint) as trigger", "cast(null as bigint) as round")
    return work.now("join").where("false").selectExpr(*columns)


def _answer_requests(work: _Work, now: DataFrame) -> DataFrame:
    """Handles JOIN_REQUEST at the join points; gives the links that are new."""
    setting, path, processing = work.setting, work.now("path"), work.now("processing")
    opened = work.due.keep("opened", join.open_requests(work.due.inbox, work.now("join_request"), now))
    accepted = work.due.keep("accepted", join.accepted_requests(opened, work.now("join")))
    work.outbox += [
        join.send_topology(accepted, work.now("topology"), path, setting),
        join.send_entries(accepted, _confirmed_entries(work, path), path, setting),
    ]
    work.result.state["join_request"] = join.waiting_requests(opened, work.now("join"))
    if work.due.facts["routing"]:
        added = work.due.keep("joiner", join.processing_for_joiner(accepted, processing, path, setting))
        copies = forward.rewrite_origin(join.copies_for_joiner(added), path, setting)
        work.outbox.append(forward.send_copies(copies))
        work.result.state["processing"] = processing.unionByName(added.select(processing.columns))
    return join.requested_links(accepted)


def _confirmed_entries(work: _Work, path: DataFrame) -> DataFrame:
    """Gives SUBS_SET after the round's confirmations: what PAR_SUB copies."""
    entries = work.now("subscription")
    if not (work.finished and work.may_change_entries):
        return entries
    done = work.finished[0]
    return remaining_entries(visible_entries(entries, routing.added_entries(done, path), routing.removed_entries(done)))


def _ready_calls(work: _Work, now: DataFrame) -> DataFrame | None:
    """Holds back the calls of nodes that are not VALID_JOINED, and lets go those of nodes that are now."""
    due, may_release = work.due.calls, work.due.facts["calls"] > 0 and work.may_finish_joins
    if not (may_release or work.has("subscribe", "unsubscribe", "publish")):
        return None
    joins, waiting = work.now("join"), work.now("call")
    call = due.where("kind <> 'join'") if due is not None else join.no_calls(waiting)
    work.result.state["call"] = join.waiting_calls(call, waiting, joins)
    return work.due.keep("call", join.ready_calls(call, waiting, joins, now))


def _forward(work: _Work) -> None:
    """Phases 3 to 5: reads copies, detector, routing; writes processing, detector, routing, deliveries, copies."""
    due, path = work.due, work.now("path")
    copy = _union(*work.copies)
    first = due.keep("first", forward.first_copies(copy, due.state["detector"]) if due.may_duplicate else copy)
    routed = _routed_recipients(work, first, path)
    matched = due.keep("matched", forward.publication_recipients(first, _change_entries(work, path)))
    out = matched.where("recipient <> node_id").select(*forward.KEY, "recipient", "via")
    work.finished.append(confirm.finished_at_once(first.where("kind = 'PUB'"), out))
    recipient = _union(*routed, out)
    sent = forward.copies_to_send(first, recipient)
    if routed:
        sent = forward.rewrite_origin(sent, path, work.setting)
    work.outbox.append(forward.send_copies(sent))
    work.result.delivery = forward.deliveries(matched)
    work.result.state["processing"] = work.now("processing").unionByName(forward.processing_rows(first, recipient))
    work.result.state["detector"] = first.selectExpr("run_id", "node_id", "source", "source_seq as last_seq")
    if due.may_duplicate:
        _drop_duplicates(work, forward.later_copies(copy, first))


def _routed_recipients(work: _Work, first: DataFrame, path: DataFrame) -> list[DataFrame]:
    """Gives Γ of J, SUB and UNSUB, where there may be any, and finishes those of them that nobody else needs."""
    recipients = []
    if work.has(*_SENT) or (work.due.facts["calls"] and work.may_finish_joins):
        recipients.append(forward.subscription_recipients(first, path))
    if work.has("J", "PAR_TOP"):
        recipients.append(forward.join_recipients(first, path, work.setting))
    if not recipients:
        return []
    routed = work.due.keep("routed", _union(*recipients))
    at_once = confirm.finished_at_once(first.where("kind <> 'PUB'"), routed)
    work.finished.append(work.due.keep("at_once", at_once))
    return [routed]


def _change_entries(work: _Work, path: DataFrame) -> DataFrame:
    """Phase 4, SUBS_SET_N: gives the entries that this round's publications see; writes subscription."""
    entries = work.now("subscription")
    if not (work.finished and work.may_change_entries):
        return entries
    finished = _union(*work.finished)
    added = _union(routing.added_entries(finished, path), *work.added)
    visible = work.due.keep("entries", visible_entries(entries, added, routing.removed_entries(finished)))
    work.result.state["subscription"] = remaining_entries(visible)
    return visible


def _drop_duplicates(work: _Work, duplicate: DataFrame) -> None:
    """Lines 1 to 9: senders of duplicates wait for the confirmation, or get it at once; writes waiting."""
    late = work.due.keep("duplicate", duplicate)
    processing = work.now("processing")
    work.outbox.append(confirm.send_confirmations(confirm.answered_at_once(late, processing)))
    work.result.state["waiting"] = work.now("waiting").unionByName(confirm.waiting_senders(late, processing)).distinct()
    work.result.fate = late.selectExpr("run_id", "trigger as message_id", "'duplicate' as fate")


def _answer_senders(work: _Work, finished: DataFrame) -> None:
    """Lines 27 to 30: CONF to every sender of a finished message."""
    work.outbox.append(confirm.send_confirmations(finished))
    if work.due.may_duplicate:
        waiting = work.now("waiting")
        work.outbox.append(confirm.send_confirmations(confirm.answered_waiting(finished, waiting)))
        work.result.state["waiting"] = waiting.join(finished.select(forward.KEY), forward.KEY, "left_anti")


def _close(work: _Work, calls: DataFrame | None) -> RoundResult:
    """Phase 4: CONF, confirmed calls, marks; puts the outbox together."""
    events = []
    if calls is not None:
        events.append(forward.issued_calls(calls))
    if work.due.calls is not None and work.has("join"):
        events.append(forward.issued_calls(work.due.calls.where("kind = 'join'")))
    if work.finished:
        if not work.copies and work.may_change_entries:
            _change_entries(work, work.now("path"))
        finished = work.due.keep("finished", _union(*work.finished))
        _answer_senders(work, finished)
        events.append(confirm.confirmed_calls(finished))
        if work.may_finish_joins:
            unmarked = routing.unmarked_links(finished)
            work.result.state["topology"] = routing.merge_links(work.now("topology"), unmarked)
    if work.outbox:
        work.result.outbox = _union(*work.outbox)
    if events:
        work.result.call_event = _union(*events)
    return work.result


def starting_state(start: Start, radius: int) -> dict[str, DataFrame]:
    """Gives the relations before round 0: full views and no subscriptions at joined nodes, nothing at the others."""
    call = start.calls
    joins = call.where("kind = 'join'").selectExpr("run_id", "node_id", "join_point", "'DETACHED' as status")
    setting = start.fixed["setting"].select("run_id", "delta")
    path = start.paths(radius).join(setting, "run_id").where("distance <= delta + 1").select(PATH.columns)
    near = path.select("run_id", "node_id", "target")
    link = start.fixed["link"].where("src < dst").selectExpr("run_id", "src as a", "dst as b")
    topology = (
        link.join(near.withColumnRenamed("target", "a"), ["run_id", "a"])
        .join(near.withColumnRenamed("target", "b"), ["run_id", "node_id", "b"])
        .selectExpr("run_id", "node_id", "a", "b", "false as is_marked")
    )
    status = start.fixed["node"].join(joins.select("run_id", "node_id"), ["run_id", "node_id"], "left_anti")
    return {
        "topology": topology,
        "path": path,
        "join": joins,
        "node_status": status.selectExpr(
            "run_id", "node_id", "cast(0 as bigint) as round", "'VALID_JOINED' as status"
        ).unionByName(joins.selectExpr("run_id", "node_id", "cast(0 as bigint) as round", "status")),
    }


PROTOCOL = DeltaProtocol()
