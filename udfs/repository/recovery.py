"""Repositories recover and join (sections 3, 4.8, 4.9), and fetch missing messages (section 4.7).

Rules P19, P21, P22 and P37.
"""

from __future__ import annotations

from itertools import islice

from udfs.nodes.calls import JoinCall
from udfs.repository import events, membership, registrations, slots, storage
from udfs.repository.at import At
from udfs.repository.events import Key, Publication
from udfs.repository.records import Duty, Lacking, Missed, Slot


def record_holder(at: At, repository: int, key: Key) -> None:
    """Records that member `repository` has stored message `key`, and starts timer T_f, if this one lacks `key`."""
    if not slots.has(at, key) and repository in at.peers:
        index = at.topic, *key
        at.node.lacking.setdefault(index, Lacking(*index, set())).holders.add(repository)
        at.wake("fetch", at.rounds("fetch_rounds"))


def fetch(at: At) -> None:
    """Timer T_f (P19): requests each missing message from a heard member that has it, alternating among several."""
    turn, lacking = at.round // at.rounds("fetch_rounds"), at.of(at.node.lacking)
    heard = {holder for holder in at.peers if membership.is_heard(at, holder)}
    by_holder: dict[int, list[Key]] = {}
    for row in lacking:
        if holders := sorted(row.holders & heard):
            by_holder.setdefault(holders[turn % len(holders)], []).append(Key.of(row))
    for holder, keys in sorted(by_holder.items()):
        at.send(events.BundleNak, (holder,), tuple(keys[: at.rounds("fetch_batch")]))
    if lacking:
        at.wake("fetch", at.rounds("fetch_rounds"))


def ask_again(at: At) -> None:
    """Timer T_n: requests missing messages of steered publishers (rule P19).

    Before, it closes silent incarnations (rule P32) and skips dropped messages (rule P37).
    """
    if slots.close_silent(at) | _skip_dropped(at):
        storage.settle(at)
    missing: dict[tuple[str, int, int], list[Slot]] = {}
    for slot in slots.after_frontier(at):
        missing.setdefault((at.topic, slot.publisher, slot.incarnation), []).append(slot)
    for index, found in missing.items():
        storage.ask(at, at.node.incarnation[index], [slot.n for slot in found])
    if missing:
        at.wake("nak", at.rounds("nak_rounds"))


def on_dropped(at: At, m: events.Dropped) -> None:
    """P2R-Dropped: records up to which message the publisher has deleted its messages (rule P37)."""
    row = at.node.incarnation.get((at.topic, m.origin, m.incarnation))
    if row is not None and m.upto > row.dropped:
        row.dropped, row.dropped_round = m.upto, at.round


def _skip_dropped(at: At) -> bool:
    """Skips the missing messages that their publisher and all members lack (rule P37); returns whether there is one.

    The publisher has said that it has deleted the message. Since then, all members have been heard for T_void and
    T_assist, so members that recovered have sent Gossip-ACK, and none has told that it has the message.
    """
    if not all(membership.is_heard(at, peer) for peer in at.peers):
        for row in at.of(at.node.incarnation):
            row.dropped_round = at.round
        return False
    wait, lacking, found = at.rounds("void_rounds") + at.rounds("assist_rounds"), at.node.lacking, list[Key]()
    for slot in slots.after_frontier(at):
        row = at.node.incarnation[at.topic, slot.publisher, slot.incarnation]
        known = lacking.get((at.topic, *Key.of(slot)))
        is_dropped = slot.n <= row.dropped and at.round - row.dropped_round >= wait
        if is_dropped and not (known is not None and known.holders.intersection(at.peers)):
            found.append(Key.of(slot))
    slots.skip(at, found)
    return bool(found)


def on_nak(at: At, m: events.BundleNak) -> None:
    """R2R-NAK: sends the requested messages in an R2R-Retransmit. Reading one message takes ``retrieve_rounds``."""
    copies = tuple(
        events.Copy(key.incarnation, key.n, publication, _acknowledged(at, key))
        for key in m.keys
        if (publication := _stored(at, key)) is not None
    )
    if copies:
        at.send(events.BundleRetransmit, (m.origin,), copies, extra=at.rounds("retrieve_rounds") * len(copies))


