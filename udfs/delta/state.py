"""The tables of a node, and what they say of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from udfs.delta.records import (
    Delivered,
    Detected,
    Entry,
    Join,
    JoinRequest,
    Link,
    OwnSubscription,
    Path,
    Peer,
    Processing,
    Status,
    Synch,
    SynRequested,
    Tombstone,
    Waiting,
    WaitingCall,
)
from udfs.nodes.program import NodeProgram, keyed

R = TypeVar("R")


class State(NodeProgram):
    """A node N with its tables; durable are TOP_N, its join, own subscriptions and what it delivered (rule R31)."""

    topology = keyed(Link, is_durable=True)
    path = keyed(Path)
    routing_entry = keyed(Entry)
    processing_list = keyed(Processing)
    waiting = keyed(Waiting)
    detector = keyed(Detected)
    join = keyed(Join, is_durable=True)
    join_request = keyed(JoinRequest)
    call = keyed(WaitingCall)
    peer = keyed(Peer)
    status = keyed(Status)
    synch = keyed(Synch)
    syn_request = keyed(SynRequested)
    tombstone = keyed(Tombstone)
    own_subscription = keyed(OwnSubscription, is_durable=True)
    delivered = keyed(Delivered, is_durable=True)

    @property
    def own_join(self) -> Join | None:
        """Its join, if it joins or has joined."""
        return _only(self.join)

    @property
    def own_status(self) -> Status | None:
        """Its state after a crash; None: it has not crashed."""
        return _only(self.status)

    @property
    def incarnation(self) -> int:
        """How often it has recovered."""
        return 0 if self.own_status is None else self.own_status.incarnation

    @property
    def is_recovering(self) -> bool:
        """Whether it is RECOVERING."""
        return self.own_status is not None and self.own_status.status == "RECOVERING"

    @property
    def is_detached(self) -> bool:
        """Whether it is DETACHED: its join point has not answered."""
        return self.own_join is not None and self.own_join.status == "DETACHED"

    @property
    def is_joining(self) -> bool:
        """Whether its join point has answered, and its join is still under way."""
        return self.own_join is not None and self.own_join.status in ("ATTACHED", "CONFIRMED")

    @property
    def is_synchronising(self) -> bool:
        """Whether it gathers routing information."""
        return self.is_recovering or self.is_joining

    @property
    def is_blocked(self) -> bool:
        """Whether it accepts neither calls nor join requests (rule R33)."""
        join, status = self.own_join, self.own_status
        is_outside = join is not None and join.status != "VALID_JOINED"
        return is_outside or (status is not None and status.status != "OPERATIONAL")

    def is_suspected(self, peer: int) -> bool:
        """Returns whether it suspects a node."""
        known = self.peer.get(peer)
        return known is not None and known.status == "FAILED"

    def is_open(self, peer: int) -> bool:
        """Returns whether a connection beside those to neighbours leads to a node."""
        known = self.peer.get(peer)
        return known is not None and known.status != "FAILED"

    def is_waiting_for_answers(self) -> bool:
        """Returns whether a synchronisation point has not answered."""
        return any(not one.is_answered for one in self.synch.values())


def _only(rows: Mapping[int, R]) -> R | None:
    """Returns the only row of a table that has one at most."""
    return next(iter(rows.values())) if rows else None
