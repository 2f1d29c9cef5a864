"""Confirmations (Algorithm 1, lines 19 to 31): Out shrinks, and what is confirmed by all is finished."""

from __future__ import annotations

from collections.abc import Iterable

from udfs.delta.messages import Conf
from udfs.delta.records import Waiting
from udfs.delta.turn import Copy, Finished, Key, Turn
from udfs.delta.view import Changes, after_changes, bury, changes_of, store_own, unmark


def confirm(turn: Turn) -> None:
    """Handles CONF; one from outside Out, or for an unknown message, does nothing (rule R15)."""
    ended: dict[Key, int] = {}
    for one in turn.inbox.get("CONF", ()):
        m = turn.node.processing_list.get((one.message.source, one.message.source_seq))
        if m is None:
            continue
        rows = [row for row in m.recipients.values() if row.responsible == one.src]
        for row in rows:
            row.is_confirmed = True
        if rows:
            ended[m.source, m.source_seq] = one.message_id
    for key, trigger in ended.items():
        m = turn.node.processing_list[key]
        if m.is_finished:
            finish(turn, Finished(m, trigger, m.sender))


def finish(turn: Turn, one: Finished) -> None:
    """Ends the processing of a message (line 30)."""
    turn.finished.append(one)
    turn.node.processing_list.pop(one.key, None)


def update_routing_information(turn: Turn) -> Changes:
    """Lines 25 and 26: SUBS_SET_N changes by all that is finished; returns how."""
    finished = [one for one in turn.finished if one.m.subscription_id is not None]
    if not finished and not turn.told:
        return {}, {}
    bury(turn, finished)
    changes = changes_of(turn, finished)
    store_own(turn, finished)
    if changes[0] or changes[1]:
        turn.node.routing_entry = after_changes(turn.node.routing_entry, changes)
    return changes


def answer_duplicates(turn: Turn, late: Iterable[Copy]) -> None:
    """Lines 1 to 9: senders of duplicates wait for the confirmation, or get it at once."""
    for copy in late:
        if copy.sender is None:
            continue
        turn.ctx.drop("duplicate", copy.trigger)
        if copy.key in turn.node.processing_list:
            turn.node.waiting[(*copy.key, copy.sender)] = Waiting(*copy.key, copy.sender)
        else:
            turn.send(copy.trigger, 3, "CONF", copy.sender, Conf(*copy.key, None))


def answer_senders(turn: Turn) -> None:
    """Lines 27 to 31: CONF to every sender of a finished message; confirmed calls; links without marks."""
    waiting = turn.node.waiting
    ended = {one.key for one in turn.finished} if waiting else set()
    answered = [row for row in waiting.values() if (row.source, row.source_seq) in ended] if ended else []
    for one in turn.finished:
        senders = {row.sender for row in answered if (row.source, row.source_seq) == one.key}
        if one.sender is not None:
            senders.add(one.sender)
        for sender in sorted(senders):
            turn.send(one.trigger, 3, "CONF", sender, Conf(*one.key, None))
        if one.m.source == turn.id and one.m.source_seq > 0:
            turn.ctx.confirm(one.m.source_seq)
    for row in answered:
        del waiting[row.source, row.source_seq, row.sender]
    unmark(turn, turn.finished)
