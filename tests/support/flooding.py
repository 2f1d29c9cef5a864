"""A node program that uses all functions of the harness: every node forwards new publications to all neighbours."""

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
"""The number of rounds after which a node contacts a failed neighbour again."""


@record(key="source,source_seq")
class Heard:
    """A publication that a node has received or published.

    Attributes:
        source: The publisher.
        source_seq: The number among the calls of the publisher.
        senders: The nodes that sent the publication to this node.
    """

    source: int
    source_seq: int
    senders: set[int]


@record(key="neighbour")
class Neighbour:
    """A neighbour that the node does not suspect.

    Attributes:
        neighbour: The id of the neighbour.
        latency_rounds: The latency of the link to the neighbour.
    """

    neighbour: int
    latency_rounds: int


@record()
class Counts:
    """The counters of a node.

    Attributes:
        n_sent: The number of sent messages.
        by_peer: The number of messages sent to each receiver.
    """

    n_sent: int = 0
    by_peer: dict[int, int] | None = None


@record()
class Recent:
    """One of the last three publications that a node has received or published.

    Attributes:
        source: The publisher.
    """

    source: int


@record(key="round,peer")
class Lost:
    """A failure report about a neighbour.

    Attributes:
        round: The round of the report.
        peer: The neighbour.
    """

    round: int
    peer: int


@record(key="round,source,source_seq")
class Dropped:
    """A copy that a node, at random, did not forward.

    Attributes:
        round: The round in which the copy was not forwarded.
        source: The publisher.
        source_seq: The number among the calls of the publisher.
    """

    round: int
    source: int
    source_seq: int


@message("PUB")
class Pub:
    """A message with a publication.

    Attributes:
        source: The publisher.
        source_seq: The number among the calls of the publisher.
        issued_round: The round in which the publication was issued.
        hops: The number of links on the path of the message.
        path: The nodes on the path of the message.
    """

    source: int
    source_seq: int
    issued_round: int
    hops: int
    path: list[int]


@message("HELLO")
class Hello:
    """A greeting that a node sends after its recovery; node 0 also sends one at the start.

    Attributes:
        is_back: Whether the sender has recovered from a crash.
    """

    is_back: bool = True


class Flooding(NodeProgram):
    """A node that forwards each publication when it first receives the publication."""

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
        """Sets the neighbours of all nodes; node 0 greets its neighbours."""
        for node in world.nodes:
            for other, latency in world.neighbours(node).items():
                world.program(node).neighbour[other] = Neighbour(other, latency)
                world.context(node).watch(other, latency)
        for other in world.neighbours(0):
            world.context(0).send(other, Hello(is_back=False), after=3)

    def call_subscribe(self, call: SubscribeCall, ctx: Context) -> None:
        """Does nothing: all nodes receive all publications."""

    def call_publish(self, call: PublishCall, ctx: Context) -> None:
        """Floods the publication and confirms the call."""
        self._flood(Pub(ctx.node, call.source_seq, ctx.round, 0, []), ctx.node, ctx)
        ctx.confirm(call.source_seq)

    def on_pub(self, m: Pub, src: int, ctx: Context) -> None:
        """Delivers a new publication and forwards it, except for some random copies; drops a duplicate."""
        known = self.heard.get((m.source, m.source_seq))
        if known is not None:
            known.senders.add(src)
            ctx.drop()
            return
        ctx.deliver(m.source, m.source_seq, m.issued_round, m.hops)
        self._flood(m, src, ctx)

    def on_hello(self, m: Hello, src: int, ctx: Context) -> None:
        """Adds the sender to the neighbours if it has recovered."""
        if m.is_back and src not in self.neighbour:
            self._turn_to(src, ctx)
        ctx.cancel_timer("again", src)

    def on_timer(self, name: str, key: int, ctx: Context) -> None:
        """Adds a failed neighbour to the neighbours again."""
        self._turn_to(key, ctx)

    def on_down(self, peer: int, ctx: Context) -> None:
        """Removes a failed neighbour for `AGAIN` rounds."""
        self.neighbour.pop(peer, None)
        self.lost.append(Lost(ctx.round, peer))
        ctx.set_timer("again", peer, AGAIN)

    def on_recover(self, ctx: Context) -> None:
        """Greets the neighbours in the durable state."""
        ctx.status("RECOVERED")
        for peer, neighbour in self.neighbour.items():
            ctx.watch(peer, neighbour.latency_rounds)
            ctx.send(peer, Hello())

    def on_round_end(self, ctx: Context) -> None:
        """Counts the messages that the node has sent in this round."""
        by_peer = self.counts.by_peer or {}
        for dst, _, _ in ctx.sent:
            by_peer[dst] = by_peer.get(dst, 0) + 1
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
    """The settings of protocol ``flood``."""

    name: Literal["flood"] = "flood"
    detection_rounds: int = 2
    fails_in_round: int | None = None


PROTOCOL = Protocol(
    name="flood", summary="flooding", settings=FloodingSettings, program=Flooding, confirms=True,
    keeps_source_order=True, starts_by_joins=True,
)  # fmt: skip
SETTINGS: dict[str, Any] = {"detection_rounds": 2}
