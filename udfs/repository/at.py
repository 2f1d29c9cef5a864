"""The interface of a part to its node: its state, one topic, and the round."""

from __future__ import annotations

from typing import Any, TypeVar

from udfs.nodes.context import Context
from udfs.repository import routes
from udfs.repository.client_records import Bundle, OrderedDelivery
from udfs.repository.events import Publication
from udfs.repository.repository_records import Duty, Log
from udfs.repository.state import State

T = TypeVar("T")
PLACES = 1 << 20
"""More than a node delivers in a round."""


class At:
    """One topic at one node in one round.

    Attributes:
        node: The node's tables.
        ctx: The round.
        topic: The topic.
    """

    __slots__ = ("ctx", "node", "topic")

    def __init__(self, node: State, ctx: Context, topic: str) -> None:
        """Looks at a topic."""
        self.node = node
        self.ctx = ctx
        self.topic = topic

    @property
    def me(self) -> int:
        """The node's id."""
        return self.ctx.node

    @property
    def round(self) -> int:
        """The round."""
        return self.ctx.round

    def rounds(self, name: str) -> int:
        """Returns a setting that is a number."""
        return int(self.ctx.settings[name])

    def send(self, event: type, to: tuple[int, ...], *values: Any, extra: int = 0, **named: Any) -> None:  # noqa: ANN401
        """Sends an event about the topic.

        Args:
            event: The class of the event.
            to: The receivers.
            values: Its own fields, in order.
            extra: Rounds of work before it is sent.
            named: Further fields.
        """
        routes.put(self.node, event(to, self.me, 0, self.topic, *values, **named), self.ctx, extra)

    def deliver(self, of: Publication, hops: int) -> None:
        """Delivers a message, and records its place among the deliveries of the node."""
        position = self.round * PLACES + len(self.node.ordered_delivery)
        self.node.ordered_delivery.append(OrderedDelivery(position, self.topic, of.source, of.source_seq))
        self.ctx.deliver(of.source, of.source_seq, of.issued_round, hops)

    def wake(self, name: str, rounds: int) -> None:
        """Sets a timer of the topic, unless it is set."""
        if not self.ctx.is_set(name, self.number):
            self.ctx.set_timer(name, self.number, rounds)

    @property
    def number(self) -> int:
        """The topic's number at the node."""
        of = self.node.log if self.topic in self.node.log else self.node.bundle
        return int(of[self.topic].number)

    @property
    def bundle(self) -> Bundle:
        """The bundle, as a client knows it."""
        return self.node.bundle[self.topic]

    @property
    def log(self) -> Log:
        """The topic's log at a repository."""
        return self.node.log[self.topic]

    @property
    def duty(self) -> Duty:
        """The duty of the repository."""
        return self.node.duty[self.topic]

    @property
    def peers(self) -> tuple[int, ...]:
        """The other members of the bundle, at a repository."""
        found = (one for (topic, _), one in self.node.member.items() if topic == self.topic and not one.is_left)
        return tuple(sorted(one.repository for one in found))

    @property
    def members(self) -> tuple[int, ...]:
        """All members of the bundle, at a repository."""
        return tuple(sorted((*self.peers, self.me)))

    @property
    def is_operational(self) -> bool:
        """Whether the repository may steer clients: it is complete, and not about to leave."""
        log = self.log
        return self.duty.is_operational and not log.is_leaving and not log.is_left

    def of(self, table: dict[Any, T]) -> list[T]:
        """Returns the rows of a table that are about the topic, in the order of their keys."""
        return [table[key] for key in sorted(table) if table[key].topic == self.topic]  # type: ignore[attr-defined]
