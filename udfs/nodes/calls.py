"""The calls of an application at its node: a class for each kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Call:
    """An application call at a node.

    Attributes:
        source_seq: Its number among the calls of its node, from 1.
        round: The round in which it is due.
        topic: The topic that it is about; of a subscription the one that it asks for, alone or with more; None: it is
            about none.
    """

    kind: ClassVar[str]
    source_seq: int
    round: int
    topic: str | None = None


@dataclass(frozen=True, kw_only=True)
class JoinCall(Call):
    """A node joins.

    Attributes:
        join_point: The node to join at; None: the scenario names none.
    """

    kind = "join"
    join_point: int | None = None


@dataclass(frozen=True, kw_only=True)
class SubscribeCall(Call):
    """A node subscribes.

    Attributes:
        subscription_id: The subscription.
    """

    kind = "subscribe"
    subscription_id: int


@dataclass(frozen=True, kw_only=True)
class UnsubscribeCall(Call):
    """A node ends a subscription.

    Attributes:
        subscription_id: The subscription.
    """

    kind = "unsubscribe"
    subscription_id: int


@dataclass(frozen=True, kw_only=True)
class PublishCall(Call):
    """A node publishes.

    Attributes:
        matches: The subscriptions whose predicate the publication satisfies, ascending.
        guarantee: The order of delivery that is asked for; None: none.
        keys: The key items that the order is about.
    """

    kind = "publish"
    matches: tuple[int, ...] = ()
    guarantee: str | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class LeaveCall(Call):
    """A node leaves."""

    kind = "leave"


@dataclass(frozen=True, kw_only=True)
class PeerCall(Call):
    """A call about another node.

    Attributes:
        peer: That node.
    """

    peer: int


@dataclass(frozen=True, kw_only=True)
class RemoveCall(PeerCall):
    """A node takes a dead node for one that has left."""

    kind = "remove"


@dataclass(frozen=True, kw_only=True)
class SteerCall(PeerCall):
    """A node turns to another server."""

    kind = "steer"


@dataclass(frozen=True, kw_only=True)
class RegisterCall(PeerCall):
    """The owner of a topic registers a node.

    Attributes:
        role: The registered role: publisher or subscriber.
    """

    kind = "register"
    role: str


@dataclass(frozen=True, kw_only=True)
class DeregisterCall(PeerCall):
    """The owner of a topic withdraws a registration.

    Attributes:
        role: The withdrawn role.
    """

    kind = "deregister"
    role: str


CALLS: Mapping[str, type[Call]] = {
    one.kind: one
    for one in (
        JoinCall, SubscribeCall, UnsubscribeCall, PublishCall, LeaveCall, RemoveCall, SteerCall, RegisterCall,
        DeregisterCall,
    )
}  # fmt: skip
"""The class of each kind of call."""
