"""A client: it hands its publications to its edge broker, and delivers what that sends."""

from __future__ import annotations

from collections.abc import Sequence

from udfs.ginger.items import Item
from udfs.ginger.node import Node


class Client(Node):
    """A client in a round."""

    def __init__(self, node: int, round_: int, state: Sequence[Item]) -> None:
        """Reads its state: ``neighbour``, its edge broker."""
        super().__init__(node, round_)
        self.edge = next((row.other for row in state if row.relation == "neighbour"), None)

    def handle(self, item: Item) -> None:
        """Publishes a call's message; delivers any other."""
        hops = item.hops or 0
        if item.kind != "publish":
            self.keep("delivered", item.message, hops=hops)
        elif self.edge is not None:
            self.send(self.edge, "Metadata", item.message, hops + 1)

    def leave(self) -> None:
        """A client's state does not change."""
