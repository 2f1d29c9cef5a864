"""The messages of protocol ``delta``: multicast (4.4), joins (4.6), connections (5) and recovery (6)."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from udfs.delta.state import Visit
from udfs.nodes.records import message


class GuideStep(NamedTuple):
    """A path of g.to: from the receiver to a recipient, and whether the recipient has confirmed already."""

    path: tuple[int, ...]
    is_done: bool


class ToldLink(NamedTuple):
    """A link of TOP in a message."""

    a: int
    b: int
    is_marked: bool


class ToldEntry(NamedTuple):
    """An entry of SUBS_SET in a message, with `origin` and `distance` as seen by the receiver."""

    subscription_id: int
    origin: int
    distance: int


_CARRIED = "issued_round,matches,origin_path,visited,for_incarnation"


@message(hidden=_CARRIED)
class Multicast:
    """A multicast message m."""

    source: Annotated[int, "the node that issued m"]
    source_seq: Annotated[int, "the number of m among the calls of the source; REJOIN: the negated incarnation"]
    hops: Annotated[int | None, "the number of links from the source to the receiver"]
    join_point: Annotated[int | None, "J: the join point M; REJOIN: the source"]
    subscription_id: Annotated[int | None, "SUB, UNSUB: the subscription"]
    from_: Annotated[int | None, "SUB, UNSUB: m.from, rewritten for the receiver"]
    guide: Annotated[tuple[GuideStep, ...] | None, "g.to of a Guided message; None: a plain message"]
    issued_round: Annotated[int | None, "the round in which m was issued"]
    matches: Annotated[tuple[int, ...] | None, "PUB: the subscriptions whose predicate m satisfies"]
    origin_path: Annotated[tuple[int, ...] | None, "Guided messages: P(receiver, m.from)"]
    visited: Annotated[tuple[Visit, ...] | None, "m.visited, if visited lists detect duplicates"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it; None: any, or the first"]


@message("J", hidden=_CARRIED)
class J(Multicast):
    """A node has joined at M (4.6)."""


@message("SUB", hidden=_CARRIED)
class Sub(Multicast):
    """A node has subscribed (4.7)."""


@message("UNSUB", hidden=_CARRIED)
class Unsub(Multicast):
    """A node has ended a subscription (4.7)."""


@message("PUB", hidden=_CARRIED)
class Pub(Multicast):
    """A publication (4.8)."""


@message("REJOIN", hidden=f"{_CARRIED},join_point")
class Rejoin(Multicast):
    """A recovered node forwards messages again (Algorithm 5, line 19)."""


@message("CONF", hidden="for_incarnation")
class Conf:
    """All recipients behind the sender have m (Algorithm 1, lines 27 to 31)."""

    source: Annotated[int, "the source of m"]
    source_seq: Annotated[int, "the number of m at its source"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it"]


@message("JOIN_REQUEST", hidden="incarnation,for_incarnation")
class JoinRequested:
    """The request of a joining node to its join point (Algorithm 2)."""

    source: Annotated[int, "the joining node"]
    source_seq: Annotated[int, "the number of its join call"]
    incarnation: Annotated[int, "the incarnation of the joining node"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it"]


@message("PAR_TOP", hidden="incarnation,for_incarnation")
class ParTop:
    """A part of TOP for a node that joins or recovers; with `source_seq` it answers a JOIN_REQUEST."""

    source: Annotated[int | None, "the joining node"]
    source_seq: Annotated[int | None, "the number of its join call"]
    links: Annotated[tuple[ToldLink, ...] | None, "the links of TOP"]
    incarnation: Annotated[int | None, "the incarnation of the sender, in an answer to a JOIN_REQUEST"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it"]


@message("PAR_SUB", hidden="for_incarnation")
class ParSub:
    """A part of SUBS_SET for a node that joins or recovers; with `source_seq` it answers a JOIN_REQUEST."""

    source: Annotated[int | None, "the joining node"]
    source_seq: Annotated[int | None, "the number of its join call"]
    entries: Annotated[tuple[ToldEntry, ...] | None, "the entries of SUBS_SET"]
    tombstones: Annotated[tuple[int, ...] | None, "the subscriptions that have ended"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it"]


@message("DETECT", hidden="for_incarnation")
class Detect:
    """A report of a node's own failure detector."""

    peer: Annotated[int, "the node that has crashed"]
    incarnation: Annotated[int, "the incarnation of the peer that ended"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it"]


@message(hidden="for_incarnation")
class Request:
    """A request for a connection."""

    incarnation: Annotated[int, "the incarnation of the sender"]
    links: Annotated[tuple[ToldLink, ...] | None, "TOP of the sender"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it"]


@message("CON_REQUEST", hidden="links,for_incarnation")
class ConRequest(Request):
    """ConnectionRequest: a node asks a live node beyond failed nodes (Algorithm 3, line 11)."""


@message("SYN_REQUEST", hidden="for_incarnation")
class SynRequest(Request):
    """SynRequest: a recovering node asks for routing information (Algorithm 6, line 8)."""


@message("STATUS", hidden="for_incarnation")
class Stated:
    """Status of a node, as an answer or after a change (Algorithms 4 and 5)."""

    status: Annotated[str, "OPERATIONAL, RECOVERING or DETACHED"]
    incarnation: Annotated[int, "the incarnation of the sender"]
    for_incarnation: Annotated[int | None, "the receiver's incarnation as the sender knows it"]


MULTICAST: dict[str, type[Multicast]] = {"J": J, "SUB": Sub, "UNSUB": Unsub, "PUB": Pub, "REJOIN": Rejoin}
"""The class of each multicast kind."""
MESSAGES = (
    JoinRequested, ParTop, ParSub, *MULTICAST.values(), Conf, Detect, ConRequest, SynRequest, Stated
)  # fmt: skip
