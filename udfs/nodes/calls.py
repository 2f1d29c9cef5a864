"""Application calls: a class for each kind of call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Call:
    """An application call at a node.

    Attributes:
        source_seq: The number among the calls of the node, from 1.
        round: The round in which the call is due.
        topic: The topic of the call; of a subscription the topic that its predicate asks for. None: no topic.
    """

    kind: ClassVar[str]
    source_seq: int
    round: int
    topic: str | None = None


@dataclass(frozen=True, kw_only=True)
class JoinCall(Call):
    """The node joins at the node `join_point`; None: the scenario names no join point."""

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
        matches: The subscriptions whose predicate the publication satisfies, ascending.
        guarantee: The requested delivery order; None: no order.
        keys: The key items that the delivery order refers to.
    """

    kind = "publish"
    matches: tuple[int, ...] = ()
    guarantee: str | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LeaveCall(Call):
    """The node leaves."""

    kind = "leave"


@dataclass(frozen=True, kw_only=True)
class PeerCall(Call):
    """A call about another node, `peer`."""

    peer: int


@dataclass(frozen=True, kw_only=True)
class RemoveCall(PeerCall):
    """The node removes a dead peer, as if the peer had left."""

    kind = "remove"


@dataclass(frozen=True, kw_only=True)
class SteerCall(PeerCall):
    """The node connects to another server."""

    kind = "steer"


@dataclass(frozen=True, kw_only=True)
class RegisterCall(PeerCall):
    """The owner of a topic registers a peer with a role, publisher or subscriber."""

    kind = "register"
    role: str


@dataclass(frozen=True, kw_only=True)
class DeregisterCall(PeerCall):
    """The owner of a topic withdraws the role of a peer."""

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
