"""Gossip: push (section 4.1, Figure 2), pull (section 4.2, Figure 3), and the adaptive gossip interval (section 5).

The gossip rounds of a dispatcher are a whole number of intervals apart, with a random phase (rule E1). The timer stops
while the dispatcher has no digest to send. A push digest lists cached events, and a pull digest lists lost events.
Subscriber-based pull sends a digest towards subscribers. Publisher-based pull sends it back to the publisher.
"""

from __future__ import annotations

from udfs.epidemic.dispatcher import (
    PUBLISHER_PULL,
    PUSH,
    SUBSCRIBER_PULL,
    TIMER,
    DigestEntry,
    DispatcherRound,
    EventRequest,
    Gossip,
    GossipTimer,
)
from udfs.epidemic.forwarding import reply

_TIMER = "gossip"


def gossip(turn: DispatcherRound) -> None:
    """Starts the gossip round of the dispatcher if it is due, and sets the timer of the next gossip round."""
    timer, now = turn.node.dispatcher, turn.ctx.round
    if turn.due.is_recovered:
        # The timer did not expire while the dispatcher was down, so its next round may be in the past (rule E15).
        timer.next_round = now + (timer.next_round - now) % timer.interval_rounds
    else:
        _skip_missed(timer, now)
    timer.n_cached += turn.n_cached
    if turn.n_cached and turn.ctx.settings["recovery"] in PUSH:
        timer.push_end_round = now + int(turn.ctx.settings["push_rounds"])
    timer.lost_end_round = max((one.expires_round for one in turn.node.lost.values()), default=None)
    timer.is_busy = timer.is_busy or turn.has_detected or bool(turn.of("REQUEST"))
    is_on_time = (
        not turn.due.is_paused and now >= timer.next_round and (now - timer.next_round) % timer.interval_rounds == 0
    )
    if is_on_time and (timer.push_end_round or 0) > now:
        start_push(turn)
    is_at_once = turn.has_detected and bool(turn.ctx.settings["gossip_on_detection"])
    if (timer.lost_end_round or 0) > now and (is_on_time or is_at_once):
        start_pull(turn)
    if is_on_time and timer.end_round > now:
        _adapt(turn, timer)
        timer.is_busy = False
    _set_next(turn, timer, is_on_time=is_on_time)


