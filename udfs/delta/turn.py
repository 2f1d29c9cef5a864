"""A node in a round: what is due at it, and what it has done so far."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from udfs.delta.messages import MULTICAST, Multicast, Step
from udfs.delta.records import Entry, Processing, Visit
from udfs.delta.state import State
from udfs.nodes.context import Context
from udfs.nodes.step import Received, RoundDue

FAULT = -(1 << 62)
"""Trigger of reports, requests and STATUS: before all other messages of the round."""
CALL = 1 << 62
"""Trigger of what a call causes, its number added: behind all messages of the round."""
AGAIN = 1 << 40
"""Messages that are sent again go after STATUS, before PAR_TOP, in the order of MsgId_N: by its round minus this."""
Key = tuple[int, int]
"""A multicast message: its source and its number there."""


@dataclass(slots=True)
class Copy:
    """A multicast message that reaches a node, or is issued there.

    Attributes:
        kind: Its kind.
        source: Its source.
        source_seq: Its number there.
        trigger: The id of the message, or the order of the call.
        sender: Who sent it; None at the source.
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
    guide: tuple[Step, ...] | None = None
    origin_path: tuple[int, ...] | None = None
    visited: tuple[Visit, ...] | None = None
    msg_id: int | None = None

    @property
    def key(self) -> Key:
        """What identifies the message."""
        return self.source, self.source_seq

    @classmethod
    def of(cls, one: Received) -> Copy:
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
        sender: The sender of the first copy, who gets CONF; None: nobody.
    """

    m: Copy | Processing
    trigger: int
    sender: int | None

    @property
    def key(self) -> Key:
        """What identifies the message."""
        return self.m.source, self.m.source_seq


@dataclass(slots=True)
class Leaving:
    """A message that leaves at the end of the round, ordered by (trigger, rank, dst) (rule R36).

    Attributes:
        trigger: The id of the message that caused it, or another order (`FAULT`, `AGAIN`, `CALL`).
        rank: Order among what has the same cause.
        kind: Its kind.
        dst: The receiver.
        body: The message; of multicast ones what is sent on, see `udfs.delta.leaving`.
        for_incarnation: The receiver's incarnation; None: the one that the node knows.
        latency: The latency of the connection; None: as the node knows it.
        delay: Rounds that it takes longer than the connection does.
    """

    trigger: int
    rank: int
    kind: str
    dst: int
    body: Any
    for_incarnation: int | None = None
    latency: int | None = None
    delay: int = 0

    @property
    def order(self) -> tuple[int, int, int, int, int, str]:
        """What it is sorted by."""
        source, seq = getattr(self.body, "source", None), getattr(self.body, "source_seq", None)
        none = -(1 << 63)
        return (
            self.trigger,
            self.rank,
            self.dst,
            none if source is None else source,
            none if seq is None else seq,
            self.kind,
        )


@dataclass(slots=True)
class Turn:
    """A node in a round.

    Attributes:
        node: The node.
        ctx: How it acts.
        due: What is due.
        delta: δ.
        inbox: The due messages by kind, without those for an earlier incarnation.
        finished: What is finished so far.
        told: Entries that come with the join point's PAR_SUB, with their triggers.
        broken: Connections whose other end is gone: the incarnation that ended, and the latency.
        again: Messages to send again, by key and receiver.
        asked: Whom requests for synchronisation went to.
        accepted: Who has been answered as a join point, with the trigger of the request.
        copies: Copies to forward.
        guided: Publications accepted as Guided whose recipients are computed again.
        entered: Triggers of events by which the node takes part from now on.
        outbox: Outgoing messages.
        has_new_links: Whether links came into view since the paths were computed.
    """

    node: State
    ctx: Context
    due: RoundDue
    delta: int
    inbox: dict[str, list[Received]] = field(default_factory=dict)
    finished: list[Finished] = field(default_factory=list)
    told: list[tuple[int, Entry]] = field(default_factory=list)
    broken: dict[int, tuple[int, int]] = field(default_factory=dict)
    again: dict[tuple[int, int, int], Processing] = field(default_factory=dict)
    asked: set[int] = field(default_factory=set)
    accepted: dict[int, int] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)
    guided: list[Processing] = field(default_factory=list)
    entered: list[int] = field(default_factory=list)
    outbox: list[Leaving] = field(default_factory=list)
    has_new_links: bool = False

    @property
    def id(self) -> int:
        """N."""
        return self.ctx.node

    @property
    def round(self) -> int:
        """The round."""
        return self.ctx.round

    @property
    def is_disturbed(self) -> bool:
        """Whether a node of the run has crashed up to now; work that only crashes need is skipped before."""
        return self.ctx.run.has_crashed(self.ctx.round)

    def of(self, *kinds: str) -> list[Received]:
        """Returns the due messages of some kinds in their order."""
        if len(kinds) == 1:
            return self.inbox.get(kinds[0], [])
        return sorted((one for kind in kinds for one in self.inbox.get(kind, ())), key=lambda one: one.message_id)

    def has(self, *kinds: str) -> bool:
        """Returns whether messages of any of the kinds are due."""
        return any(kind in self.inbox for kind in kinds)

    def received(self) -> list[Copy]:
        """Returns the due multicast messages as copies."""
        return [Copy.of(one) for one in self.of(*MULTICAST)] if self.has(*MULTICAST) else []

    def send(
        self, trigger: int, rank: int, kind: str, dst: int, body: Any,  # noqa: ANN401 - any message class
        **known: int | None,
    ) -> None:  # fmt: skip
        """Has a message leave at the end of the round; see `Leaving`."""
        self.outbox.append(Leaving(trigger, rank, kind, dst, body, **known))  # type: ignore[arg-type]

    def send_again(self, m: Processing, responsible: int | None) -> None:
        """Has a message of ProcessingList leave again, once for each receiver (rule R22)."""
        if responsible is not None:
            self.again[m.source, m.source_seq, responsible] = m
