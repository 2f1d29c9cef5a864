"""Authorisations, subscriptions and designations at a repository (sections 3.3, 4.1; rules P10, P12, P13, P25)."""

from __future__ import annotations

from udfs.repository import events, slots
from udfs.repository.at import At
from udfs.repository.events import Action, Key, joined_cuts
from udfs.repository.records import (
    ACTION,
    PUBLISHER,
    SUBSCRIBER,
    Designation,
    Incarnation,
    Registration,
    Slot,
    Subscriber,
)

BEGINNING = -1
"""The action number of registrations that the scenario contains."""


def subscribers(at: At) -> tuple[int, ...] | None:
    """Returns the ids of the registered subscribers, or None on a topic without an owner."""
    if at.log.owner is None:
        return None
    rows = at.of(at.node.registration)
    return tuple(sorted(row.client for row in rows if row.role == SUBSCRIBER and row.is_registered))


def is_admitted(at: At, client: int, role: str, number: int) -> bool:
    """Returns whether `client` may act in `role`. If not, sends Refuse to the client (rule P25).

    On a topic without an owner every client may act.
    """
    row = at.node.registration.get((at.topic, client, role))
    if at.log.owner is None or (row is not None and row.is_registered):
        return True
    at.send(events.Refuse, (client,), role, number)
    return False


def is_covered(at: At, client: int, slot: Slot) -> bool:
    """Returns whether a delivery of the message in `slot` to subscriber `client` is allowed.

    A deregistration of the subscriber or of the publisher excludes the messages after its cut.
    """
    if at.log.owner is None:
        return True
    deregistered = (_deregistration(at, client, SUBSCRIBER), _deregistration(at, slot.publisher, PUBLISHER))
    return all(row is None or slot.n <= cut_of(row.cut, slot.publisher, slot.incarnation) for row in deregistered)


def covered_prefix(at: At, row: Incarnation) -> int:
    """Returns the end of the filled prefix of `row`, at most the cut of a deregistered publisher (P25)."""
    deregistered = _deregistration(at, row.publisher, PUBLISHER)
    if deregistered is None:
        return row.prefix
    return min(row.prefix, cut_of(deregistered.cut, row.publisher, row.incarnation))


def _deregistration(at: At, client: int, role: str) -> Registration | None:
    row = at.node.registration.get((at.topic, client, role))
    return None if row is None or row.is_registered else row


def cut_of(cut: tuple[Key, ...], publisher: int, incarnation: int) -> int:
    """Returns the last catenation number of `incarnation` that `cut` contains, or 0 if `cut` lacks the incarnation."""
    return next((one.n for one in cut if one[:2] == (publisher, incarnation)), 0)


def record_designation(at: At, client: int, role: str, number: int, repository: int, *, is_own: bool) -> bool:
    """Records a designation of `client`. Returns False, and records nothing, if a newer designation is known.

    Unless the client itself sent the designation (`is_own`), this repository does not start to steer it (rule P13).
    """
    row = at.node.designation.get((at.topic, client, role))
    if row is not None and row.number > number:
        return False
    if row is None or row.number < number:
        row = Designation(at.topic, client, role, number, repository, is_active=False)
        at.node.designation[at.topic, client, role] = row
    if is_own and repository == at.me and at.is_operational:
        row.is_active = True
    return True


def steered_designation(at: At, client: int, role: str) -> int | None:
    """Returns the number of a client's designation if this repository steers the client, else None."""
    row = at.node.designation.get((at.topic, client, role))
    return row.number if row is not None and row.is_active and at.is_operational else None


def choices(at: At) -> tuple[events.Choice, ...]:
    """Returns the designations of all clients on the topic."""
    rows = at.of(at.node.designation)
    return tuple(events.Choice(row.client, row.role, row.number, row.repository) for row in rows)


def apply(at: At, action: Action) -> bool:
    """Stores `action` under the next sequence number, unless a newer one is known. Returns whether it was stored."""
    if action.interests is None:
        return _store_registration(at, action)
    index = at.topic, action.client
    row = at.node.subscriber.get(index)
    if row is not None and (row.number >= action.number or row.interests == action.interests):
        row.number = max(row.number, action.number)
        return False
    at.node.subscriber[index] = Subscriber(*index, action.number, action.interests)
    slots.append(at, ACTION, Key(action.client, action.number, 0), action)
    return True


def _store_registration(at: At, action: Action) -> bool:
    """Stores a registration or deregistration. Returns whether the stored action has changed.

    The cut of a deregistration combines the filled prefixes of this repository at the first arrival of the
    deregistration with the cuts that other members send. So it includes each message that a member had stored when the
    deregistration reached that member (rule P25).
    """
    index = at.topic, action.client, action.role
    row = at.node.registration.get(index)
    if row is not None and row.number > action.number:
        return False
    is_known = row is not None and row.number == action.number
    cut = action.cut
    if not action.is_registered:
        cut = joined_cuts(cut, row.cut if row is not None and is_known else slots.prefixes(at))
    if row is not None and is_known and cut == row.cut:
        return False
    slots.append(at, ACTION, Key(action.client, action.number, 0), action._replace(cut=cut))
    number, is_registered = action.number, action.is_registered
    at.node.registration[index] = Registration(*index, number, is_registered, cut, at.log.last_seq)
    if row is not None and not row.is_registered:
        _end_designations(at, action)
    return True


def _end_designations(at: At, action: Action) -> None:
    """Ends the designations of the subscribers that the new registration `action` affects (rule P25).

    The registration permits messages that the deregistration excluded. The positions of the subscribers may be after
    these messages. So each subscriber gets R2C-Migrate. The stored number of the subscriber's designation increases by
    one, so that the ended designation does not become active again after a crash.
    """
    for row in at.of(at.node.designation):
        is_concerned = row.role == SUBSCRIBER and (action.role == PUBLISHER or row.client == action.client)
        if row.is_active and is_concerned:
            at.send(events.Migrate, (row.client,), row.role, row.number)
            row.number, row.is_active = row.number + 1, False


def actions(at: At) -> tuple[Action, ...]:
    """Returns all registrations and subscriptions as actions."""
    registered = [
        Action(row.client, row.role, row.number, None, row.is_registered, row.cut)
        for row in at.of(at.node.registration)
    ]
    interested = [Action(row.client, "subscriber", row.number, row.interests) for row in at.of(at.node.subscriber)]
    return (*registered, *interested)
