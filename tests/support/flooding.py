"""A node program that uses all that the harness has: every node tells all neighbours of what it has heard."""

from __future__ import annotations

from typing import Any, Literal

from pipelines.contract.protocol import Protocol
from pipelines.contract.settings import Strict
from udfs.nodes.calls import PublishCall, SubscribeCall
from udfs.nodes.context import Context
from udfs.nodes.program import NodeProgram, appended, keyed, one, ordered
from udfs.nodes.records import message, record
from udfs.nodes.world import World

AGAIN = 6
"""Rounds after which a node turns to a neighbour again that it holds for crashed."""


@record(key="source,source_seq")
class Heard:
    """A publication that a node has had.

    Attributes:
        source: Who published it.
        source_seq: Its number there.
        senders: Who sent it.
    """

    source: int
    source_seq: int
    senders: set[int]


@record(key="neighbour")
class Neighbour:
    """A neighbour that is up, as far as the node knows.

    Attributes:
        neighbour: Its id.
        latency_rounds: Rounds to it.
    """

    neighbour: int
    latency_rounds: int


@record()
class Counts:
    """What a node counts.

    Attributes:
        n_sent: Messages sent.
        by_peer: Messages sent, by receiver.
    """

    n_sent: int = 0
    by_peer: dict[int, int] | None = None


@record()
class Recent:
    """A publication among the last three that a node has had.

    Attributes:
        source: Who published it.
    """

    source: int


@record(key="round,peer")
class Lost:
    """A report that a neighbour is down.

    Attributes:
        round: When it came.
        peer: The neighbour.
    """

    round: int
    peer: int


@record(key="round,source,source_seq")
class Dropped:
    """A copy that a node did not pass on, by a draw.

    Attributes:
        round: When.
        source: Who published it.
        source_seq: Its number.
    """

    round: int
    source: int
    source_seq: int


@message("PUB")
class Pub:
    """A publication.

    Attributes:
        source: Who published it.
        source_seq: Its number there.
        issued_round: When.
        hops: Links that it has travelled over.
        path: The nodes on its way.
    """

    source: int
    source_seq: int
    issued_round: int
    hops: int
    path: list[int]


@message("HELLO")
class Hello:
    """A greeting of a node that has recovered.

    Attributes:
        is_back: Whether it was down before.
    """

    is_back: bool = True


class Flooding(NodeProgram):
    """A node that passes on what it has not heard before."""

    name = "flood"
    messages = (Pub, Hello)
    order = ("HELLO", "publish", "*")
    heard = keyed(Heard)
    neighbour = keyed(Neighbour, is_durable=True)
    counts = one(Counts)
    recent = ordered(Recent)
    lost = appended(Lost, is_durable=True)
    dropped = appended(Dropped)

    @classmethod
    def start(cls, world: World) -> None:
        """Sets the neighbours of nodes; the first node greets all of them."""
        for node in world.nodes:
            for other, latency in world.neighbours(node).items():
                world.program(node).neighbour[other] = Neighbour(other, latency)
                world.context(node).watch(other, latency)
        for other in world.neighbours(0):
            world.context(0).send(other, Hello(is_back=False), after=3)

    def call_subscribe(self, call: SubscribeCall, ctx: Context) -> None:
        """Needs nothing: everybody gets everything."""

    def call_publish(self, call: PublishCall, ctx: Context) -> None:
        """Publishes."""
        self._flood(Pub(ctx.node, call.source_seq, ctx.round, 0, []), ctx.node, ctx)
        ctx.confirm(call.source_seq)

    def on_pub(self, m: Pub, src: int, ctx: Context) -> None:
        """Delivers what is new, and passes it on, but for a few."""
        known = self.heard.get((m.source, m.source_seq))
        if known is not None:
            known.senders.add(src)
            ctx.drop()
            return
        ctx.deliver(m.source, m.source_seq, m.issued_round, m.hops)
        self._flood(m, src, ctx)

    def on_hello(self, m: Hello, src: int, ctx: Context) -> None:
        """Turns to the sender again."""
        if m.is_back and src not in self.neighbour:
            self._turn_to(src, ctx)
        ctx.cancel_timer("again", src)

    def on_timer(self, name: str, key: int, ctx: Context) -> None:
        """Turns to a neighbour again that was down."""
        self._turn_to(key, ctx)

    def on_down(self, peer: int, ctx: Context) -> None:
        """Leaves a neighbour out for a while."""
        self.neighbour.pop(peer, None)
        self.lost.append(Lost(ctx.round, peer))
        ctx.set_timer("again", peer, AGAIN)

    def on_recover(self, ctx: Context) -> None:
        """Greets the neighbours that it remembers."""
        ctx.status("RECOVERED")
        for peer, neighbour in self.neighbour.items():
            ctx.watch(peer, neighbour.latency_rounds)
            ctx.send(peer, Hello())

    def on_round_end(self, ctx: Context) -> None:
        """Counts what it has sent."""
        by_peer = self.counts.by_peer or {}
        for sent in ctx.sent:
            by_peer[sent.dst] = by_peer.get(sent.dst, 0) + 1
        self.counts = Counts(self.counts.n_sent + len(ctx.sent), by_peer)

    def _turn_to(self, peer: int, ctx: Context) -> None:
        self.neighbour[peer] = Neighbour(peer, 1)
        ctx.watch(peer, 1)

    def _flood(self, m: Pub, src: int, ctx: Context) -> None:
        self.heard[m.source, m.source_seq] = Heard(m.source, m.source_seq, {src})
        self.recent.append(Recent(m.source))
        del self.recent[:-3]
        if ctx.settings.get("fails_in_round") == ctx.round:
            raise KeyError("planted")
        if ctx.draw("drop", m.source, m.source_seq) < 0.1:
            self.dropped.append(Dropped(ctx.round, m.source, m.source_seq))
            return
        for peer in self.neighbour:
            if peer != src:
                path = [*m.path, ctx.node]
                ctx.send(peer, Pub(m.source, m.source_seq, m.issued_round, m.hops + 1, path))


class FloodingSettings(Strict):
    """Its settings."""

    name: Literal["flood"] = "flood"
    detection_rounds: int = 2
    fails_in_round: int | None = None


PROTOCOL = Protocol(
    name="flood", summary="flooding", settings=FloodingSettings, program=Flooding, confirms=True,
    keeps_source_order=True, builds_overlay=True,
)  # fmt: skip
SETTINGS: dict[str, Any] = {"detection_rounds": 2}
