"""Phase 3 of a round: joins, and the calls of nodes that are VALID_JOINED and OPERATIONAL."""

from __future__ import annotations

from pyspark.sql import DataFrame

from pipelines.contract.rows import NODE, held, issued
from pipelines.engines.frames import union
from pipelines.protocols.delta.phases import updates
from pipelines.protocols.delta.steps import confirmations, copies, join, routing
from pipelines.protocols.delta.tables import CALL, JOIN_REQUEST, MULTICAST, with_value
from pipelines.protocols.delta.work import Work

_EVENT = ["run_id", "node_id", "trigger", "round"]


def handle_joins(work: Work) -> DataFrame | None:
    """Handles joins, and returns the calls that nodes issue in this round, or None if nodes issue no calls.

    Reads inbox and calls. Writes topology, path, the join relations, status and peer.
    """
    round_ = work.round
    if not (round_.facts["join"]["detached"] or work.is_recovering or work.has("join", "JOIN_REQUEST", "J")):
        return round_.calls
    if round_.calls is not None and work.has("join"):
        _send_join_requests(work, round_.calls)
    calls, changed = round_.calls, []
    if round_.facts["join"]["detached"] or work.is_recovering:
        if work.has("PAR_TOP"):
            changed.append(join.received_links(work.inbox))
            issued_joins = join.issued_joins(work.inbox, work.now("join"))
            work.copies.append(issued_joins.selectExpr(*copies.COPY))  # PAR_SUB follows on the same link
            work.added.append(join.received_entries(work.inbox))
        now = work.keep("now", _entered(work))
        calls = _ready_calls(work)
        if work.has("JOIN_REQUEST") or (
            round_.facts["join_request"]["requests"] and (work.may_finish_joins or work.is_disturbed)
        ):
            changed.append(_answer_requests(work, now))
    elif work.has("JOIN_REQUEST"):
        changed.append(_answer_requests(work, work.keep("now", _nobody(work))))
    if work.has("J"):
        changed.append(routing.joined_links(copies.received_copies(work.inbox), is_marked=True))
    if changed:
        links = work.keep("links", union(changed))
        topology = work.put("topology", routing.merge_links(work.now("topology"), links))
        peer = work.now("peer") if work.is_disturbed else None
        path = work.put("path", routing.next_paths(work.now("path"), topology, links, work.radius, peer, work.keep))
        if work.is_disturbed:
            # Entries of PAR_SUB may name nodes that only the new links bring into view.
            work.put("routing_entry", routing.rerouted_entries(work.now("routing_entry"), path, links))
    return calls


def _nobody(work: Work) -> DataFrame:
    """Returns an empty frame with the columns `_EVENT`."""
    columns = ("run_id", "node_id", "cast(null as bigint) as trigger", "cast(null as bigint) as round")
    # This filter keeps the partitioning of the rows; a filter that is known to be false does not.
    return work.now("join").where("node_id < 0").selectExpr(*columns)


def _send_join_requests(work: Work, calls: DataFrame) -> None:
    """Sends JOIN_REQUEST for join calls (Algorithm 2).

    In runs with a scheduled crash, also adds the requests to relation ``join``, and watches the join points.
    """
    work.events.append(issued(calls.where("kind = 'join'")))
    asked = join.asked_now(calls)
    work.send(join.send_join_requests(asked, work.now("status")))
    if work.round.faults.may_crash:
        asked = work.round.faults.crashing.of(asked)
        work.put("join", with_value(work.now("join"), asked, "is_asked", "true"))
        updates.watch_join_points(work, asked)


