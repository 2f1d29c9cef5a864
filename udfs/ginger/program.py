"""Class `Ginger`, the node program of protocol ``ginger``, and the state of its nodes before the first round.

The initial tree contains all brokers except those that join later. Initially no node has a subscription.
"""

from __future__ import annotations

from typing import Any, ClassVar, cast

from udfs.ginger.broker import Broker
from udfs.ginger.buffer import Message
from udfs.ginger.client import Client
from udfs.ginger.messages import MESSAGES
from udfs.ginger.node import Node
from udfs.ginger.records import ClientTopic, Contact
from udfs.ginger.tree import Tree
from udfs.nodes.calls import JoinCall, PublishCall, SubscribeCall
from udfs.nodes.context import Context
from udfs.nodes.program import ANY, TIMERS
from udfs.nodes.world import World


class Ginger(Node):
    """A broker or a client. In a round it handles joins, then timers, then messages, then all other calls (rule G7)."""

    messages = MESSAGES
    down_kind = "NeighborDown"
    order: ClassVar = ("join", TIMERS, ANY)

    def __init__(self) -> None:
        super().__init__()
        self._role: Broker | Client | None = None

    @classmethod
    def start(cls, world: World) -> None:
        """Sets the initial tables of all nodes: neighbours, views, contacts, and the topics of clients."""
        brokers = {node for node, info in world.nodes.items() if info.role == "broker"}
        joining = {
            node: call.join_point for node, calls in world.calls.items() for call in calls if isinstance(call, JoinCall)
        }
        present = world.nodes.keys() - joining.keys()
        links = {ends: rounds for ends, rounds in world.links.items() if present.issuperset(ends)}
        named = world.settings.get("root")
        root = min(node for node in brokers & present if named in (None, world.nodes[node].name))
        tree, is_mended = Tree(root, links, present - brokers), world.has_crashes or bool(joining)
        for node in world.nodes:
            state: Node = world.program(node)
            state.tree_view = {row.peer: row for row in tree.view(node, int(world.settings["max_hops"]))}
            repair = state.repair
            repair.role = "broker" if node in brokers else "client"
            repair.is_mended, repair.is_present, repair.is_root = is_mended, node in present, node == root
        for node, near in tree.neighbours():
            world.program(node).neighbour[near.neighbour] = near
            if is_mended and near.relationship != "client":
                world.context(node).watch(near.neighbour, near.latency_rounds)
        for (other, node), rounds in world.links.items():
            if {node, other} <= brokers and joining.get(node, other) == other:
                world.program(node).contact[other] = Contact(other, rounds, node in joining)
        for node, calls in world.calls.items():
            for kind, usage in (("publish", "published"), ("subscribe", "subscribed")):
                for topic in (call.topic for call in calls if call.kind == kind and call.topic is not None):
                    world.program(node).client_topic[topic] = ClientTopic(topic, usage)

    def close(self) -> None:
        """Drops the state of the node, and breaks the reference cycles between its parts."""
        if self._role is not None:
            vars(self._role).clear()
        super().close()

    def role(self, ctx: Context, sender: int | None = None) -> Broker | Client:
        """Returns the broker or client of this node, prepared for an event, which may be a message of `sender`."""
        if self._role is None:
            for other, row in self.neighbour.items():
                self.place(other, row.relationship)
            self._role = Client(self) if self.repair.role == "client" else Broker(self)
        self.enter(ctx, sender)
        return self._role

    def on_message(self, m: Any, src: int, ctx: Context) -> None:  # noqa: ANN401 - any of its messages
        """Handles message `m` from node `src`."""
        self.role(ctx, src).handle(m, src)

    def on_down(self, peer: int, ctx: Context) -> None:
        """Handles the report of the failure detector that `peer` has failed (NeighborDown)."""
        self.role(ctx).neighbour_down(peer)

    def on_timer(self, name: str, key: int, ctx: Context) -> None:
        """Handles the expiry of timer `name`."""
        self.role(ctx).on_timer(name, key)

    def on_recover(self, ctx: Context) -> None:
        """Starts this recovered broker's search for a parent (section 6.1). Clients do not fail."""
        cast("Broker", self.role(ctx)).join("RECOVERING", None)

    def on_round_end(self, ctx: Context) -> None:
        """Calls `end_round` of the broker or client."""
        self.role(ctx).end_round()

    def call_join(self, call: JoinCall, ctx: Context) -> None:
        """Starts a joining broker's search for a parent (section 6.1)."""
        cast("Broker", self.role(ctx)).join("JOINING", call.source_seq)

    def call_subscribe(self, call: SubscribeCall, ctx: Context) -> None:
        """Sends the subscription of a client to its edge broker."""
        cast("Client", self.role(ctx)).subscribe(call.topic or "", call.subscription_id, call.source_seq)

    def call_publish(self, call: PublishCall, ctx: Context) -> None:
        """Sends the publication of a client to its edge broker."""
        topic, guarantee = call.topic or "", call.guarantee or ""
        message = Message(topic, ctx.node, call.source_seq, guarantee, tuple(sorted(call.keys)), call.round)
        cast("Client", self.role(ctx)).publish(message)
