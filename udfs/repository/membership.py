"""Members of a bundle join and leave (sections 4.9 and 4.10), and owners of topics register clients (section 3.3).

Rules P25 and P26.
"""

from __future__ import annotations

from udfs.nodes.calls import DeregisterCall, LeaveCall, RegisterCall, RemoveCall
from udfs.repository import events, storage
from udfs.repository.at import At
from udfs.repository.events import Action, Key
from udfs.repository.records import STORED, Confirming, Member, Peer, Registering

LEFT = "LEFT"


def start_timers(at: At) -> None:
    """Starts the gossip timer of a bundle with other members, and the leave timer of a leaving or departed member."""
    if at.peers:
        at.wake("gossip", at.rounds("gossip_rounds"))
    if at.log.is_leaving or at.log.is_left:
        at.wake("leave", at.rounds("gossip_rounds"))


def add(at: At, repository: int) -> None:
    """Adds `repository` to the members, unless it has left the bundle."""
    if repository != at.me and (at.topic, repository) not in at.node.member:
        at.node.member[at.topic, repository] = Member(at.topic, repository)
        record_heard(at, repository)
        start_timers(at)


def peer(at: At, repository: int) -> Peer:
    """Returns the record of another repository, and creates the record if necessary."""
    index = at.topic, repository
    return at.node.peer.setdefault(index, Peer(*index))


def record_heard(at: At, repository: int) -> None:
    """Records that this repository received an event from `repository` in this round."""
    peer(at, repository).heard_round = at.round


def merge_members(at: At, members: tuple[int, ...], leaving: tuple[int, ...], gone: tuple[int, ...]) -> None:
    """Merges the current, leaving and departed members that another repository has sent.

    If `gone` contains this repository, this repository asks its clients to designate another repository, and departs
    (rule P36).
    """
    for one in gone:
        record_departure(at, one)
    if at.me in gone and not at.log.is_left:
        _migrate(at)
        depart(at)
    for one in members:
        add(at, one)
    for one in leaving:
        if (at.topic, one) in at.node.member:
            at.node.member[at.topic, one].is_leaving = True


def record_departure(at: At, repository: int) -> None:
    """Records that `repository` has left the bundle. Deletes the rows that list the stored messages of `repository`."""
    if repository == at.me:
        return
    row = at.node.member.setdefault((at.topic, repository), Member(at.topic, repository))
    if not row.is_left:
        row.is_left = True
        for lacking in at.of(at.node.lacking):
            lacking.holders.discard(repository)
            if not lacking.holders:
                del at.node.lacking[at.topic, lacking.publisher, lacking.incarnation, lacking.n]
        for table in (at.node.located, at.node.held):
            for key in [key for key in table if key[:2] == (at.topic, repository)]:
                del table[key]


def remove(at: At, call: RemoveCall) -> None:
    """Handles call ``remove`` (rule P36): records that member `call.peer` has left. Gossip informs the others."""
    if at.log.is_member and not at.log.is_left and call.peer in at.peers:
        record_departure(at, call.peer)


def depart(at: At) -> None:
    """Records that this repository has left the bundle. If it has left all its bundles, the node gets status LEFT."""
    at.log.is_leaving, at.log.is_left = False, True
    if all(one.is_left or not one.is_member for one in at.node.log.values()):
        at.ctx.status(LEFT)
    start_timers(at)


def is_heard(at: At, repository: int) -> bool:
    """Returns whether an event from member `repository` arrived in the last T_assist rounds.

    For T_assist rounds after the start of this repository, the result is True for every member.
    """
    row = at.node.peer.get((at.topic, repository))
    heard = at.duty.begun_round if row is None else max(row.heard_round, at.duty.begun_round)
    return at.round - heard < at.rounds("assist_rounds")


def departed_members(at: At) -> tuple[int, ...]:
    """Returns the ids of the repositories that have left the bundle."""
    return tuple(one.repository for one in at.of(at.node.member) if one.is_left)


