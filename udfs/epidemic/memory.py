"""Cache, LostBuffer and Routes of a dispatcher, the detection of lost events, and replies (sections 4 and 5)."""

from __future__ import annotations

from collections.abc import Container
from heapq import nlargest, nsmallest

from udfs.epidemic.dispatcher import (
    PUBLISHER_PULL,
    PULL,
    CachedEvent,
    DispatcherRound,
    EventCopy,
    EventReply,
    ExpectedNumber,
    LostEvent,
    SourceRoute,
    TreeEvent,
    identifier,
)


def store(turn: DispatcherRound, event: EventCopy, *, is_own: bool) -> None:
    """Adds a new event to the cache, unless setting ``recovery`` is ``none`` or setting ``caching`` excludes the event.

    Args:
        turn: The dispatcher in this round.
        event: The event to cache.
        is_own: Whether the dispatcher published the event, or one of its clients subscribes to the event.
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
    """Deletes cached events until at most ``buffer`` remain. Setting ``eviction`` selects the events (section 4)."""
    cache = turn.node.cache
    n_over = len(cache) - int(turn.setting("buffer"))
    if turn.n_cached and n_over > 0:
        eviction = turn.setting("eviction")
        for event in nlargest(n_over, cache.values(), lambda event: _rank(turn, event, eviction)):
            del cache[event.source, event.source_seq]


def _rank(turn: DispatcherRound, event: CachedEvent, eviction: str) -> tuple[bool, float, int]:
    """Returns the rank of `event` by policy `eviction`. The cache discards the events with the highest ranks."""
    order = float(event.position)
    if eviction == "random":
        order += turn.setting("buffer") * turn.uniform("epidemic.discard", event.source, event.source_seq)
    return eviction == "foreign_first" and not event.is_own, -order, -event.position


def reply(turn: DispatcherRound, event: CachedEvent, requester: int, trigger: int) -> None:
    """Sends `event` from the cache to `requester` by unicast as REPLY, at most once in a round."""
    asked = requester, event.source, event.source_seq
    if asked in turn.answered:
        return
    turn.answered.add(asked)
    message = EventReply(
        event.source, event.source_seq, event.hops + 1, identifier(event.source, event.tags), event.issued_round,
        event.matches, event.tags,
    )  # fmt: skip
    turn.send(requester, message, trigger, 1, turn.setting("out_of_band_rounds"))


def count(turn: DispatcherRound, event: EventCopy, local: Container[int]) -> None:
    """Compares the counters of a new event with the expected counters, and updates LostBuffer (rules E3, E8 and E9).

    Removes the new event from LostBuffer. Adds an entry for each counter from the expected counter up to, but not
    including, the counter of the new event.

    Args:
        turn: The dispatcher in this round.
        event: The new event.
        local: The patterns of the dispatcher's clients that match `event`. Gaps in other counters are ignored.
    """
    if turn.recovery not in PULL:
        return
    for pattern, number in event.tags:
        turn.has_counted = True
        turn.node.lost.pop((event.source, pattern, number), None)
        if pattern in local:
            _expect(turn, event.source, pattern, number)


def _expect(turn: DispatcherRound, source: int, pattern: int, number: int) -> None:
    expected = turn.node.expected.get((source, pattern))
    if expected is not None:
        first = expected.next_number
    else:
        is_initial = any(client.is_initial for client in turn.node.client.values() if client.pattern_id == pattern)
        first = 1 if is_initial else number
    expires = turn.now + int(turn.setting("lost_rounds"))
    for missing in range(first, number):
        turn.node.lost[source, pattern, missing] = LostEvent(source, pattern, missing, turn.now, expires)
    turn.node.expected[source, pattern] = ExpectedNumber(source, pattern, max(first, number + 1))


def bound(turn: DispatcherRound) -> None:
    """Deletes expired entries of LostBuffer. Then deletes the oldest entries until ``lost_buffer`` remain (rule E13).

    Runs after the dispatcher has handled the events of a round; does nothing if it has counted no new event. Also sets
    `DispatcherRound.has_detected` if LostBuffer contains a loss that was detected in this round.
    """
    lost = turn.node.lost
    if not (turn.has_counted and lost):
        return
    turn.has_detected = any(one.detected_round == turn.now for one in lost.values())
    for one in [one for one in lost.values() if one.expires_round <= turn.now]:
        del lost[one.source, one.pattern_id, one.number]
    size = int(turn.setting("lost_buffer"))
    if len(lost) > size:
        newest = nsmallest(
            size, lost.values(), lambda one: (-one.detected_round, one.source, one.pattern_id, one.number)
        )
        turn.node.lost = {(one.source, one.pattern_id, one.number): one for one in newest}


def record_route(turn: DispatcherRound, event: TreeEvent) -> None:
    """Stores the path back to the source of `event` in Routes, if `event` is the newest of its source (rule E12)."""
    if turn.recovery in PUBLISHER_PULL:
        known = turn.node.route.get(event.source)
        if known is None or event.source_seq > known.source_seq:
            route = SourceRoute(event.source, event.source_seq, tuple(reversed(event.path)))
            turn.node.route[event.source] = route
