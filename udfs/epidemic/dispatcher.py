"""A dispatcher: its messages, its tables, and a round of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from udfs.nodes.context import Context
from udfs.nodes.hashing import drawn_bits, drawn_uniform
from udfs.nodes.program import NodeProgram, appended, keyed, one
from udfs.nodes.records import message, record
from udfs.nodes.world import Flight, RoundDue

PUSH = frozenset({"push", "push_pull"})
SUBSCRIBER_PULL = frozenset({"subscriber_pull", "combined_pull", "push_pull"})
PUBLISHER_PULL = frozenset({"publisher_pull", "combined_pull", "push_pull"})
PULL = SUBSCRIBER_PULL | PUBLISHER_PULL
CALL = 1 << 62
"""Trigger of the effects of a call, plus its number: after all messages of the round."""
TIMER = 3 << 61
"""Trigger of the effects of a gossip round: after messages and calls."""
_NULL = -(1 << 63)
_Order = tuple[int, int, int, int, int, str]


class Tag(NamedTuple):
    """A part of an event's identifier: a pattern, and the source's counter for it."""

    pattern_id: int
    number: int


class DigestEntry(NamedTuple):
    """An event in a digest: by a counter of its source, or without a pattern by its number at the source."""

    source: int
    pattern_id: int | None
    number: int


@message("SUB")
class PatternSub:
    """A dispatcher has subscribers of a pattern behind it."""

    pattern_id: Annotated[int, "the pattern"]


@message("UNSUB")
class PatternUnsub:
    """A dispatcher has no subscribers of a pattern behind it any more."""

    pattern_id: Annotated[int, "the pattern"]


@message()
class EventCopy:
    """A copy of an event."""

    source: Annotated[int, "the dispatcher that published it"]
    source_seq: Annotated[int, "its number among the calls there"]
    hops: Annotated[int, "links from the source to the receiver"]
    id_: Annotated[str, "its identifier, such as 3:P0-5:P2-4"]
    issued_round: Annotated[int, "round of the publication"]
    matches: Annotated[tuple[int, ...], "the patterns that its content satisfies, ascending"]
    tags: Annotated[tuple[Tag, ...], "the patterns that its source knew, with their counters"]


@message("EVENT", hidden="issued_round,matches,tags")
class TreeEvent(EventCopy):
    """An event that travels over the tree."""

    path: Annotated[tuple[int, ...], "the dispatchers that it went through, from its source on"]


@message("REPLY", hidden="issued_round,matches,tags")
class EventReply(EventCopy):
    """A cached event for a dispatcher that misses it, by unicast."""


@message("GOSSIP")
class Gossip:
    """A gossip message."""

    style: Annotated[str, "push, subscriber or publisher"]
    initiator: Annotated[int, "the dispatcher whose gossip round it belongs to"]
    pattern_id: Annotated[int | None, "the pattern it is labelled with; null: it is on its way to a publisher"]
    path: Annotated[tuple[int, ...] | None, "to a publisher: the dispatchers still ahead, the publisher last"]
    digest: Annotated[tuple[DigestEntry, ...], "push: events that the initiator has; pull: events that it lost"]


@message("REQUEST")
class EventRequest:
    """A request for events that a push digest lists, by unicast."""

    digest: Annotated[tuple[DigestEntry, ...], "the events that the sender has not received"]


MESSAGES = (PatternSub, PatternUnsub, TreeEvent, EventReply, Gossip, EventRequest)


def identifier(source: int, tags: Iterable[Tag]) -> str:
    """Returns an event's identifier as the paper prints it (section 4.2)."""
    return f"{source}{''.join(f':P{tag.pattern_id}-{tag.number}' for tag in tags)}"


@record(key="subscription_id")
class Pattern:
    """A subscription of the scenario and its event pattern."""

    subscription_id: Annotated[int, "the subscription"]
    pattern_id: Annotated[int, "its pattern: the lowest of the subscriptions with the same predicate"]
    is_initial: Annotated[bool, "whether it is issued before the first publication of the run"]


@record(key="subscription_id")
class LocalClient:
    """A subscription that stands at the dispatcher it was issued at."""

    subscription_id: Annotated[int, "the subscription"]
    pattern_id: Annotated[int, "its pattern"]
    is_initial: Annotated[bool, "whether it was issued before the first publication of the run"]


