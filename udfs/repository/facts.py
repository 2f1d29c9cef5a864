"""Acknowledgements that subscribers gave elsewhere: joined with the repository-table (4.6; rules P15, P16)."""

from __future__ import annotations

from udfs.repository import dissemination, registrations, slots
from udfs.repository.at import At
from udfs.repository.bundle_events import SyncFact
from udfs.repository.bundle_records import ForeignAck, ForeignSync, Located
from udfs.repository.client_records import SUBSCRIBER
from udfs.repository.events import Key


def acknowledged_elsewhere(at: At, repository: int, client: int, seqs: list[int]) -> None:
    """Notes acknowledgements in another repository's numbers; those not in the table yet wait (rule P15)."""
    for seq in seqs:
        index = at.topic, repository, seq
        located = at.node.located.get(index)
        if located is not None:
            dissemination.acknowledge(at, client, Key.of(located))
        else:
            at.node.foreign_ack.setdefault(index, ForeignAck(*index, set())).clients.add(client)


def located(at: At, repository: int, seq: int, key: Key) -> None:
    """Adds a row to the repository-table, and does what has waited for it."""
    index = at.topic, repository, seq
    at.node.located[index] = Located(*index, *key)
    waiting = at.node.foreign_ack.pop(index, None)
    for client in sorted(waiting.clients) if waiting else ():
        dissemination.acknowledge(at, client, key)


def synced_elsewhere(at: At, repository: int, fact: SyncFact) -> None:
    """Notes how far a subscriber has acknowledged at its steering repository; the number is not taken (rule P16)."""
    index = at.topic, repository, fact.client
    row = at.node.foreign_sync.get(index)
    if row is None or row.subscription_ids != fact.subscription_ids:
        row = at.node.foreign_sync[index] = ForeignSync(*index, fact.seq, fact.subscription_ids)
    row.seq = max(row.seq, fact.seq)


def apply(at: At, repository: int) -> None:
    """Marks the rows that another repository's syncs cover, as far as their messages are here."""
    peer = at.node.peer[at.topic, repository]
    for row in at.of(at.node.foreign_sync):
        if row.repository == repository:
            _mark(at, row, min(row.seq, peer.seen))


def _mark(at: At, row: ForeignSync, upto: int) -> None:
    subscriber = at.node.subscriber.get((at.topic, row.client))
    while subscriber is not None and row.applied < upto:
        place = at.node.located.get((at.topic, row.repository, row.applied + 1))
        slot = slots.find(at, Key.of(place)) if place else None
        if place is not None and (slot is None or slot.publication is None):
            break
        if slot is not None and dissemination.is_for(at, subscriber, slot, row.subscription_ids):
            dissemination.acknowledge(at, row.client, Key.of(slot))
        row.applied += 1


def syncs(at: At) -> tuple[SyncFact, ...]:
    """Returns how far the steered subscribers have acknowledged.

    A sync passes what a deregistration takes from a subscriber, and a registration may give that back (rule P25). So
    nothing is told of a topic whose owner has registered or deregistered anybody.
    """
    if registrations.are_changed(at):
        return ()
    return tuple(
        SyncFact(one.client, dissemination.sync_of(at, one), tuple(i.subscription_id for i in one.interests))
        for one in at.of(at.node.subscriber)
        if registrations.steered(at, one.client, SUBSCRIBER) is not None
    )
