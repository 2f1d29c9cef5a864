"""Ready parts of publish/subscribe programs: a node's own subscriptions, and messages that travel over the overlay."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated, Self

from udfs.nodes.calls import PublishCall, SubscribeCall, UnsubscribeCall
from udfs.nodes.context import Context
from udfs.nodes.program import NodeProgram, keyed
from udfs.nodes.records import message, record


@record(key="subscription_id")
class OwnSubscription:
    """A subscription of the node's own application."""

    subscription_id: Annotated[int, "the subscription"]
    topic: Annotated[str | None, "topic that it asks for; null: its predicate names none"]
    issued_round: Annotated[int, "round in which it was issued"]


@message()
class RoutedCopy:
    """A copy of a message of a node's application that travels over the overlay."""

    source: Annotated[int, "the node whose application issued it"]
    source_seq: Annotated[int, "its number among the calls there"]
    hops: Annotated[int, "links from the source to the receiver, on the way of this copy"]

    def onward(self) -> Self:
        """Returns the copy that the receiver of this one sends."""
        return replace(self, hops=self.hops + 1)


@message(hidden="issued_round,matches")
class PublicationCopy(RoutedCopy):
    """A copy of a publication."""

    issued_round: Annotated[int, "round in which it was issued"]
    matches: Annotated[tuple[int, ...], "the subscriptions whose predicate it satisfies"]

    @classmethod
    def of(cls, call: PublishCall, node: int) -> Self:
        """Returns the publication of a call at its publisher."""
        return cls(node, call.source_seq, 0, call.round, call.matches)


class SubscribingNode(NodeProgram):
    """A node that keeps the subscriptions of its own application on disk, and delivers what they ask for."""

    subscription = keyed(OwnSubscription, is_durable=True)

    def call_subscribe(self, call: SubscribeCall, ctx: Context) -> None:
        """Subscribes; no other node is told."""
        number = call.subscription_id
        self.subscription[number] = OwnSubscription(number, call.topic, call.round)

    def call_unsubscribe(self, call: UnsubscribeCall, ctx: Context) -> None:
        """Ends a subscription."""
        self.subscription.pop(call.subscription_id, None)

    def is_subscribed(self, matches: Iterable[int]) -> bool:
        """Returns whether one of the subscriptions ``matches`` is the node's own."""
        return any(one in self.subscription for one in matches)

    def deliver(self, m: PublicationCopy, ctx: Context) -> None:
        """Delivers a publication if the node's application asks for it."""
        if self.is_subscribed(m.matches):
            ctx.deliver(m.source, m.source_seq, m.issued_round, m.hops)
