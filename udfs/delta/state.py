"""The tables of a node N (report, 4.1, 4.3 and 4.4), named as in the report, and queries on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from udfs.nodes.program import NodeProgram, keyed
from udfs.nodes.records import record

R = TypeVar("R")


class Visit(NamedTuple):
    """A pair of m.visited: a node and the MsgId that the message had there; both None for a node that was skipped."""

    node: int | None
    msg_id: int | None


@dataclass(slots=True)
class Recipient:
    """A member of Γ_N^m other than N.

    Attributes:
        path: P(N, recipient) where the message was accepted as Guided.
        responsible: The member of Out_N^m that is responsible for it; None: none is left.
        is_confirmed: Whether that member has confirmed.
        is_reopened: Whether it had, and only an incarnation of the recipient itself lacks the message.
    """

    path: tuple[int, ...] | None
    responsible: int | None
    is_confirmed: bool = False
    is_reopened: bool = False

    @property
    def is_awaited(self) -> bool:
        """Whether a confirmation for it is missing."""
        return self.responsible is not None and not self.is_confirmed


@record(key="a,b")
class ViewLink:
    """A link in a node's view TOP_N.

    Attributes:
        a: The link's lower end.
        b: The link's higher end.
        is_marked: Whether the join that makes the link is still under way.
    """

    a: int
    b: int
    is_marked: bool


@record(key="target")
class Path:
    """A node in a node's view, with the path to it.

    Attributes:
        target: The node X.
        distance: d(N, X), links of the view, at most δ+1.
        path: P(N, X), from N to X.
        responsible: First node of the path, N left out, that N does not suspect; N itself where X is N.
    """

    target: int
    distance: int
    path: tuple[int, ...]
    responsible: int | None

    @property
    def first_hop(self) -> int:
        """The neighbour on the path; N itself where X is N."""
        return self.path[1] if len(self.path) > 1 else self.path[0]


@record(key="subscription_id")
class SubscriptionEntry:
    """An entry of a node's SUBS_SET_N.

    Attributes:
        subscription_id: The subscription.
        origin: Its from at N: the subscriber, or the node δ+1 hops from N towards it.
        distance: d(N, origin).
        first_hop: First hop of P(N, origin); N itself for its own subscription.
        responsible: The node of P(N, origin) that N sends to, as in table path.
    """

    subscription_id: int
    origin: int
    distance: int | None
    first_hop: int | None
    responsible: int | None


@record(key="source,source_seq")
class Processed:
    """A message in a node's ProcessingList_N.

    Attributes:
        source: Source of the multicast message m.
        source_seq: Its number at the source.
        kind: J, SUB, UNSUB, PUB or REJOIN.
        round: MsgId_N, first part: round of the first copy.
        trigger: MsgId_N, second part: order within the round.
        sender: Sender of the first copy; null at the source.
        hops: Links from the source to N.
        subscription_id: SUB, UNSUB: the subscription.
        origin: SUB, UNSUB: m.from at N.
        join_point: J: the join point M; the joining node is the source.
        issued_round: PUB: round in which it was issued.
        matches: PUB: subscriptions whose predicate it satisfies, where it may have to be sent again.
        origin_path: SUB, UNSUB accepted as Guided: P(N, m.from).
        msg_id: MsgId_N, where duplicates are told by visited lists.
        visited: The received m.visited, where it tells duplicates.
    """

    source: int
    source_seq: int
    kind: str
    round: int
    trigger: int
    sender: int | None
    hops: int | None
    subscription_id: int | None
    origin: int | None
    join_point: int | None
    issued_round: int | None
    matches: tuple[int, ...] | None
    origin_path: tuple[int, ...] | None
    msg_id: int | None
    visited: tuple[Visit, ...] | None


@record(key="source,source_seq")
class Processing(Processed):
    """A message in a node's ProcessingList_N, with its recipients.

    Attributes:
        recipients: Γ_N^m without N.
    """

    recipients: dict[int, Recipient]

    @property
    def is_finished(self) -> bool:
        """Whether Out_N^m is empty."""
        for one in self.recipients.values():  # noqa: SIM110 - takes half the time of a generator expression
            if one.responsible is not None and not one.is_confirmed:
                return False
        return True


@record(key="source,source_seq,sender")
class Waiting:
    """A sender of a duplicate that waits for its confirmation.

    Attributes:
        source: Source of the multicast message m.
        source_seq: Its number at the source.
        sender: A member of Sender_N^m beside the first copy's.
    """

    source: int
    source_seq: int
    sender: int


@record(key="source")
class Detected:
    """A source that a node heard of (nts_obj_N).

    Attributes:
        source: The source; with visited lists, the node that was visited; of REJOIN of R, -1 - R.
        last_seq: Identifier of the most recent message from it.
    """

    source: int
    last_seq: int


@record(key="join_point")
class JoinState:
    """A node that joins, or has joined, during the run.

    Attributes:
        join_point: Where it joins.
        source_seq: Number of its join call.
        is_asked: Whether it has sent its JoinRequest; kept where nodes may crash.
        status: DETACHED, ATTACHED, CONFIRMED (its J is, not all it asked have answered) or VALID_JOINED.
    """

    join_point: int
    source_seq: int
    is_asked: bool
    status: str


@record(key="joiner")
class JoinRequest:
    """A JoinRequest that waits until its join point is VALID_JOINED.

    Attributes:
        joiner: The node that asked.
        source_seq: Number of its join call.
        incarnation: Its incarnation then.
    """

    joiner: int
    source_seq: int
    incarnation: int


@record(key="source_seq")
class WaitingCall:
    """An application call that waits until its node is VALID_JOINED.

    Attributes:
        source_seq: Number of the call at its node.
        kind: Subscribe, unsubscribe or publish.
        subscription_id: Subscribe, unsubscribe: the subscription.
        matches: Publish: subscriptions whose predicate it satisfies.
    """

    source_seq: int
    kind: str
    subscription_id: int | None
    matches: tuple[int, ...] | None


@record(key="peer")
class PeerState:
    """A node's knowledge of another node whose state differs from that of a live neighbour.

    Attributes:
        peer: The other node X.
        status: WAITING until X answers, OPERATIONAL, RECOVERING, FAILED; a neighbour without a row is up.
        incarnation: Incarnation of X that N is connected to, or that failed; null until X answers.
        latency_rounds: Latency of the connection.
    """

    peer: int
    status: str
    incarnation: int | None
    latency_rounds: int | None


@record(key="incarnation")
class Status:
    """A node that recovers, or has recovered, after a crash.

    Attributes:
        status: RECOVERING, REJOINING (until its REJOIN is confirmed), OPERATIONAL.
        incarnation: How often it recovered.
    """

    status: str
    incarnation: int


@record(key="peer")
class Synch:
    """A synchronisation point of a node (Synch_R).

    Attributes:
        peer: The node that is to answer.
        is_answered: Whether its routing information has come.
    """

    peer: int
    is_answered: bool


@record(key="peer")
class SynRequested:
    """A SynRequest whose routing information is still to be sent.

    Attributes:
        peer: The node that asked.
    """

    peer: int


@record(key="subscription_id")
class Tombstone:
    """A subscription that ended before a node had its entry, or may come again.

    Attributes:
        subscription_id: The subscription.
    """

    subscription_id: int


@record(key="subscription_id")
class ConfirmedSubscription:
    """A confirmed subscription as its subscriber keeps it over crashes.

    Attributes:
        subscription_id: The subscription.
    """

    subscription_id: int


@record(key="source")
class DeliveredSource:
    """A source of which a subscriber has delivered publications.

    Attributes:
        source: The source.
        last_seq: Number of the last publication delivered.
    """

    source: int
    last_seq: int


class NodeTables(NodeProgram):
    """A node N with its tables; durable are TOP_N, its join, own subscriptions and deliveries (rule R31)."""

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
        """The node's join, if it is joining or has joined; else None."""
        return _only(self.join)

    @property
    def own_status(self) -> Status | None:
        """The node's status since its last crash; None: it has not crashed."""
        return _only(self.status)

    @property
    def incarnation(self) -> int:
        """The number of the node's recoveries."""
        status = self.own_status
        return 0 if status is None else status.incarnation

    @property
    def is_recovering(self) -> bool:
        """Whether it is RECOVERING."""
        status = self.own_status
        return status is not None and status.status == "RECOVERING"

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
