"""Loss detection by the counters of identifiers, LostBuffer and Routes (section 4.2)."""

from __future__ import annotations

from collections.abc import Container
from heapq import nsmallest

from udfs.epidemic.dispatcher import PUBLISHER_PULL, PULL, DispatcherRound
from udfs.epidemic.messages import EventCopy, TreeEvent
from udfs.epidemic.records import ExpectedNumber, LostEvent, SourceRoute


def count(turn: DispatcherRound, event: EventCopy, local: Container[int]) -> None:
    """Compares the counters of a new event with the expected ones.

    A gap in the counters of a local pattern is a loss; a late copy removes an event from LostBuffer under all its
    patterns (rules E3, E8 and E9).

    Args:
        turn: The dispatcher in the round.
        event: The event.
        local: The local patterns that match it.
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
    """Limits LostBuffer to the newest losses that are not given up (rule E13), after the events of a round."""
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
    """Routes: the way back of each source's newest event over the tree (rule E12)."""
    if turn.recovery in PUBLISHER_PULL:
        known = turn.node.route.get(event.source)
        if known is None or event.source_seq > known.source_seq:
            route = SourceRoute(event.source, event.source_seq, tuple(reversed(event.path)))
            turn.node.route[event.source] = route
