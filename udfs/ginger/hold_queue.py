"""A broker that is reconfigured holds application messages, and handles them in order when it is level (4.3.1)."""

from __future__ import annotations

from typing import Any

from udfs.ginger import messages as ms
from udfs.ginger.node import Node
from udfs.ginger.ordering import Ordering
from udfs.ginger.repair_records import Failed, Hold
from udfs.nodes.records import kind_of

APPLICATION = (ms.Metadata, ms.TotalAck, ms.TotalProcessed, ms.Failed)
"""What is held while a broker is reconfigured; repair messages pass."""


def held(m: Any, sender: int) -> Hold:  # noqa: ANN401 - any of `APPLICATION`
    """Returns a message as the hold queue keeps it."""
    kind = kind_of(type(m))
    if isinstance(m, ms.Failed):
        return Hold(kind, sender, failed=m.failed, is_down=m.is_down)
    covered = None if isinstance(m, ms.TotalProcessed) else m.covered
    return Hold(
        kind, sender, m.topic, m.source, m.source_seq, m.guarantee, m.keys, m.issued_round, m.hops, covered
    )  # fmt: skip


class HoldQueue:
    """The hold queue of one broker, and what it knows of brokers that failed."""

    def __init__(self, node: Node, ordering: Ordering) -> None:
        """Holds messages of a broker."""
        self._node = node
        self._state = node.state
        self._ordering = ordering

    def take(self, m: Any, sender: int) -> None:  # noqa: ANN401 - any of `APPLICATION`
        """Handles an application message, or holds it while the broker is reconfigured; strangers' are dropped."""
        node = self._node
        if sender != node.parent and sender not in node.children and sender not in node.clients:
            return
        self._take(m, sender)

    def _take(self, m: Any, sender: int) -> None:  # noqa: ANN401
        if self._node.is_waiting:
            self._state.hold.append(held(m, sender))
        else:
            self._handle(m, sender)

    def _handle(self, m: Any, sender: int) -> None:  # noqa: ANN401
        if isinstance(m, ms.Metadata):
            self._ordering.on_metadata(m, sender)
        elif isinstance(m, ms.TotalAck):
            self._ordering.on_total_ack(m, sender)
        elif isinstance(m, ms.TotalProcessed):
            self._ordering.on_total_processed(m, sender)
        else:
            self.on_failed(sender, m.failed, is_down=m.is_down)

    def lost(self, broker: int) -> None:
        """A broker failed: what came from it before is handled before the news."""
        self._node.repair.dead.add(broker)
        self._take(ms.Failed(broker, is_down=True), self._node.id)

    def on_failed(self, sender: int | None, broker: int, *, is_down: bool) -> None:
        """Coverage need not wait for a failed broker; the news goes on through the tree, maybe after it is back."""
        if broker in self._state.failed:
            return
        self._state.failed[broker] = Failed(broker)
        dead = self._node.repair.dead
        if is_down and sender != self._node.id:
            dead.add(broker)
        self._node.flood(ms.Failed(broker, broker in dead), sender)
        self._ordering.try_topics()

    def release(self) -> None:
        """Releases what was held, in order, as far as nothing is awaited any more (Alg. 9)."""
        hold = self._state.hold
        while hold and self._node.is_level and not self._state.awaited:
            row = hold.pop(0)
            self._handle(_message(row), row.sender)
        self._ordering.try_topics()

    def drop(self, partner: int) -> None:
        """Drops what a partner sent that failed before it told what was before that (rule G23)."""
        self._state.hold = [row for row in self._state.hold if row.sender != partner or row.kind == "Failed"]


def _message(row: Hold) -> Any:  # noqa: ANN401 - any of `APPLICATION`
    if row.kind == "Metadata":
        return ms.Metadata(*row.message, row.hops or 0, row.covered or ())
    if row.kind == "TotalAck":
        return ms.TotalAck(*row.message, row.hops or 0, row.covered or ())
    if row.kind == "TotalProcessed":
        return ms.TotalProcessed(*row.message, row.hops or 0)
    return ms.Failed(row.failed, bool(row.is_down))  # type: ignore[arg-type]
