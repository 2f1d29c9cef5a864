"""Who gets a message: the dissemination table, which is derived, and persistence notifications (rules P6 and P11)."""

from __future__ import annotations

from udfs.repository import registrations
from udfs.repository.at import At
from udfs.repository.bundle_events import Action
from udfs.repository.events import Key, Upto
from udfs.repository.repository_events import Persistent, Receiver
from udfs.repository.repository_records import STORED, Acknowledged, Slot, Subscriber


def is_for(at: At, subscriber: Subscriber, slot: Slot, ids: tuple[int, ...] | None = None) -> bool:
    """Returns whether a message is for a subscriber: stored, on its subscriptions, behind their cuts (rule P11).

    Args:
        at: The topic.
        subscriber: The subscriber.
        slot: The message's slot.
        ids: Only these subscriptions count; None: all do.
    """
    if slot.status != STORED or slot.publication is None or not registrations.is_covered(at, subscriber.client, slot):
        return False
    matches = slot.publication.matches
    return any(
        one.subscription_id in matches
        and (ids is None or one.subscription_id in ids)
        and slot.n > cut_of(one.cut, slot.publisher, slot.incarnation)
        for one in subscriber.interests
    )


def cut_of(cut: tuple[Upto, ...], publisher: int, incarnation: int) -> int:
    """Returns up to which message of an incarnation a cut goes."""
    found = (one.n for one in cut if one.publisher == publisher and one.incarnation == incarnation)
    return next(found, 0)


def is_acknowledged(at: At, client: int, slot: Slot) -> bool:
    """Returns whether a subscriber has acknowledged a message."""
    return (at.topic, client, slot.publisher, slot.incarnation, slot.n) in at.node.acknowledged


def acknowledge(at: At, client: int, key: Key) -> None:
    """Notes that a subscriber has a message."""
    at.node.acknowledged[at.topic, client, *key] = Acknowledged(at.topic, client, *key)


def persist(at: At, slot: Slot) -> None:
    """Notifies the steered subscribers of a message that the frontier has passed, in one event (rule P6)."""
    receivers = []
    for subscriber in at.of(at.node.subscriber):
        if is_for(at, subscriber, slot):
            number = registrations.steered(at, subscriber.client, "subscriber")
            if number is not None:
                receivers.append(Receiver(subscriber.client, number, subscriber.last_seq))
            subscriber.last_seq = slot.seq
    if receivers and slot.source_seq is not None:
        to = tuple(one.client for one in receivers)
        at.send(Persistent, to, slot.publisher, slot.source_seq, slot.seq, slot.incarnation, slot.n, tuple(receivers))
        at.wake("rectify", at.rounds("rectify_rounds"))


def enact(at: At, action: Action) -> bool:
    """Does an action unless it is old; returns whether it was done. Recipients are computed again."""
    is_return = registrations.is_deregistered(at, action)
    if not registrations.apply(at, action):
        return False
    if is_return:
        registrations.end_designations(at, action)
    for subscriber in at.of(at.node.subscriber):
        if action.interests is None or subscriber.client == action.client:
            recount(at, subscriber)
    return True


def recount(at: At, subscriber: Subscriber) -> None:
    """Computes again which messages are for a subscriber, after its subscriptions changed."""
    subscriber.last_seq = previous(at, subscriber, at.log.frontier + 1)
    subscriber.sync = subscriber.offered = 0
    for row in at.of(at.node.foreign_sync):
        if row.client == subscriber.client:
            row.applied = 0


def previous(at: At, subscriber: Subscriber, seq: int) -> int:
    """Returns the last number before one whose message is for a subscriber, or 0."""
    numbers = range(seq - 1, 0, -1)
    return next((one for one in numbers if is_for(at, subscriber, at.node.slot[at.topic, one])), 0)


def sync_of(at: At, subscriber: Subscriber) -> int:
    """Returns up to which number a subscriber has acknowledged all, at most the frontier (rules P5, P16)."""
    while subscriber.sync < at.log.frontier:
        slot = at.node.slot[at.topic, subscriber.sync + 1]
        if is_for(at, subscriber, slot) and not is_acknowledged(at, subscriber.client, slot):
            break
        subscriber.sync += 1
    return subscriber.sync


def missing(at: At, subscriber: Subscriber, upto: int) -> list[Slot]:
    """Returns the messages up to a number that a subscriber has not acknowledged, in order."""
    numbers = range(sync_of(at, subscriber) + 1, min(upto, at.log.frontier) + 1)
    slots = (at.node.slot[at.topic, seq] for seq in numbers)
    return [slot for slot in slots if is_for(at, subscriber, slot) and not is_acknowledged(at, subscriber.client, slot)]
