"""The messages of the protocol: multicast ones (4.4), those of joins (4.6), connections (5) and recovery (6)."""

from __future__ import annotations

from typing import NamedTuple

from udfs.delta.state import Visit
from udfs.nodes.records import message


class GuideStep(NamedTuple):
    """A path of g.to: from the receiver to a recipient, and whether that one has confirmed already."""

    path: tuple[int, ...]
    is_done: bool


class ToldLink(NamedTuple):
    """A link of TOP, as nodes tell it."""

    a: int
    b: int
    is_marked: bool


class ToldEntry(NamedTuple):
    """An entry of SUBS_SET, rewritten for the receiver."""

    subscription_id: int
    origin: int
    distance: int


_CARRIED = "issued_round,matches,origin_path,visited,for_incarnation"


@message(hidden=_CARRIED)
class Multicast:
    """A multicast message m.

    Attributes:
        source: The node that issued it.
        source_seq: Its number among the calls there; of a REJOIN minus the incarnation.
        hops: Links from the source to the receiver.
        join_point: J: the join point M; REJOIN: the source.
        subscription_id: SUB, UNSUB: the subscription.
        from_: SUB, UNSUB: m.from, for the receiver.
        guide: g.to of a Guided message; None for a plain one.
        issued_round: Round in which it was issued.
        matches: PUB: the subscriptions whose predicate it satisfies.
        origin_path: P(receiver, m.from) of a Guided message.
        visited: m.visited, where duplicates are told by it.
        for_incarnation: The receiver's incarnation as the sender knows it; None: any, or the first.
    """

    source: int
    source_seq: int
    hops: int | None
    join_point: int | None
    subscription_id: int | None
    from_: int | None
    guide: tuple[GuideStep, ...] | None
    issued_round: int | None
    matches: tuple[int, ...] | None
    origin_path: tuple[int, ...] | None
    visited: tuple[Visit, ...] | None
    for_incarnation: int | None


@message("J", hidden=_CARRIED)
class J(Multicast):
    """A node has joined at M (4.6)."""


@message("SUB", hidden=_CARRIED)
class Sub(Multicast):
    """A subscription (4.7)."""


@message("UNSUB", hidden=_CARRIED)
class Unsub(Multicast):
    """The end of a subscription."""


@message("PUB", hidden=_CARRIED)
class Pub(Multicast):
    """A publication (4.8)."""


@message("REJOIN", hidden=f"{_CARRIED},join_point")
class Rejoin(Multicast):
    """R takes part again (Algorithm 5, line 19)."""


@message("CONF", hidden="for_incarnation")
class Conf:
    """All recipients behind the sender have m (Algorithm 1, lines 27 to 31).

    Attributes:
        source: The source of m.
        source_seq: Its number there.
        for_incarnation: As in `Multicast`.
    """

    source: int
    source_seq: int
    for_incarnation: int | None


@message("JOIN_REQUEST", hidden="incarnation,for_incarnation")
class JoinRequested:
    """A node asks its join point (Algorithm 2).

    Attributes:
        source: The node that joins.
        source_seq: The number of its join call.
        incarnation: Its incarnation.
        for_incarnation: As in `Multicast`.
    """

    source: int
    source_seq: int
    incarnation: int
    for_incarnation: int | None


@message("PAR_TOP", hidden="incarnation,for_incarnation")
class ParTop:
    """A part of TOP, for a node that joins (with a number of a call) or recovers.

    Attributes:
        source: The node that joins.
        source_seq: The number of its join call.
        links: The links.
        incarnation: Of the sender, where it answers a JOIN_REQUEST.
        for_incarnation: As in `Multicast`.
    """

    source: int | None
    source_seq: int | None
    links: tuple[ToldLink, ...] | None
    incarnation: int | None
    for_incarnation: int | None


@message("PAR_SUB", hidden="for_incarnation")
class ParSub:
    """A part of SUBS_SET, for a node that joins or recovers, as `ParTop`.

    Attributes:
        source: The node that joins.
        source_seq: The number of its join call.
        entries: The entries.
        tombstones: Subscriptions that have ended.
        for_incarnation: As in `Multicast`.
    """

    source: int | None
    source_seq: int | None
    entries: tuple[ToldEntry, ...] | None
    tombstones: tuple[int, ...] | None
    for_incarnation: int | None


@message("DETECT", hidden="for_incarnation")
class Detect:
    """A report of a node's own failure detector.

    Attributes:
        peer: The node that is down, or was.
        incarnation: The incarnation that ended.
        for_incarnation: As in `Multicast`.
    """

    peer: int
    incarnation: int
    for_incarnation: int | None


@message(hidden="for_incarnation")
class Request:
    """A request for a connection.

    Attributes:
        incarnation: Of the sender.
        links: TOP of the sender.
        for_incarnation: As in `Multicast`.
    """

    incarnation: int
    links: tuple[ToldLink, ...] | None
    for_incarnation: int | None


@message("CON_REQUEST", hidden="links,for_incarnation")
class ConRequest(Request):
    """ConnectionRequest of a node past failed ones (Algorithm 3, line 11)."""


@message("SYN_REQUEST", hidden="for_incarnation")
class SynRequest(Request):
    """SynRequest of a node that recovers (Algorithm 6, line 8)."""


@message("STATUS", hidden="for_incarnation")
class Stated:
    """Status of a node, asked for or not (Algorithms 4 and 5).

    Attributes:
        status: OPERATIONAL, RECOVERING or DETACHED.
        incarnation: Of the sender.
        for_incarnation: As in `Multicast`.
    """

    status: str
    incarnation: int
    for_incarnation: int | None


MULTICAST: dict[str, type[Multicast]] = {"J": J, "SUB": Sub, "UNSUB": Unsub, "PUB": Pub, "REJOIN": Rejoin}
"""The multicast messages by kind."""
MESSAGES = (
    JoinRequested, ParTop, ParSub, *MULTICAST.values(), Conf, Detect, ConRequest, SynRequest, Stated
)  # fmt: skip
