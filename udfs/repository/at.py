"""`At`, the argument of all handlers: a topic at a node in a round."""

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
"""More than the number of deliveries of a node in a round."""


class At:
    """One topic at one node in one round.

    Attributes:
        node: The node's tables.
        ctx: The node in this round.
        topic: Name of the topic.
    """

    __slots__ = ("ctx", "node", "topic")

    def __init__(self, node: State, ctx: Context, topic: str) -> None:
        """Stores the node, the round and the topic."""
        self.node = node
        self.ctx = ctx
        self.topic = topic

    @property
    def me(self) -> int:
        """The node's id."""
        return self.ctx.node

    @property
    def round(self) -> int:
        """The current round."""
        return self.ctx.round

    def rounds(self, name: str) -> int:
        """Returns an integer setting of the protocol."""
        return int(self.ctx.settings[name])

    def send(self, event: type, to: tuple[int, ...], *values: Any, extra: int = 0) -> None:  # noqa: ANN401
        """Sends an event about the topic.

        Args:
            event: The class of the event.
            to: The receivers; none: the event is a discovery for all repositories (rule P33).
            values: The event's fields after those of `Addressed`, in order.
            extra: Rounds of work before the event is sent.
        """
        routes.put(self.node, event(to, self.me, 0, self.topic, *values), self.ctx, extra)

    def deliver(self, of: Publication, hops: int) -> None:
        """Delivers a message, and records its position among the node's deliveries."""
        position = self.round * PLACES + len(self.node.ordered_delivery)
        self.node.ordered_delivery.append(OrderedDelivery(position, self.topic, of.source, of.source_seq))
        self.ctx.deliver(of.source, of.source_seq, of.issued_round, hops)

    def wake(self, name: str, rounds: int) -> None:
        """Starts a timer of the topic, unless it runs already."""
        if not self.ctx.is_set(name, self.number):
            self.ctx.set_timer(name, self.number, rounds)

    @property
    def number(self) -> int:
        """The node's number of the topic, the key of the topic's timers."""
        of = self.node.log if self.topic in self.node.log else self.node.bundle
        return int(of[self.topic].number)

    @property
    def bundle(self) -> Bundle:
        """The bundle of the topic, at a client."""
        return self.node.bundle[self.topic]

    @property
    def log(self) -> Log:
        """The log of the topic, at a repository."""
        return self.node.log[self.topic]

    @property
    def duty(self) -> Duty:
        """The recovery state of the topic, at a repository."""
        return self.node.duty[self.topic]

    @property
    def peers(self) -> tuple[int, ...]:
        """Ids of the other members of the bundle, ascending; at a repository."""
        found = (one for (topic, _), one in self.node.member.items() if topic == self.topic and not one.is_left)
        return tuple(sorted(one.repository for one in found))

    @property
    def members(self) -> tuple[int, ...]:
        """Ids of all members of the bundle, ascending; at a repository."""
        return tuple(sorted((*self.peers, self.me)))

    @property
    def is_operational(self) -> bool:
        """Whether the repository may steer clients: it is complete, and is not leaving."""
        log = self.log
        return self.duty.is_operational and not log.is_leaving and not log.is_left

    def of(self, table: dict[Any, T]) -> list[T]:
        """Returns the rows of `table` with this topic, in the order of their keys."""
        return [table[key] for key in sorted(table) if table[key].topic == self.topic]  # type: ignore[attr-defined]
