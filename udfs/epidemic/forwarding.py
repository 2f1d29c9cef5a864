"""Subscription forwarding and event forwarding on the tree of dispatchers (sections 2.1 and 4.2).

A dispatcher delivers and caches the first copy of an event, and compares the event's counters with the expected
counters. It forwards the first copy that arrives over the tree, even if a REPLY with the event arrived earlier.

The subscription table determines the SUB and UNSUB messages of a dispatcher. Pattern p is announced to neighbour m as
long as the table has an entry for p whose next hop is not m. So m gets SUB when the first of these entries appears, and
UNSUB when the last one disappears.

When a link is replaced, the dispatchers at its ends delete the entries whose next hop is the other end, as after UNSUB.
The dispatchers at the ends of the new link send each other SUB for all patterns of their tables. A recovered dispatcher
has lost its table, so its neighbours send it SUB for all their patterns (rule E14).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from udfs.epidemic import memory
from udfs.epidemic.dispatcher import (
    CALL,
    DispatcherRound,
    EventCopy,
    EventTag,
    LocalClient,
    PatternCounter,
    PatternSub,
    PatternUnsub,
    ReceivedEvent,
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
        memory.store(turn, event, is_own=sender is None or bool(local))
        if sender is not None:
            memory.count(turn, event, local)
    if isinstance(event, TreeEvent) and is_routable:
        if sender is not None and local:
            memory.record_route(turn, event)
        _forward(turn, event, trigger, sender)
    return True


def _forward(turn: DispatcherRound, event: TreeEvent, trigger: int, sender: int | None) -> None:
    """Adds this dispatcher to the path of `event`, and sends `event` to the next hops of its patterns.

    The event does not return to `sender`.
    """
    wanted = {hop for pattern in event.matches for hop in turn.next_hops(pattern)} - {turn.id, sender}
    if wanted:
        copy = replace(event, hops=event.hops + 1, path=(*event.path, turn.id))
        for next_hop in wanted:
            turn.send(next_hop, copy, trigger, 0)


def _published(turn: DispatcherRound, call: PublishCall) -> TreeEvent:
    """Returns the event that `call` publishes.

    The event has a tag for each pattern that it matches and that the subscription table contains (rule E10).
    """
    matches = sorted({turn.ctx.run.patterns[subscription] for subscription in call.matches})
    tags = _tags(turn, matches)
    numbers = dict(tags)
    turn.node.tag += [EventTag(call.source_seq, pattern, numbers.get(pattern), turn.now) for pattern in matches]
    return TreeEvent(turn.id, call.source_seq, 0, identifier(turn.id, tags), turn.now, tuple(matches), tags, ())


def _tags(turn: DispatcherRound, matches: Sequence[int]) -> tuple[Tag, ...]:
    counter, tags = turn.node.counter, list[Tag]()
    for pattern in matches:
        if turn.next_hops(pattern):
            number = counter[pattern].number + 1 if pattern in counter else 1
            counter[pattern] = PatternCounter(pattern, number)
            tags.append(Tag(pattern, number))
    return tuple(tags)


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
        hops = (turn.id, *turn.ctx.neighbours, *links.removed)
        before = _next_hops(turn, changed, hops)
        for entry in unlinked:
            del node.routing_entry[entry.pattern_id, entry.next_hop]
        for one in told:
            _set_entry(turn, one.message.pattern_id, one.src, is_wanted=one.kind == "SUB")
        for call in calls:
            _take_call(turn, call)
        for pattern in changed:
            _set_entry(turn, pattern, turn.id, is_wanted=node.is_local(pattern))
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


def _take_call(turn: DispatcherRound, call: _Call) -> None:
    number = call.subscription_id
    if isinstance(call, UnsubscribeCall):
        turn.node.client.pop(number, None)
    elif number in turn.node.pattern:
        pattern = turn.node.pattern[number]
        turn.node.client[number] = LocalClient(number, pattern.pattern_id, pattern.is_initial)


def _forget_patterns(turn: DispatcherRound, calls: Iterable[_Call]) -> None:
    """Deletes LostBuffer entries and expected counters of patterns whose last client has unsubscribed (rule E10)."""
    node = turn.node
    ended = {turn.ctx.run.patterns[call.subscription_id] for call in calls if isinstance(call, UnsubscribeCall)}
    for pattern in ended:
        if not node.is_local(pattern):
            for key in [key for key in node.expected if key[1] == pattern]:
                del node.expected[key]
            for lost in [key for key in node.lost if key[1] == pattern]:
                del node.lost[lost]


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
