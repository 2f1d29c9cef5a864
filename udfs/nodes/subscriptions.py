"""A record for the subscriptions of a node's own application."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated

from udfs.nodes.program import Call
from udfs.nodes.records import record


@record(key="subscription_id")
class OwnSubscription:
    """A subscription of the node's own application."""

    subscription_id: Annotated[int, "the subscription"]
    topic: Annotated[str | None, "topic that it asks for; null: its predicate names none"]
    issued_round: Annotated[int, "round in which it was issued"]


class OwnSubscriptions:
    """Operations on a declaration ``keyed(OwnSubscription)``.

    Example:
        >>> class Flooding(NodeProgram):
        ...     subscription = keyed(OwnSubscription)
        ...
        ...     def call_subscribe(self, call, ctx):
        ...         OwnSubscriptions.add(self.subscription, call)
    """

    @staticmethod
    def add(subscriptions: dict[int, OwnSubscription], call: Call) -> None:
        """Adds the subscription of a call ``subscribe``."""
        number = _subscription_of(call)
        subscriptions[number] = OwnSubscription(number, call.topic, call.round)

    @staticmethod
    def remove(subscriptions: dict[int, OwnSubscription], call: Call) -> None:
        """Removes the subscription of a call ``unsubscribe``."""
        subscriptions.pop(_subscription_of(call), None)

    @staticmethod
    def any_of(subscriptions: Mapping[int, OwnSubscription], matches: Iterable[int]) -> bool:
        """Returns whether one of the subscriptions ``matches`` is the node's own."""
        return any(one in subscriptions for one in matches)


def _subscription_of(call: Call) -> int:
    if call.subscription_id is None:
        raise ValueError(f"call {call.kind} {call.source_seq} names no subscription; allowed: subscribe, unsubscribe")
    return call.subscription_id