def _entered(work: Work) -> DataFrame:
    """Advances the status of joining and recovering nodes. Writes join and status.

    Returns the nodes that become VALID_JOINED or OPERATIONAL, with the ``trigger`` of the message that caused the
    change.
    """
    events = [_nobody(work), *(ready.selectExpr(*_EVENT) for ready in work.alone)]
    done = union(work.finished) if work.finished else None
    if work.round.facts["join"]["detached"] and (
        work.has("PAR_TOP", "PAR_SUB") or work.may_fail or work.may_finish_joins
    ):
        confirmed = _nobody(work)
        if done is not None and work.may_finish_joins:
            confirmed = confirmations.confirmed_nodes(done, "J")
        before, waits = work.now("join"), work.now("synch").where("not is_answered")
        after = work.put("join", join.next_join(before, work.inbox, confirmed, waits))
        changes = work.keep("status_change", join.status_changes(before, after, work.round_column))
        work.statuses.append(changes)
        entered = changes.where("status = 'VALID_JOINED'").drop("status")
        events.append(entered.selectExpr(*NODE, "cast(-1 as bigint) as trigger", "round"))
        if work.is_disturbed:
            updates.tell_peers(work, work.round.faults.disturbed.of(entered))
    if done is not None and work.is_recovering:
        back = confirmations.confirmed_nodes(done, "REJOIN")
        work.put("status", with_value(work.now("status"), back, "status", "'OPERATIONAL'"))
        work.statuses.append(back.selectExpr(*NODE, "round", "'OPERATIONAL' as status"))
        events.append(back.selectExpr(*_EVENT))
    return union(events)


def _answer_requests(work: Work, now: DataFrame) -> DataFrame:
    """Answers JOIN_REQUEST messages at the join points. Returns the new links to the joining nodes.

    `now` has the join points that became VALID_JOINED or OPERATIONAL in this round, and so answer waiting requests.
    """
    setting, path, processing = work.setting, work.now("path"), work.now("processing")
    blocked = updates.blocked_nodes(work)
    opened = work.keep("opened", join.open_requests(work.inbox, work.now("join_request"), now))
    accepted = work.keep("accepted", opened.join(blocked, NODE, "left_anti"))
    work.accepted.append(accepted)
    if work.is_disturbed and not work.is_empty(accepted):
        updates.connect_joiners(work, accepted)
    work.send(join.send_topology(accepted, work.now("topology"), path, work.now("status"), setting))
    work.send(join.send_entries(accepted, _confirmed_entries(work, path), path, setting))
    work.change("join_request", opened.join(blocked, NODE, "left_semi").selectExpr(*JOIN_REQUEST.columns))
    if work.round.facts["processing"]["routing"]:
        added = work.keep("joiner", join.processing_for_joiner(accepted, processing, path, setting))
        work.send(join.copies_for_joiner(added))
        work.change("processing", copies.with_rows(processing, added))
    return join.requested_links(accepted)


def _confirmed_entries(work: Work, path: DataFrame) -> DataFrame:
    """Returns the routing entries (SUBS_SET) for PAR_SUB, with the changes by messages that this round finishes."""
    if not (work.finished and work.may_change_entries):
        return work.now("routing_entry")
    return updates.entries_after(work, union(work.finished), path)


def _ready_calls(work: Work) -> DataFrame | None:
    """Stores the due calls of blocked nodes in relation call. Returns the calls that all other nodes issue."""
    due = work.round.calls
    if not (work.may_release_calls or work.has("subscribe", "unsubscribe", "publish")):
        return None
    waiting, blocked = work.now("call"), updates.blocked_nodes(work)
    opened = join.open_calls(due, waiting, work.round_column)
    work.change("call", opened.join(blocked, NODE, "left_semi").selectExpr(*CALL.columns))
    if due is not None:
        work.events.append(held(due.where("kind <> 'join'").join(blocked, NODE, "left_semi")))
    return work.keep("call", opened.join(blocked, NODE, "left_anti"))


def collect_copies(work: Work) -> None:
    """Runs phase 3, and collects the copies to forward from the received messages and the issued calls."""
    calls = handle_joins(work)
    if calls is not None:
        work.copies.append(copies.issued_copies(calls))
        work.events.append(issued(calls))
    if work.has(*MULTICAST):
        work.copies.append(copies.received_copies(work.inbox))
