"""Owners of topics register and deregister clients (section 3.3; rule P25)."""

from __future__ import annotations

from udfs.nodes.calls import DeregisterCall, RegisterCall
from udfs.repository import dissemination, membership, slots, storage
from udfs.repository.at import At
from udfs.repository.bundle_events import Action
from udfs.repository.client_events import Deregister, Register
from udfs.repository.client_records import Registering
from udfs.repository.repository_events import Refuse, RegistrationConfirm
from udfs.repository.repository_records import Confirming


def call(at: At, call: RegisterCall | DeregisterCall) -> None:
    """Has a client registered or deregistered; a repository has to confirm it. Of two in a round the later counts."""
    index = at.topic, call.peer, call.role
    before = at.node.registering.get(index)
    number = at.round if before is None else max(at.round, before.number + 1)
    row = at.node.registering[index] = Registering(*index, number, 0, isinstance(call, RegisterCall), call.source_seq)
    _send(at, row)


def again(at: At) -> None:
    """Repeats what is not confirmed every T_p: to the next member, and after the last one to all that brokers know."""
    for row in at.of(at.node.registering):
        row.tries += 1
        _send(at, row)


def _send(at: At, row: Registering) -> None:
    event = Register if row.is_registered else Deregister
    receivers = [*((member,) for member in at.bundle.members), ()]
    at.send(event, receivers[row.tries % len(receivers)], row.client, row.role, row.number)
    at.wake("register", at.rounds("publisher_rounds"))


def on_confirm(at: At, m: RegistrationConfirm) -> None:
    """Confirms the call."""
    row = at.node.registering.get((at.topic, m.client, m.role))
    if row is not None and row.number == m.number:
        del at.node.registering[at.topic, m.client, m.role]
        at.ctx.confirm(row.source_seq)


def on_register(at: At, m: Register | Deregister) -> None:
    """Does what the owner of the topic asks for; a deregistration cuts at what is stored.

    It is confirmed when all members that are heard have it (rule P34).
    """
    if not at.is_operational:
        return
    if m.origin != at.log.owner:
        at.send(Refuse, (m.origin,), m.role, m.number)
        return
    is_registered = isinstance(m, Register)
    cut = () if is_registered else slots.prefixes(at)
    dissemination.enact(at, Action(m.client, m.role, m.number, None, is_registered, cut))
    storage.settle(at)
    index = at.topic, m.client, m.role
    at.node.confirming[index] = Confirming(*index, m.number, m.origin)
    confirm(at)


def confirm(at: At) -> None:
    """Confirms what all members that are heard have, and forgets what a later action has replaced."""
    for row in at.of(at.node.confirming):
        index = at.topic, row.client, row.role
        done = at.node.registration[index]
        peers = [at.node.peer.get((at.topic, peer)) for peer in at.peers if membership.is_heard(at, peer)]
        is_told = all(peer is not None and peer.told >= done.seq for peer in peers)
        if done.number == row.number and is_told:
            at.send(RegistrationConfirm, (row.owner,), row.client, row.role, row.number)
        if done.number != row.number or is_told:
            del at.node.confirming[index]
