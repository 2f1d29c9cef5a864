"""The storage of published messages at a repository, and the notification of publishers and subscribers.

Sections 3.5 and 4.2; rules P3, P5, P6, P11, P20. The dissemination table is the join of subscriptions and slots.
"""

from __future__ import annotations

from udfs.repository import events, registrations, slots
from udfs.repository.at import At
from udfs.repository.events import Action, Key, Publication
from udfs.repository.records import (
    PUBLISHER,
    STORED,
    Acknowledged,
    Buffered,
    Incarnation,
    Live,
    Missed,
    Slot,
    Storing,
    Subscriber,
)


def is_for(at: At, subscriber: Subscriber, slot: Slot, ids: tuple[int, ...] | None = None) -> bool:
    """Returns whether the message in `slot` is for `subscriber` (rule P11).

    The message must match a subscription of the subscriber (in `ids`, if given), and be later than its cut. No
    deregistration may exclude the message.
    """
    if slot.status != STORED or slot.publication is None or not registrations.is_covered(at, subscriber.client, slot):
        return False
    matches = slot.publication.matches
    return any(
        one.subscription_id in matches
        and (ids is None or one.subscription_id in ids)
        and slot.n > registrations.cut_of(one.cut, slot.publisher, slot.incarnation)
        for one in subscriber.interests
    )


def is_acknowledged(at: At, client: int, slot: Slot) -> bool:
    """Returns whether subscriber `client` has acknowledged the message in `slot`."""
    return (at.topic, client, slot.publisher, slot.incarnation, slot.n) in at.node.acknowledged


def note_acknowledged(at: At, client: int, key: Key) -> None:
    """Records that subscriber `client` has acknowledged message `key`."""
    at.node.acknowledged[at.topic, client, *key] = Acknowledged(at.topic, client, *key)


def persist(at: At, slot: Slot) -> None:
    """Sends R2S*-Persistent for the message in `slot` to its subscribers, if this repository steers them (rule P6).

    Sets ``last_seq`` of each subscriber of the message to the number of the message.
    """
    receivers = []
    for subscriber in at.of(at.node.subscriber):
        if is_for(at, subscriber, slot):
            number = registrations.steered_designation(at, subscriber.client, "subscriber")
            if number is not None:
                receivers.append(events.Receiver(subscriber.client, number, subscriber.last_seq))
            subscriber.last_seq = slot.seq
    if receivers and slot.source_seq is not None:
        to = tuple(one.client for one in receivers)
        values = (slot.publisher, slot.source_seq, slot.seq, slot.incarnation, slot.n, tuple(receivers))
        at.send(events.Persistent, to, *values)
        at.wake("rectify", at.rounds("rectify_rounds"))


def apply_action(at: At, action: Action) -> None:
    """Applies `action` unless a newer action is known, and recomputes the syncs of the subscribers that it affects."""
    if registrations.apply(at, action):
        for subscriber in at.of(at.node.subscriber):
            if action.interests is None or subscriber.client == action.client:
                recompute_sync(at, subscriber)


def recompute_sync(at: At, subscriber: Subscriber) -> None:
    """Recomputes ``last_seq`` of `subscriber`, and sets its sync to 0, after a change of actions or a crash."""
    subscriber.last_seq = previous(at, subscriber, at.log.frontier + 1)
    subscriber.sync = subscriber.offered = 0
    for row in at.of(at.node.foreign_sync):
        if row.client == subscriber.client:
            row.applied = 0


def previous(at: At, subscriber: Subscriber, seq: int) -> int:
    """Returns the last sequence number before `seq` whose message is for `subscriber`; 0 if no number qualifies."""
    numbers = range(seq - 1, 0, -1)
    return next((one for one in numbers if is_for(at, subscriber, at.node.slot[at.topic, one])), 0)


def sync_of(at: At, subscriber: Subscriber) -> int:
    """Advances and returns the number up to which `subscriber` has acknowledged all its messages (rules P5, P16)."""
    while subscriber.sync < at.log.frontier:
        slot = at.node.slot[at.topic, subscriber.sync + 1]
        if is_for(at, subscriber, slot) and not is_acknowledged(at, subscriber.client, slot):
            break
        subscriber.sync += 1
    return subscriber.sync


