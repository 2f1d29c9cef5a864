"""A node in a round: its due events, its results so far, and its outgoing messages.

An outgoing message gets m.from for its receiver, the visited list and the connection. To a RECOVERING node it is
Guided: it carries the paths from there to the recipients (section 6). Multicast messages to a node that has not
answered yet wait in ProcessingList. Messages are sent in this order: answers, requests, the node's own STATUS, resent
messages by MsgId_N, then all others by their triggers (rule R36).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from udfs.delta.messages import MULTICAST, GuideStep, Multicast
from udfs.delta.state import NodeTables, Processing, SubscriptionEntry, Visit
from udfs.nodes.context import Context
from udfs.nodes.world import Flight, RoundDue

FAULT = -(1 << 62)
"""Trigger of reports, requests and STATUS: before all other messages of the round."""
CALL = 1 << 62
"""Trigger of the effects of a call, plus its number: behind all messages of the round."""
AGAIN = 1 << 40
"""Messages that are sent again go after STATUS, before PAR_TOP, in the order of MsgId_N: by its round minus this."""
Key = tuple[int, int]
"""A multicast message: its source and its number there."""


@dataclass(slots=True)
class MulticastCopy:
    """A multicast message that reaches a node, or is issued there.

    Attributes:
        kind: Its kind.
        source: Its source.
        source_seq: Its number there.
        trigger: The id of the message, or the order of the call.
        sender: Its sender; None at the source.
        hops: Links from the source.
        issued_round: Round in which it was issued.
        subscription_id: SUB, UNSUB: the subscription.
        origin: SUB, UNSUB: m.from.
        join_point: J, REJOIN: as in `Multicast`.
        matches: PUB: matching subscriptions.
        guide: g.to of a Guided message.
        origin_path: P(N, m.from) of a Guided message.
        visited: m.visited.
        msg_id: MsgId_N, where visited lists need it.
    """

    kind: str
    source: int
    source_seq: int
    trigger: int
    sender: int | None
    hops: int | None = 0
    issued_round: int | None = None
    subscription_id: int | None = None
    origin: int | None = None
    join_point: int | None = None
    matches: tuple[int, ...] | None = None
    guide: tuple[GuideStep, ...] | None = None
    origin_path: tuple[int, ...] | None = None
    visited: tuple[Visit, ...] | None = None
    msg_id: int | None = None

    @property
    def key(self) -> Key:
        """The identity of the message."""
        return self.source, self.source_seq

    @classmethod
    def of(cls, one: Flight) -> MulticastCopy:
        """Returns a message that is due as a copy."""
        m: Multicast = one.message
        return cls(
            one.kind, m.source, m.source_seq, one.message_id, one.src, m.hops, m.issued_round, m.subscription_id,
            m.from_, m.join_point, m.matches, m.guide, m.origin_path, m.visited,
        )  # fmt: skip


class Finished(NamedTuple):
    """A multicast message whose processing ends in this round.

    Attributes:
        m: The message.
        trigger: The message that ended it.
        sender: The sender of the first copy, which gets CONF; None: no CONF.
    """

    m: MulticastCopy | Processing
    trigger: int
    sender: int | None

    @property
    def key(self) -> Key:
        """The identity of the message."""
        return self.m.source, self.m.source_seq


class Leaving(NamedTuple):
    """A message that leaves at the end of the round, in the order of its fields (rule R36).

    Attributes:
        trigger: The id of the message that caused it, or another order (`FAULT`, `AGAIN`, `CALL`).
        rank: Order among messages with one cause.
        dst: The receiver.
        source: The source of a message that serves a call; else less than any.
        source_seq: Its number there.
        kind: Its kind.
        place: Its position among the messages of the round, in the order of their causes.
        body: The message; for multicast ones the forwarded copy or entry of ProcessingList.
        for_incarnation: The receiver's incarnation; None: the one that the node knows.
        latency: The latency of the connection; None: as the node knows it.
        delay: Rounds in addition to the latency of the connection.
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
_SERVING_NONE = frozenset({"DETECT", "CON_REQUEST", "SYN_REQUEST", "STATUS"})
"""Messages that serve no call."""


