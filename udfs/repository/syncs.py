"""Answers of a repository to its subscribers: recovery, acknowledgements, Rectify (sections 3.8 to 3.11).

Rules P7, P8 and P10. Subscribers also acknowledge messages of other repositories. These acknowledgements reach this
repository by gossip or directly. They contain sequence numbers of the other repository; the repository-table maps these
numbers to messages (section 4.6; rules P15, P16).
"""

from __future__ import annotations

from udfs.repository import events, registrations, slots, storage
from udfs.repository.at import At
from udfs.repository.events import Action, Key
from udfs.repository.records import STORED, SUBSCRIBER, ForeignAck, ForeignSync, Located, Subscriber


def acknowledged_elsewhere(at: At, repository: int, client: int, seqs: list[int]) -> None:
    """Records that `client` has acknowledged the messages with numbers `seqs` of `repository` (rule P15).

    An acknowledgement of an unknown number is stored until the repository-table has the number.
    """
    for seq in seqs:
        index = at.topic, repository, seq
        located = at.node.located.get(index)
        if located is not None:
            storage.note_acknowledged(at, client, Key.of(located))
        else:
            at.node.foreign_ack.setdefault(index, ForeignAck(*index, set())).clients.add(client)


def record_location(at: At, repository: int, seq: int, key: Key) -> None:
    """Adds message `key`, which has number `seq` at `repository`, to the repository-table.

    Records the acknowledgements that were stored for this number.
    """
    index = at.topic, repository, seq
    at.node.located[index] = Located(*index, *key)
    waiting = at.node.foreign_ack.pop(index, None)
    for client in sorted(waiting.clients) if waiting else ():
        storage.note_acknowledged(at, client, key)


def synced_elsewhere(at: At, repository: int, fact: events.SyncFact) -> None:
    """Records a sync at `repository` that arrived by gossip (rule P16)."""
    index = at.topic, repository, fact.client
    row = at.node.foreign_sync.get(index)
    if row is None or row.subscription_ids != fact.subscription_ids:
        row = at.node.foreign_sync[index] = ForeignSync(*index, fact.seq, fact.subscription_ids)
    row.seq = max(row.seq, fact.seq)


def apply_syncs(at: At, repository: int) -> None:
    """Records the acknowledgements that the syncs at `repository` imply, for messages that this repository knows."""
    for row in (row for row in at.of(at.node.foreign_sync) if row.repository == repository):
        subscriber = at.node.subscriber.get((at.topic, row.client))
        upto = min(row.seq, at.node.peer[at.topic, repository].seen)
        while subscriber is not None and row.applied < upto:
            message = at.node.located.get((at.topic, repository, row.applied + 1))
            slot = slots.find(at, Key.of(message)) if message else None
            if message is not None and (slot is None or slot.publication is None):
                break
            if slot is not None and storage.is_for(at, subscriber, slot, row.subscription_ids):
                storage.note_acknowledged(at, row.client, Key.of(slot))
            row.applied += 1


def syncs(at: At) -> tuple[events.SyncFact, ...]:
    """Returns the syncs of the subscribers that this repository steers, for gossip.

    The result is empty if the topic's owner has registered or deregistered a client by a call. A sync may then include
    messages that a deregistration excluded and a later registration permits (rule P25).
    """
    if any(row.number > registrations.BEGINNING for row in at.of(at.node.registration)):
        return ()
    return tuple(
        events.SyncFact(one.client, storage.sync_of(at, one), tuple(i.subscription_id for i in one.interests))
        for one in at.of(at.node.subscriber)
        if registrations.steered_designation(at, one.client, SUBSCRIBER) is not None
    )


def on_subscribe(at: At, m: events.Subscribe) -> None:
    """S2R-Subscribe (rule P10): answers with R2S-Confirm, whose prefixes are the cuts of the subscriptions."""
    is_asked = m.steering == at.me and at.is_operational
    if is_asked and registrations.is_admitted(at, m.origin, SUBSCRIBER, m.designation):
        values = (m.designation, at.me, m.subscription_ids, slots.prefixes(at), at.log.frontier)
        at.send(events.SubscribeConfirm, (m.origin,), *values)


