"""Application calls: a class for each kind of call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Call:
    """An application call at a node.

    Attributes:
        source_seq: The number of the call among the calls of its node, from 1.
        round: The round in which the call is due.
        topic: The topic of the call, or None if it has no topic. The topic of a subscription is the topic that its
            predicate requires.
    """

    kind: ClassVar[str]
    source_seq: int
    round: int
    topic: str | None = None


@dataclass(frozen=True, kw_only=True)
class JoinCall(Call):
    """The node joins the overlay at node `join_point`, which is ``None`` if the scenario names no join point."""

    kind = "join"
    join_point: int | None = None


@dataclass(frozen=True, kw_only=True)
class SubscribeCall(Call):
    """The node starts a subscription."""

    kind = "subscribe"
    subscription_id: int


@dataclass(frozen=True, kw_only=True)
class UnsubscribeCall(Call):
    """The node ends a subscription."""

    kind = "unsubscribe"
    subscription_id: int


@dataclass(frozen=True, kw_only=True)
class PublishCall(Call):
    """The node publishes.

    Attributes:
        matches: The subscriptions whose predicate the publication satisfies, in ascending order.
        guarantee: The requested delivery order, or None for any order.
        keys: The parts of the topic (key items) to which the delivery order applies.
    """

    kind = "publish"
    matches: tuple[int, ...] = ()
    guarantee: str | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LeaveCall(Call):
    """The node leaves the overlay."""

    kind = "leave"


@dataclass(frozen=True, kw_only=True)
class PeerCall(Call):
    """A call of one node that concerns a second node, `peer`."""

    peer: int


@dataclass(frozen=True, kw_only=True)
class RemoveCall(PeerCall):
    """The node removes the crashed node `peer` from the overlay, as if `peer` had left."""

    kind = "remove"


@dataclass(frozen=True, kw_only=True)
class SteerCall(PeerCall):
    """The node connects to the server `peer` instead of its present server."""

    kind = "steer"


@dataclass(frozen=True, kw_only=True)
class RegisterCall(PeerCall):
    """The node, which owns the topic, registers client `peer` as a publisher or subscriber of the topic."""

    kind = "register"
    role: str


@dataclass(frozen=True, kw_only=True)
class DeregisterCall(PeerCall):
    """The node, which owns the topic, withdraws the role of client `peer` on the topic."""

    kind = "deregister"
    role: str


CALLS: Mapping[str, type[Call]] = {
    one.kind: one
    for one in (
        JoinCall, SubscribeCall, UnsubscribeCall, PublishCall, LeaveCall, RemoveCall, SteerCall, RegisterCall,
        DeregisterCall,
    )
}  # fmt: skip
"""The class of each call kind."""
