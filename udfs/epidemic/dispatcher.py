"""The messages and tables of a dispatcher, and its state within a round (`DispatcherRound`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

from udfs.nodes.context import Context
from udfs.nodes.hashing import drawn_bits, drawn_uniform
from udfs.nodes.program import NodeProgram, appended, keyed, one
from udfs.nodes.records import kind_of, message, record
from udfs.nodes.world import Flight, RoundDue

PUSH = frozenset({"push", "push_pull"})
SUBSCRIBER_PULL = frozenset({"subscriber_pull", "combined_pull", "push_pull"})
PUBLISHER_PULL = frozenset({"publisher_pull", "combined_pull", "push_pull"})
PULL = SUBSCRIBER_PULL | PUBLISHER_PULL
CALL = 1 << 62
"""The trigger (cause) of the messages that call n causes is `CALL` + n. `CALL` is above all message ids."""
TIMER = 3 << 61
"""The trigger of the messages that a gossip round causes. It is above the triggers of calls."""
_NULL = -(1 << 63)
_Order = tuple[int, int, int, int, int, str]


class Tag(NamedTuple):
    """A part of an event's identifier (section 4.2): a pattern, and the source's counter for this pattern."""

    pattern_id: int
    number: int


class DigestEntry(NamedTuple):
    """An event that a digest lists."""

    source: int  # the dispatcher that published it
    pattern_id: int | None  # pull: the pattern of the counter; push: None
    number: int  # pull: the source's counter for the pattern; push: the number among the source's calls


@message("SUB")
class PatternSub:
    """Message SUB: a client or another neighbour of the sender subscribes to a pattern (section 2.1)."""

    pattern_id: Annotated[int, "the pattern"]


@message("UNSUB")
class PatternUnsub:
    """Message UNSUB: no client and no other neighbour of the sender subscribes to a pattern any more."""

    pattern_id: Annotated[int, "the pattern"]


@message()
class EventCopy:
    """A copy of an event that one dispatcher sends to another, over the tree or by unicast."""

    source: Annotated[int, "the dispatcher that published the event"]
    source_seq: Annotated[int, "number of the publication among the source's calls"]
    hops: Annotated[int, "number of links from the source to the receiver"]
    id_: Annotated[str, "identifier of the event, such as 3:P0-5:P2-4"]
    issued_round: Annotated[int, "round of the publication"]
    matches: Annotated[tuple[int, ...], "ids of the patterns that the content satisfies, ascending"]
    tags: Annotated[tuple[Tag, ...], "matched patterns in the source's subscription table, with the source's counters"]


@message("EVENT", hidden="issued_round,matches,tags")
class TreeEvent(EventCopy):
    """A copy of an event that a dispatcher forwards over the tree of dispatchers."""

    path: Annotated[tuple[int, ...], "the dispatchers that the event passed, the source first"]


@message("REPLY", hidden="issued_round,matches,tags")
class EventReply(EventCopy):
    """A copy of a cached event that a dispatcher sends by unicast to a dispatcher that lost the event."""


@message("GOSSIP")
class Gossip:
    """A message with a digest of events, which dispatchers forward (sections 4.1 and 4.2)."""

    style: Annotated[str, "push; subscriber: pull towards subscribers; publisher: pull back to the publisher"]
    initiator: Annotated[int, "the dispatcher whose gossip round sent the digest"]
    pattern_id: Annotated[int | None, "the pattern that selects the receivers; null: style publisher"]
    path: Annotated[tuple[int, ...] | None, "style publisher: the rest of the route, the publisher last"]
    digest: Annotated[
        tuple[DigestEntry, ...], "push: cached events of the initiator; pull: lost events of the initiator"
    ]


@message("REQUEST")
class EventRequest:
    """A request for events that a push digest lists. It goes by unicast to the dispatcher that started the digest."""

    digest: Annotated[tuple[DigestEntry, ...], "the events that the sender has not received"]


MESSAGES = (PatternSub, PatternUnsub, TreeEvent, EventReply, Gossip, EventRequest)


def identifier(source: int, tags: Iterable[Tag]) -> str:
    """Returns the identifier of an event in the format of section 4.2, such as ``3:P0-5:P2-4``."""
    return f"{source}{''.join(f':P{tag.pattern_id}-{tag.number}' for tag in tags)}"


@record(key="subscription_id")
class Pattern:
    """A subscription that the scenario issues at a dispatcher, with the id of its predicate (pattern)."""

    subscription_id: Annotated[int, "the subscription"]
    pattern_id: Annotated[int, "pattern of the subscription: the lowest id of the subscriptions with this predicate"]
    is_initial: Annotated[bool, "whether the subscription was issued before the first publication of the run"]


@record(key="subscription_id")
class LocalClient(Pattern):
    """An active subscription, at the dispatcher at which the scenario issued it."""


@record(key="pattern_id,next_hop")
class TableEntry:
    """An entry of a dispatcher's subscription table: a pattern has subscribers in the direction of a neighbour."""

    pattern_id: Annotated[int, "the pattern"]
    next_hop: Annotated[
        int,
        "neighbour towards subscribers of the pattern; the dispatcher itself, if its client subscribes to the pattern",
    ]


