"""Push: positive digests (section 4.1, Figure 2)."""

from __future__ import annotations

from udfs.epidemic import caching
from udfs.epidemic.dispatcher import TIMER, DispatcherRound
from udfs.epidemic.messages import DigestEntry, EventRequest, Gossip
from udfs.epidemic.towards import pass_on, send_towards


def start_gossip_round(turn: DispatcherRound) -> None:
    """startGossipRound: a digest of the cached events that match a drawn pattern of the table."""
    known = {pattern for pattern, _ in turn.node.routing_entry}
    if turn.setting("push_patterns") == "local":
        known = {pattern for pattern in known if turn.is_subscribed(pattern)}
    if not known:
        return
    chosen = min(known, key=lambda pattern: (turn.bits("epidemic.pattern", turn.now, pattern), pattern))
    cached = turn.node.cache.values()
    digest = tuple(DigestEntry(one.source, None, one.source_seq) for one in cached if chosen in one.matches)
    if digest:
        send_towards(turn, Gossip("push", turn.id, chosen, None, digest), TIMER, 1)


def handle_gossip(turn: DispatcherRound, message: Gossip, trigger: int, sender: int) -> None:
    """handleGossipMsg: a subscriber asks the initiator for the listed events that it has not received."""
    if turn.is_subscribed(message.pattern_id):
        missed = tuple(one for one in message.digest if (one.source, one.number) not in turn.node.received)
        if missed:
            turn.send(
                "REQUEST", message.initiator, EventRequest(missed), trigger, 1, turn.setting("out_of_band_rounds")
            )
    pass_on(turn, message, trigger, sender)


def handle_request(turn: DispatcherRound, message: EventRequest, trigger: int, requester: int) -> None:
    """handleReqMsg: the listed events that the cache holds go to the requester."""
    for entry in message.digest:
        event = turn.node.cache.get((entry.source, entry.number))
        if event is not None:
            caching.reply(turn, event, requester, trigger)
