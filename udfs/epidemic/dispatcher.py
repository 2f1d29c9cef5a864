"""A dispatcher: its tables, and what it has done so far in a round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from udfs.epidemic.messages import DigestEntry
from udfs.epidemic.records import (
    CachedEvent,
    EventTag,
    ExpectedNumber,
    GossipTimer,
    LocalClient,
    LostEvent,
    Pattern,
    PatternCounter,
    ReceivedEvent,
    SourceRoute,
    TableEntry,
)
from udfs.nodes.context import Context
from udfs.nodes.hashing import drawn_bits, drawn_uniform
from udfs.nodes.program import NodeProgram, appended, keyed, one
from udfs.nodes.step import Received, RoundDue

PUSH = frozenset({"push", "push_pull"})
SUBSCRIBER_PULL = frozenset({"subscriber_pull", "combined_pull", "push_pull"})
PUBLISHER_PULL = frozenset({"publisher_pull", "combined_pull", "push_pull"})
PULL = SUBSCRIBER_PULL | PUBLISHER_PULL
CALL = 1 << 62
"""Trigger of what a call causes, its number added: after all messages of the round."""
TIMER = 3 << 61
"""Trigger of what a gossip round causes: after messages and calls."""
_NULL = -(1 << 63)
_Order = tuple[int, int, int, int, int, str]


class Dispatcher(NodeProgram):
    """The tables of a dispatcher; those that are not durable are lost in a crash (rule E14)."""

    pattern = keyed(Pattern, is_durable=True)
    client = keyed(LocalClient, is_durable=True)
    routing_entry = keyed(TableEntry)
    tag = appended(EventTag, is_durable=True)
    counter = keyed(PatternCounter, is_durable=True)
    received = keyed(ReceivedEvent, is_durable=True)
    expected = keyed(ExpectedNumber, is_durable=True)
    cache = keyed(CachedEvent)
    lost = keyed(LostEvent)
    route = keyed(SourceRoute)
    dispatcher = one(GossipTimer, is_durable=True)

    def is_local(self, pattern_id: int | None) -> bool:
        """Returns whether a client of the dispatcher subscribes to a pattern."""
        return any(client.pattern_id == pattern_id for client in self.client.values())


@dataclass(slots=True)
class DispatcherRound:
    """A dispatcher in a round.

    Attributes:
        node: The dispatcher.
        ctx: How it acts.
        due: What is due.
        inbox: The due messages that the unicast did not lose.
        n_cached: Events that it has cached in the round.
        has_counted: Whether the counters of a new event were compared with the expected ones.
        has_detected: Whether it has detected a loss in the round.
        answered: The events that it has sent in the round, by requester, source and number.
    """

    node: Dispatcher
    ctx: Context
    due: RoundDue
    inbox: list[Received] = field(default_factory=list)
    n_cached: int = 0
    has_counted: bool = False
    has_detected: bool = False
    answered: set[tuple[int, int, int]] = field(default_factory=set)
    _outbox: list[tuple[_Order, Any, int | None]] = field(default_factory=list)
    _next_hops: dict[int, list[int]] = field(default_factory=dict)
    _cached: dict[DigestEntry, CachedEvent] | None = None

    @property
    def id(self) -> int:
        """The id of the dispatcher."""
        return self.ctx.node

    @property
    def now(self) -> int:
        """The round."""
        return self.ctx.round

    @property
    def recovery(self) -> str:
        """The recovery strategy of the run."""
        return str(self.ctx.settings["recovery"])

    def setting(self, name: str) -> Any:  # noqa: ANN401 - the value of any setting
        """Returns a setting of the protocol."""
        return self.ctx.settings[name]

    def of(self, *kinds: str) -> list[Received]:
        """Returns the due messages of some kinds, in the order of their ids."""
        return [one for one in self.inbox if one.kind in kinds]

    def next_hops(self, pattern_id: int | None) -> list[int]:
        """Returns the next hops of a pattern after the changes of the round, the dispatcher itself among them."""
        if pattern_id is None:
            return []
        found = self._next_hops.get(pattern_id)
        if found is None:
            table, hops = self.node.routing_entry, (self.id, *self.ctx.neighbours)
            found = self._next_hops[pattern_id] = [hop for hop in hops if (pattern_id, hop) in table]
        return found

    def is_subscribed(self, pattern_id: int | None) -> bool:
        """Returns whether the table has a local entry for a pattern."""
        return (pattern_id, self.id) in self.node.routing_entry

    def cached_by_counter(self) -> dict[DigestEntry, CachedEvent]:
        """Returns the cached events under each of their patterns and counters."""
        if self._cached is None:
            events = self.node.cache.values()
            self._cached = {DigestEntry(one.source, *tag): one for one in events for tag in one.tags}
        return self._cached

    def bits(self, purpose: str, *keys: int) -> int:
        """Returns 64 drawn bits; the dispatcher is a key of every draw (rule E4)."""
        return drawn_bits(self.ctx.settings["seed"], purpose, self.id, *keys)

    def uniform(self, purpose: str, *keys: int) -> float:
        """Returns a drawn number in [0, 1); the dispatcher is a key of every draw (rule E4)."""
        return drawn_uniform(self.ctx.settings["seed"], purpose, self.id, *keys)

    def send(
        self,
        kind: str,
        dst: int,
        message: Any,  # noqa: ANN401 - any message class
        trigger: int,
        rank: int,
        latency: int | None = None,
    ) -> None:
        """Queues a message for the end of the round.

        Args:
            kind: Its kind.
            dst: The receiver.
            message: The message.
            trigger: The id of the message that caused it, or `CALL`, `TIMER`.
            rank: Its order among the messages with that cause.
            latency: Rounds until it is due; None: the latency of the link.
        """
        source, seq = getattr(message, "source", _NULL), getattr(message, "source_seq", _NULL)
        self._outbox.append(((trigger, rank, dst, source, seq, kind), message, latency))

    def leave(self) -> None:
        """Sends the queued messages in their order."""
        for (_, _, dst, *_), message, latency in sorted(self._outbox, key=lambda queued: queued[0]):
            self.ctx.send(dst, message, latency)
