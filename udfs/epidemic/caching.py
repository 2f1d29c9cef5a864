"""Cache: which events a dispatcher keeps a copy of, which it discards, and its replies (sections 4 and 5)."""

from __future__ import annotations

from heapq import nlargest

from udfs.epidemic.dispatcher import DispatcherRound
from udfs.epidemic.messages import EventCopy, EventReply, identifier
from udfs.epidemic.records import CachedEvent


def store(turn: DispatcherRound, event: EventCopy, *, is_own: bool) -> None:
    """Puts a new event into the cache.

    Args:
        turn: The dispatcher in the round.
        event: The event.
        is_own: Whether the dispatcher published it or is subscribed to it.
    """
    if turn.recovery == "none" or not (is_own or turn.setting("caching") == "all"):
        return
    turn.n_cached += 1
    key = event.source, event.source_seq
    turn.node.cache[key] = CachedEvent(
        *key, turn.node.dispatcher.n_cached + turn.n_cached, is_own, turn.now, event.hops, event.issued_round,
        event.matches, event.tags,
    )  # fmt: skip


def discard(turn: DispatcherRound) -> None:
    """Discards the events of a full cache that its policy ranks last.

    A policy fixes the rank of an event once, so the order in which the events of a round are cached is irrelevant.
    """
    cache = turn.node.cache
    n_over = len(cache) - int(turn.setting("buffer"))
    if turn.n_cached and n_over > 0:
        eviction = turn.setting("eviction")
        for event in nlargest(n_over, cache.values(), lambda event: _rank(turn, event, eviction)):
            del cache[event.source, event.source_seq]


def _rank(turn: DispatcherRound, event: CachedEvent, eviction: str) -> tuple[bool, float, int]:
    """Returns the rank of an event in the order of discarding, where the highest goes first."""
    age = float(event.position)
    if eviction == "random":
        age += turn.setting("buffer") * turn.uniform("epidemic.discard", event.source, event.source_seq)
    return eviction == "foreign_first" and not event.is_own, -age, -event.position


def reply(turn: DispatcherRound, event: CachedEvent, requester: int, trigger: int) -> None:
    """Sends a cached event to a dispatcher that misses it, by unicast, at most once a round."""
    asked = requester, event.source, event.source_seq
    if asked in turn.answered:
        return
    turn.answered.add(asked)
    message = EventReply(
        event.source, event.source_seq, event.hops + 1, identifier(event.source, event.tags), event.issued_round,
        event.matches, event.tags,
    )  # fmt: skip
    turn.send("REPLY", requester, message, trigger, 1, turn.setting("out_of_band_rounds"))
