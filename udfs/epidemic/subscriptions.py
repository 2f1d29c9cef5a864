"""Subscription forwarding on the tree of dispatchers (section 2.1): SUB, UNSUB and the calls of clients.

A dispatcher has told neighbour m of pattern p exactly when its table has p from elsewhere than m. So its messages are
the difference between its table before the round and after: SUB where the first entry for a direction appears, UNSUB
where the last one disappears; a pattern is never told twice in a direction.

Reconfiguration: the dispatchers at the ends of a replaced link drop their entries from there, as if they had been
unsubscribed, and those at the ends of the new link tell each other all patterns that they know. So do the neighbours
of a dispatcher that recovers: it has no table (rule E14).
"""

from __future__ import annotations

from collections.abc import Iterable

from udfs.epidemic.dispatcher import DispatcherRound
from udfs.epidemic.messages import PatternSub, PatternUnsub
from udfs.epidemic.records import LocalClient, TableEntry
from udfs.nodes.calls import SubscribeCall, UnsubscribeCall

_Call = SubscribeCall | UnsubscribeCall


def change_table(turn: DispatcherRound) -> None:
    """Handles SUB, UNSUB, subscribe, unsubscribe, recoveries and replaced links."""
    node, links = turn.node, turn.due.links
    fresh = links.come | links.returned
    # SUB and UNSUB that come over a link that has ended are void.
    told = [one for one in turn.of("SUB", "UNSUB") if one.src in turn.ctx.neighbours]
    calls = [call for call in turn.due.calls if isinstance(call, _Call)]
    unlinked = [entry for entry in node.routing_entry.values() if entry.next_hop in links.gone] if links.gone else []
    changed = {one.message.pattern_id for one in told} | {entry.pattern_id for entry in unlinked}
    changed |= {turn.ctx.run.patterns[call.subscription_id] for call in calls}
    if turn.due.is_recovered:
        changed |= {client.pattern_id for client in node.client.values()}
    if changed:
        hops = (turn.id, *turn.ctx.neighbours, *links.gone)
        before = _next_hops(turn, changed, hops)
        for entry in unlinked:
            del node.routing_entry[entry.pattern_id, entry.next_hop]
        for one in told:
            _set_entry(turn, one.message.pattern_id, one.src, is_wanted=one.kind == "SUB")
        for call in calls:
            _take_call(turn, call)
        for pattern in changed:
            _set_entry(turn, pattern, turn.id, is_wanted=node.is_local(pattern))
        _forget(turn, calls)
        _tell(turn, before, _next_hops(turn, changed, hops), fresh)
    _tell_all(turn, fresh)


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


def _forget(turn: DispatcherRound, calls: Iterable[_Call]) -> None:
    """Clears LostBuffer and the expected counters of a pattern whose last client unsubscribes (rule E10)."""
    node = turn.node
    ended = {turn.ctx.run.patterns[call.subscription_id] for call in calls if isinstance(call, UnsubscribeCall)}
    for pattern in ended:
        if not node.is_local(pattern):
            for key in [key for key in node.expected if key[1] == pattern]:
                del node.expected[key]
            for lost in [key for key in node.lost if key[1] == pattern]:
                del node.lost[lost]


def _tell(turn: DispatcherRound, before: dict[int, set[int]], after: dict[int, set[int]], fresh: set[int]) -> None:
    """Sends the neighbours that were neighbours before what changes for them; `_tell_all` tells the ``fresh`` ones."""
    for pattern in before:
        for neighbour in turn.ctx.neighbours:
            knew, knows = (any(hop != neighbour for hop in hops[pattern]) for hops in (before, after))
            if knows and not knew and neighbour not in fresh:
                turn.send("SUB", neighbour, PatternSub(pattern), 0, pattern)
            elif knew and not knows and neighbour not in turn.due.links.come:
                turn.send("UNSUB", neighbour, PatternUnsub(pattern), 0, pattern)


def _tell_all(turn: DispatcherRound, fresh: set[int]) -> None:
    """Sends neighbours all patterns of the table."""
    for neighbour in fresh:
        for pattern in {pattern for pattern, next_hop in turn.node.routing_entry if next_hop != neighbour}:
            turn.send("SUB", neighbour, PatternSub(pattern), 0, pattern)