@record(key="source_seq,pattern_id")
class EventTag:
    """A pattern that an event of this dispatcher matches, with the dispatcher's counter for the pattern."""

    source_seq: Annotated[int, "number of the event among the dispatcher's calls"]
    pattern_id: Annotated[int, "the pattern"]
    number: Annotated[
        int | None,
        "counter: number of the event among the dispatcher's events of the pattern; null: its table lacked the pattern",
    ]
    issued_round: Annotated[int, "round of the publication"]


@record(key="pattern_id")
class PatternCounter:
    """The number of events that a dispatcher has published for a pattern (section 4.2)."""

    pattern_id: Annotated[int, "the pattern"]
    number: Annotated[int, "number of events that the dispatcher has published for the pattern"]


@record(key="source,source_seq")
class ReceivedEvent:
    """An event that a dispatcher has received or published."""

    source: Annotated[int, "the event's source"]
    source_seq: Annotated[int, "number of the event among the source's calls"]
    is_routed: Annotated[
        bool,
        "true: the dispatcher published the event or received it over the tree; false: it received only REPLY",
    ]


@record(key="source,pattern_id")
class ExpectedNumber:
    """The counter that a dispatcher expects next from a source, for a pattern of the source's events (rule E9)."""

    source: Annotated[int, "the source"]
    pattern_id: Annotated[int, "the pattern"]
    next_number: Annotated[
        int, "the highest counter that the dispatcher has received for the pattern from the source, plus 1"
    ]
    is_local: Annotated[
        bool,
        "whether a client of the dispatcher has subscribed to the pattern since the last event of the pattern arrived "
        "from the source; false: a gap before the next event is ignored",
    ]


@record(key="source,source_seq")
class CachedEvent:
    """An event in a dispatcher's Cache."""

    source: Annotated[int, "the event's source"]
    source_seq: Annotated[int, "number of the event among the source's calls"]
    position: Annotated[int, "number of the event, from 1, in the order in which the dispatcher cached events"]
    is_own: Annotated[bool, "whether the dispatcher published the event, or one of its clients subscribed to it"]
    cached_round: Annotated[int, "round in which the dispatcher cached the event"]
    hops: Annotated[int, "number of links that the event has traversed"]
    issued_round: Annotated[int, "round of the publication"]
    matches: Annotated[tuple[int, ...], "ids of the patterns that the content satisfies, ascending"]
    tags: Annotated[
        tuple[Tag, ...], "tags of the event's identifier: matching patterns, with the source's counter of each"
    ]


@record(key="source,pattern_id,number")
class LostEvent:
    """An entry of a dispatcher's LostBuffer: an event whose loss the dispatcher has detected."""

    source: Annotated[int, "source of the lost event"]
    pattern_id: Annotated[int, "pattern whose counters have the gap; a client of the dispatcher subscribes to it"]
    number: Annotated[int, "number in the gap: the counter of the lost event for the pattern"]
    detected_round: Annotated[int, "round in which the loss was detected"]
    expires_round: Annotated[int, "first round in which the dispatcher no longer requests the event"]


@record(key="source")
class SourceRoute:
    """An entry of a dispatcher's buffer Routes: the path back to a source."""

    source: Annotated[int, "the source"]
    source_seq: Annotated[int, "number of the newest event of the source that arrived over the tree"]
    path: Annotated[tuple[int, ...], "the dispatchers on the path to the source, the source last"]


