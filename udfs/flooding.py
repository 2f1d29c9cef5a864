"""Protocol ``flooding``: every publication goes over every link of the overlay (rules F1 to F6)."""

from udfs.nodes.calls import PublishCall
from udfs.nodes.context import Context
from udfs.nodes.program import PublicationCopy, SeenPublication, SubscribingNode, keyed


class Flooding(SubscribingNode):
    """A node of the overlay. It knows only its own subscriptions (rule F1)."""

    messages = (PublicationCopy,)
    seen = keyed(SeenPublication, is_durable=True)

    def call_publish(self, call: PublishCall, ctx: Context) -> None:
        """Handles the publication like a first copy that this node has received (rule F2)."""
        self.on_pub(PublicationCopy.of(call, ctx.node), ctx.node, ctx)

    def on_pub(self, m: PublicationCopy, src: int, ctx: Context) -> None:
        """Delivers a first copy, and sends it to all neighbours except `src`. Drops later copies (rules F2 to F4)."""
        max_hops = ctx.settings.get("max_hops")
        if (m.source, m.source_seq) in self.seen:
            ctx.drop()
            return
        if max_hops is None:
            self.seen[m.source, m.source_seq] = SeenPublication(m.source, m.source_seq, ctx.round)
        self.deliver(m, ctx)
        if max_hops is None or m.hops < max_hops:
            ctx.send_all(m.onward(), besides=src)
