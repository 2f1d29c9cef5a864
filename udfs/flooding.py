"""Protocol ``flooding``: every publication goes over every link of the overlay (rules F1 to F6).

The overlay may have cycles: a node drops all copies of a publication but the first. With setting ``max_hops`` nodes
remember nothing, like bridges between MQTT brokers: copies circulate until they have travelled over that many links.
"""

from __future__ import annotations

from udfs.nodes.calls import PublishCall
from udfs.nodes.context import Context
from udfs.nodes.program import PublicationCopy, SeenPublication, SubscribingNode, keyed


class Flooding(SubscribingNode):
    """A node of the overlay; its subscriptions stay at it (rule F1)."""

    messages = (PublicationCopy,)
    seen = keyed(SeenPublication, is_durable=True)

    def call_publish(self, call: PublishCall, ctx: Context) -> None:
        """Publishes: the publisher handles its own publication as a first copy (rule F2)."""
        self.on_pub(PublicationCopy.of(call, ctx.node), ctx.node, ctx)

    def on_pub(self, m: PublicationCopy, src: int, ctx: Context) -> None:
        """Delivers the first copy of a publication, and sends it to all neighbours but its sender (rules F2 to F4)."""
        max_hops = ctx.settings.get("max_hops")
        if (m.source, m.source_seq) in self.seen:
            ctx.drop()
            return
        if max_hops is None:
            self.seen[m.source, m.source_seq] = SeenPublication(m.source, m.source_seq, ctx.round)
        self.deliver(m, ctx)
        if max_hops is None or m.hops < max_hops:
            ctx.send_all(m.onward(), besides=src)
