"""The tables of a node N, named as in the report (sections 4.1, 4.3 and 4.4), and queries on these tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, NamedTuple, TypeVar

from udfs.nodes.program import NodeProgram, keyed
from udfs.nodes.records import record

R = TypeVar("R")
Key = tuple[int, int]
"""The identity of a multicast message: its source and its number at the source."""


class Visit(NamedTuple):
    """A pair of a visited list: a node and the MsgId of the message at that node; both None for a bypassed node."""

    node: int | None
    msg_id: int | None


@dataclass(slots=True)
class Recipient:
    """A recipient of message m at node N: a member of Γ_N^m other than N, with the fields of a `ProcessingRow`."""

    path: tuple[int, ...] | None
    responsible: int | None
    is_confirmed: bool = False
    is_reopened: bool = False


@record(key="a,b")
class ViewLink:
    """A link in the view TOP_N of a node N."""

    a: Annotated[int, "the end of the link that has the lower id"]
    b: Annotated[int, "the end of the link that has the higher id"]
    is_marked: Annotated[bool, "whether the join that creates the link has not ended"]


@record(key="target")
class Path:
    """A node X in the view of a node N, with the path from N to X."""

    target: Annotated[int, "the node X"]
    distance: Annotated[int, "d(N, X): number of links between N and X, at most δ+1"]
    path: Annotated[tuple[int, ...], "P(N, X), from N to X"]
    responsible: Annotated[int | None, "the first node after N on the path that N does not suspect; N itself if X is N"]

    @property
    def first_hop(self) -> int:
        """The neighbour of N on the path; N itself if X is N."""
        return self.path[1] if len(self.path) > 1 else self.path[0]


@record(key="subscription_id")
class SubscriptionEntry:
    """A routing entry of a node N: a subscription in SUBS_SET_N."""

    subscription_id: Annotated[int, "the subscription"]
    origin: Annotated[
        int,
        "field `from` of the subscription at N: the subscriber, or the node δ+1 hops from N towards a farther "
        "subscriber",
    ]
    distance: Annotated[int | None, "d(N, origin)"]
    first_hop: Annotated[int | None, "first hop of P(N, origin); N itself for its own subscription"]
    responsible: Annotated[int | None, "next node to which N sends: column responsible of table path for origin"]


@record(key="source,source_seq")
class Processed:
    """An unconfirmed message in ProcessingList_N of a node N."""

    source: Annotated[int, "source of the multicast message m"]
    source_seq: Annotated[int, "number of m among the calls of its source"]
    kind: Annotated[str, "J, SUB, UNSUB, PUB or REJOIN"]
    round: Annotated[int, "first part of MsgId_N: round in which the first copy arrived"]
    trigger: Annotated[
        int, "second part of MsgId_N: number that ascends in the order of messages and calls within the round"
    ]
    sender: Annotated[int | None, "sender of the first copy; null: N is the source"]
    hops: Annotated[int | None, "number of links from the source to N"]
    subscription_id: Annotated[int | None, "SUB, UNSUB: the subscription"]
    origin: Annotated[int | None, "SUB, UNSUB: field `from` of m at N"]
    join_point: Annotated[int | None, "J: the join point; the source of J is the joining node"]
    issued_round: Annotated[int | None, "PUB: round in which the publication was issued"]
    matches: Annotated[
        tuple[int, ...] | None,
        "PUB: ids of the subscriptions whose predicate the publication satisfies; null in runs without crashes",
    ]
    origin_path: Annotated[tuple[int, ...] | None, "SUB, UNSUB that N accepted as Guided: P(N, m.from)"]
    msg_id: Annotated[int | None, "MsgId_N, if visited lists detect duplicates; else null"]
    visited: Annotated[
        tuple[Visit, ...] | None, "field `visited` of the received m, if visited lists detect duplicates; else null"
    ]

    @property
    def key(self) -> Key:
        """The source of the message, and the number of the message at its source."""
        return self.source, self.source_seq


@record(key="source,source_seq")
class Processing(Processed):
    """An unconfirmed message in ProcessingList_N of a node N, with its recipients."""

    recipients: Annotated[dict[int, Recipient], "the members of Γ_N^m except N, with their responsible nodes"]

    @property
    def is_finished(self) -> bool:
        """Whether Out_N^m is empty: no recipient that has a responsible node is unconfirmed."""
        for one in self.recipients.values():  # noqa: SIM110 - takes half the time of a generator expression
            if one.responsible is not None and not one.is_confirmed:
                return False
        return True


@record(key="source,source_seq,sender")
class Waiting:
    """A node that has sent N a duplicate of an unconfirmed message m, and gets CONF from N when m is finished."""

    source: Annotated[int, "source of the multicast message m"]
    source_seq: Annotated[int, "number of m among the calls of its source"]
    sender: Annotated[int, "a member of Sender_N^m other than the sender of the first copy"]


@record(key="source")
class Detected:
    """A row of the duplicate detector (nts_obj_N): the highest identifier received from a source."""

    source: Annotated[
        int,
        "detector identifier: the source; detector visited: the visited node; for messages REJOIN of node R: -1 - R",
    ]
    last_seq: Annotated[int, "highest identifier of the source that the node has received"]


@record(key="join_point")
class JoinState:
    """The join of a node that is not in the initial overlay, and the progress of the join."""

    join_point: Annotated[int, "the join point"]
    source_seq: Annotated[int, "number of the node's join call"]
    is_asked: Annotated[bool, "whether the node has sent its JOIN_REQUEST; false in runs without crashes"]
    status: Annotated[
        str,
        "DETACHED, ATTACHED, CONFIRMED (J is confirmed, but a synchronisation point has not answered) or VALID_JOINED",
    ]


@record(key="joiner")
class JoinRequest:
    """A JOIN_REQUEST that waits at the join point until the join point is VALID_JOINED."""

    joiner: Annotated[int, "the joining node"]
    source_seq: Annotated[int, "number of the joining node's join call"]
    incarnation: Annotated[int, "incarnation of the joining node"]


@record(key="source_seq")
class WaitingCall:
    """A call of an application that its node delays until the node is VALID_JOINED and OPERATIONAL."""

    source_seq: Annotated[int, "number of the call among the calls of its node"]
    kind: Annotated[str, "subscribe, unsubscribe or publish"]
    subscription_id: Annotated[int | None, "subscribe, unsubscribe: the subscription"]
    matches: Annotated[
        tuple[int, ...] | None, "publish: ids of the subscriptions whose predicate the publication satisfies"
    ]


@record(key="peer")
class PeerState:
    """The state of another node X as node N knows it. N has a connection to each neighbour without a row."""

    peer: Annotated[int, "the other node X"]
    status: Annotated[str, "WAITING (X has not answered), OPERATIONAL, RECOVERING or FAILED"]
    incarnation: Annotated[
        int | None,
        "incarnation of X to which N is connected, or, if status is FAILED, that failed; null until X answers",
    ]
    latency_rounds: Annotated[int | None, "latency of the connection, if no link leads to X"]


@record(key="incarnation")
class Status:
    """The status of a node that has recovered at least once."""

    status: Annotated[str, "RECOVERING, REJOINING (until its REJOIN is confirmed) or OPERATIONAL"]
    incarnation: Annotated[int, "number of recoveries of the node"]


@record(key="peer")
class Synch:
    """A synchronisation point of a joining or recovering node (member of Synch_R)."""

    peer: Annotated[int, "the synchronisation point"]
    is_answered: Annotated[bool, "whether the routing information of the synchronisation point has arrived"]


@record(key="peer")
class SynRequested:
    """A received SYN_REQUEST that the node has not answered with routing information yet."""

    peer: Annotated[int, "the recovering node"]


@record(key="subscription_id")
class Tombstone:
    """An ended subscription. Its row prevents a late PAR_SUB from restoring the routing entry."""

    subscription_id: Annotated[int, "the subscription"]


@record(key="subscription_id")
class ConfirmedSubscription:
    """A confirmed subscription of the node itself, which survives a crash."""

    subscription_id: Annotated[int, "the subscription"]


@record(key="source")
class DeliveredSource:
    """A source whose publications the node has delivered to its application."""

    source: Annotated[int, "the source"]
    last_seq: Annotated[int, "number of the last delivered publication"]


class NodeTables(NodeProgram):
    """The tables of a node N.

    TOP_N, the join of N, its own subscriptions and its deliveries are durable: they survive a crash (rule R31).
    """

    topology = keyed(ViewLink, is_durable=True)
    path = keyed(Path)
    routing_entry = keyed(SubscriptionEntry)
    processing_list = keyed(Processing)
    waiting = keyed(Waiting)
    detector = keyed(Detected)
    join = keyed(JoinState, is_durable=True)
    join_request = keyed(JoinRequest)
    call = keyed(WaitingCall)
    peer = keyed(PeerState)
    status = keyed(Status)
    synch = keyed(Synch)
    syn_request = keyed(SynRequested)
    tombstone = keyed(Tombstone)
    own_subscription = keyed(ConfirmedSubscription, is_durable=True)
    delivered = keyed(DeliveredSource, is_durable=True)

    @property
    def own_join(self) -> JoinState | None:
        """The join of the node, or None if the node has been in the overlay since round 0."""
        return _only(self.join)

    @property
    def own_status(self) -> Status | None:
        """The status of the node since its last crash, or None if the node has not crashed."""
        return _only(self.status)

    @property
    def incarnation(self) -> int:
        """The number of times that the node has recovered."""
        status = self.own_status
        return 0 if status is None else status.incarnation

    @property
    def is_recovering(self) -> bool:
        """Whether the node is RECOVERING."""
        status = self.own_status
        return status is not None and status.status == "RECOVERING"

    @property
    def is_detached(self) -> bool:
        """Whether the node is DETACHED: its join is unfinished, and the join point has not answered."""
        return self.own_join is not None and self.own_join.status == "DETACHED"

    @property
    def is_joining(self) -> bool:
        """Whether the join point has answered the node, and the join is unfinished."""
        return self.own_join is not None and self.own_join.status in ("ATTACHED", "CONFIRMED")

    @property
    def is_synchronising(self) -> bool:
        """Whether the node receives routing information: it recovers, or it joins and has the join point's answer."""
        return self.is_recovering or self.is_joining

    @property
    def is_blocked(self) -> bool:
        """Whether the node issues no calls and accepts no join requests (rule R33)."""
        join, status = self.own_join, self.own_status
        is_outside = join is not None and join.status != "VALID_JOINED"
        return is_outside or (status is not None and status.status != "OPERATIONAL")

    def is_suspected(self, peer: int) -> bool:
        """Returns whether the node suspects that `peer` is down."""
        known = self.peer.get(peer)
        return known is not None and known.status == "FAILED"

    def is_waiting_for_answers(self) -> bool:
        """Returns whether a synchronisation point of the node has not answered yet."""
        return any(not one.is_answered for one in self.synch.values())


def _only(rows: Mapping[int, R]) -> R | None:
    return next(iter(rows.values())) if rows else None
