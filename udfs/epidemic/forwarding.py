"""Subscription and event forwarding on the tree, and the buffers of a dispatcher (sections 2.1, 4 and 5).

A dispatcher delivers and caches the first copy of an event, and compares the event's counters with the expected
counters. It forwards the first copy that arrives over the tree, even if a REPLY with the event arrived earlier. Its
buffers are Cache, LostBuffer and Routes.

The subscription table determines the SUB and UNSUB messages of a dispatcher. Pattern p is announced to neighbour m as
long as the table has an entry for p whose next hop is not m. So m gets SUB when the first of these entries appears, and
UNSUB when the last one disappears.

When a link is replaced, the dispatchers at its ends delete the entries whose next hop is the other end, as after UNSUB.
The dispatchers at the ends of the new link send each other SUB for all patterns of their tables. A recovered dispatcher
has lost its table, so its neighbours send it SUB for all their patterns (rule E14).
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import replace
from heapq import nlargest, nsmallest

from udfs.epidemic.dispatcher import (
    CALL,
    PUBLISHER_PULL,
    PULL,
    CachedEvent,
    DispatcherRound,
    EventCopy,
    EventReply,
    EventTag,
    ExpectedNumber,
    LocalClient,
    LostEvent,
    PatternCounter,
    PatternSub,
    PatternUnsub,
    ReceivedEvent,
    SourceRoute,
    TableEntry,
    Tag,
    TreeEvent,
    identifier,
)
from udfs.nodes.calls import PublishCall, SubscribeCall, UnsubscribeCall


def take_events(turn: DispatcherRound) -> None:
    """Handles the EVENT and REPLY messages of a round. Then publishes the events that are due in the round."""
    for one in turn.of("EVENT", "REPLY"):
        if not _handle_event(turn, one.message, one.message_id, one.src):
            turn.ctx.drop("duplicate", one.message_id)
    for call in turn.due.calls:
        if isinstance(call, PublishCall):
            event = _published(turn, call)
            if event.matches:
                _handle_event(turn, event, CALL + call.source_seq, None)


def _handle_event(turn: DispatcherRound, event: EventCopy, trigger: int, sender: int | None) -> bool:
    """Delivers and caches a new event, and detects losses. Forwards the first copy that arrived over the tree.

    Returns False if `event` is a duplicate. A `sender` of None means that this dispatcher published the event.
    """
    key = event.source, event.source_seq
    known = turn.node.received.get(key)
    is_new = known is None
    is_routable = isinstance(event, TreeEvent) and not (known is not None and known.is_routed)
    if not (is_new or is_routable):
        return False
    turn.node.received[key] = ReceivedEvent(*key, is_routable)
    local = [pattern for pattern in event.matches if turn.is_subscribed(pattern)]
    if is_new:
        if local:
            turn.ctx.deliver(*key, event.issued_round, event.hops)
        store(turn, event, is_own=sender is None or bool(local))
        if sender is not None:
            count(turn, event, local)
    if isinstance(event, TreeEvent) and is_routable:
        if sender is not None and local:
            record_route(turn, event)
        _forward(turn, event, trigger, sender)
    return True


def _forward(turn: DispatcherRound, event: TreeEvent, trigger: int, sender: int | None) -> None:
    """Adds this dispatcher to the path of `event`, and sends `event` to the next hops of its patterns.

    The event does not return to `sender`.
    """
    wanted = {hop for pattern in event.matches for hop in turn.next_hops(pattern)} - {turn.ctx.node, sender}
    if wanted:
        copy = replace(event, hops=event.hops + 1, path=(*event.path, turn.ctx.node))
        for next_hop in wanted:
            turn.send(next_hop, copy, trigger, 0)


def _published(turn: DispatcherRound, call: PublishCall) -> TreeEvent:
    """Returns the event that `call` publishes.

    The event has a tag for each pattern that it matches and that the subscription table contains (rule E10).
    """
    matches = sorted({turn.ctx.run.patterns[subscription] for subscription in call.matches})
    counter, tags = turn.node.counter, list[Tag]()
    for pattern in matches:
        number = None
        if turn.next_hops(pattern):
            number = counter[pattern].number + 1 if pattern in counter else 1
            counter[pattern] = PatternCounter(pattern, number)
            tags.append(Tag(pattern, number))
        turn.node.tag.append(EventTag(call.source_seq, pattern, number, turn.ctx.round))
    id_ = identifier(turn.ctx.node, tags)
    return TreeEvent(turn.ctx.node, call.source_seq, 0, id_, turn.ctx.round, tuple(matches), tuple(tags), ())


def store(turn: DispatcherRound, event: EventCopy, *, is_own: bool) -> None:
    """Adds a new event to the cache, unless setting ``recovery`` is ``none`` or setting ``caching`` excludes the event.

    Args:
        turn: The dispatcher in this round.
        event: The event to cache.
        is_own: Whether the dispatcher published the event, or one of its clients subscribes to the event.
    """
    if turn.ctx.settings["recovery"] == "none" or not (is_own or turn.ctx.settings["caching"] == "all"):
        return
    turn.n_cached += 1
    key = event.source, event.source_seq
    turn.node.cache[key] = CachedEvent(
        *key, turn.node.dispatcher.n_cached + turn.n_cached, is_own, turn.ctx.round, event.hops, event.issued_round,
        event.matches, event.tags,
    )  # fmt: skip


def discard(turn: DispatcherRound) -> None:
    """Deletes cached events until at most ``buffer`` remain. Setting ``eviction`` selects the events (section 4)."""
    cache = turn.node.cache
    n_over = len(cache) - int(turn.ctx.settings["buffer"])
    if turn.n_cached and n_over > 0:
        eviction = turn.ctx.settings["eviction"]
        for event in nlargest(n_over, cache.values(), lambda event: _rank(turn, event, eviction)):
            del cache[event.source, event.source_seq]


def _rank(turn: DispatcherRound, event: CachedEvent, eviction: str) -> tuple[bool, float, int]:
    """Returns the rank of `event` by policy `eviction`. The cache discards the events with the highest ranks."""
    order = float(event.position)
    if eviction == "random":
        order += turn.ctx.settings["buffer"] * turn.uniform("epidemic.discard", event.source, event.source_seq)
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
    turn.send(requester, message, trigger, 1, turn.ctx.settings["out_of_band_rounds"])


def count(turn: DispatcherRound, event: EventCopy, local: Container[int]) -> None:
    """Compares the counters of a new event with the expected counters, and updates LostBuffer (rules E3, E8 and E9).

    Removes the new event from LostBuffer. Adds an entry for each counter from the expected counter up to, but not
    including, the counter of the new event.

    Args:
        turn: The dispatcher in this round.
        event: The new event.
        local: The patterns of the dispatcher's clients that match `event`. Gaps in other counters are ignored.
            The expected counters of other patterns prevent a later client's request for an event that has arrived.
    """
    if turn.ctx.settings["recovery"] not in PULL:
        return
    for pattern, number in event.tags:
        turn.has_counted = True
        turn.node.lost.pop((event.source, pattern, number), None)
        _expect(turn, event.source, Tag(pattern, number), is_local=pattern in local)


def _expect(turn: DispatcherRound, source: int, tag: Tag, *, is_local: bool) -> None:
    """Adds the gap before the counter of `tag` to LostBuffer, if pattern `is_local`. Updates the expected counter."""
    pattern, number = tag
    known = turn.node.expected.get((source, pattern))
    next_number = 1 if known is None else known.next_number
    if is_local and (_is_initial(turn, pattern) if known is None else known.is_local):
        expires = turn.ctx.round + int(turn.ctx.settings["lost_rounds"])
        for missing in range(next_number, number):
            turn.node.lost[source, pattern, missing] = LostEvent(source, pattern, missing, turn.ctx.round, expires)
    row = ExpectedNumber(source, pattern, max(next_number, number + 1), is_local)
    turn.node.expected[source, pattern] = row


def _is_initial(turn: DispatcherRound, pattern: int) -> bool:
    """Returns whether a client subscribed to `pattern` before the first publication of the run."""
    return any(client.is_initial for client in turn.node.client.values() if client.pattern_id == pattern)


def bound(turn: DispatcherRound) -> None:
    """Deletes expired entries of LostBuffer. Then deletes the oldest entries until ``lost_buffer`` remain (rule E13).

    Runs after the dispatcher has handled the events of a round; does nothing if it has counted no new event. Also sets
    `DispatcherRound.has_detected` if LostBuffer contains a loss that was detected in this round.
    """
    lost = turn.node.lost
    if not (turn.has_counted and lost):
        return
    turn.has_detected = any(one.detected_round == turn.ctx.round for one in lost.values())
    for one in [one for one in lost.values() if one.expires_round <= turn.ctx.round]:
        del lost[one.source, one.pattern_id, one.number]
    size = int(turn.ctx.settings["lost_buffer"])
    if len(lost) > size:
        newest = nsmallest(
            size, lost.values(), lambda one: (-one.detected_round, one.source, one.pattern_id, one.number)
        )
        turn.node.lost = {(one.source, one.pattern_id, one.number): one for one in newest}


def record_route(turn: DispatcherRound, event: TreeEvent) -> None:
    """Stores the path back to the source of `event` in Routes, if `event` is the newest of its source (rule E12)."""
    if turn.ctx.settings["recovery"] in PUBLISHER_PULL:
        known = turn.node.route.get(event.source)
        if known is None or event.source_seq > known.source_seq:
            route = SourceRoute(event.source, event.source_seq, tuple(reversed(event.path)))
            turn.node.route[event.source] = route


_Call = SubscribeCall | UnsubscribeCall


def change_table(turn: DispatcherRound) -> None:
    """Updates the subscription table, and sends SUB and UNSUB for the changes (section 2.1, rules E14 and E16).

    The table changes because of SUB and UNSUB messages, calls ``subscribe`` and ``unsubscribe``, a recovery, and
    replaced links.
    """
    node, links = turn.node, turn.due.links
    fresh = links.added | links.recovered
    # SUB and UNSUB from a former neighbour have no effect.
    told = [one for one in turn.of("SUB", "UNSUB") if one.src in turn.ctx.neighbours]
    calls = [call for call in turn.due.calls if isinstance(call, _Call)]
    entries = node.routing_entry.values() if links.removed else ()
    unlinked = [entry for entry in entries if entry.next_hop in links.removed]
    changed = {one.message.pattern_id for one in told} | {entry.pattern_id for entry in unlinked}
    changed |= {turn.ctx.run.patterns[call.subscription_id] for call in calls}
    if turn.due.is_recovered:
        changed |= {client.pattern_id for client in node.client.values()}
    if changed:
        hops = (turn.ctx.node, *turn.ctx.neighbours, *links.removed)
        before = _next_hops(turn, changed, hops)
        for entry in unlinked:
            del node.routing_entry[entry.pattern_id, entry.next_hop]
        for one in told:
            _set_entry(turn, one.message.pattern_id, one.src, is_wanted=one.kind == "SUB")
        for call in calls:
            known = node.pattern.get(call.subscription_id)
            if isinstance(call, UnsubscribeCall):
                node.client.pop(call.subscription_id, None)
            elif known is not None:
                client = LocalClient(known.subscription_id, known.pattern_id, known.is_initial)
                node.client[call.subscription_id] = client
        for pattern in changed:
            _set_entry(turn, pattern, turn.ctx.node, is_wanted=node.is_local(pattern))
        _forget_patterns(turn, calls)
        _send_changes(turn, before, _next_hops(turn, changed, hops), fresh)
    _send_table(turn, fresh)


def _next_hops(turn: DispatcherRound, patterns: Iterable[int], hops: Iterable[int]) -> dict[int, set[int]]:
    table = turn.node.routing_entry
    return {pattern: {hop for hop in hops if (pattern, hop) in table} for pattern in patterns}


def _set_entry(turn: DispatcherRound, pattern: int, next_hop: int, *, is_wanted: bool) -> None:
    if is_wanted:
        turn.node.routing_entry[pattern, next_hop] = TableEntry(pattern, next_hop)
    else:
        turn.node.routing_entry.pop((pattern, next_hop), None)


def _forget_patterns(turn: DispatcherRound, calls: Iterable[_Call]) -> None:
    """Deletes LostBuffer entries of patterns whose last client has unsubscribed, and ignores gaps (rule E10)."""
    node = turn.node
    ended = {turn.ctx.run.patterns[call.subscription_id] for call in calls if isinstance(call, UnsubscribeCall)}
    for pattern in ended:
        if not node.is_local(pattern):
            node.expected = {
                key: replace(one, is_local=False) if one.pattern_id == pattern else one
                for key, one in node.expected.items()
            }
            node.lost = {key: one for key, one in node.lost.items() if one.pattern_id != pattern}


def _send_changes(
    turn: DispatcherRound, before: dict[int, set[int]], after: dict[int, set[int]], fresh: set[int]
) -> None:
    """Sends SUB and UNSUB for patterns whose next hops differ between the tables `before` and `after`.

    Neighbours in `fresh` have a new link or have recovered; `_send_table` sends them SUB for all patterns instead.
    """
    for pattern in before:
        for neighbour in turn.ctx.neighbours:
            knew, knows = (any(hop != neighbour for hop in hops[pattern]) for hops in (before, after))
            if knows and not knew and neighbour not in fresh:
                turn.send(neighbour, PatternSub(pattern), 0, pattern)
            elif knew and not knows and neighbour not in turn.due.links.added:
                turn.send(neighbour, PatternUnsub(pattern), 0, pattern)


def _send_table(turn: DispatcherRound, fresh: set[int]) -> None:
    for neighbour in fresh:
        for pattern in {pattern for pattern, next_hop in turn.node.routing_entry if next_hop != neighbour}:
            turn.send(neighbour, PatternSub(pattern), 0, pattern)
