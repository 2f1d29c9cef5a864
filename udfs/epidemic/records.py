"""The tables of a dispatcher, named as in the paper."""

from __future__ import annotations

from typing import Annotated

from udfs.epidemic.messages import Tag
from udfs.nodes.records import record


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
    """What a dispatcher expects next of a source for a local pattern."""

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
