"""Protocol ``forwarding`` as a node program: plain reverse-path subscription forwarding (report, sections 2 and 3).

A broker stores for each subscription the neighbour it came from, and passes it on to the others. A publication follows
the stored neighbours back. Nothing is confirmed or sent again.
"""

from __future__ import annotations

from typing import Annotated

from udfs.nodes.calls import PublishCall, SubscribeCall, UnsubscribeCall
from udfs.nodes.context import Context
from udfs.nodes.program import NodeProgram, PublicationCopy, RoutedCopy, keyed
from udfs.nodes.records import message, record


@record(key="subscription_id")
class RoutingEntry:
    """An entry of a broker's routing table."""

    subscription_id: Annotated[int, "the subscription"]
    next_hop: Annotated[int, "neighbour it came from; the broker itself for its own subscription"]


@message("SUB")
class RoutedSub(RoutedCopy):
    """A subscription."""

    subscription_id: Annotated[int, "the subscription"]


@message("UNSUB")
class RoutedUnsub(RoutedCopy):
    """The end of a subscription."""

    subscription_id: Annotated[int, "the subscription"]


class Forwarding(NodeProgram):
    """A broker."""

    messages = (RoutedSub, RoutedUnsub, PublicationCopy)
    routing_entry = keyed(RoutingEntry)

    def call_subscribe(self, call: SubscribeCall, ctx: Context) -> None:
        """Subscribes."""
        self.on_sub(RoutedSub(ctx.node, call.source_seq, 0, call.subscription_id), ctx.node, ctx)

    def call_unsubscribe(self, call: UnsubscribeCall, ctx: Context) -> None:
        """Unsubscribes."""
        self.on_unsub(RoutedUnsub(ctx.node, call.source_seq, 0, call.subscription_id), ctx.node, ctx)

    def call_publish(self, call: PublishCall, ctx: Context) -> None:
        """Publishes."""
        self.on_pub(PublicationCopy.of(call, ctx.node), ctx.node, ctx)

    def on_sub(self, m: RoutedSub, src: int, ctx: Context) -> None:
        """Stores where a subscription came from, and floods it."""
        self.routing_entry[m.subscription_id] = RoutingEntry(m.subscription_id, src)
        ctx.send_all(m.onward(), besides=src)

    def on_unsub(self, m: RoutedUnsub, src: int, ctx: Context) -> None:
        """Removes a subscription, and floods that."""
        self.routing_entry.pop(m.subscription_id, None)
        ctx.send_all(m.onward(), besides=src)

    def on_pub(self, m: PublicationCopy, src: int, ctx: Context) -> None:
        """Sends a publication towards its subscribers, and delivers it if the broker is one of them."""
        entries = (self.routing_entry.get(one) for one in m.matches)
        next_hops = {entry.next_hop for entry in entries if entry is not None}
        if ctx.node in next_hops:
            ctx.deliver(m.source, m.source_seq, m.issued_round, m.hops)
        onward = m.onward()
        for next_hop in sorted(next_hops - {ctx.node, src}):
            ctx.send(next_hop, onward)
