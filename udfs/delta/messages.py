"""The messages of protocol ``delta``: multicast, joins, connections and recovery (sections 4.4, 4.6, 5 and 6)."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from udfs.delta.state import Visit
from udfs.nodes.records import message


class GuideStep(NamedTuple):
    """A path of g.to, from the receiver of a Guided message to a recipient.

    `is_done` states that the recipient has confirmed.
    """

    path: tuple[int, ...]
    is_done: bool


class ToldLink(NamedTuple):
    """A link of the sender's view (TOP) in a message."""

    a: int
    b: int
    is_marked: bool


class ToldEntry(NamedTuple):
    """A routing entry (of SUBS_SET) in a message. `origin` and `distance` are computed for the receiver."""

    subscription_id: int
    origin: int
    distance: int


_CARRIED = "issued_round,matches,origin_path,visited,for_incarnation"


@message(hidden=_CARRIED)
class Multicast:
    """The fields that all multicast messages have. The report calls a multicast message m."""

    source: Annotated[int, "the node that issued m"]
    source_seq: Annotated[int, "the number of m among the calls of the source; REJOIN: the negated incarnation"]
    hops: Annotated[int | None, "the number of links from the source to the receiver"]
    join_point: Annotated[int | None, "J: the join point M; REJOIN: the source"]
    subscription_id: Annotated[int | None, "SUB, UNSUB: the subscription"]
    from_: Annotated[int | None, "SUB, UNSUB: m.from, rewritten for the receiver"]
    guide: Annotated[tuple[GuideStep, ...] | None, "g.to of a Guided message; null: a plain message"]
    issued_round: Annotated[int | None, "the round in which m was issued"]
    matches: Annotated[tuple[int, ...] | None, "PUB: the subscriptions whose predicate m satisfies"]
    origin_path: Annotated[tuple[int, ...] | None, "Guided messages: P(receiver, m.from)"]
    visited: Annotated[tuple[Visit, ...] | None, "m.visited, if visited lists detect duplicates"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it; null: any, or the first"]


@message("J")
class J(Multicast):
    """Reports that the source has joined at join point M (section 4.6)."""


@message("SUB")
class Sub(Multicast):
    """Reports a new subscription of the source (section 4.7)."""


@message("UNSUB")
class Unsub(Multicast):
    """Reports the end of a subscription of the source (section 4.7)."""


@message("PUB")
class Pub(Multicast):
    """A publication (section 4.8)."""


@message("REJOIN", hidden=f"{_CARRIED},join_point")
class Rejoin(Multicast):
    """Reports that the source has recovered and forwards messages again (Algorithm 5, line 19)."""


@message("CONF", hidden="for_incarnation")
class Conf:
    """Confirms a received message m: all recipients behind the sender of CONF have m (Algorithm 1, line 28)."""

    source: Annotated[int, "the source of m"]
    source_seq: Annotated[int, "the number of m at its source"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it"]


@message("JOIN_REQUEST", hidden="incarnation,for_incarnation")
class JoinRequested:
    """The request of a joining node to its join point (Algorithm 2)."""

    source: Annotated[int, "the joining node"]
    source_seq: Annotated[int, "the number of the joining node's join call"]
    incarnation: Annotated[int, "the incarnation of the joining node"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it"]


@message("PAR_TOP", hidden="incarnation,for_incarnation")
class ParTop:
    """The links of the sender's view (TOP) that a joining or recovering receiver needs."""

    source: Annotated[int | None, "the joining node"]
    source_seq: Annotated[int | None, "the number of the joining node's join call"]
    links: Annotated[tuple[ToldLink, ...] | None, "the links of TOP"]
    incarnation: Annotated[int | None, "the incarnation of the sender, in an answer to a JOIN_REQUEST"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it"]


@message("PAR_SUB", hidden="for_incarnation")
class ParSub:
    """The routing entries of the sender (SUBS_SET) that a joining or recovering receiver needs."""

    source: Annotated[int | None, "the joining node"]
    source_seq: Annotated[int | None, "the number of the joining node's join call"]
    entries: Annotated[tuple[ToldEntry, ...] | None, "the entries of SUBS_SET"]
    tombstones: Annotated[tuple[int, ...] | None, "the subscriptions that have ended"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it"]


@message("DETECT", hidden="for_incarnation")
class Detect:
    """A failure report that the failure detector of a node sends to the node itself."""

    peer: Annotated[int, "the node that has crashed"]
    incarnation: Annotated[int, "the incarnation of the peer that ended"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it"]


@message(hidden="for_incarnation")
class Request:
    """The common fields of requests for a connection."""

    incarnation: Annotated[int, "the incarnation of the sender"]
    links: Annotated[tuple[ToldLink, ...] | None, "TOP of the sender"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it"]


@message("CON_REQUEST", hidden="links,for_incarnation")
class ConRequest(Request):
    """ConnectionRequest: asks a live node beyond failed nodes for a connection (Algorithm 3, line 11)."""


@message("SYN_REQUEST", hidden="for_incarnation")
class SynRequest(Request):
    """SynRequest: a recovering node asks the receiver for routing information (Algorithm 6, line 8)."""


@message("STATUS", hidden="for_incarnation")
class Stated:
    """The current status of the sender.

    A node sends STATUS as an answer to a request, and after each change of its status (Alg. 4 and 5).
    """

    status: Annotated[str, "OPERATIONAL, RECOVERING or DETACHED"]
    incarnation: Annotated[int, "the incarnation of the sender"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it"]


MULTICAST: dict[str, type[Multicast]] = {"J": J, "SUB": Sub, "UNSUB": Unsub, "PUB": Pub, "REJOIN": Rejoin}
"""The class of each multicast kind."""
MESSAGES = (
    JoinRequested, ParTop, ParSub, *MULTICAST.values(), Conf, Detect, ConRequest, SynRequest, Stated
)  # fmt: skip