class Turn:
    """A node in a round.

    Attributes:
        node: The node.
        ctx: The context for its actions.
        due: The due events.
        delta: δ.
        id: N.
        round: The round.
        is_disturbed: Whether a node of the run has crashed up to now; work that only crashes need is skipped before.
        inbox: The due messages by kind, without those for an earlier incarnation.
        multicast: The multicast messages among them.
        finished: The finished messages so far.
        told: Entries that come with the join point's PAR_SUB, with their triggers.
        broken: Connections whose other end is gone: the incarnation that ended, and the latency.
        again: Messages to send again, by key and receiver.
        asked: The receivers of requests for synchronisation.
        accepted: The joining nodes that were answered, with the trigger of the request.
        copies: Copies to forward.
        guided: Publications accepted as Guided whose recipients are computed again.
        entered: Triggers of the events that end the node's join.
        outbox: Outgoing messages.
        has_new_links: Whether links came into view since the paths were computed.
    """

    __slots__ = (
        "accepted", "again", "asked", "broken", "copies", "ctx", "delta", "due", "entered", "finished", "guided",
        "has_new_links", "id", "inbox", "is_disturbed", "multicast", "node", "outbox", "round", "told",
    )  # fmt: skip

    def __init__(self, node: NodeTables, ctx: Context, due: RoundDue, delta: int) -> None:
        """Starts the round with nothing done."""
        self.node, self.ctx, self.due, self.delta = node, ctx, due, delta
        self.id, self.round = ctx.node, ctx.round
        self.is_disturbed = ctx.run.has_crashed(ctx.round)
        self.inbox: dict[str, list[Flight]] = {}
        self.multicast: list[Flight] = []
        self.finished: list[Finished] = []
        self.told: list[tuple[int, SubscriptionEntry]] = []
        self.broken: dict[int, tuple[int, int]] = {}
        self.again: dict[tuple[int, int, int], Processing] = {}
        self.asked: set[int] = set()
        self.accepted: dict[int, int] = {}
        self.copies: list[MulticastCopy] = []
        self.guided: list[Processing] = []
        self.entered: list[int] = []
        self.outbox: list[Leaving] = []
        self.has_new_links = False

    def of(self, *kinds: str) -> list[Flight]:
        """Returns the due messages of some kinds in their order."""
        if len(kinds) == 1:
            return self.inbox.get(kinds[0], [])
        return sorted((one for kind in kinds for one in self.inbox.get(kind, ())), key=lambda one: one.message_id)

    def has(self, *kinds: str) -> bool:
        """Returns whether messages of any of the kinds are due."""
        return not self.inbox.keys().isdisjoint(kinds)

    def send(
        self, trigger: int, rank: int, kind: str, dst: int, body: Any,  # noqa: ANN401 - any message class
        for_incarnation: int | None = None, latency: int | None = None, delay: int = 0,
    ) -> None:  # fmt: skip
        """Sends a message at the end of the round; see `Leaving`."""
        outbox, source, seq = self.outbox, None, None
        if kind not in _SERVING_NONE:
            source, seq = body.source, body.source_seq
        outbox.append(_leaving(Leaving, (
            trigger, rank, dst, _LEAST if source is None else source, _LEAST if seq is None else seq, kind,
            len(outbox), body, for_incarnation, latency, delay,
        )))  # fmt: skip

    def send_again(self, m: Processing, responsible: int | None) -> None:
        """Sends a message of ProcessingList again, once to each receiver (rule R22)."""
        if responsible is not None:
            self.again[m.source, m.source_seq, responsible] = m


_SKIPPED = Visit(None, None)


def leave(turn: Turn) -> None:
    """Sends the messages of the round."""
    for (_, _, responsible), m in turn.again.items():
        turn.send(m.round - AGAIN, m.trigger, m.kind, responsible, m)
    if len(turn.outbox) > 1:
        turn.outbox.sort()
    for one in turn.outbox:
        _send(turn, one)


def _send(turn: Turn, one: Leaving) -> None:
    """Sends a message over its connection; messages that wait for an answer, or have no receiver, are not sent.

    A Conf to a bypassing node that failed, or that the node has no connection to any more, is lost (rule R15).
    """
    _, _, dst, _, _, kind, _, body, incarnation, latency, delay = one
    peer, guide = turn.node.peer.get(dst), None
    if peer is not None:
        if latency is None and peer.latency_rounds is not None:
            latency = peer.latency_rounds + delay
        if incarnation is None:
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
    turn: Turn, m: MulticastCopy | Processing, dst: int, guide: tuple[GuideStep, ...] | None, incarnation: int | None
) -> object:  # fmt: skip
    """make_copy_send: the message as its receiver gets it (Algorithm 1, line 17)."""
    origin, origin_path = m.origin, None
    if m.origin is not None:
        way = _way_to_origin(turn, m, dst)
        if way is not None:
            origin = way[-1]
            origin_path = way if guide is not None else None
    return MULTICAST[m.kind](
        m.source, m.source_seq, None if m.hops is None else m.hops + 1, m.join_point, m.subscription_id, origin, guide,
        m.issued_round, m.matches, origin_path, None if m.msg_id is None else _visited(turn, m, dst, m.msg_id),
        incarnation,
    )  # fmt: skip


def _way_to_origin(turn: Turn, m: MulticastCopy | Processing, dst: int) -> tuple[int, ...] | None:
    """Returns P(receiver, m.from): beyond δ+1 hops it ends at the node δ+1 hops away (rule R1)."""
    paths = turn.node.path
    onward = m.origin_path
    if onward is None and m.origin in paths:
        onward = paths[m.origin].path
    if dst not in paths or onward is None:
        return None
    return (*paths[dst].path[:0:-1], *onward)[: turn.delta + 2]


def _visited(turn: Turn, m: MulticastCopy | Processing, dst: int, msg_id: int) -> tuple[Visit, ...]:
    """Returns m.visited with N's own pair and one for each node that is skipped, cut to the last δ+1 (section 5)."""
    path = turn.node.path.get(dst)
    skipped = 0 if path is None else max(path.distance - 1, 0)
    whole = (*(m.visited or ()), Visit(turn.id, msg_id), *([_SKIPPED] * skipped))
    return whole[-(turn.delta + 1) :]


def _guide(turn: Turn, m: MulticastCopy | Processing, dst: int) -> tuple[GuideStep, ...] | None:
    """Returns g.to from ProcessingList as it is now; None: all its recipients have confirmed in this very round."""
    known = turn.node.processing_list.get((m.source, m.source_seq))
    steps = []
    for recipient, row in known.recipients.items() if known is not None else ():
        seen = turn.node.path.get(recipient)
        way = row.path or (seen.path if seen is not None else ())
        if dst in way:
            steps.append(GuideStep(way[way.index(dst) :], row.is_confirmed or row.is_reopened))
    return tuple(sorted(steps)) or None
