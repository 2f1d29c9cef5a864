"""Protocol ``flooding``: every publication goes over every link of the overlay (rules F1 to F6).

The overlay may have cycles: a node drops all copies of a publication but the first. With setting ``max_hops`` nodes
remember nothing, like bridges between MQTT brokers: copies circulate until they have travelled over that many links.
"""

from __future__ import annotations

from typing import Annotated

from udfs.nodes.calls import PublishCall
from udfs.nodes.context import Context
from udfs.nodes.program import PublicationCopy, SubscribingNode, keyed
from udfs.nodes.records import message, record


@record(key="source,source_seq")
class Seen:
    """A publication that a node has had."""

    source: Annotated[int, "its publisher"]
    source_seq: Annotated[int, "its number among the calls there"]
    round: Annotated[int, "round of its first copy"]


@message("PUB")
class Pub(PublicationCopy):
    """A copy of a publication."""


class Flooding(SubscribingNode):
    """A node of the overlay; its subscriptions stay at it (rule F1)."""

    messages = (Pub,)
    seen = keyed(Seen, is_durable=True)

    def call_publish(self, call: PublishCall, ctx: Context) -> None:
        """Publishes: the publisher handles its own publication as a first copy (rule F2)."""
        self.on_pub(Pub.of(call, ctx.node), ctx.node, ctx)

    def on_pub(self, m: Pub, src: int, ctx: Context) -> None:
        """Delivers the first copy of a publication, and sends it to all neighbours but its sender (rules F2 to F4)."""
        max_hops = ctx.settings.get("max_hops")
        if (m.source, m.source_seq) in self.seen:
            ctx.drop()
            return
        if max_hops is None:
            self.seen[m.source, m.source_seq] = Seen(m.source, m.source_seq, ctx.round)
        self.deliver(m, ctx)
        if max_hops is None or m.hops < max_hops:
            ctx.send_all(m.onward(), besides=src)
