"""What all nodes have: neighbours, a view of the tree, and a place for what they send and keep in a round."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from udfs.ginger.items import Item, with_message
from udfs.ginger.queue import Message

_PLACES = 1 << 20
_NONE: dict[str, Any] = {}


class Node:
    """A node in a round; `rows` is what it leaves behind."""

    def __init__(self, node: int, round_: int, state: Sequence[Item]) -> None:
        """Reads its state.

        Args:
            node: Its id.
            round_: The round.
            state: Items of all relations but ``inbox``, those of each in order of position. ``mode`` is there where
                nodes may crash, and ``repair`` where the node has anything to do with it.
        """
        self.node = node
        self.round = round_
        self.rows: list[Item] = []
        self._place = round_ * _PLACES
        self.parent: int | None = None
        self.children: set[int] = set()
        self.clients: set[int] = set()
        self.latency: dict[int, int] = {}
        self.view: dict[int, tuple[int, int]] = {}
        self.settings: dict[str, int] = _NONE
        self.memory: dict[str, Any] = {}
        for row in state:
            getattr(self, f"_read_{row.relation}")(row)

    def _read_neighbour(self, row: Item) -> None:
        other = row.peer or 0
        self.latency[other] = row.latency_rounds or 1
        if row.kind in ("parent", "edge"):
            self.parent = other
        else:
            (self.children if row.kind == "child" else self.clients).add(other)

    def _read_tree_view(self, row: Item) -> None:
        other = row.peer or 0
        self.view[other] = (row.hops or 0, row.issued_round or 0)
        self.latency.setdefault(other, row.latency_rounds or 1)

    def _read_mode(self, row: Item) -> None:
        self.settings = json.loads(row.details or "{}")

    def _read_repair(self, row: Item) -> None:
        self.memory = json.loads(row.details or "{}")

    @property
    def may_crash(self) -> bool:
        """Whether nodes of any run may crash, so that state for repairs is kept."""
        return bool(self.settings)

    @property
    def neighbours(self) -> set[int]:
        """The brokers that it is connected to."""
        return self.children | ({self.parent} if self.parent is not None else set())

    def next_position(self) -> int:
        """Returns ascending numbers, those of later rounds above those of earlier ones."""
        self._place += 1
        return self._place

    def send(
        self, dst: int, kind: str, message: Message | None = None, hops: int | None = None,
        covered: Iterable[int] | None = None, details: str | None = None,
    ) -> None:  # fmt: skip
        """Puts a message on a link; a node's messages leave in the order in which it sends them."""
        body = None if covered is None else sorted(covered)
        latency = self.latency.get(dst)
        self.keep("out", message, kind=kind, peer=dst, hops=hops, covered=body, latency_rounds=latency, details=details)

    def connect(self, other: int) -> None:
        """Opens a connection to a new neighbour; if that is down, the failure detector says so."""
        self.keep("connected", None, peer=other, latency_rounds=self.latency.get(other, 1))

    def timer(self, what: str, partner: int, number: int, rounds: int) -> None:
        """Wakes the node after so many rounds, to see whether a partner has answered.

        Args:
            what: What it has to do: ``parent``, ``again``, ``vote`` or ``child``.
            partner: The partner.
            number: Distinguishes timers of the same kind, so that one of an earlier talk is known for stale.
            rounds: When.
        """
        self.keep(
            "out",
            None,
            kind="Timer",
            peer=self.node,
            latency_rounds=rounds,
            details=json.dumps([what, partner, number]),
        )

    def keep(
        self, relation: str, message: Message | None, position: int | None = None, **others: Any  # noqa: ANN401
    ) -> None:  # fmt: skip
        """Leaves a row behind, at a position of its own unless one is given."""
        self.rows.append(
            with_message(relation, self.next_position() if position is None else position, message, **others)
        )

    def hear(self, item: Item) -> None:
        """Remembers how far away the sender of a message is."""
        if item.peer is not None and item.latency_rounds and item.peer != self.node:
            self.latency.setdefault(item.peer, item.latency_rounds)

    def leave_around(self, parent: str) -> None:
        """Leaves neighbours and view behind; ``parent`` is what the parent is called."""
        around = {**dict.fromkeys(self.children, "child"), **dict.fromkeys(self.clients, "client")}
        if self.parent is not None:
            around[self.parent] = parent
        for other, relationship in sorted(around.items()):
            self.keep("neighbour", None, kind=relationship, peer=other, latency_rounds=self.latency.get(other, 1))
        for other, (up, down) in sorted(self.view.items()):
            kind = "sibling" if (up, down) == (1, 1) else "ancestor"
            latency = self.latency.get(other, 1)
            self.keep("tree_view", None, kind=kind, peer=other, hops=up, issued_round=down, latency_rounds=latency)
