"""A node in a round: its due events, its results, and the order and addressing of its outgoing messages.

When the node sends a message, it adds m.from for the receiver, the visited list, and the receiver's incarnation. A
multicast message to a RECOVERING node is Guided: it contains g.to, the paths from the receiver to the recipients
(section 6). The node does not send a multicast message to a peer that has not answered a request; the message stays in
ProcessingList.

Messages leave in this order: answers, requests, the node's STATUS, resent messages by MsgId_N, then all others by
trigger (rule R36). The trigger of a message is the id of the message that caused it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from udfs.delta.messages import MULTICAST, GuideStep, Multicast
from udfs.delta.state import NodeTables, Processing, SubscriptionEntry, Visit
from udfs.nodes.context import Context
from udfs.nodes.world import Flight, RoundDue

FAULT = -(1 << 62)
"""The trigger of failure reports, requests and STATUS. It sorts before all other triggers of the round."""
CALL = 1 << 62
"""The number that is added to the number of a call to get a trigger. Calls thus sort behind received messages."""
AGAIN = 1 << 40
"""The number that is subtracted from MsgId_N to get the trigger of a resent message. This trigger sorts behind STATUS
and before PAR_TOP.
"""


class Finished(NamedTuple):
    """A multicast message that a node finishes in this round.

    Attributes:
        m: The multicast message that the node finishes.
        trigger: The id of the message that ended the processing, for example of the last CONF.
        sender: The sender of the first copy, which gets CONF; None if no CONF is sent.
    """

    m: Processing
    trigger: int
    sender: int | None


class Leaving(NamedTuple):
    """An outgoing message. A node sends the messages of a round in ascending order of these fields (rule R36).

    Attributes:
        trigger: The id of the message that caused this message. If no message caused it, the number that `FAULT`,
            `AGAIN` or `CALL` defines.
        rank: The position among messages with equal triggers.
        dst: The id of the receiving node.
        source: The node of the application call that caused the message; the least BIGINT if no call caused it.
        source_seq: The number of this call; the least BIGINT if no call caused the message.
        kind: The message kind.
        place: The index in the outbox before sorting.
        body: The message; for a multicast message, the copy or the entry of ProcessingList to send.
        for_incarnation: The incarnation of the receiver; None for the incarnation in table ``peer``.
        latency: The latency in rounds if no link leads to the receiver; None for the latency of the connection.
        delay: Rounds that are added to the latency of the connection.
    """

    trigger: int
    rank: int
    dst: int
    source: int
    source_seq: int
    kind: str
    place: int
    body: Any
    for_incarnation: int | None
    latency: int | None
    delay: int


_leaving = tuple.__new__
_LEAST = -(1 << 63)


class Turn:
    """One node N in one round: the intermediate results that the phases of the round share.

    Attributes:
        node: The tables of the node.
        ctx: The context for the actions of the node.
        due: The due events.
        delta: The bound δ on consecutive nodes that are not OPERATIONAL.
        id: The id of the node.
        round: The number of the round, from 0.
        is_disturbed: Whether any node of the run has crashed; before the first crash, fault handling is skipped.
        inbox: The due messages by kind, except messages for an earlier incarnation of the node.
        finished: The multicast messages that the node finishes in this round.
        told: The routing entries of the join point's PAR_SUB, each with the trigger of PAR_SUB.
        broken: The ended incarnation and the latency of each connection to a crashed peer, by peer.
        again: The entries of ProcessingList to resend, by source, number and receiver.
        asked: The receivers of SYN_REQUEST in this round.
        accepted: The trigger of the JOIN_REQUEST of each joining node that this node answers in this round.
        copies: The received and issued copies of multicast messages to forward, without recipients.
        guides: g.to of each received Guided message, by its trigger.
        guided: The Guided publications whose recipients are computed again after the recovery.
        entered: The triggers of the events of this round that end the node's join or recovery.
        outbox: The outgoing messages.
        has_new_links: Whether the view TOP_N has gained links since the paths were computed.
    """

    __slots__ = (
        "accepted", "again", "asked", "broken", "copies", "ctx", "delta", "due", "entered", "finished", "guided",
        "guides", "has_new_links", "id", "inbox", "is_disturbed", "node", "outbox", "round", "told",
    )  # fmt: skip

    def __init__(self, node: NodeTables, ctx: Context, due: RoundDue, delta: int) -> None:
        """Starts the round with the due events and empty results."""
        self.node, self.ctx, self.due, self.delta = node, ctx, due, delta
        self.id, self.round = ctx.node, ctx.round
        self.is_disturbed = ctx.run.has_crashed(ctx.round)
        self.inbox: dict[str, list[Flight]] = {}
        self.finished: list[Finished] = []
        self.told: list[tuple[int, SubscriptionEntry]] = []
        self.broken: dict[int, tuple[int, int]] = {}
        self.again: dict[tuple[int, int, int], Processing] = {}
        self.asked: set[int] = set()
        self.accepted: dict[int, int] = {}
        self.copies: list[Processing] = []
        self.guides: dict[int, tuple[GuideStep, ...]] = {}
        self.guided: list[Processing] = []
        self.entered: list[int] = []
        self.outbox: list[Leaving] = []
        self.has_new_links = False

    def of(self, *kinds: str) -> list[Flight]:
        """Returns the due messages of the kinds `kinds`, ascending by id."""
        if len(kinds) == 1:
            return self.inbox.get(kinds[0], [])
        return sorted((one for kind in kinds for one in self.inbox.get(kind, ())), key=lambda one: one.message_id)

    def has(self, *kinds: str) -> bool:
        """Returns whether a message of one of the kinds `kinds` is due."""
        return not self.inbox.keys().isdisjoint(kinds)

    def receive(self, one: Flight) -> None:
        """Adds the copy in a received multicast message to `copies`. Its trigger is the id of the message."""
        m: Multicast = one.message
        if m.guide is not None:
            self.guides[one.message_id] = m.guide
        self.copies.append(Processing(
            m.source, m.source_seq, one.kind, self.round, one.message_id, one.src, m.hops, m.subscription_id, m.from_,
            m.join_point, m.issued_round, m.matches, m.origin_path, None, m.visited, {},
        ))  # fmt: skip

    def issue(
        self, kind: str, source_seq: int, trigger: int, subscription_id: int | None = None, origin: int | None = None,
        join_point: int | None = None, matches: tuple[int, ...] | None = None,
    ) -> None:  # fmt: skip
        """Adds a multicast message of this node to `copies`. The arguments are fields of `Processing`."""
        self.copies.append(Processing(
            self.id, source_seq, kind, self.round, trigger, None, 0, subscription_id, origin, join_point, self.round,
            matches, None, None, None, {},
        ))  # fmt: skip

    def send(
        self, trigger: int, rank: int, kind: str, dst: int, body: Any,  # noqa: ANN401 - any message class
        for_incarnation: int | None = None, latency: int | None = None, delay: int = 0,
    ) -> None:  # fmt: skip
        """Adds a message to the outbox. The arguments are fields of `Leaving`."""
        source, seq = getattr(body, "source", None), getattr(body, "source_seq", None)
        self.outbox.append(_leaving(Leaving, (
            trigger, rank, dst, _LEAST if source is None else source, _LEAST if seq is None else seq, kind,
            len(self.outbox), body, for_incarnation, latency, delay,
        )))  # fmt: skip

    def send_again(self, m: Processing, responsible: int | None) -> None:
        """Schedules the resending of `m` to `responsible`, at most once per message and receiver (rule R22)."""
        if responsible is not None:
            self.again[m.source, m.source_seq, responsible] = m


_SKIPPED = Visit(None, None)


def leave(turn: Turn) -> None:
    """Sends the outbox and the messages to resend, in the order of rule R36.

    In runs without crashes, no message is resent, so ProcessingList does not keep the matches of publications.
    """
    for (_, _, responsible), m in turn.again.items():
        turn.send(m.round - AGAIN, m.trigger, m.kind, responsible, m)
    for one in sorted(turn.outbox):
        _send(turn, one)
    for copy in turn.copies if not turn.ctx.run.has_crashes else ():
        copy.matches = None


def _send(turn: Turn, one: Leaving) -> None:
    """Sends a message over the connection to its receiver.

    A multicast message is not sent if the receiver is suspected or has not answered a request; it stays in
    ProcessingList. A CONF to a node without a connection is dropped (rule R15).
    """
    _, _, dst, _, _, kind, _, body, incarnation, latency, delay = one
    peer, guide, link = turn.node.peer.get(dst), None, turn.ctx.run.links.get((turn.id, dst))
    if latency is not None:
        latency = latency if link is None else link
    elif peer is not None and peer.latency_rounds is not None:
        latency = (peer.latency_rounds if link is None else link) + delay
    if peer is not None and incarnation is None:
        incarnation = peer.incarnation
    if kind in MULTICAST:
        if peer is not None and peer.status in ("WAITING", "FAILED"):
            return
        if peer is not None and peer.status == "RECOVERING":
            guide = _guide(turn, body, dst)
            if guide is None:
                return
        body = _copy(turn, body, dst, guide, incarnation)
    elif kind == "CONF" and latency is None and (turn.id, dst) not in turn.ctx.run.links:
        return
    elif incarnation is not None:
        body = replace(body, for_incarnation=incarnation)
    turn.ctx.send(dst, body, latency)


def _copy(
    turn: Turn, m: Processing, dst: int, guide: tuple[GuideStep, ...] | None, incarnation: int | None
) -> object:  # fmt: skip
    """make_copy_send: returns message `m` with m.from, g.to and visited list for receiver `dst` (Alg. 1, line 17)."""
    origin, origin_path = m.origin, None
    if m.origin is not None:
        way = _path_to_origin(turn, m, dst)
        if way is not None:
            origin = way[-1]
            origin_path = way if guide is not None else None
    return MULTICAST[m.kind](
        m.source, m.source_seq, None if m.hops is None else m.hops + 1, m.join_point, m.subscription_id, origin, guide,
        m.issued_round, m.matches, origin_path, None if m.msg_id is None else _visited(turn, m, dst, m.msg_id),
        incarnation,
    )  # fmt: skip


def _path_to_origin(turn: Turn, m: Processing, dst: int) -> tuple[int, ...] | None:
    """Returns the path from receiver `dst` to m.from.

    The result has at most the first δ+1 hops of the path (rule R1). Returns None if this node knows no path to `dst` or
    to m.from.
    """
    paths = turn.node.path
    onward = m.origin_path
    if onward is None and m.origin in paths:
        onward = paths[m.origin].path
    if dst not in paths or onward is None:
        return None
    return (*paths[dst].path[:0:-1], *onward)[: turn.delta + 2]


def _visited(turn: Turn, m: Processing, dst: int, msg_id: int) -> tuple[Visit, ...]:
    """Returns m.visited for receiver `dst`: adds the pair of this node, and an empty pair for each bypassed node.

    The result has only the last δ+1 pairs (section 5).
    """
    path = turn.node.path.get(dst)
    skipped = 0 if path is None else max(path.distance - 1, 0)
    whole = (*(m.visited or ()), Visit(turn.id, msg_id), *([_SKIPPED] * skipped))
    return whole[-(turn.delta + 1) :]


def _guide(turn: Turn, m: Processing, dst: int) -> tuple[GuideStep, ...] | None:
    """Returns g.to of the copy of `m` for `dst`: a step for each recipient of `m` whose path leads through `dst`.

    A step has the part of this path that begins with `dst`. Recipients and paths are those of `m` in ProcessingList.
    Returns None if no path leads through `dst`, or if this node has finished `m` in this round.
    """
    known = turn.node.processing_list.get(m.key)
    steps = []
    for recipient, row in known.recipients.items() if known is not None else ():
        seen = turn.node.path.get(recipient)
        way = row.path or (seen.path if seen is not None else ())
        if dst in way:
            steps.append(GuideStep(way[way.index(dst) :], row.is_confirmed or row.is_reopened))
    return tuple(sorted(steps)) or None
