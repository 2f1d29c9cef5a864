"""Publishers: catenation, announcements, acknowledgements (sections 3.4, 3.6, 3.11; rules P1, P3, P4)."""

from __future__ import annotations

from udfs.nodes.calls import PublishCall
from udfs.repository import events, steering, subscriber
from udfs.repository.at import At
from udfs.repository.events import Publication
from udfs.repository.records import PUBLISHER, Publishing, Queued, Steering, Unstable


def start(at: At) -> None:
    """Starts an incarnation of a publisher (rule P1). The publisher then seeks a steering repository."""
    at.node.publishing[at.topic] = Publishing(at.topic, at.round)
    steering.start(at, PUBLISHER)


def call(at: At, call: PublishCall) -> None:
    """Handles call ``publish`` (3.4): publishes a message, or queues it until the steering repository has answered."""
    publication = Publication(at.me, call.source_seq, at.round, call.matches)
    if _steering(at).is_established:
        _publish(at, publication)
    else:
        at.node.queued.append(Queued(at.topic, publication))


def _publish(at: At, publication: Publication) -> None:
    row = at.node.publishing[at.topic]
    row.n += 1
    if not at.of(at.node.unstable):
        _steering(at).heard_round = at.round
    one = at.node.unstable[at.topic, row.n] = Unstable(at.topic, row.n, publication, at.round)
    to = receivers(at, publication, at.bundle.members)
    at.send(events.Message, to, *publication)
    if at.me in to:
        subscriber.buffer_message(at, publication, 0)
    _order(at, one)
    at.wake("reoffer", at.rounds("publisher_rounds"))


def receivers(at: At, publication: Publication, members: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the receivers of a publication: registered clients with a matching subscription, and `members` (P29)."""
    homes = (at.node.home.get(one) for one in publication.matches)
    clients, registered = {home.client for home in homes if home is not None}, at.bundle.registered
    return tuple(sorted({*members, *(clients if registered is None else clients & {*registered})}))


def _order(at: At, one: Unstable) -> None:
    row, chosen = at.node.publishing[at.topic], _steering(at)
    one.sent_round = at.round
    values = (chosen.designation, chosen.repository, at.me, one.publication.source_seq, row.incarnation, one.n)
    at.send(events.Order, at.bundle.members, *values)


def request(at: At, row: Steering) -> None:
    """Sends the bundle a P2R-Recovery with the publisher's designation (section 3.11), and starts timer T_p."""
    own = at.node.publishing[at.topic]
    at.send(events.PublisherRecovery, at.bundle.members, row.designation, row.repository, own.incarnation)
    at.ctx.set_timer(f"ask {PUBLISHER}", at.number, at.rounds("publisher_rounds"))


def ask_again(at: At) -> None:
    """Timer T_p: repeats P2R-Recovery. After k repetitions without an answer, seeks another steering repository."""
    row = _steering(at)
    if not row.is_established and not row.is_seeking and not steering.has_given_up(at, row):
        request(at, row)


def on_recovery(at: At, m: events.PublisherRecovered) -> None:
    """R2P-Recovery (3.11): records that the steering repository has answered, and publishes the queued messages.

    Sends P2R-Order again for the buffered messages, so that the new steering repository acknowledges them (rule P4).
    """
    row, own = _steering(at), at.node.publishing[at.topic]
    if not steering.accept_answer(at, row, m) or m.incarnation != own.incarnation:
        return
    row.is_established = True
    at.ctx.cancel_timer(f"ask {PUBLISHER}", at.number)
    at.bundle.members = m.members
    at.bundle.registered = m.registered
    for known in at.of(at.node.unstable):
        _order(at, known)
    waiting = [one for one in at.node.queued if one.topic == at.topic]
    at.node.queued = [one for one in at.node.queued if one.topic != at.topic]
    for one in waiting:
        _publish(at, one.publication)


def on_ack(at: At, m: events.PublisherAck) -> None:
    """R2P-ACK (P3): marks acknowledged messages, confirms calls up to `m.upto`, deletes messages up to `m.stable`."""
    own = at.node.publishing[at.topic]
    if not steering.accept_answer(at, _steering(at), m) or m.incarnation != own.incarnation:
        return
    at.bundle.members = m.members
    at.bundle.registered = m.registered
    for one in at.of(at.node.unstable):
        one.is_acknowledged = one.is_acknowledged or one.n <= m.upto or one.n in m.single
        if own.confirmed < one.n <= m.upto:
            at.ctx.confirm(one.publication.source_seq)
        if one.n <= m.stable:
            del at.node.unstable[at.topic, one.n]
    own.confirmed = max(own.confirmed, m.upto)


def on_nak(at: At, m: events.PublisherNak) -> None:
    """R2P-NAK (section 3.6): sends each requested message in a P2R-Retransmit to all members of the bundle.

    If the publisher has deleted a requested message, it tells the members with P2R-Dropped (rule P37).
    """
    row, own = _steering(at), at.node.publishing[at.topic]
    if not steering.accept_answer(at, row, m) or m.incarnation != own.incarnation:
        return
    for n in m.ns:
        one = at.node.unstable.get((at.topic, n))
        if one is not None:
            values = (*one.publication, row.designation, row.repository, own.incarnation, n)
            at.send(events.Retransmit, at.bundle.members, *values)
    dropped = min((one.n for one in at.of(at.node.unstable)), default=own.n + 1) - 1
    if any(n <= dropped for n in m.ns):
        at.send(events.Dropped, at.bundle.members, row.designation, row.repository, own.incarnation, dropped)


def repeat_orders(at: At) -> None:
    """Timer T_p (rule P4): sends P2R-Order again for each message that is not acknowledged.

    Every 3 T_p the publisher also sends P2R-Order for messages that are acknowledged but not stable. After T_fail
    without an event from the steering repository the publisher seeks another steering repository.
    """
    wait, row = at.rounds("publisher_rounds"), _steering(at)
    waiting = at.of(at.node.unstable)
    for one in waiting if not row.is_refused else ():
        if at.round - one.sent_round >= (3 * wait if one.is_acknowledged else wait):
            _order(at, one)
    is_silent = at.round - row.heard_round >= at.rounds("failure_rounds")
    if waiting and is_silent and row.is_established:
        row.is_established = False
        steering.seek(at, row)
    if waiting:
        at.wake("reoffer", wait)


def _steering(at: At) -> Steering:
    return at.node.steering[at.topic, PUBLISHER]
