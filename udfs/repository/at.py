"""Class `At`, the argument of all handlers: a topic at a node in a round."""

from __future__ import annotations

from typing import Any, TypeVar

from udfs.nodes.context import Context
from udfs.repository import routes
from udfs.repository.events import OfTopic, Publication
from udfs.repository.records import Bundle, Duty, Log, OrderedDelivery
from udfs.repository.state import State

T = TypeVar("T", bound=OfTopic)
PLACES = 1 << 20
"""An upper bound of the number of deliveries at a node in one round."""


class At:
    """One topic at one node in one round.

    Attributes:
        node: The tables of the node.
        ctx: The context of the node in this round: its id, timers, settings and sends.
        topic: Name of the topic.
    """

    __slots__ = ("ctx", "node", "topic")

    def __init__(self, node: State, ctx: Context, topic: str) -> None:
        """Stores the tables and the context of the node, and the topic."""
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
        """Returns the value of the integer setting `name`."""
        return int(self.ctx.settings[name])

    def send(self, event: type, to: tuple[int, ...], *values: Any, extra: int = 0) -> None:  # noqa: ANN401
        """Sends an event of class `event` about the topic, with `values` after the fields of `Addressed`.

        Without receivers `to`, it is a discovery to all repositories (rule P33). It is delayed by `extra` rounds, for
        example for reads from the disk.
        """
        routes.send(self.node, event(to, self.me, 0, self.topic, *values), self.ctx, extra)

    def deliver(self, of: Publication, hops: int) -> None:
        """Delivers message `of`, and records its position among all deliveries of the node."""
        position = self.round * PLACES + len(self.node.ordered_delivery)
        self.node.ordered_delivery.append(OrderedDelivery(position, self.topic, of.source, of.source_seq))
        self.ctx.deliver(of.source, of.source_seq, of.issued_round, hops)

    def wake(self, name: str, rounds: int) -> None:
        """Starts timer `name` of the topic, which expires after `rounds` rounds, unless the timer runs already."""
        if not self.ctx.is_set(name, self.number):
            self.ctx.set_timer(name, self.number, rounds)

    @property
    def number(self) -> int:
        """The number of the topic at this node, which is the key of the topic's timers."""
        of = self.node.log if self.topic in self.node.log else self.node.bundle
        return int(of[self.topic].number)

    @property
    def bundle(self) -> Bundle:
        """This client's record of the topic and of its bundle."""
        return self.node.bundle[self.topic]

    @property
    def log(self) -> Log:
        """This repository's log of the topic."""
        return self.node.log[self.topic]

    @property
    def duty(self) -> Duty:
        """The state of this repository's recovery of the topic."""
        return self.node.duty[self.topic]

    @property
    def peers(self) -> tuple[int, ...]:
        """Ids of the other members of the bundle, ascending. The node must be a repository."""
        return tuple(one.repository for one in self.of(self.node.member) if not one.is_left)

    @property
    def members(self) -> tuple[int, ...]:
        """Ids of all members of the bundle, ascending. The node must be a repository."""
        return tuple(sorted((*self.peers, self.me)))

    @property
    def is_operational(self) -> bool:
        """Whether the repository may steer clients: it has recovered the topic, is not leaving and has not left."""
        log = self.log
        return self.duty.is_operational and not log.is_leaving and not log.is_left

    def of(self, table: dict[Any, T]) -> list[T]:
        """Returns the rows of `table` about this topic, in the order of their keys."""
        return [row for row in table.values() if row.topic == self.topic]