def _stored(at: At, key: Key) -> Publication | None:
    slot, orphan = slots.find(at, key), at.node.orphan.get((at.topic, *key))
    if slot is not None and slot.publication is not None:
        return slot.publication
    return orphan.publication if orphan is not None else None


def _acknowledged(at: At, key: Key) -> tuple[int, ...]:
    clients = (one.client for one in at.of(at.node.subscriber))
    return tuple(client for client in clients if (at.topic, client, *key) in at.node.acknowledged)


def on_retransmit(at: At, m: events.BundleRetransmit) -> None:
    """R2R-Retransmit: stores the messages that the event carries, and records which subscribers have acknowledged them.

    If one of the messages was missing and the event has ``fetch_batch`` messages, requests the next ``fetch_batch``
    missing messages from the sender.
    """
    keys = [Key(copy.publication.source, copy.incarnation, copy.n) for copy in m.copies]
    on_way = storage.being_written(at)
    is_new = any((at.topic, *key) in at.node.lacking and key not in on_way for key in keys)
    for key, copy in zip(keys, m.copies, strict=True):
        for client in copy.acknowledged:
            storage.note_acknowledged(at, client, key)
        storage.store(at, key, copy.publication)
    most = at.rounds("fetch_batch")
    if is_new and len(m.copies) >= most:
        on_way = storage.being_written(at)
        more = (row for row in at.of(at.node.lacking) if m.origin in row.holders and Key.of(row) not in on_way)
        wanted = tuple(map(Key.of, islice(more, most)))
        if wanted:
            at.send(events.BundleNak, (m.origin,), wanted)


OPERATIONAL = "OPERATIONAL"
RECOVERING = "RECOVERING"


def on_probe(at: At, m: events.Probe) -> None:
    """C2R-Probe: answers with the members, and whether this repository is operational (rule P27)."""
    at.send(events.ProbeAnswer, (m.origin,), m.role, m.designation, at.is_operational, at.members)


def join(at: At, call: JoinCall) -> None:
    """Handles call ``join`` (section 4.9): starts this repository as a member of the bundle."""
    if not at.log.is_member:
        at.log.is_member = True
        begin(at)


def begin(at: At) -> None:
    """Starts an incarnation of this repository for the topic. It requests assistance if the bundle has other members.

    A repository that has left the bundle only starts its timers.
    """
    at.node.duty[at.topic] = Duty(at.topic, begun_round=at.round, asked_round=at.round)
    if at.log.is_left:
        membership.start_timers(at)
        return
    slots.rebuild_table(at)
    _set_status(at, RECOVERING)
    for subscriber in at.of(at.node.subscriber):
        storage.recompute_sync(at, subscriber)
    membership.start_timers(at)
    if at.peers:
        request_assistance(at)
    else:
        complete(at)


def request_assistance(at: At) -> None:
    """Timer ``assist``: sends R2R-Assist to the other members of the bundle.

    From the second request on, it also sends R2R-Assist to all repositories, to discover members (rule P33). If the
    missing messages do not arrive, this repository becomes operational without them (`_may_end`).
    """
    finish(at)
    if at.duty.is_operational or at.log.is_left:
        return
    n_missed = len(at.of(at.node.missed))
    if n_missed < at.duty.n_missed:
        at.duty.asked_round = at.round
    at.duty.n_missed = n_missed
    if _may_end(at):
        for row in at.of(at.node.missed):
            del at.node.missed[at.topic, row.publisher, row.incarnation, row.n]
        complete(at)
        return
    at.send(events.Assist, at.peers)
    if at.round > at.duty.begun_round:
        at.send(events.Assist, ())
    at.wake("assist", at.rounds("fetch_rounds"))


def _may_end(at: At) -> bool:
    """Returns whether the recovery ends although messages are missing (rules P22, P35).

    It ends if no missing message has arrived for T_assist, and no heard member has a missing message. A repository that
    has never been operational first waits for an R2R-Recovery, because its disk may have no messages, unless no member
    can send one. It then needs all messages that other members have.
    """
    if at.round - at.duty.asked_round < at.rounds("assist_rounds"):
        return False
    wanted = at.of(at.node.lacking)
    if at.log.is_complete or at.duty.assistant is not None:
        wanted = [row for row in wanted if (at.topic, *Key.of(row)) in at.node.missed]
    elif not _is_bundle_new(at):
        return False
    return not any(membership.is_heard(at, holder) for row in wanted for holder in row.holders)


