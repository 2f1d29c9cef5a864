"""Generic forwarding: first copies, their recipients Γ and Out, deliveries (Algorithm 1, lines 1 to 18)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from udfs.delta import duplicates
from udfs.delta.confirmation import answer_duplicates, finish, update_routing_information
from udfs.delta.recipients import guided, in_view, matching, new_members, unconfirmed
from udfs.delta.records import Delivered, Entry, Processing, Recipient
from udfs.delta.turn import Copy, Finished, Key, Turn
from udfs.delta.view import Changes


def forward(turn: Turn) -> None:
    """Phase 4: handles the copies of J, SUB, UNSUB, PUB and REJOIN, issued ones among them."""
    node = turn.node
    if not turn.copies and not turn.guided:
        update_routing_information(turn)
        return
    copies = sorted(_accepted(turn), key=lambda one: (one.trigger, one.source, one.source_seq))
    first = duplicates.first_copies(turn, copies)
    firsts = {id(copy) for copy in first}
    late = [copy for copy in copies if id(copy) not in firsts]
    _take_refused(turn, late, {copy.key for copy in first})
    here = _route(turn, first)
    duplicates.learn(turn, first)
    answer_duplicates(turn, late)
    for copy in late if node.is_recovering else ():
        m = node.processing_list.get(copy.key)
        if m is not None and copy.guide is not None:
            _add_recipients(turn, m, guided(turn, copy))
    for m in turn.guided:
        here += _compute_again(turn, m)
    _deliver(turn, here)


def _accepted(turn: Turn) -> Iterable[Copy]:
    """A RECOVERING node takes Guided messages only (6.1)."""
    for copy in turn.copies:
        if copy.guide is None and turn.node.is_recovering:
            turn.ctx.drop("lost_crash", copy.trigger)
        else:
            yield copy


def _take_refused(turn: Turn, late: list[Copy], first: set[Key]) -> None:
    """A node that synchronises takes the routing information of a duplicate that it does not process.

    PAR_SUB is overtaken by newer messages, which raise the detector, and is lost with the partner that sent it; what
    only it held then comes from the next partner as an older message. Taking it again changes nothing where it was
    known.
    """
    for copy in late if turn.node.is_synchronising else ():
        if copy.kind in ("J", "SUB", "UNSUB") and copy.key not in turn.node.processing_list and copy.key not in first:
            finish(turn, Finished(copy, copy.trigger, None))


def _route(turn: Turn, first: list[Copy]) -> list[Copy | Processing]:
    """Finds Γ and Out of first copies and sends them on; returns the publications to deliver here."""
    node, here = turn.node, list[Copy | Processing]()
    routed: list[tuple[Copy, dict[int, Recipient]]] = []
    publications = []
    for copy in first:
        if node.is_recovering:
            told = guided(turn, copy)
            recipients = told | new_members(in_view(turn, copy), told)
            if copy.kind == "PUB" and turn.id in told:
                here.append(copy)
        elif copy.kind == "PUB":
            publications.append(copy)
            continue
        else:
            recipients = unconfirmed(in_view(turn, copy))
        routed.append((copy, recipients))
        _finish_at_once(turn, copy, recipients)
    before: Mapping[int, Entry] = node.routing_entry
    changes = update_routing_information(turn)
    for copy in publications:
        matched = matching(turn, copy, before, changes, copy.trigger)
        recipients = {one: Recipient(None, responsible) for one, responsible in matched.items() if one != turn.id}
        if turn.id in matched:
            here.append(copy)
        routed.append((copy, recipients))
        _finish_at_once(turn, copy, recipients)
    for copy, recipients in routed:
        for responsible in sorted(_out(turn, recipients)):
            _send(turn, copy, responsible)
        _process(turn, copy, recipients)
    return here


def _send(turn: Turn, copy: Copy, responsible: int) -> None:
    """Sends a copy (lines 16 to 18), to a joining node behind the answer of its join point (rule R16).

    The join point adds the link before it forwards anything of the round. What it handles before the request leaves as
    if N had become a recipient when the request was handled: behind older messages, in ProcessingList order.
    """
    asked = turn.accepted.get(responsible, copy.trigger)
    if asked > copy.trigger:
        turn.send(asked, copy.trigger, copy.kind, responsible, copy)
    else:
        turn.send(copy.trigger, 2, copy.kind, responsible, copy)


def _out(turn: Turn, recipients: Mapping[int, Recipient]) -> set[int]:
    """Returns Out_N^m: who is responsible for the recipients, N itself left out."""
    return {one.responsible for one in recipients.values() if one.responsible is not None} - {turn.id}


def _finish_at_once(turn: Turn, copy: Copy, recipients: Mapping[int, Recipient]) -> None:
    """With an empty Out the processing ends where it begins (rule R13)."""
    if not _out(turn, recipients):
        turn.finished.append(Finished(copy, copy.trigger, copy.sender))


def _process(turn: Turn, copy: Copy, recipients: Mapping[int, Recipient]) -> None:
    """Puts a message into ProcessingList_N (lines 13 to 15), if somebody still has to confirm it."""
    others = {one: row for one, row in recipients.items() if one != turn.id}
    if any(row.is_awaited for row in others.values()):
        matches = copy.matches if turn.ctx.run.has_crashes else None
        turn.node.processing_list[copy.key] = Processing(
            copy.source, copy.source_seq, copy.kind, turn.round, copy.trigger, copy.sender, copy.hops,
            copy.subscription_id, copy.origin, copy.join_point, copy.issued_round, matches, copy.origin_path,
            copy.msg_id, copy.visited, others,
        )  # fmt: skip


def _compute_again(turn: Turn, m: Processing) -> list[Copy | Processing]:
    """Sends a publication that was accepted as Guided to the recipients that N knows of by now (rule R32)."""
    nothing: Changes = {}, {}
    matched = matching(turn, m, turn.node.routing_entry, nothing, m.trigger)
    away = {one: Recipient(None, responsible) for one, responsible in matched.items() if one != turn.id}
    _add_recipients(turn, m, away)
    return [m] if turn.id in matched else []


def _add_recipients(turn: Turn, m: Processing, recipients: Mapping[int, Recipient]) -> None:
    """Sends a message of ProcessingList to recipients that it does not have yet."""
    known = turn.node.processing_list.get((m.source, m.source_seq))
    rows = {} if known is None else known.recipients
    fresh = {one: row for one, row in recipients.items() if one not in rows and one != turn.id}
    if not fresh:
        return
    if known is None:
        m.recipients = {}
        turn.node.processing_list[m.source, m.source_seq] = m
    m.recipients |= fresh
    for row in fresh.values():
        turn.send_again(m, row.responsible)


def _deliver(turn: Turn, here: list[Copy | Processing]) -> None:
    """Delivers publications to the application, none twice (line 26; rules R12 and R31)."""
    delivered = turn.node.delivered
    known = {source: one.last_seq for source, one in delivered.items()}
    for m in here:
        if m.source_seq <= known.get(m.source, 0):
            continue
        turn.ctx.deliver(m.source, m.source_seq, m.issued_round or 0, m.hops or 0)
        if turn.ctx.run.has_crashes:
            before = delivered.get(m.source)
            last = m.source_seq if before is None else max(before.last_seq, m.source_seq)
            delivered[m.source] = Delivered(m.source, last)
