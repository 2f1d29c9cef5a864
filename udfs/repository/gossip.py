"""Gossip between the repositories of a bundle (sections 4.5, 4.6; rules P15 to P18)."""

from __future__ import annotations

from udfs.repository import events, membership, recovery, registrations, slots, storage, syncs
from udfs.repository.at import At
from udfs.repository.events import Key
from udfs.repository.records import ACTION, STORED, VOID, PeerPrefix


def on_gossip_timer(at: At) -> None:
    """Timer T_g (rule P17): sends Gossip-ACK to each member, with the entries (messages, actions) that it lacks.

    Members that lack the same entries get one common event. Also confirms the registrations that members have.
    """
    if at.log.is_left or not at.peers:
        return
    membership.confirm_registrations(at)
    by_base: dict[int, list[int]] = {}
    for peer in at.peers:
        by_base.setdefault(min(membership.peer(at, peer).told, at.log.frontier), []).append(peer)
    for base, peers in sorted(by_base.items()):
        send_entries(at, tuple(peers), base)
    at.wake("gossip", at.rounds("gossip_rounds"))


def on_leave(at: At, m: events.GossipLeave) -> None:
    """Gossip-LEAVE (section 4.10): records that the sender has left the bundle, and answers with Gossip-ACK."""
    membership.record_departure(at, m.origin)
    send_entries(at, (m.origin,), at.log.frontier)


def send_entries(at: At, peers: tuple[int, ...], base: int) -> None:
    """Sends Gossip-ACK to `peers`, with all entries after sequence number `base`."""
    seen = tuple(events.Told(row.repository, row.seen) for row in at.of(at.node.peer))
    at.send(
        events.GossipAck, peers, base, at.log.frontier, _entries(at, base), unlisted_messages(at), seen, at.members,
        *membership.departures(at), slots.newest_incarnations(at), slots.skipped(at), registrations.choices(at),
        syncs.syncs(at), at.log.is_complete,
    )  # fmt: skip


def _entries(at: At, base: int) -> tuple[events.Entry, ...]:
    """Returns the stored messages after `base` up to the frontier, and all actions after `base`."""
    found = [at.node.slot[at.topic, seq] for seq in range(base + 1, at.log.last_seq + 1)]
    return tuple(
        events.Entry(slot.seq, slot.publisher, slot.incarnation, slot.n, slot.action)
        for slot in found
        if slot.status == ACTION or (slot.seq <= at.log.frontier and slot.status != VOID)
    )


def unlisted_messages(at: At) -> tuple[Key, ...]:
    """Returns the stored messages that have no entry in Gossip-ACK (rule P18): after the frontier, and orphans."""
    found = map(Key.of, slots.after_frontier(at, STORED))
    return (*found, *map(Key.of, at.of(at.node.orphan)))


def on_gossip(at: At, m: events.GossipAck) -> None:
    """Gossip-ACK (rules P17, P18): merges the sender's members, incarnations, entries, designations and syncs.

    If the sender has left the bundle, merges only the sender's list of members, and answers with a Gossip-ACK that
    lists the sender as departed.
    """
    membership.merge_members(at, m.members, m.leaving, m.left)
    if at.log.is_left:
        return
    if m.origin in membership.departed_members(at):
        send_entries(at, (m.origin,), at.log.frontier)
        return
    peer = membership.peer(at, m.origin)
    for one in m.newest:
        slots.record_incarnation(at, one.publisher, one.incarnation)
    slots.skip(at, m.skipped)
    told = {one.repository: one.seq for one in m.seen}
    peer.told, peer.beyond, peer.is_complete = told.get(at.me, 0), m.beyond, m.is_complete
    peer.knows_leaving = at.me in m.leaving and m.base <= peer.seen
    if m.base <= peer.seen:
        for entry in m.entries:
            if entry.seq > peer.seen:
                _enter(at, m.origin, entry)
        peer.seen = max(peer.seen, m.frontier)
    for one in m.beyond:
        recovery.record_holder(at, m.origin, one)
    for choice in m.choices:
        registrations.record_designation(at, choice.client, choice.role, choice.number, choice.repository, is_own=False)
    for fact in m.syncs:
        syncs.synced_elsewhere(at, m.origin, fact)
    storage.settle(at)
    syncs.apply_syncs(at, m.origin)
    membership.confirm_registrations(at)


def _enter(at: At, repository: int, entry: events.Entry) -> None:
    if entry.action is not None:
        storage.apply_action(at, entry.action)
        return
    key = Key.of(entry)
    slots.record_incarnation(at, key.publisher, key.incarnation)
    syncs.record_location(at, repository, entry.seq, key)
    index = at.topic, repository, key.publisher, key.incarnation
    at.node.held[index] = PeerPrefix(*index, key.n)
    recovery.record_holder(at, repository, key)
