"""Forwarding of multicast messages (Algorithm 1): first copies and their recipients, deliveries, confirmations.

Functions: `forward` (lines 1 to 18), `confirm` and `routing_changes` (lines 19 to 26), `answer_senders` (lines 27 to
31). Sections 4.6 to 4.8 define the recipients Γ and the next hops Out; section 6.1 defines them for Guided messages.

A setting selects one of two duplicate detectors (section 5). Detector ``identifier`` stores the highest message number
of each source. REJOINs of a node R have a separate row with source ``-1 - R``, because their number is the incarnation
of R. Detector ``visited`` stores the highest MsgId of each node that a message has visited. A copy is a duplicate if
the MsgId of one of its visited nodes is not higher than the stored MsgId (rule R3).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any

from udfs.batches import rows_of_runs
from udfs.delta.messages import Conf
from udfs.delta.state import DeliveredSource, Detected, Key, Path, Processing, Recipient, Waiting
from udfs.delta.turn import Finished, Turn
from udfs.delta.view import (
    Changes,
    change_entries,
    changes_of,
    closest,
    store_own_subscriptions,
    store_tombstones,
    unmark,
)

_UNCHANGED: Changes = {}, {}
_TURN = attrgetter("trigger", "source", "source_seq")
_MSG_IDS = 1 << 20


def forward(turn: Turn) -> None:
    """Phase 4: handles the received and issued copies of J, SUB, UNSUB, PUB and REJOIN.

    Forwards first copies to their recipients, and delivers publications. The sender of a duplicate gets CONF at once,
    or when the message is finished.
    """
    node = turn.node
    if not turn.copies and not turn.guided:
        change_entries(node.routing_entry, routing_changes(turn))
        return
    is_recovering = node.is_recovering
    copies = sorted(_accepted(turn) if is_recovering else turn.copies, key=_TURN)
    first = first_copies(turn, copies)
    late = []
    if len(first) < len(copies):
        firsts = {id(copy) for copy in first}
        late = [copy for copy in copies if id(copy) not in firsts]
    if late and node.is_synchronising:
        _apply_refused(turn, late, {copy.key for copy in first})
    here = _route(turn, first, is_recovering=is_recovering)
    record_identifiers(turn, first)
    answer_duplicates(turn, late)
    for copy in late if is_recovering else ():
        m = node.processing_list.get(copy.key)
        if m is not None:
            _add_recipients(turn, m, guided(turn, copy))
    for m in turn.guided:
        here += _compute_again(turn, m)
    if here:
        _deliver(turn, here)


def _accepted(turn: Turn) -> Iterable[Processing]:
    """Yields the Guided copies, and drops all other copies, which a RECOVERING node cannot route (section 6.1)."""
    for copy in turn.copies:
        if copy.trigger not in turn.guides:
            turn.ctx.drop("lost_crash", copy.trigger)
        else:
            yield copy


def _apply_refused(turn: Turn, late: list[Processing], first: set[Key]) -> None:
    """Applies the routing information of J, SUB and UNSUB copies that a synchronising node rejects as duplicates.

    The node may lack this routing information. The failure of a sender may have lost the PAR_SUB that contained it, and
    newer messages have raised the highest number in the duplicate detector. Applying known routing information again
    changes nothing.
    """
    for copy in late:
        if copy.kind in ("J", "SUB", "UNSUB") and copy.key not in turn.node.processing_list and copy.key not in first:
            finish(turn, Finished(copy, copy.trigger, None))


def _route(turn: Turn, first: list[Processing], *, is_recovering: bool) -> list[Processing]:
    """Forwards the first copies `first` to their recipients. Returns the publications that this node delivers."""
    node, here = turn.node, list[Processing]()
    routed: list[tuple[Processing, dict[int, Recipient], list[int]]] = []
    publications = []
    for copy in first:
        if is_recovering:
            told = guided(turn, copy)
            recipients = told | new_members(in_view(turn, copy), told)
            if copy.kind == "PUB" and turn.id in told:
                here.append(copy)
        elif copy.kind == "PUB":
            publications.append(copy)
            continue
        else:
            recipients = unconfirmed(in_view(turn, copy))
        routed.append((copy, recipients, _out(turn, copy, recipients)))
    changes = routing_changes(turn)
    for copy in publications:
        recipients = matching(turn, copy, changes)
        if turn.id in recipients:
            here.append(copy)
        routed.append((copy, recipients, _out(turn, copy, recipients)))
    change_entries(node.routing_entry, changes)
    for copy, recipients, out in routed:
        for responsible in out:
            _send(turn, copy, responsible)
        if out:  # Algorithm 1, lines 13 to 15
            recipients.pop(turn.id, None)
            copy.recipients = recipients
            node.processing_list[copy.key] = copy
    return here


def _send(turn: Turn, copy: Processing, responsible: int) -> None:
    """Forwards a copy to the node `responsible` (Algorithm 1, lines 16 to 18).

    If this node answers a JOIN_REQUEST of `responsible` in this round, the copy follows the answer. It also follows the
    messages of ProcessingList that `responsible` gets with the answer (rule R16).
    """
    asked = turn.accepted.get(responsible, copy.trigger)
    if asked > copy.trigger:
        turn.send(asked, copy.trigger, copy.kind, responsible, copy)
    else:
        turn.send(copy.trigger, 2, copy.kind, responsible, copy)


def _out(turn: Turn, copy: Processing, recipients: Mapping[int, Recipient]) -> list[int]:
    """Returns the next hops of a message (Out), ascending. Finishes a message without next hops (rule R13)."""
    out = {one.responsible for one in recipients.values() if one.responsible is not None}
    out.discard(turn.id)
    if not out:
        turn.finished.append(Finished(copy, copy.trigger, copy.sender))
    return sorted(out)


def _compute_again(turn: Turn, m: Processing) -> list[Processing]:
    """Computes the recipients of publication `m` again after the recovery of this node (rule R32).

    The node received `m` as a Guided message, and now sends it to the new recipients. Returns `m` in a list if the node
    itself is a recipient, else an empty list.
    """
    recipients = matching(turn, m, _UNCHANGED)
    _add_recipients(turn, m, recipients)
    return [m] if turn.id in recipients else []


def _add_recipients(turn: Turn, m: Processing, recipients: Mapping[int, Recipient]) -> None:
    """Adds `recipients` to the entry of `m` in ProcessingList, and resends `m` to the new recipients.

    A finished message gets an entry again only if one of the new recipients has a live responsible node. Without one,
    the entry would wait for a confirmation that no node can send.
    """
    known = turn.node.processing_list.get(m.key)
    rows = {} if known is None else known.recipients
    fresh = {one: row for one, row in recipients.items() if one not in rows and one != turn.id}
    if not fresh:
        return
    if known is None:
        if all(row.responsible is None for row in fresh.values()):
            return
        m.recipients = {}
        turn.node.processing_list[m.key] = m
    m.recipients |= fresh
    for row in fresh.values():
        turn.send_again(m, row.responsible)


def _deliver(turn: Turn, here: list[Processing]) -> None:
    """Delivers each of the publications `here` at most once (Algorithm 1, line 26; rules R12 and R31)."""
    delivered = turn.node.delivered
    known = {source: one.last_seq for source, one in delivered.items()}
    for m in here:
        if m.source_seq <= known.get(m.source, 0):
            continue
        turn.ctx.deliver(m.source, m.source_seq, m.issued_round or 0, m.hops or 0)
        if turn.ctx.run.has_crashes:
            before = delivered.get(m.source)
            last = m.source_seq if before is None else max(before.last_seq, m.source_seq)
            delivered[m.source] = DeliveredSource(m.source, last)


def confirm(turn: Turn) -> None:
    """Handles CONF: marks the recipients behind the sender of CONF as confirmed.

    Finishes messages without unconfirmed recipients. A CONF has no effect if its message is unknown, or if its sender
    is not a next hop of the message (rule R15).
    """
    ended: dict[Key, int] = {}
    for one in turn.inbox["CONF"]:
        key = one.message.source, one.message.source_seq
        m = turn.node.processing_list.get(key)
        if m is None:
            continue
        for row in m.recipients.values():
            if row.responsible == one.src:
                row.is_confirmed = True
                ended[key] = one.message_id
    for key, trigger in ended.items():
        m = turn.node.processing_list[key]
        if m.is_finished:
            finish(turn, Finished(m, trigger, m.sender))


def finish(turn: Turn, one: Finished) -> None:
    """Adds `one` to the finished messages of the round (Alg. 1, line 30). Removes its message from ProcessingList."""
    turn.finished.append(one)
    turn.node.processing_list.pop(one.m.key, None)


def routing_changes(turn: Turn) -> Changes:
    """Returns the changes that messages finished in this round make to SUBS_SET (Algorithm 1, lines 25 and 26).

    Also stores the tombstones of UNSUBs, and the confirmed subscriptions of this node.
    """
    finished = [one for one in turn.finished if one.m.subscription_id is not None]
    if not finished and not turn.told:
        return _UNCHANGED
    store_tombstones(turn, finished)
    store_own_subscriptions(turn, finished)
    return changes_of(turn, finished, turn.told)


def answer_duplicates(turn: Turn, late: Iterable[Processing]) -> None:
    """Answers the sender of each duplicate in `late` (Algorithm 1, lines 1 to 9).

    The sender gets CONF at once if this node has finished the message. Otherwise CONF follows when the message is
    finished.
    """
    for copy in late:
        if copy.sender is None:
            continue
        turn.ctx.drop("duplicate", copy.trigger)
        if copy.key in turn.node.processing_list:
            turn.node.waiting[(*copy.key, copy.sender)] = Waiting(*copy.key, copy.sender)
        else:
            turn.send(copy.trigger, 3, "CONF", copy.sender, Conf(*copy.key, None))


def answer_senders(turn: Turn) -> None:
    """Ends the processing of the messages finished in this round (Algorithm 1, lines 27 to 31).

    Sends CONF to all senders of each message, and confirms the calls of this node. Unmarks the link of each finished J.
    """
    waiting = turn.node.waiting
    ended = {one.m.key for one in turn.finished} if waiting else set()
    answered = [row for row in waiting.values() if (row.source, row.source_seq) in ended] if ended else []
    for m, trigger, sender in turn.finished:
        senders = {sender} if sender is not None else set()
        if answered:
            senders |= {row.sender for row in answered if (row.source, row.source_seq) == m.key}
        for waiting_sender in sorted(senders):
            turn.send(trigger, 3, "CONF", waiting_sender, Conf(*m.key, None))
        if m.source == turn.id and m.source_seq > 0:
            turn.ctx.confirm(m.source_seq)
    unmark(turn, turn.finished)
    for row in answered:
        del waiting[row.source, row.source_seq, row.sender]


def sender_hop(turn: Turn, sender: int | None) -> int | None:
    """Returns the neighbour on the path to `sender`, which gets no message back (rule R2); None at the source."""
    if sender is None:
        return None
    path = turn.node.path.get(sender)
    return path.path[1] if path is not None and path.distance else sender


def in_view(turn: Turn, m: Processing) -> list[Path]:
    """Returns the recipients (Γ) of J, REJOIN, SUB or UNSUB `m` among the nodes X in the view of this node N.

    - SUB, UNSUB: all nodes that are not behind the sender (section 4.7).
    - J: the nodes X with d(X, M) ≤ δ and N on the path from X to the join point M (section 4.6). At the joining node
      these are all nodes, because all paths lead through M.
    - REJOIN: like J, with the recovered node in place of M and δ+1 in place of δ (Alg. 5, line 19).
    """
    if m.kind == "PUB":
        return []
    hop = sender_hop(turn, m.sender)
    away = [one for one in turn.node.path.values() if one.distance and (hop is None or one.path[1] != hop)]
    if m.kind in ("SUB", "UNSUB"):
        return away
    to_join_point = None if m.join_point is None else turn.node.path.get(m.join_point)
    if to_join_point is None:
        return []
    scope = turn.delta if m.kind == "J" else turn.delta + 1
    return [one for one in away if hop is None or one.distance + to_join_point.distance <= scope]


def unconfirmed(paths: Collection[Path]) -> dict[int, Recipient]:
    """Returns an unconfirmed `Recipient` for each path in `paths`, by the target of the path."""
    return {one.target: Recipient(None, one.responsible) for one in paths}


def new_members(paths: Collection[Path], known: Mapping[int, Recipient]) -> dict[int, Recipient]:
    """Returns unconfirmed recipients for the paths whose targets are not in `known`, and not behind a confirmed one."""
    done = {recipient for recipient, one in known.items() if one.is_confirmed}
    fresh = [one for one in paths if one.target not in known and done.isdisjoint(one.path)]
    return unconfirmed(fresh)


def matching(turn: Turn, m: Processing, changes: Changes) -> dict[int, Recipient]:
    """Returns the recipients (Γ) of publication `m`: the origins of matching entries of SUBS_SET (section 4.8).

    Entries behind the sender of `m` are excluded. Of the `changes` of SUBS_SET in this round, only those with triggers
    before that of `m` apply. This node itself may be a recipient.
    """
    hop, (added, removed), found = sender_hop(turn, m.sender), changes, dict[int, Recipient]()
    before = turn.node.routing_entry
    for subscription in m.matches or ():
        if removed and removed.get(subscription, m.trigger) < m.trigger:
            continue
        entry = before.get(subscription)
        if entry is None and subscription in added and added[subscription][0] < m.trigger:
            entry = added[subscription][1]
        if entry is None or (hop is not None and (entry.first_hop is None or entry.first_hop == hop)):
            continue
        found[entry.origin] = Recipient(None, entry.responsible)
    return found


def guided(turn: Turn, copy: Processing) -> dict[int, Recipient]:
    """Returns the recipients (Γ) of a Guided message at a RECOVERING node: the ends of the paths in g.to (section 6.1).

    A recipient is confirmed if `is_done` of its path is true. The node itself is a recipient if g.to contains its
    one-node path. For a publication, one of the node's own subscriptions must also match (rule R32).
    """
    found = {}
    for path, is_done in turn.guides.get(copy.trigger, ()):
        recipient = path[-1]
        is_own = any(one in turn.node.own_subscription for one in copy.matches or ())
        if recipient == turn.id and copy.kind == "PUB" and not is_own:
            continue
        responsible = turn.id if len(path) == 1 else None if is_done else closest(turn.node, path)
        found[recipient] = Recipient(path, responsible, is_confirmed=is_done)
    return found


def first_copies(turn: Turn, copies: Sequence[Processing]) -> list[Processing]:
    """Returns the first copies of messages among `copies`, in the order of `copies` (Algorithm 1, lines 1 to 12)."""
    if _is_visited(turn):
        return _first_visits(turn, copies)
    first, seen, detector = list[Processing](), set[Key](), turn.node.detector
    for copy in copies:
        known = detector.get(_identity(copy))
        if copy.key not in seen and (known is None or known.last_seq < abs(copy.source_seq)):
            first.append(copy)
        seen.add(copy.key)
    return first


def _first_visits(turn: Turn, copies: Sequence[Processing]) -> list[Processing]:
    """Returns the first copies among `copies` according to their visited lists, and sets the MsgId of each.

    A message that this node issues itself has no visited list, and is always a first copy.
    """
    newest = {node: one.last_seq for node, one in turn.node.detector.items()}
    first = [copy for copy in copies if copy.sender is None or _succeeds(newest, copy.visited or ())]
    for place, copy in enumerate(sorted(first, key=_TURN), 1):
        copy.msg_id = turn.round * _MSG_IDS + place
    return first


def _succeeds(newest: dict[int, int], visited: Iterable[tuple[int | None, int | None]]) -> bool:
    """Returns whether all MsgIds of a visited list are higher than those in `newest`. If so, stores them there."""
    pairs = {node: number for node, number in visited if node is not None and number is not None}
    if any(number <= newest.get(node, -1) for node, number in pairs.items()):
        return False
    newest.update(pairs)
    return True


def record_identifiers(turn: Turn, first: Iterable[Processing]) -> None:
    """Stores the identifiers of the first copies `first` in the detector (Algorithm 1, line 11).

    If visited lists detect duplicates, the source of a message also stores its own MsgId of the message (rule R18).
    """
    is_visited = _is_visited(turn)
    for copy in first:
        if not is_visited:
            _note(turn, _identity(copy), abs(copy.source_seq))
            continue
        for node, number in copy.visited or ():
            if node is not None and number is not None:
                _note(turn, node, number)
        if copy.sender is None and copy.msg_id is not None:
            _note(turn, turn.id, copy.msg_id)


def _note(turn: Turn, source: int, number: int) -> None:
    known = turn.node.detector.get(source)
    if known is None:
        turn.node.detector[source] = Detected(source, number)
    elif known.last_seq < number:
        known.last_seq = number


def _identity(copy: Processing) -> int:
    return -1 - copy.source if copy.kind == "REJOIN" else copy.source


def _is_visited(turn: Turn) -> bool:
    return bool(turn.ctx.settings["detector"] == "visited")


ACCEPTED = (("run_id", "bigint"), ("node_id", "bigint"), ("trigger", "bigint"))
"""Names and SQL types of the columns of `accepted_copies`: node and trigger of an accepted copy."""


@rows_of_runs(ACCEPTED)
def accepted_copies(row: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    """Yields the copies that are not duplicates according to their visited lists (`ACCEPTED`), for the dataflow form.

    The copies of a node are tested in the order of their triggers. A copy is a duplicate if an earlier accepted copy
    has an equal or higher MsgId for a node that both copies visited. A row is a node, with ``run_id``, ``node_id`` and
    ``copies``, structs of ``trigger`` and ``visited``, a list of structs of ``node`` and ``msg_id``.
    """
    newest: dict[int, int] = {}
    for copy in sorted(row["copies"], key=lambda one: int(one["trigger"])):
        if _succeeds(newest, ((one["node"], one["msg_id"]) for one in copy["visited"])):
            yield row["node_id"], copy["trigger"]
