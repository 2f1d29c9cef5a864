"""Subscribers: delivery of stored messages, acknowledgements, syncs (sections 3.8, 3.10; rules P6 to P9).

The module also handles a client's subscriptions: cuts, designations, polls (sections 3.11, 4.1; rules P10, P12, P14).
"""

from __future__ import annotations

from dataclasses import replace

from udfs.nodes.calls import SubscribeCall, UnsubscribeCall
from udfs.repository import events, steering
from udfs.repository.at import At
from udfs.repository.events import Interest, Key, Publication, joined_cuts
from udfs.repository.records import SUBSCRIBER, Buffered, Expected, Mark, Reading, Steering, Subscribed, Unsynced

MARKER = -1


def on_message(at: At, m: events.Message) -> None:
    """Message: buffers the message until R2S*-Persistent reports that the message is stored."""
    buffer_message(at, m.publication, m.hops)


def buffer_message(at: At, publication: Publication, hops: int) -> None:
    """Buffers a message if the client has a subscription on the topic. Then delivers messages (`deliver_stored`)."""
    if not any(one.topic == at.topic for one in at.node.subscribed.values()):
        return
    index = at.topic, publication.source, publication.source_seq
    if index not in at.node.buffered:
        at.node.buffered[index] = Buffered(*index, publication, hops, at.round)
    at.wake("evict", 4 * at.rounds("failure_rounds"))
    deliver_stored(at)


def on_persistent(at: At, m: events.Persistent) -> None:
    """R2S*-Persistent (section 3.7): records the message's number, and delivers messages (`deliver_stored`)."""
    row = _steering(at)
    mine = next((one for one in m.receivers if one.client == at.me), None)
    if row is not None and mine is not None and mine.designation == row.designation and m.origin == row.repository:
        row.heard_round, row.tries = at.round, 0
        expect(at, Expected(at.topic, m.seq, mine.prev, m.source, m.source_seq, m.incarnation, m.n, at.round))
        deliver_stored(at)


def on_retransmit(at: At, m: events.SubscriberRetransmit) -> None:
    """R2S-Retransmit (Figure 1): records the number of the message. Buffers a message that is not delivered yet."""
    if not steering.accept_answer(at, _steering(at), m):
        return
    one = Expected(at.topic, m.seq, m.prev, m.source, m.source_seq, m.incarnation, m.n, at.round)
    expect(at, one)
    if _is_passed(at, one):
        deliver_stored(at)
    else:
        buffer_message(at, m.publication, m.hops)


def expect(at: At, one: Expected) -> None:
    """Records a sequence number that the steering repository has announced.

    If the number is known, keeps the lower ``prev`` of the two announcements. If only one of them names a message,
    keeps this message.
    """
    known = at.node.expected.get((at.topic, one.seq))
    if known is None:
        at.node.expected[at.topic, one.seq] = one
        at.wake("wait", at.rounds("wait_rounds"))
    else:
        named = one if known.source == MARKER else known
        row = replace(named, prev=min(known.prev, one.prev), round=known.round)
        at.node.expected[at.topic, one.seq] = row


def on_sync(at: At, m: events.Sync) -> None:
    """R2S-Sync (section 3.9): advances the sync and the position, and delivers messages (`deliver_stored`)."""
    if steering.accept_answer(at, _steering(at), m):
        at.bundle.members = m.members
        _advance(at, m.sync)
        deliver_stored(at)


def _advance(at: At, sync: int) -> None:
    row = at.node.reading.setdefault(at.topic, Reading(at.topic))
    row.position, row.sync = max(row.position, sync), max(row.sync, sync)
    for one in at.of(at.node.unsynced):
        if one.seq <= row.sync:
            del at.node.unsynced[at.topic, one.seq]


def deliver_stored(at: At) -> None:
    """Delivers buffered messages in the order of sequence numbers, up to the first missing message (rules P6 and P9).

    Delivers nothing if the client starts a new designation at the end of the round. The cuts of new subscriptions are
    already computed, and a delivery would raise the marks from which they are computed.
    """
    row, chosen = at.node.reading.get(at.topic), _steering(at)
    if row is None or chosen is None or not chosen.is_established or chosen.is_changing:
        return
    for one in at.of(at.node.expected):
        if one.seq > row.position:
            if one.prev > row.position or not _pass(at, row, one):
                break
            row.position = one.seq
        del at.node.expected[at.topic, one.seq]
    if 0 < at.rounds("acknowledge_count") <= row.unacknowledged:
        acknowledge(at)
    elif at.of(at.node.unsynced):
        at.wake("acknowledge", at.rounds("acknowledge_rounds"))


