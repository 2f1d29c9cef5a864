"""Ginger as a node program: a node is a broker or a client, made of the sections of the thesis."""

from __future__ import annotations

from typing import Any, ClassVar

from udfs.ginger.broker import Broker
from udfs.ginger.client import Client
from udfs.ginger.messages import MESSAGES
from udfs.ginger.node import Node
from udfs.ginger.queue import Message
from udfs.ginger.start import lay
from udfs.ginger.state import State
from udfs.nodes.calls import JoinCall, PublishCall, SubscribeCall
from udfs.nodes.context import Context
from udfs.nodes.program import ANY, TIMERS
from udfs.nodes.world import World


class Ginger(State):
    """A node; calls of clients come after the messages of a round (rule G7)."""

    name = "ginger"
    messages = MESSAGES
    down_kind = "NeighborDown"
    order: ClassVar = ("join", TIMERS, ANY)

    def __init__(self) -> None:
        """Starts as nothing: its role follows from its tables."""
        super().__init__()
        self._role: Broker | Client | None = None

    @classmethod
    def start(cls, world: World) -> None:
        """Sets the tree, and what each node sees of it."""
        lay(world)

    def close(self) -> None:
        """Drops the node, and its parts, which refer to each other."""
        if self._role is not None:
            vars(self._role).clear()
        super().close()

    def role(self, ctx: Context, sender: int | None = None) -> Broker | Client:
        """Returns the node in a round, as what it is."""
        if self._role is None:
            node = Node(self)
            self._role = Client(node) if self.repair.role == "client" else Broker(node)
        self._role.node.enter(ctx, sender)
        return self._role

    def on_message(self, m: Any, src: int, ctx: Context) -> None:  # noqa: ANN401 - any of its messages
        """Handles a message as a broker or a client does."""
        self.role(ctx, src).handle(m, src)

    def on_down(self, peer: int, ctx: Context) -> None:
        """Handles that a neighbour failed."""
        self.role(ctx).neighbour_down(peer)

    def on_timer(self, name: str, key: int, ctx: Context) -> None:
        """Handles a timer."""
        self.role(ctx).on_timer(name, key)

    def on_recover(self, ctx: Context) -> None:
        """Comes back: only brokers fail (section 6.1)."""
        self._broker(ctx).join("RECOVERING", None)

    def on_round_end(self, ctx: Context) -> None:
        """Ends a round."""
        self.role(ctx).end_round()

    def call_join(self, call: JoinCall, ctx: Context) -> None:
        """Joins (section 6.1)."""
        self._broker(ctx).join("JOINING", call.source_seq)

    def call_subscribe(self, call: SubscribeCall, ctx: Context) -> None:
        """Subscribes."""
        self._client(ctx).subscribe(call.topic or "", call.subscription_id, call.source_seq)

    def call_publish(self, call: PublishCall, ctx: Context) -> None:
        """Publishes."""
        topic, guarantee = call.topic or "", call.guarantee or ""
        message = Message(topic, ctx.node, call.source_seq, guarantee, tuple(sorted(call.keys)), call.round)
        self._client(ctx).publish(message)

    def _broker(self, ctx: Context) -> Broker:
        role = self.role(ctx)
        assert isinstance(role, Broker)  # noqa: S101 - the scenario was checked
        return role

    def _client(self, ctx: Context) -> Client:
        role = self.role(ctx)
        assert isinstance(role, Client)  # noqa: S101 - the scenario was checked
        return role
