"""What subscribers tell and are told: recovery, acknowledgements, syncs, Rectify (3.8 to 3.11; rules P7, P8, P10)."""

from __future__ import annotations

from udfs.repository import dissemination, facts, registrations, slots, storage
from udfs.repository.at import At
from udfs.repository.bundle_events import Action
from udfs.repository.client_events import Subscribe, SubscriberAck, SubscriberNak, SubscriberRecovery
from udfs.repository.client_records import SUBSCRIBER
from udfs.repository.events import Key
from udfs.repository.repository_events import Listed, Rectify, SubscribeConfirm, SubscriberRetransmit, Sync
from udfs.repository.repository_records import STORED, Slot, Subscriber


def on_subscribe(at: At, m: Subscribe) -> None:
    """Says what is stored: new subscriptions start behind it (rule P10)."""
    is_asked = m.steering == at.me and at.is_operational
    if is_asked and registrations.is_admitted(at, m.origin, SUBSCRIBER, m.designation):
        values = (m.designation, at.me, m.subscription_ids, slots.prefixes(at), at.log.frontier)
        at.send(SubscribeConfirm, (m.origin,), *values)


def on_recovery(at: At, m: SubscriberRecovery) -> None:
    """Takes over a subscriber's subscriptions; the repository that it designates answers (section 3.11)."""
    if not registrations.designated(at, m.origin, SUBSCRIBER, m.designation, m.steering, is_own=True):
        return
    dissemination.enact(at, Action(m.origin, SUBSCRIBER, m.designation, m.interests))
    storage.settle(at)
    if m.steering != at.me or not at.is_operational:
        return
    if registrations.is_admitted(at, m.origin, SUBSCRIBER, m.designation):
        rectify(at, at.node.subscriber[at.topic, m.origin], m.designation)


def on_ack(at: At, m: SubscriberAck) -> None:
    """Notes what a subscriber has; its steering repository answers (sections 3.9, 4.6; rule P8)."""
    is_newest = registrations.designated(at, m.origin, SUBSCRIBER, m.designation, m.steering, is_own=False)
    seqs = [seq for run in m.runs for seq in range(run.first, run.last + 1)]
    if m.steering != at.me:
        facts.acknowledged_elsewhere(at, m.steering, m.origin, seqs)
        return
    for slot in (slot for seq in seqs if (slot := at.node.slot.get((at.topic, seq)))):
        if slot.status == STORED:
            dissemination.acknowledge(at, m.origin, Key.of(slot))
    subscriber = at.node.subscriber.get((at.topic, m.origin))
    number = registrations.steered(at, m.origin, SUBSCRIBER)
    if is_newest and number == m.designation and subscriber is not None:
        _answer(at, subscriber, number, max(seqs, default=0))


def _answer(at: At, subscriber: Subscriber, number: int, highest: int) -> None:
    if dissemination.missing(at, subscriber, highest):
        rectify(at, subscriber, number)
    else:
        at.send(Sync, (subscriber.client,), number, at.me, dissemination.sync_of(at, subscriber), at.members)


def rectify(at: At, subscriber: Subscriber, number: int) -> None:
    """Lists what a subscriber has not acknowledged, up to the frontier (rules P5, P7)."""
    missing = dissemination.missing(at, subscriber, at.log.frontier)
    listed = tuple(
        Listed(slot.seq, slot.publisher, slot.source_seq, slot.incarnation, slot.n)
        for slot in missing
        if slot.source_seq is not None
    )
    values = (number, at.me, dissemination.sync_of(at, subscriber), listed, at.log.frontier, at.members)
    at.send(Rectify, (subscriber.client,), *values)
    if missing:
        at.wake("rectify", at.rounds("rectify_rounds"))


def on_nak(at: At, m: SubscriberNak) -> None:
    """Sends a steered subscriber messages again; reading each from the disk takes `retrieve_rounds`."""
    subscriber = at.node.subscriber.get((at.topic, m.origin))
    if subscriber is None or registrations.steered(at, m.origin, SUBSCRIBER) != m.designation:
        return
    for seq in m.seqs:
        slot = at.node.slot.get((at.topic, seq))
        if slot is not None and seq <= at.log.frontier and dissemination.is_for(at, subscriber, slot):
            _send_again(at, subscriber, m.designation, slot)


def _send_again(at: At, subscriber: Subscriber, number: int, slot: Slot) -> None:
    publication = slot.publication
    if publication is not None:
        prev = dissemination.previous(at, subscriber, slot.seq)
        at.send(
            SubscriberRetransmit, (subscriber.client,), publication.source, publication.source_seq,
            publication.issued_round, publication.matches, number, at.me, slot.seq, prev, slot.incarnation, slot.n,
            extra=at.rounds("retrieve_rounds"),
        )  # fmt: skip


def look_after(at: At) -> None:
    """Sends Rectify to steered subscribers that have not acknowledged something for T_d (rule P14)."""
    is_more = False
    for subscriber in at.of(at.node.subscriber):
        number = registrations.steered(at, subscriber.client, SUBSCRIBER)
        if number is None:
            continue
        if dissemination.missing(at, subscriber, subscriber.offered):
            rectify(at, subscriber, number)
        is_more = is_more or dissemination.sync_of(at, subscriber) < at.log.frontier
        subscriber.offered = at.log.frontier
    if is_more:
        at.wake("rectify", at.rounds("rectify_rounds"))
