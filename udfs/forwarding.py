"""The node program of protocol ``forwarding``: reverse-path subscription forwarding (TR CSRG-570, sections 2 and 3).

A broker floods its subscriptions. Each broker stores for each subscription the neighbour that sent it. A publication
follows these neighbours back to the subscribers. No message is confirmed or repeated.
"""

from __future__ import annotations

from typing import Annotated

from udfs.nodes.calls import PublishCall, SubscribeCall, UnsubscribeCall
from udfs.nodes.context import Context
from udfs.nodes.program import NodeProgram, PublicationCopy, RoutedCopy, keyed
from udfs.nodes.records import message, record


@record(key="subscription_id")
class RoutingEntry:
    """An entry of a broker's routing table: the next hop towards a subscriber."""

    subscription_id: Annotated[int, "id of the subscription"]
    next_hop: Annotated[int, "neighbour that sent the subscription; the broker itself for its own subscription"]


@message("SUB")
class RoutedSub(RoutedCopy):
    """A subscription on its way to all brokers."""

    subscription_id: Annotated[int, "id of the subscription"]


@message("UNSUB")
class RoutedUnsub(RoutedSub):
    """The end of a subscription on its way to all brokers."""


class Forwarding(NodeProgram):
    """A broker with its routing table."""

    messages = (RoutedSub, RoutedUnsub, PublicationCopy)
    routing_entry = keyed(RoutingEntry)

    def call_subscribe(self, call: SubscribeCall, ctx: Context) -> None:
        """Handles the subscription like a SUB message that this broker has received from itself."""
        self.on_sub(RoutedSub(ctx.node, call.source_seq, 0, call.subscription_id), ctx.node, ctx)

    def call_unsubscribe(self, call: UnsubscribeCall, ctx: Context) -> None:
        """Handles the end of the subscription like an UNSUB message that this broker has received from itself."""
        self.on_unsub(RoutedUnsub(ctx.node, call.source_seq, 0, call.subscription_id), ctx.node, ctx)

    def call_publish(self, call: PublishCall, ctx: Context) -> None:
        """Handles the publication like a PUB message that this broker has received from itself."""
        self.on_pub(PublicationCopy.of(call, ctx.node), ctx.node, ctx)

    def on_sub(self, m: RoutedSub, src: int, ctx: Context) -> None:
        """SUB: stores the sender as the subscription's next hop, and forwards SUB to all other neighbours."""
        self.routing_entry[m.subscription_id] = RoutingEntry(m.subscription_id, src)
        ctx.send_all(m.onward(), besides=src)

    def on_unsub(self, m: RoutedUnsub, src: int, ctx: Context) -> None:
        """UNSUB: deletes the entry of the subscription, and forwards UNSUB to all other neighbours."""
        self.routing_entry.pop(m.subscription_id, None)
        ctx.send_all(m.onward(), besides=src)

    def on_pub(self, m: PublicationCopy, src: int, ctx: Context) -> None:
        """PUB: sends the publication to the next hops of all matching subscriptions.

        If a matching subscription belongs to this broker, delivers the publication.
        """
        entries = (self.routing_entry.get(one) for one in m.matches)
        next_hops = {entry.next_hop for entry in entries if entry is not None}
        if ctx.node in next_hops:
            ctx.deliver(m.source, m.source_seq, m.issued_round, m.hops)
        onward = m.onward()
        for next_hop in sorted(next_hops - {ctx.node, src}):
            ctx.send(next_hop, onward)
