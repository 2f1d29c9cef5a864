"""Pull: negative digests, towards subscribers or back to publishers (section 4.2, Figure 3); combined: both."""

from __future__ import annotations

from udfs.epidemic import caching
from udfs.epidemic.dispatcher import PUBLISHER_PULL, SUBSCRIBER_PULL, TIMER, DispatcherRound
from udfs.epidemic.messages import DigestEntry, Gossip
from udfs.epidemic.towards import pass_on, send_back, send_towards


def start_gossip_round(turn: DispatcherRound) -> None:
    """startGossipRound: digests of the lost events of a drawn local pattern, and of a drawn source (rule E5)."""
    lost = [
        DigestEntry(one.source, one.pattern_id, one.number)
        for one in turn.node.lost.values() if one.expires_round > turn.now
    ]  # fmt: skip
    if turn.recovery in SUBSCRIBER_PULL:
        patterns = {one.pattern_id for one in lost if one.pattern_id is not None}
        chosen = min(patterns, key=lambda pattern: (turn.bits("epidemic.pattern", turn.now, pattern), pattern))
        digest = tuple(one for one in lost if one.pattern_id == chosen)
        send_towards(turn, Gossip("subscriber", turn.id, chosen, None, digest), TIMER, 2)
    sources = {one.source for one in lost if one.source in turn.node.route}
    if turn.recovery in PUBLISHER_PULL and sources:
        source = min(sources, key=lambda source: (turn.bits("epidemic.source", turn.now, source), source))
        digest = tuple(one for one in lost if one.source == source)
        send_back(turn, turn.node.route[source].path, turn.id, digest, TIMER, 3)


def handle_gossip(turn: DispatcherRound, message: Gossip, trigger: int, sender: int) -> None:
    """handleGossipMsg: cached events go to the initiator; the message goes on (rule E7)."""
    cached = turn.cached_by_counter()
    for entry in message.digest:
        if entry in cached:
            caching.reply(turn, cached[entry], message.initiator, trigger)
    if message.style == "subscriber":
        pass_on(turn, message, trigger, sender)
        return
    rest = tuple(entry for entry in message.digest if entry not in cached)
    if rest and message.path:
        send_back(turn, message.path, message.initiator, rest, trigger, 0)
