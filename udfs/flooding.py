"""Protocol ``flooding``: every publication goes over every link of the overlay (rules F1 to F6).

The overlay may have cycles. A node remembers the publications that it has had, and drops later copies. With setting
``max_hops`` nodes remember nothing, like bridges between MQTT brokers: copies circulate until they have travelled over
that many links.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from udfs.nodes.context import Context
from udfs.nodes.program import Call, NodeProgram, keyed
from udfs.nodes.records import message, record
from udfs.nodes.subscriptions import OwnSubscription, OwnSubscriptions


@record(key="source,source_seq")
class Seen:
    """A publication that a node has had."""

    source: Annotated[int, "its publisher"]
    source_seq: Annotated[int, "its number among the calls there"]
    round: Annotated[int, "round of its first copy"]


@message("PUB", hidden="issued_round,matches")
class Pub:
    """A copy of a publication."""

    source: Annotated[int, "its publisher"]
    source_seq: Annotated[int, "its number among the calls there"]
    hops: Annotated[int, "links from the publisher to the receiver, on the way of this copy"]
    issued_round: Annotated[int, "round in which it was issued"]
    matches: Annotated[tuple[int, ...], "the subscriptions whose predicate it satisfies"]


class Flooding(NodeProgram):
    """A node of the overlay."""

    name = "flooding"
    messages = (Pub,)
    detection = None
    subscription = keyed(OwnSubscription, is_durable=True)
    seen = keyed(Seen, is_durable=True)

    def call_subscribe(self, call: Call, ctx: Context) -> None:
        """Subscribes; no other node is told (rule F1)."""
        OwnSubscriptions.add(self.subscription, call)

    def call_unsubscribe(self, call: Call, ctx: Context) -> None:
        """Ends a subscription."""
        OwnSubscriptions.remove(self.subscription, call)

    def call_publish(self, call: Call, ctx: Context) -> None:
        """Publishes: the publisher floods its own publication (rule F2)."""
        self._flood(Pub(ctx.node, call.source_seq, 0, call.round, call.matches), None, ctx)

    def on_pub(self, m: Pub, src: int, ctx: Context) -> None:
        """Floods the first copy of a publication, and drops the others (rules F2 and F3)."""
        if (m.source, m.source_seq) in self.seen:
            ctx.drop()
        else:
            self._flood(m, src, ctx)

    def _flood(self, m: Pub, sender: int | None, ctx: Context) -> None:
        """Delivers a copy, and sends it to all neighbours but its sender (rules F2 to F4)."""
        max_hops = ctx.settings.get("max_hops")
        if max_hops is None:
            self.seen[m.source, m.source_seq] = Seen(m.source, m.source_seq, ctx.round)
        if OwnSubscriptions.any_of(self.subscription, m.matches):
            ctx.deliver(m.source, m.source_seq, m.issued_round, m.hops)
        if max_hops is None or m.hops < max_hops:
            onward = replace(m, hops=m.hops + 1)
            for neighbour in ctx.neighbours:
                if neighbour != sender:
                    ctx.send(neighbour, onward)
