"""The baseline of section 5: best effort, messages only; no repository takes part."""

from __future__ import annotations

from typing import Any

from udfs.nodes.calls import PublishCall, SubscribeCall, UnsubscribeCall
from udfs.repository import publisher
from udfs.repository.at import At
from udfs.repository.client_events import Message
from udfs.repository.client_records import Subscribed
from udfs.repository.events import Publication


def call_publish(at: At, call: PublishCall) -> None:
    """Sends a message to the matching subscribers, once."""
    of = Publication(at.me, call.source_seq, at.round, call.matches)
    to = publisher.receivers(at, of, ())
    at.send(Message, to, of.source, of.source_seq, of.issued_round, of.matches)
    if at.me in to:
        _deliver(at, of, 0)


def call_subscribe(at: At, call: SubscribeCall) -> None:
    """Notes a subscription."""
    index = at.topic, call.subscription_id
    at.node.subscribed[index] = Subscribed(*index, None, ())
    at.ctx.confirm(call.source_seq)


def call_unsubscribe(at: At, call: UnsubscribeCall) -> None:
    """Forgets a subscription."""
    at.node.subscribed.pop((at.topic, call.subscription_id), None)
    at.ctx.confirm(call.source_seq)


def on_message(at: At, m: Any) -> None:  # noqa: ANN401 - only messages are sent
    """Delivers what comes."""
    _deliver(at, m.publication, m.hops)


def _deliver(at: At, of: Publication, hops: int) -> None:
    if any((at.topic, one) in at.node.subscribed for one in of.matches):
        at.deliver(of, hops)