@record()
class GossipTimer:
    """The gossip timer of a dispatcher, and the number of events that the dispatcher has cached."""

    interval_rounds: Annotated[int, "the gossip interval, in rounds"] = 1
    next_round: Annotated[
        int, "round in which the next gossip round is due; later gossip rounds follow at multiples of the interval"
    ] = 0
    push_end_round: Annotated[
        int | None, "first round in which the dispatcher sends no push digest; null: it has cached no event"
    ] = None
    lost_end_round: Annotated[
        int | None, "first round in which the dispatcher sends no pull digest; null: LostBuffer is empty"
    ] = None
    n_cached: Annotated[int, "number of events that the dispatcher has cached"] = 0
    is_busy: Annotated[
        bool, "whether the dispatcher has detected a loss or received a REQUEST since its last gossip round"
    ] = False

    @property
    def end_round(self) -> int:
        """The later of `push_end_round` and `lost_end_round`, from which no digest is sent; 0 if both are null."""
        return max(self.push_end_round or 0, self.lost_end_round or 0)


class Dispatcher(NodeProgram):
    """The tables of a dispatcher. A crash deletes the tables that are not durable (rule E14)."""

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
        """Returns whether a client of the dispatcher subscribes to pattern `pattern_id`."""
        return any(client.pattern_id == pattern_id for client in self.client.values())


@dataclass(slots=True)
class DispatcherRound:
    """The state of a dispatcher within a round, and the messages that it sends at the end of the round.

    Attributes:
        node: The tables of the dispatcher.
        ctx: The context for the actions of the dispatcher.
        due: The messages, calls, timers and faults of the round.
        inbox: The due messages, without unicast messages that were lost.
        n_cached: The number of events that the dispatcher has cached in the round.
        has_counted: Whether the dispatcher has compared the counters of a new event with the expected counters.
        has_detected: Whether the dispatcher has detected a loss in the round.
        answered: The REPLY messages of the round, as (requester, source of the event, number of the event).
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
    _cached: dict[DigestEntry, CachedEvent] | None = None

    def of(self, *kinds: str) -> list[Flight]:
        """Returns the messages of the inbox whose kind is in `kinds`, in the order of their ids."""
        return [one for one in self.inbox if one.kind in kinds]

    def next_hops(self, pattern_id: int | None) -> list[int]:
        """Returns the next hops of `pattern_id` in the subscription table.

        A next hop is a neighbour, or the dispatcher itself if one of its clients subscribes.
        """
        if pattern_id is None:
            return []
        table, hops = self.node.routing_entry, (self.ctx.node, *self.ctx.neighbours)
        return [hop for hop in hops if (pattern_id, hop) in table]

    def is_subscribed(self, pattern_id: int | None) -> bool:
        """Returns whether the subscription table has an entry of the dispatcher's own clients for `pattern_id`."""
        return (pattern_id, self.ctx.node) in self.node.routing_entry

    def cached_by_counter(self) -> dict[DigestEntry, CachedEvent]:
        """Returns the cached events by source, pattern and counter. An event has one key for each of its patterns."""
        if self._cached is None:
            events = self.node.cache.values()
            self._cached = {DigestEntry(one.source, *tag): one for one in events for tag in one.tags}
        return self._cached

    def shuffled(self, purpose: str, among: Iterable[int], *keys: int) -> list[int]:
        """Returns `among` in a random order: by hashes of the seed, `purpose`, the dispatcher, `keys` and elements."""
        seed = self.ctx.settings["seed"]
        return sorted(among, key=lambda one: (drawn_bits(seed, purpose, self.ctx.node, *keys, one), one))

    def uniform(self, purpose: str, *keys: int) -> float:
        """Returns a random number in [0, 1): a hash of the seed, `purpose`, the dispatcher and `keys` (rule E4)."""
        return drawn_uniform(self.ctx.settings["seed"], purpose, self.ctx.node, *keys)

    def send(self, dst: int, message: Any, trigger: int, rank: int, latency: int | None = None) -> None:  # noqa: ANN401
        """Queues a message, which `leave` sends at the end of the round.

        Args:
            dst: The id of the receiving dispatcher.
            message: An instance of a message class.
            trigger: The cause: the id of a message, `CALL` plus the number of a call, or `TIMER`.
            rank: The position among the messages with this `trigger`.
            latency: The number of rounds until the message is due; None for the latency of the link.
        """
        source, seq = getattr(message, "source", _NULL), getattr(message, "source_seq", _NULL)
        self._outbox.append(((trigger, rank, dst, source, seq, kind_of(type(message))), message, latency))

    def leave(self) -> None:
        """Sends the queued messages, ordered by trigger, rank and receiver."""
        for (_, _, dst, *_), body, latency in sorted(self._outbox, key=lambda queued: queued[0]):
            self.ctx.send(dst, body, latency)