def _is_bundle_new(at: At) -> bool:
    """Returns whether all other members are heard, and have told by Gossip-ACK that they were never operational."""
    told = (membership.peer(at, one).is_complete for one in at.peers if membership.is_heard(at, one))
    return [*told] == [False] * len(at.peers)


def on_assist(at: At, m: events.Assist) -> None:
    """R2R-Assist (4.8, 4.9): adds the sender to the members. An operational repository answers with R2R-Recovery."""
    if m.origin not in membership.departed_members(at):
        membership.add(at, m.origin)
    if not at.duty.is_operational:
        at.duty.answered.add(m.origin)
        finish(at)
    if at.duty.is_operational:
        at.send(
            events.BundleRecovery, (m.origin,), slots.prefixes(at), slots.skipped(at), slots.newest_incarnations(at),
            registrations.actions(at), registrations.choices(at), at.members, membership.departed_members(at),
        )  # fmt: skip


def on_recovery(at: At, m: events.BundleRecovery) -> None:
    """R2R-Recovery (rule P21): merges the sender's state, and reserves slots for missing messages.

    Also requests the missing messages. If no message is missing, and no other answer is awaited, the recovery ends.
    """
    if at.duty.is_operational:
        return
    if at.duty.assistant is None:
        at.duty.asked_round = at.round
    at.duty.assistant = m.origin
    at.duty.answered.add(m.origin)
    membership.merge_members(at, m.members, (), m.left)
    if at.log.is_left:
        return
    for one in m.newest:
        slots.record_incarnation(at, one.publisher, one.incarnation)
    for action in m.actions:
        storage.apply_action(at, action)
    for choice in m.choices:
        registrations.record_designation(at, choice.client, choice.role, choice.number, choice.repository, is_own=False)
    for row in at.of(at.node.missed):
        if slots.find(at, Key.of(row)) is None:  # the slot is void, so the recovery does not wait for the message
            del at.node.missed[at.topic, *Key.of(row)]
    slots.skip(at, m.skipped)
    for prefix in m.prefixes:
        _set_aside(at, m.origin, prefix)
    storage.settle(at)
    fetch(at)
    finish(at)


def _set_aside(at: At, assistant: int, prefix: Key) -> None:
    row = slots.record_incarnation(at, prefix.publisher, prefix.incarnation)
    for n in range(1, prefix.n + 1):
        key = Key(prefix.publisher, prefix.incarnation, n)
        if not slots.has(at, key) and n not in row.skipped:
            at.node.missed[at.topic, *key] = Missed(at.topic, *key)
            record_holder(at, assistant, key)
    if not row.is_closed:
        slots.reserve(at, row, prefix.n)


def finish(at: At) -> None:
    """Ends a recovery with an assistant when all heard members have answered and no message is missing (P35)."""
    if at.duty.assistant is None or at.duty.is_operational or at.log.is_left:
        return
    is_awaiting = any(peer not in at.duty.answered and membership.is_heard(at, peer) for peer in at.peers)
    if not is_awaiting and not at.of(at.node.missed):
        complete(at)


def complete(at: At) -> None:
    """Makes this repository operational for the topic, so that it may steer clients."""
    at.duty.is_operational = at.log.is_complete = True
    if all(_is_ready(at, topic) for topic in at.node.log):
        _set_status(at, OPERATIONAL)
    membership.start_timers(at)
    if slots.after_frontier(at):
        at.wake("nak", at.rounds("nak_rounds"))
    at.wake("rectify", at.rounds("rectify_rounds"))


def _is_ready(at: At, topic: str) -> bool:
    log, duty = at.node.log[topic], at.node.duty.get(topic)
    return not log.is_member or log.is_left or (duty is not None and duty.is_operational)


def _set_status(at: At, status: str) -> None:
    """Sets the status of the node to `status`, at most once per round."""
    if status not in at.ctx.statuses:
        at.ctx.status(status)