def _pass(at: At, row: Reading, one: Expected) -> bool:
    """Delivers the message with number `one`, unless it was delivered earlier. Returns False if it is not at hand."""
    if one.source == MARKER:
        return True
    index = at.topic, one.source, one.incarnation
    buffered = at.node.buffered.get((at.topic, one.source, one.source_seq))
    if not _is_passed(at, one):
        if buffered is None:
            return False
        at.deliver(buffered.publication, buffered.hops)
        at.node.mark[index] = Mark(*index, one.n)
    at.node.buffered.pop((at.topic, one.source, one.source_seq), None)
    at.node.unsynced[at.topic, one.seq] = Unsynced(at.topic, one.seq)
    row.unacknowledged += 1
    return True


def acknowledge(at: At) -> None:
    """Timer T_a: sends the bundle an S2R-ACK with all unsynced numbers (section 4.4, rule P8)."""
    chosen, seqs = _steering(at), [one.seq for one in at.of(at.node.unsynced)]
    if chosen is None or not seqs or not chosen.is_established:
        return
    at.node.reading[at.topic].unacknowledged = 0
    at.send(events.SubscriberAck, at.bundle.members, chosen.designation, chosen.repository, _runs(seqs))
    at.ctx.set_timer("acknowledge", at.number, at.rounds("acknowledge_rounds"))


def _runs(seqs: list[int]) -> tuple[events.Run, ...]:
    runs: list[events.Run] = []
    for seq in seqs:
        if runs and runs[-1].last == seq - 1:
            runs[-1] = events.Run(runs[-1].first, seq)
        else:
            runs.append(events.Run(seq, seq))
    return tuple(runs)


def request_missing(at: At) -> None:
    """Timer T_w: sends S2R-NAK for missing messages whose numbers were announced at least T_w ago.

    If the predecessor of an announced number (field ``prev``) was not announced, requests the predecessor, too.
    """
    chosen, wait = _steering(at), at.rounds("wait_rounds")
    position = at.node.reading[at.topic].position if at.topic in at.node.reading else 0
    late = [one for one in at.of(at.node.expected) if at.round - one.round >= wait]
    if chosen is not None and chosen.repository is not None and chosen.is_established:
        unknown = {one.prev for one in late if one.prev > position} - {one.seq for one in at.of(at.node.expected)}
        seqs = sorted(unknown | {one.seq for one in late if not _is_at_hand(at, one)})
        if seqs:
            at.send(events.SubscriberNak, (chosen.repository,), chosen.designation, chosen.repository, tuple(seqs))
    if at.of(at.node.expected):
        at.wake("wait", wait)


def _is_passed(at: At, one: Expected) -> bool:
    mark = at.node.mark.get((at.topic, one.source, one.incarnation))
    return mark is not None and mark.n >= one.n


def _is_at_hand(at: At, one: Expected) -> bool:
    is_buffered = (at.topic, one.source, one.source_seq) in at.node.buffered
    return one.source == MARKER or _is_passed(at, one) or is_buffered


def reset(at: At) -> None:
    """Sets the position to 0, and deletes the numbers of the earlier designation (rule P7)."""
    at.node.reading[at.topic] = Reading(at.topic)
    for one in at.of(at.node.expected):
        del at.node.expected[at.topic, one.seq]
    for other in at.of(at.node.unsynced):
        del at.node.unsynced[at.topic, other.seq]


def _steering(at: At) -> Steering | None:
    return at.node.steering.get((at.topic, SUBSCRIBER))


def start(at: At) -> None:
    """Starts an incarnation of a subscriber. If it has subscriptions on the topic, it seeks a steering repository."""
    if at.of(at.node.subscribed):
        steering.start(at, SUBSCRIBER)


def call_subscribe(at: At, call: SubscribeCall) -> None:
    """Handles call ``subscribe``: stores the subscription, and requests the cut of the subscription (rule P10)."""
    index = at.topic, call.subscription_id
    at.node.subscribed[index] = Subscribed(*index, call.source_seq)
    row = _steering(at)
    if row is None:
        steering.start(at, SUBSCRIBER)
    elif row.repository is not None and not row.is_seeking:
        ask_cuts(at, row)
        at.wake(f"ask {SUBSCRIBER}", at.rounds("publisher_rounds"))


def call_unsubscribe(at: At, call: UnsubscribeCall) -> None:
    """Handles call ``unsubscribe``: ends the subscription.

    The client starts a new designation, which sends its remaining subscriptions to the bundle.
    """
    row = at.node.subscribed.get((at.topic, call.subscription_id))
    if row is not None:
        row.is_ended, row.source_seq = True, call.source_seq
        _renew(at)