def missing(at: At, subscriber: Subscriber, upto: int) -> list[Slot]:
    """Returns the slots up to `upto` and the frontier with messages that `subscriber` has not acknowledged."""
    numbers = range(sync_of(at, subscriber) + 1, min(upto, at.log.frontier) + 1)
    slots = (at.node.slot[at.topic, seq] for seq in numbers)
    return [slot for slot in slots if is_for(at, subscriber, slot) and not is_acknowledged(at, subscriber.client, slot)]


def on_message(at: At, m: events.Message) -> None:
    """Message (section 3.5): stores the message if its P2R-Order has arrived, and otherwise buffers it.

    Drops a message that is stored already, or whose slot is void.
    """
    index = at.topic, m.source, m.source_seq
    known = at.node.identity.get(index)
    if known is None:
        at.node.buffered[index] = Buffered(*index, m.publication, m.hops, at.round)
        at.wake("evict", 4 * at.rounds("failure_rounds"))
        return
    key = Key(m.source, known.incarnation, known.n)
    slot = slots.find(at, key)
    if slots.has(at, key) or slot is None:
        at.ctx.drop()
        return
    store(at, key, m.publication)


def on_order(at: At, m: events.Order | events.Retransmit) -> None:
    """P2R-Order (section 3.5), P2R-Retransmit (section 3.6): reserves slots for a message and its missing predecessors.

    The predecessors are the earlier messages of its incarnation. If the message is in the event or in the buffer, it is
    stored.
    """
    registrations.record_designation(at, m.source, PUBLISHER, m.designation, m.steering, is_own=False)
    key, buffered = Key(m.source, m.incarnation, m.n), at.node.buffered.pop((at.topic, m.source, m.source_seq), None)
    known = m if isinstance(m, events.Retransmit) else buffered
    row = slots.record_incarnation(at, m.source, m.incarnation)
    number = registrations.steered_designation(at, m.source, PUBLISHER)
    is_newest = m.incarnation == slots.newest(at, m.source)
    if not is_newest or not (number is None or registrations.is_admitted(at, m.source, PUBLISHER, number)):
        settle(at)
        return
    slots.record_heard(at, row)
    added = slots.reserve(at, row, key.n)
    slot = slots.find(at, key)
    if slot is not None and slot.status == STORED:
        settle(at, key)
        return
    _request_earlier(at, key, added)
    slots.identify(at, key, m.source_seq)
    wanted = [n for n in added if n != key.n and not slots.has(at, key._replace(n=n))]
    if known is None:
        wanted.append(key.n)
    else:
        store(at, key, known.publication)
    ask(at, row, wanted)


def _request_earlier(at: At, key: Key, added: list[int]) -> None:
    """During a recovery, requests the messages before the first message that arrives from a publisher (rule P21).

    The recovery then waits for these messages. `added` has the catenation numbers of the reserved slots.
    """
    if at.duty.is_operational or (at.topic, key.publisher) in at.node.live:
        return
    at.node.live[at.topic, key.publisher] = Live(at.topic, key.publisher)
    before = (key._replace(n=n) for n in added if n != key.n)
    missed = [one for one in before if not slots.has(at, one)]
    for one in missed:
        at.node.missed[at.topic, *one] = Missed(at.topic, *one)
    if missed and at.duty.assistant is not None:
        at.send(events.BundleNak, (at.duty.assistant,), tuple(missed))


def store(at: At, key: Key, publication: Publication) -> None:
    """Starts to store message `key`. The write takes ``store_rounds`` rounds."""
    if at.rounds("store_rounds"):
        due = at.round + at.rounds("store_rounds")
        at.node.storing[at.topic, due, *key] = Storing(at.topic, due, *key, publication)
        if not at.ctx.is_set("store", due):
            at.ctx.set_timer("store", due, at.rounds("store_rounds"))
        return
    _finish_write(at, key, publication)


def on_stored(at: At) -> None:
    """Timer ``store``: stores the messages whose write ends in this round."""
    due = [row for row in at.of(at.node.storing) if row.due_round <= at.round]
    for row in due:
        key = Key.of(row)
        del at.node.storing[at.topic, row.due_round, *key]
        _finish_write(at, key, row.publication)