@record(key="pattern_id,next_hop")
class TableEntry:
    """An entry of a dispatcher's subscription table."""

    pattern_id: Annotated[int, "the pattern"]
    next_hop: Annotated[int, "neighbour towards subscribers; the dispatcher itself where its own clients subscribe"]


@record(key="source_seq,pattern_id")
class EventTag:
    """A pattern that an event matches, with its counter: a part of the event's identifier."""

    source_seq: Annotated[int, "number of the event among the source's calls"]
    pattern_id: Annotated[int, "the pattern"]
    number: Annotated[
        int | None, "the source's counter for the pattern; null where the source did not know the pattern"
    ]
    issued_round: Annotated[int, "round of the publication"]


@record(key="pattern_id")
class PatternCounter:
    """A source's counter for a pattern."""

    pattern_id: Annotated[int, "the pattern"]
    number: Annotated[int, "events that it has published for the pattern"]


@record(key="source,source_seq")
class ReceivedEvent:
    """An event that a dispatcher has had."""

    source: Annotated[int, "the event's source"]
    source_seq: Annotated[int, "its number"]
    is_routed: Annotated[bool, "whether it came over the tree (or was published here), not only as a reply"]


@record(key="source,pattern_id")
class ExpectedNumber:
    """The number that a dispatcher expects next from a source for a local pattern."""

    source: Annotated[int, "the source"]
    pattern_id: Annotated[int, "the pattern"]
    next_number: Annotated[int, "one more than the highest counter seen"]


@record(key="source,source_seq")
class CachedEvent:
    """An event in a dispatcher's Cache."""

    source: Annotated[int, "the event's source"]
    source_seq: Annotated[int, "its number"]
    position: Annotated[int, "how many events the dispatcher had cached with this one, ascending"]
    is_own: Annotated[bool, "whether the dispatcher published it or was subscribed to it"]
    cached_round: Annotated[int, "round in which it was cached"]
    hops: Annotated[int, "links it had travelled over"]
    issued_round: Annotated[int, "round of the publication"]
    matches: Annotated[tuple[int, ...], "the patterns that its content satisfies, ascending"]
    tags: Annotated[tuple[Tag, ...], "the patterns of its identifier, with their counters"]


@record(key="source,pattern_id,number")
class LostEvent:
    """An entry of a dispatcher's LostBuffer."""

    source: Annotated[int, "source of the lost event"]
    pattern_id: Annotated[int, "the local pattern for which it is missing"]
    number: Annotated[int, "its counter for the pattern"]
    detected_round: Annotated[int, "round in which the loss was detected"]
    expires_round: Annotated[int, "round in which it is given up"]


@record(key="source")
class SourceRoute:
    """An entry of a dispatcher's buffer Routes."""

    source: Annotated[int, "the source"]
    source_seq: Annotated[int, "the newest event of the source that came over the tree"]
    path: Annotated[tuple[int, ...], "the dispatchers from here back to the source, which is the last"]


@record()
class GossipTimer:
    """A dispatcher's gossip timer and the number of its next cache entry."""

    interval_rounds: Annotated[int, "its gossip interval"] = 1
    next_round: Annotated[int, "round of a gossip round; the others are whole intervals later"] = 0
    push_end_round: Annotated[int | None, "round before which it has something to push; null: nothing"] = None
    lost_end_round: Annotated[int | None, "round before which it has something to pull; null: nothing"] = None
    n_cached: Annotated[int, "events that it has cached"] = 0
    is_busy: Annotated[bool, "whether it saw losses since its last gossip round: its own, or others' requests"] = False

    @property
    def end_round(self) -> int:
        """The round before which the dispatcher has something to gossip about; 0: nothing."""
        return max(self.push_end_round or 0, self.lost_end_round or 0)


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
        ctx: The context for its actions.
        due: The due events.
        inbox: The due messages that the unicast did not lose.
        n_cached: Events that it has cached in the round.
        has_counted: Whether the counters of a new event were compared with the expected ones.
        has_detected: Whether it has detected a loss in the round.
        answered: The events that it has sent in the round, by requester, source and number.
    """

    node: Dispatcher
    ctx: Context
    due: RoundDue
    inbox: list[Flight] = field(default_factory=list)
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

    def of(self, *kinds: str) -> list[Flight]:
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
        for (_, _, dst, *_), body, latency in sorted(self._outbox, key=lambda queued: queued[0]):
            self.ctx.send(dst, body, latency)