def _skip_missed(timer: GossipTimer, now: int) -> None:
    """Moves `next_round` of `timer` past the gossip rounds that the dispatcher missed during a pause.

    Gossip rounds from `GossipTimer.end_round` on are not missed, because the timer stops in that round.
    """
    last = min(now, timer.end_round)
    if timer.next_round < last:
        n_missed = -((timer.next_round - last) // timer.interval_rounds)
        timer.next_round += n_missed * timer.interval_rounds


def _adapt(turn: DispatcherRound, timer: GossipTimer) -> None:
    """Halves the interval if a loss was detected or a REQUEST arrived since the last gossip round (section 5).

    Otherwise doubles the interval. Does nothing unless setting ``adaptive`` is true.
    """
    if not turn.ctx.settings["adaptive"]:
        return
    if timer.is_busy:
        timer.interval_rounds = max(int(turn.ctx.settings["gossip_rounds_min"]), timer.interval_rounds // 2)
    else:
        timer.interval_rounds = min(int(turn.ctx.settings["gossip_rounds_max"]), timer.interval_rounds * 2)


def _set_next(turn: DispatcherRound, timer: GossipTimer, *, is_on_time: bool) -> None:
    now, interval = turn.ctx.round, timer.interval_rounds
    if timer.next_round <= now and timer.next_round < timer.end_round:
        timer.next_round = now + interval - (0 if is_on_time else (now - timer.next_round) % interval)
    if timer.next_round < timer.end_round:
        turn.ctx.set_timer(_TIMER, rounds=timer.next_round - now)
    else:
        turn.ctx.cancel_timer(_TIMER)


def start_push(turn: DispatcherRound) -> None:
    """Figure 2, startGossipRound: sends a digest of cached events of a random pattern of the subscription table."""
    known = {pattern for pattern, _ in turn.node.routing_entry}
    if turn.ctx.settings["push_patterns"] == "local":
        known = {pattern for pattern in known if turn.is_subscribed(pattern)}
    if not known:
        return
    chosen = turn.shuffled("epidemic.pattern", known, turn.ctx.round)[0]
    cached = turn.node.cache.values()
    digest = tuple(DigestEntry(one.source, None, one.source_seq) for one in cached if chosen in one.matches)
    if digest:
        send_towards(turn, Gossip("push", turn.ctx.node, chosen, None, digest), TIMER, 1)


def handle_push(turn: DispatcherRound, message: Gossip, trigger: int, sender: int) -> None:
    """Figure 2, handleGossipMsg: forwards the message. A subscriber first requests the listed events that it lacks."""
    if turn.is_subscribed(message.pattern_id):
        missed = tuple(one for one in message.digest if (one.source, one.number) not in turn.node.received)
        if missed:
            turn.send(message.initiator, EventRequest(missed), trigger, 1, turn.ctx.settings["out_of_band_rounds"])
    pass_on(turn, message, trigger, sender)


def handle_request(turn: DispatcherRound, message: EventRequest, trigger: int, requester: int) -> None:
    """Figure 2, handleReqMsg: sends `requester` the requested events that the cache contains."""
    for entry in message.digest:
        event = turn.node.cache.get((entry.source, entry.number))
        if event is not None:
            reply(turn, event, requester, trigger)


def start_pull(turn: DispatcherRound) -> None:
    """Figure 3, startGossipRound: sends a digest of the lost events of a random pattern, of a random source, or both.

    Setting ``recovery`` selects the digests (rule E5).
    """
    lost = [
        DigestEntry(one.source, one.pattern_id, one.number)
        for one in turn.node.lost.values() if one.expires_round > turn.ctx.round
    ]  # fmt: skip
    if turn.ctx.settings["recovery"] in SUBSCRIBER_PULL:
        patterns = {one.pattern_id for one in lost if one.pattern_id is not None}
        chosen = turn.shuffled("epidemic.pattern", patterns, turn.ctx.round)[0]
        digest = tuple(one for one in lost if one.pattern_id == chosen)
        send_towards(turn, Gossip("subscriber", turn.ctx.node, chosen, None, digest), TIMER, 2)
    sources = {one.source for one in lost if one.source in turn.node.route}
    if turn.ctx.settings["recovery"] in PUBLISHER_PULL and sources:
        source = turn.shuffled("epidemic.source", sources, turn.ctx.round)[0]
        digest = tuple(one for one in lost if one.source == source)
        send_back(turn, turn.node.route[source].path, turn.ctx.node, digest, TIMER, 3)


def handle_pull(turn: DispatcherRound, message: Gossip, trigger: int, sender: int) -> None:
    """Figure 3, handleGossipMsg: sends cached events of the digest to the initiator, and forwards the digest.

    Publisher-based pull forwards only the events that are not cached; subscriber-based pull forwards all (rule E7).
    """
    cached = turn.cached_by_counter()
    for entry in message.digest:
        if entry in cached:
            reply(turn, cached[entry], message.initiator, trigger)
    if message.style == "subscriber":
        pass_on(turn, message, trigger, sender)
        return
    rest = tuple(entry for entry in message.digest if entry not in cached)
    if rest and message.path:
        send_back(turn, message.path, message.initiator, rest, trigger, 0)


_STYLES = {"push": 1, "subscriber": 2}
"""The number of each gossip style in the hashes of random draws. Style ``publisher`` draws no random numbers."""


def send_towards(turn: DispatcherRound, message: Gossip, trigger: int, rank: int, sender: int | None = None) -> None:
    """Sends `message` to up to ``fanout`` random next hops of its pattern, never back to `sender` (rule E6).

    Arguments `trigger` and `rank` are those of `DispatcherRound.send`.
    """
    hops = [hop for hop in turn.next_hops(message.pattern_id) if hop not in (turn.ctx.node, sender)]
    keys = turn.ctx.round, message.initiator, _STYLES[message.style]
    if len(hops) > turn.ctx.settings["fanout"]:
        hops = turn.shuffled("epidemic.neighbour", hops, *keys)
    for hop in hops[: turn.ctx.settings["fanout"]]:
        turn.send(hop, message, trigger, rank)


def send_back(
    turn: DispatcherRound, path: tuple[int, ...], initiator: int, digest: tuple[DigestEntry, ...], trigger: int,
    rank: int,
) -> None:  # fmt: skip
    """Sends a publisher-based gossip message to the first dispatcher of `path`, which ends at the publisher.

    If the link to the first dispatcher has ended, setting ``broken_route`` decides whether the message is dropped or
    sent by unicast (rule E12). Arguments `trigger` and `rank` are those of `DispatcherRound.send`.
    """
    is_linked = path[0] in turn.ctx.neighbours
    if is_linked or turn.ctx.settings["broken_route"] == "unicast":
        latency = None if is_linked else turn.ctx.settings["out_of_band_rounds"]
        message = Gossip("publisher", initiator, None, path[1:], digest)
        turn.send(path[0], message, trigger, rank, latency)


def pass_on(turn: DispatcherRound, message: Gossip, trigger: int, sender: int) -> None:
    """Forwards a push or subscriber-based pull message with probability ``p_forward`` (rule E2).

    A dispatcher without clients that subscribe to the pattern always forwards a pull message. If setting ``push_draw``
    is ``subscribers``, it always forwards a push message, too.
    """
    is_free = message.style == "subscriber" or turn.ctx.settings["push_draw"] == "subscribers"
    keys = turn.ctx.round, message.initiator, _STYLES[message.style]
    if (is_free and not turn.is_subscribed(message.pattern_id)) or (
        turn.uniform("epidemic.forward", *keys) < turn.ctx.settings["p_forward"]
    ):
        send_towards(turn, message, trigger, 0, sender)