def departures(at: At) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the ids of the members that are leaving the bundle, and of the repositories that have left it."""
    leaving = [one.repository for one in at.of(at.node.member) if one.is_leaving and not one.is_left]
    return tuple(sorted([*leaving, *([at.me] if at.log.is_leaving else [])])), departed_members(at)


def leave(at: At, call: LeaveCall) -> None:
    """Handles call ``leave`` (section 4.10): this repository stops steering clients, and starts to leave the bundle."""
    log = at.log
    if log.is_member and not log.is_left:
        log.is_leaving = True
        on_leave_timer(at)


def on_leave_timer(at: At) -> None:
    """Timer ``leave``: sends R2C-Migrate to clients, and departs if other members can replace this repository (P26).

    A repository that has left repeats Gossip-LEAVE.
    """
    log = at.log
    if log.is_leaving:
        _migrate(at)
        if at.duty.is_operational and _is_covered(at):
            depart(at)
    if log.is_left and at.peers:
        at.send(events.GossipLeave, at.peers)
    if log.is_leaving or (log.is_left and at.peers):
        at.wake("leave", at.rounds("gossip_rounds"))


def _migrate(at: At) -> None:
    for row in at.of(at.node.designation):
        if row.repository == at.me:
            at.send(events.Migrate, (row.client,), row.role, row.number)


def _is_covered(at: At) -> bool:
    """Returns whether this repository may depart (rules P26 and P30).

    Each heard member that is not leaving must have all messages and registrations of this repository, and must know
    that this repository leaves. At least one of these members must have been operational. No member with a lower id may
    be leaving, because two members that depart in one round would rely on each other.
    """
    others = [at.node.member[at.topic, one] for one in at.peers if is_heard(at, one)]
    staying = [peer(at, one.repository) for one in others if not one.is_leaving]
    is_next = all(one.repository > at.me for one in others if one.is_leaving)
    can_serve = any(one.is_complete for one in staying)
    return can_serve and is_next and all(_stands_in(at, one) for one in staying)


def _stands_in(at: At, peer: Peer) -> bool:
    registered = max((row.seq for row in at.of(at.node.registration)), default=0)
    behind = {*peer.beyond}
    numbered = (one for one in at.of(at.node.numbered) if at.node.slot[at.topic, one.seq].status == STORED)
    keys = [*map(Key.of, numbered), *map(Key.of, at.of(at.node.orphan))]
    is_told = peer.knows_leaving and peer.told >= registered
    return is_told and all(key in behind or key.n <= storage.held_upto(at, peer.repository, *key[:2]) for key in keys)


def on_farewell(at: At, m: events.GossipAck) -> None:
    """Gossip-ACK at a repository that has left: ends the Gossip-LEAVEs to a sender that knows the departure."""
    if at.me in m.left:
        at.node.member.pop((at.topic, m.origin), None)


def call_register(at: At, call: RegisterCall | DeregisterCall) -> None:
    """Handles call ``register`` or ``deregister`` (3.3): sends Register or Deregister to the bundle's first member.

    `repeat_registrations` sends the message to other members until R2C-Confirm arrives. A later call for the same
    client and role replaces the message.
    """
    index = at.topic, call.peer, call.role
    before = at.node.registering.get(index)
    number = at.round if before is None else max(at.round, before.number + 1)
    row = at.node.registering[index] = Registering(*index, number, 0, isinstance(call, RegisterCall), call.source_seq)
    _send(at, row)


def repeat_registrations(at: At) -> None:
    """Timer T_p: sends each unconfirmed Register and Deregister to the next member of the bundle.

    After the last member, the message goes to all repositories as a discovery (rule P33), and then to the first member.
    """
    for row in at.of(at.node.registering):
        row.tries += 1
        _send(at, row)


def _send(at: At, row: Registering) -> None:
    event = events.Register if row.is_registered else events.Deregister
    receivers = [*((member,) for member in at.bundle.members), ()]
    at.send(event, receivers[row.tries % len(receivers)], row.client, row.role, row.number)
    at.wake("register", at.rounds("publisher_rounds"))


def on_confirm(at: At, m: events.RegistrationConfirm) -> None:
    """Handles R2C-Confirm: confirms the topic owner's call ``register`` or ``deregister``."""
    row = at.node.registering.get((at.topic, m.client, m.role))
    if row is not None and row.number == m.number:
        del at.node.registering[at.topic, m.client, m.role]
        at.ctx.confirm(row.source_seq)


def on_register(at: At, m: events.Register | events.Deregister) -> None:
    """Register, Deregister (section 3.3): stores the registration or deregistration of a client.

    The owner of the topic gets R2C-Confirm when all heard members (`is_heard`) have stored it (rule P34). A sender that
    is not the owner gets Refuse.
    """
    if not at.is_operational:
        return
    if m.origin != at.log.owner:
        at.send(events.Refuse, (m.origin,), m.role, m.number)
        return
    is_registered = isinstance(m, events.Register)
    storage.apply_action(at, Action(m.client, m.role, m.number, None, is_registered))
    storage.settle(at)
    index = at.topic, m.client, m.role
    at.node.confirming[index] = Confirming(*index, m.number, m.origin)
    confirm_registrations(at)


def confirm_registrations(at: At) -> None:
    """Sends R2C-Confirm for each registration or deregistration that all heard members have stored (rule P34).

    Drops the pending confirmation of a registration or deregistration that a newer one has replaced.
    """
    for row in at.of(at.node.confirming):
        index = at.topic, row.client, row.role
        done = at.node.registration[index]
        peers = [at.node.peer.get((at.topic, peer)) for peer in at.peers if is_heard(at, peer)]
        is_told = all(peer is not None and peer.told >= done.seq for peer in peers)
        if done.number == row.number and is_told:
            at.send(events.RegistrationConfirm, (row.owner,), row.client, row.role, row.number)
        if done.number != row.number or is_told:
            del at.node.confirming[index]