def on_recovery(at: At, m: events.SubscriberRecovery) -> None:
    """S2R-Recovery (3.11): stores the sender's subscriptions. The designated repository answers with R2S-Rectify."""
    if not registrations.record_designation(at, m.origin, SUBSCRIBER, m.designation, m.steering, is_own=True):
        return
    storage.apply_action(at, Action(m.origin, SUBSCRIBER, m.designation, m.interests))
    storage.settle(at)
    if m.steering != at.me or not at.is_operational:
        return
    if registrations.is_admitted(at, m.origin, SUBSCRIBER, m.designation):
        rectify(at, at.node.subscriber[at.topic, m.origin], m.designation)


def on_ack(at: At, m: events.SubscriberAck) -> None:
    """S2R-ACK (3.9, 4.6; P8): records acknowledgements. Steered subscribers get R2S-Sync or R2S-Rectify."""
    is_newest = registrations.record_designation(at, m.origin, SUBSCRIBER, m.designation, m.steering, is_own=False)
    seqs = [seq for run in m.runs for seq in range(run.first, run.last + 1)]
    if m.steering != at.me:
        acknowledged_elsewhere(at, m.steering, m.origin, seqs)
        return
    for seq in seqs:
        if (slot := at.node.slot.get((at.topic, seq))) and slot.status == STORED:
            storage.note_acknowledged(at, m.origin, Key.of(slot))
    subscriber = at.node.subscriber.get((at.topic, m.origin))
    number = registrations.steered_designation(at, m.origin, SUBSCRIBER)
    if is_newest and number == m.designation and subscriber is not None:
        if storage.missing(at, subscriber, max(seqs, default=0)):
            rectify(at, subscriber, number)
        else:
            at.send(events.Sync, (m.origin,), number, at.me, storage.sync_of(at, subscriber), at.members)


def rectify(at: At, subscriber: Subscriber, number: int) -> None:
    """Sends R2S-Rectify: a list of the messages up to the frontier that `subscriber` has not acknowledged (P5, P7)."""
    missing = storage.missing(at, subscriber, at.log.frontier)
    listed = tuple(
        events.Listed(slot.seq, slot.publisher, slot.source_seq, slot.incarnation, slot.n)
        for slot in missing
        if slot.source_seq is not None
    )
    values = (number, at.me, storage.sync_of(at, subscriber), listed, at.log.frontier, at.members)
    at.send(events.Rectify, (subscriber.client,), *values)
    if missing:
        at.wake("rectify", at.rounds("rectify_rounds"))


def on_nak(at: At, m: events.SubscriberNak) -> None:
    """S2R-NAK: sends the requested messages of a steered sender. Reading one takes ``retrieve_rounds``."""
    subscriber = at.node.subscriber.get((at.topic, m.origin))
    if subscriber is None or registrations.steered_designation(at, m.origin, SUBSCRIBER) != m.designation:
        return
    for seq in m.seqs:
        slot = at.node.slot.get((at.topic, seq))
        if slot is not None and slot.publication and seq <= at.log.frontier and storage.is_for(at, subscriber, slot):
            prev = storage.previous(at, subscriber, seq)
            values = (*slot.publication, m.designation, at.me, seq, prev, slot.incarnation, slot.n)
            at.send(events.SubscriberRetransmit, (m.origin,), *values, extra=at.rounds("retrieve_rounds"))


def on_rectify_timer(at: At) -> None:
    """Timer T_d (rule P14): sends R2S-Rectify to each steered subscriber with an unacknowledged message.

    Only messages up to the frontier at the previous expiry of the timer are considered.
    """
    is_more = False
    for subscriber in at.of(at.node.subscriber):
        number = registrations.steered_designation(at, subscriber.client, SUBSCRIBER)
        if number is None:
            continue
        if storage.missing(at, subscriber, subscriber.offered):
            rectify(at, subscriber, number)
        is_more = is_more or storage.sync_of(at, subscriber) < at.log.frontier
        subscriber.offered = at.log.frontier
    if is_more:
        at.wake("rectify", at.rounds("rectify_rounds"))
