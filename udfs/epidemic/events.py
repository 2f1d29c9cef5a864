"""Events: identifiers at the source (section 4.2), forwarding by the subscription tables, delivery (section 2.1).

The first copy of an event is delivered, cached and counted; the first that came over the tree is passed on, also after
a reply.
"""

from __future__ import annotations

from collections.abc import Sequence

from udfs.epidemic import caching, losses
from udfs.epidemic.dispatcher import CALL, DispatcherRound
from udfs.epidemic.messages import EventCopy, Tag, TreeEvent, identifier
from udfs.epidemic.records import EventTag, PatternCounter, ReceivedEvent
from udfs.nodes.calls import PublishCall


def take_events(turn: DispatcherRound) -> None:
    """Handles EVENT, REPLY and publish."""
    for one in turn.of("EVENT", "REPLY"):
        if not _take(turn, one.message, one.message_id, one.src):
            turn.ctx.drop("duplicate", one.message_id)
    for call in turn.due.calls:
        if isinstance(call, PublishCall):
            event = _published(turn, call)
            if event.matches:
                _take(turn, event, CALL + call.source_seq, None)


def _take(turn: DispatcherRound, event: EventCopy, trigger: int, sender: int | None) -> bool:
    """Handles a copy of an event.

    Args:
        turn: The dispatcher in the round.
        event: The copy.
        trigger: The id of the message, or the order of the call.
        sender: The dispatcher that sent it; None: it is published here.

    Returns:
        Whether it is neither delivered nor passed on before.
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
        caching.store(turn, event, is_own=sender is None or bool(local))
        if sender is not None:
            losses.count(turn, event, local)
    if isinstance(event, TreeEvent) and is_routable:
        if sender is not None and local:
            losses.record_route(turn, event)
        _forward(turn, event, trigger, sender)
    return True


def _forward(turn: DispatcherRound, event: TreeEvent, trigger: int, sender: int | None) -> None:
    """Sends an event to the neighbours that want it, never back; the dispatcher is on their path."""
    wanted = {hop for pattern in event.matches for hop in turn.next_hops(pattern)} - {turn.id, sender}
    if wanted:
        copy = TreeEvent(
            event.source, event.source_seq, event.hops + 1, event.id_, event.issued_round, event.matches, event.tags,
            (*event.path, turn.id),
        )  # fmt: skip
        for next_hop in wanted:
            turn.send("EVENT", next_hop, copy, trigger, 0)


def _published(turn: DispatcherRound, call: PublishCall) -> TreeEvent:
    """Returns a publication, tagged with the patterns that its source knows: ``S:Pa-5:Pb-4`` (rule E10)."""
    matches = sorted({turn.ctx.run.patterns[subscription] for subscription in call.matches})
    tags = _tags(turn, matches)
    numbers = dict(tags)
    turn.node.tag += [EventTag(call.source_seq, pattern, numbers.get(pattern), turn.now) for pattern in matches]
    return TreeEvent(
        turn.id, call.source_seq, 0, identifier(turn.id, tags), turn.now, tuple(matches), tags, ()
    )  # fmt: skip


def _tags(turn: DispatcherRound, matches: Sequence[int]) -> tuple[Tag, ...]:
    counter, tags = turn.node.counter, list[Tag]()
    for pattern in matches:
        if turn.next_hops(pattern):
            number = counter[pattern].number + 1 if pattern in counter else 1
            counter[pattern] = PatternCounter(pattern, number)
            tags.append(Tag(pattern, number))
    return tuple(tags)
