"""What all nodes have: a place for what they send and keep in a round."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from udfs.ginger.items import Item, with_message
from udfs.ginger.queue import Message

_PLACES = 1 << 20


class Node:
    """A node in a round; `rows` is what it leaves behind."""

    def __init__(self, node: int, round_: int) -> None:
        """Starts with nothing done.

        Args:
            node: Its id.
            round_: The round.
        """
        self.node = node
        self.rows: list[Item] = []
        self._place = round_ * _PLACES

    def next_place(self) -> int:
        """Gives ascending numbers, those of later rounds above those of earlier ones."""
        self._place += 1
        return self._place

    def send(
        self, dst: int, kind: str, message: Message, hops: int, covered: Iterable[int] | None = None
    ) -> None:  # fmt: skip
        """Puts a message on a link; a node's messages leave in the order in which it sends them."""
        body = None if covered is None else sorted(covered)
        self.keep("out", message, kind=kind, other=dst, hops=hops, covered=body)

    def keep(self, relation: str, message: Message, place: int | None = None, **others: Any) -> None:  # noqa: ANN401
        """Leaves a row about a message behind, at a place of its own unless one is given."""
        self.rows.append(with_message(relation, self.next_place() if place is None else place, message, **others))