def _renew(at: At) -> None:
    chosen = _steering(at)
    if chosen is not None and chosen.repository is not None and not chosen.is_seeking:
        chosen.is_changing = True


def request(at: At, row: Steering) -> None:
    """Sends the bundle an S2R-Recovery with all subscriptions that have cuts. Requests the missing cuts (rule P10)."""
    known = [one for one in at.of(at.node.subscribed) if one.is_ended or one.cut is not None]
    if known:
        interests = tuple(Interest(one.subscription_id, one.cut or ()) for one in known if not one.is_ended)
        at.send(events.SubscriberRecovery, at.bundle.members, row.designation, row.repository, interests)
    ask_cuts(at, row)
    at.ctx.set_timer(f"ask {SUBSCRIBER}", at.number, at.rounds("publisher_rounds"))
    at.wake("idle", at.rounds("idle_rounds"))


def _cutless(at: At) -> list[Subscribed]:
    return [one for one in at.of(at.node.subscribed) if one.cut is None and not one.is_ended]


def ask_cuts(at: At, row: Steering) -> None:
    """Sends S2R-Subscribe for the subscriptions without a cut (rule P10)."""
    ids = tuple(one.subscription_id for one in _cutless(at))
    if ids:
        at.send(events.Subscribe, (row.repository or 0,), row.designation, row.repository, ids)


def on_confirm(at: At, m: events.SubscribeConfirm) -> None:
    """R2S-Confirm (rule P10): sets the cuts of the new subscriptions in the answer.

    A cut is the maximum of the filled prefixes in the answer and the client's marks. If the client's position is after
    the frontier in the answer, the client ignores the answer. Otherwise it would deliver messages from before its
    position, out of the repository's order.
    """
    if not steering.accept_answer(at, _steering(at), m):
        return
    if at.topic in at.node.reading and at.node.reading[at.topic].position > m.upto:
        return
    cut = joined_cuts(m.prefix, map(Key.of, at.of(at.node.mark)))
    for row in _cutless(at):
        if row.subscription_id in m.subscription_ids:
            row.cut = cut
            _renew(at)


def on_rectify(at: At, m: events.Rectify) -> None:
    """R2S-Rectify (section 3.9): records the listed numbers, confirms calls, and deletes ended subscriptions."""
    steered = _steering(at)
    if steered is None or not steering.accept_answer(at, steered, m):
        return
    steered.is_established = True
    at.bundle.members = m.members
    _advance(at, m.sync)
    prev = m.sync
    for one in m.listed:
        expect(at, Expected(at.topic, one.seq, prev, one.source, one.source_seq, one.incarnation, one.n, at.round))
        prev = one.seq
    if prev < m.upto and (at.topic, m.upto) not in at.node.expected:
        expect(at, Expected(at.topic, m.upto, prev, MARKER, 0, 0, 0, at.round))
    deliver_stored(at)
    for row in at.of(at.node.subscribed):
        if row.source_seq is not None and (row.cut is not None or row.is_ended):
            at.ctx.confirm(row.source_seq)
            row.source_seq = None
        if row.is_ended:
            del at.node.subscribed[at.topic, row.subscription_id]
    if not at.of(at.node.subscribed):
        _stop(at)


def _stop(at: At) -> None:
    """Deletes the designation on a topic without subscriptions, and cancels the timers of the topic."""
    del at.node.steering[at.topic, SUBSCRIBER]
    reset(at)
    for name in (f"ask {SUBSCRIBER}", "idle", "wait", "acknowledge"):
        at.ctx.cancel_timer(name, at.number)


def ask_again(at: At) -> None:
    """Timer T_p: repeats S2R-Recovery and S2R-Subscribe. After k repetitions, seeks another repository."""
    row = at.node.steering[at.topic, SUBSCRIBER]
    is_waiting = _cutless(at) or not row.is_established
    if is_waiting and not row.is_seeking and not row.is_changing and not steering.has_given_up(at, row):
        request(at, row)


def poll(at: At) -> None:
    """Timer T_idle (P14): polls a silent steering repository. After k polls, seeks another repository."""
    row, wait = at.node.steering[at.topic, SUBSCRIBER], at.rounds("idle_rounds")
    if row.is_established and not row.is_seeking:
        wait -= at.round - row.heard_round
        if wait <= 0:
            if not steering.has_given_up(at, row):
                request(at, row)
            wait = at.rounds("publisher_rounds")
    at.ctx.set_timer("idle", at.number, wait)
