"""The messages of protocol ``epidemic``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, NamedTuple

from udfs.nodes.records import message


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