def being_written(at: At) -> set[Key]:
    """Returns the messages that are being written to the disk."""
    return {Key.of(row) for row in at.of(at.node.storing)}


def _finish_write(at: At, key: Key, publication: Publication) -> None:
    slots.store_message(at, key, publication)
    settle(at, key)


def settle(at: At, key: Key | None = None) -> None:
    """Moves the frontier over stored messages, and notifies the subscribers and publishers of these messages.

    The publisher of message `key` gets R2P-ACK even if the frontier does not pass the message.
    """
    passed = slots.advance(at)
    for slot in passed:
        persist(at, slot)
    single = {key[:2]: (key.n,)} if key else {}
    for publisher, incarnation in sorted({*single, *((slot.publisher, slot.incarnation) for slot in passed)}):
        row = at.node.incarnation[at.topic, publisher, incarnation]
        acknowledge(at, row, single.get((publisher, incarnation), ()))
    if slots.after_frontier(at):
        at.wake("nak", at.rounds("nak_rounds"))


def acknowledge(at: At, row: Incarnation, single: tuple[int, ...]) -> None:
    """Sends R2P-ACK to the publisher of the incarnation `row`, if this repository steers the publisher (rule P3).

    Argument `single` has the catenation numbers of messages that were stored in this round.
    """
    number = registrations.steered_designation(at, row.publisher, PUBLISHER)
    if number is not None and not row.is_closed:
        upto = registrations.covered_prefix(at, row)
        values = (row.incarnation, single, upto, min(upto, stable(at, row)), at.members, registrations.subscribers(at))
        at.send(events.PublisherAck, (row.publisher,), number, at.me, *values)


def stable(at: At, row: Incarnation) -> int:
    """Returns the catenation number up to which every member has all messages of the incarnation `row` (rule P3).

    The messages of the other members, including members that are down, are known from gossip.
    """
    return min((row.prefix, *(held_upto(at, peer, row.publisher, row.incarnation) for peer in at.peers)))


def held_upto(at: At, repository: int, publisher: int, incarnation: int) -> int:
    """Returns the last message of an incarnation in the filled prefix of another repository, 0 if none is known."""
    held = at.node.held.get((at.topic, repository, publisher, incarnation))
    return 0 if held is None else held.n


def ask(at: At, row: Incarnation, ns: list[int]) -> None:
    """Sends R2P-NAK for messages `ns` of an incarnation, if this repository steers the publisher."""
    number = registrations.steered_designation(at, row.publisher, PUBLISHER)
    on_way = being_written(at)
    wanted = tuple(n for n in ns if (row.publisher, row.incarnation, n) not in on_way)
    if number is not None and wanted:
        at.send(events.PublisherNak, (row.publisher,), number, at.me, row.incarnation, wanted)


def on_recovery(at: At, m: events.PublisherRecovery) -> None:
    """P2R-Recovery (3.11): closes earlier incarnations of the sender, and records the sender's designation.

    The designated repository answers with R2P-Recovery.
    """
    row = slots.record_incarnation(at, m.origin, m.incarnation)
    is_newest = registrations.record_designation(at, m.origin, PUBLISHER, m.designation, m.steering, is_own=True)
    settle(at)
    if not is_newest or m.steering != at.me or not at.is_operational:
        return
    if registrations.is_admitted(at, m.origin, PUBLISHER, m.designation):
        slots.record_heard(at, row)
        values = (m.designation, at.me, m.incarnation, row.prefix, at.members, registrations.subscribers(at))
        at.send(events.PublisherRecovered, (m.origin,), *values)


def evict(at: At) -> None:
    """Timer ``evict``: deletes messages that have been in the temporary buffer for 4 T_fail (rule P24)."""
    age = 4 * at.rounds("failure_rounds")
    for row in at.of(at.node.buffered):
        if at.round - row.round >= age:
            del at.node.buffered[at.topic, row.source, row.source_seq]
    left = [row.round for row in at.of(at.node.buffered)]
    if left:
        at.wake("evict", min(left) + age - at.round)
