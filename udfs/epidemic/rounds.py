"""Gossip rounds: when a dispatcher begins one, and the adaptive interval (section 5).

Gossip rounds are whole intervals apart, with a phase drawn from the seed (rule E1). The timer of a dispatcher that has
nothing to gossip about stands still.
"""

from __future__ import annotations

from udfs.epidemic import pull, push
from udfs.epidemic.dispatcher import PUSH, DispatcherRound
from udfs.epidemic.records import GossipTimer

_TIMER = "gossip"


def gossip(turn: DispatcherRound) -> None:
    """Begins the gossip rounds that are due, and sets the timer of the next one."""
    timer, now = turn.node.dispatcher, turn.now
    if turn.due.is_recovered:
        # What the dispatcher reads back does not tell how often the timer ran out since the crash (rule E15).
        timer.next_round = now + (timer.next_round - now) % timer.interval_rounds
    else:
        _skip_missed(timer, now)
    timer.n_cached += turn.n_cached
    if turn.n_cached and turn.recovery in PUSH:
        timer.push_end_round = now + int(turn.setting("push_rounds"))
    timer.lost_end_round = max((one.expires_round for one in turn.node.lost.values()), default=None)
    timer.is_busy = timer.is_busy or turn.has_detected or bool(turn.of("REQUEST"))
    is_on_time = (
        not turn.due.is_paused and now >= timer.next_round and (now - timer.next_round) % timer.interval_rounds == 0
    )
    if is_on_time and (timer.push_end_round or 0) > now:
        push.start_gossip_round(turn)
    is_at_once = turn.has_detected and bool(turn.setting("gossip_on_detection"))
    if (timer.lost_end_round or 0) > now and (is_on_time or is_at_once):
        pull.start_gossip_round(turn)
    if is_on_time and timer.end_round > now:
        _adapt(turn, timer)
        timer.is_busy = False
    _set_next(turn, timer, is_on_time=is_on_time)


def _skip_missed(timer: GossipTimer, now: int) -> None:
    """Skips the gossip rounds of a pause: the timer stands still where it has nothing left to gossip about."""
    last = min(now, timer.end_round)
    if timer.next_round < last:
        n_missed = -((timer.next_round - last) // timer.interval_rounds)
        timer.next_round += n_missed * timer.interval_rounds


def _adapt(turn: DispatcherRound, timer: GossipTimer) -> None:
    """Halves the interval where losses were seen since the last gossip round, else doubles it (section 5)."""
    if not turn.setting("adaptive"):
        return
    if timer.is_busy:
        timer.interval_rounds = max(int(turn.setting("gossip_rounds_min")), timer.interval_rounds // 2)
    else:
        timer.interval_rounds = min(int(turn.setting("gossip_rounds_max")), timer.interval_rounds * 2)


def _set_next(turn: DispatcherRound, timer: GossipTimer, *, is_on_time: bool) -> None:
    now, interval = turn.now, timer.interval_rounds
    if timer.next_round <= now and timer.next_round < timer.end_round:
        timer.next_round = now + interval - (0 if is_on_time else (now - timer.next_round) % interval)
    if timer.next_round < timer.end_round:
        turn.ctx.set_timer(_TIMER, rounds=timer.next_round - now)
    else:
        turn.ctx.cancel_timer(_TIMER)
