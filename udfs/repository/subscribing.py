"""Subscriptions at their client: cuts, designations, recovery, polls (sections 3.11, 4.1; rules P10, P12, P14)."""

from __future__ import annotations

from udfs.nodes.calls import SubscribeCall, UnsubscribeCall
from udfs.repository import steering, subscriber
from udfs.repository.at import At
from udfs.repository.client_events import Subscribe, SubscriberRecovery
from udfs.repository.client_records import SUBSCRIBER, Steering, Subscribed
from udfs.repository.events import Interest, Upto
from udfs.repository.repository_events import Rectify, SubscribeConfirm


def start(at: At) -> None:
    """Starts a life of a subscriber: looks for a steering repository if there is anything to subscribe."""
    if at.of(at.node.subscribed):
        steering.start(at, SUBSCRIBER)


def call_subscribe(at: At, call: SubscribeCall) -> None:
    """Notes a subscription, and asks where it is to start."""
    index = at.topic, call.subscription_id
    at.node.subscribed[index] = Subscribed(*index, call.source_seq)
    row = at.node.steering.get((at.topic, SUBSCRIBER))
    if row is None:
        steering.start(at, SUBSCRIBER)
    elif row.repository is not None and not row.is_seeking:
        ask_cuts(at, row)
        at.wake(f"ask {SUBSCRIBER}", at.rounds("publisher_rounds"))


def call_unsubscribe(at: At, call: UnsubscribeCall) -> None:
    """Takes a subscription back: the bundle hears of it with a new designation."""
    row = at.node.subscribed.get((at.topic, call.subscription_id))
    if row is not None:
        row.is_ended, row.source_seq = True, call.source_seq
        _renew(at)


def _renew(at: At) -> None:
    chosen = at.node.steering.get((at.topic, SUBSCRIBER))
    if chosen is not None and chosen.repository is not None and not chosen.is_seeking:
        chosen.is_changing = True


def request(at: At, row: Steering) -> None:
    """Designates: all subscriptions to the bundle, and what has no cut yet to the steering repository (rule P10)."""
    known = [one for one in at.of(at.node.subscribed) if one.is_ended or one.cut is not None]
    if known:
        interests = tuple(Interest(one.subscription_id, one.cut or ()) for one in known if not one.is_ended)
        at.send(SubscriberRecovery, at.bundle.members, row.designation, row.repository, interests)
    ask_cuts(at, row)
    at.ctx.set_timer(f"ask {SUBSCRIBER}", at.number, at.rounds("publisher_rounds"))
    at.wake("idle", at.rounds("idle_rounds"))


def _cutless(at: At) -> list[Subscribed]:
    return [one for one in at.of(at.node.subscribed) if one.cut is None and not one.is_ended]


def ask_cuts(at: At, row: Steering) -> None:
    """Asks where new subscriptions are to start."""
    ids = tuple(one.subscription_id for one in _cutless(at))
    if ids:
        at.send(Subscribe, (row.repository or 0,), row.designation, row.repository, ids)


def on_confirm(at: At, m: SubscribeConfirm) -> None:
    """Starts subscriptions behind the stored messages, and behind the own marks (rule P10).

    An answer that a delivery has overtaken is too old: what lies between would come against the repository's order.
    """
    if not steering.hear(at, at.node.steering.get((at.topic, SUBSCRIBER)), m):
        return
    if at.topic in at.node.reading and at.node.reading[at.topic].position > m.upto:
        return
    cut = {(one.publisher, one.incarnation): one.n for one in m.prefix}
    for mark in at.of(at.node.mark):
        index = mark.publisher, mark.incarnation
        cut[index] = max(cut.get(index, 0), mark.n)
    for row in _cutless(at):
        if row.subscription_id in m.subscription_ids:
            row.cut = tuple(Upto(*index, n) for index, n in sorted(cut.items()))
            _renew(at)


def on_rectify(at: At, m: Rectify) -> None:
    """Confirms subscriptions that the bundle knows now, and forgets those that have ended."""
    if not subscriber.on_rectify(at, m):
        return
    for row in at.of(at.node.subscribed):
        if row.source_seq is not None and (row.cut is not None or row.is_ended):
            at.ctx.confirm(row.source_seq)
            row.source_seq = None
        if row.is_ended:
            del at.node.subscribed[at.topic, row.subscription_id]
    if not at.of(at.node.subscribed):
        _stop(at)


def _stop(at: At) -> None:
    """Has nothing to hear any more: needs no steering repository."""
    del at.node.steering[at.topic, SUBSCRIBER]
    subscriber.reset(at)
    for name in (f"ask {SUBSCRIBER}", "idle", "wait", "acknowledge"):
        at.ctx.cancel_timer(name, at.number)


def ask_again(at: At) -> None:
    """Repeats the requests every T_p; after k tries the next repository has its turn."""
    row = at.node.steering[at.topic, SUBSCRIBER]
    is_waiting = _cutless(at) or not row.is_established
    if is_waiting and not row.is_seeking and not row.is_changing and not steering.is_tired(at, row):
        request(at, row)


def poll(at: At) -> None:
    """Asks a steering repository that is silent for T_idle, again every T_p; after k tries the next (rule P14)."""
    row, wait = at.node.steering[at.topic, SUBSCRIBER], at.rounds("idle_rounds")
    if row.is_established and not row.is_seeking:
        wait -= at.round - row.heard_round
        if wait <= 0:
            if not steering.is_tired(at, row):
                request(at, row)
            wait = at.rounds("publisher_rounds")
    at.ctx.set_timer("idle", at.number, wait)
