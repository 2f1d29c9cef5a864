"""How gossip messages travel: towards subscribers of a pattern, or back to a publisher (Figures 2 and 3)."""

from __future__ import annotations

from udfs.epidemic.dispatcher import DispatcherRound
from udfs.epidemic.messages import DigestEntry, Gossip

STYLES = {"push": 1, "subscriber": 2}


def send_towards(turn: DispatcherRound, message: Gossip, trigger: int, rank: int, sender: int | None = None) -> None:
    """Sends a gossip message to drawn neighbours with its pattern in the table, never back (rule E6).

    Args:
        turn: The dispatcher in the round.
        message: The message.
        trigger: The message that caused it, or `TIMER`.
        rank: Its order among the messages with that cause.
        sender: The neighbour that it came from; None: it begins here.
    """
    hops = [hop for hop in turn.next_hops(message.pattern_id) if hop not in (turn.id, sender)]
    keys = turn.now, message.initiator, STYLES[message.style]
    if len(hops) > turn.setting("fanout"):
        hops = sorted(hops, key=lambda hop: (turn.bits("epidemic.neighbour", *keys, hop), hop))
    for hop in hops[: turn.setting("fanout")]:
        turn.send("GOSSIP", hop, message, trigger, rank)


def send_back(
    turn: DispatcherRound, path: tuple[int, ...], initiator: int, digest: tuple[DigestEntry, ...], trigger: int,
    rank: int,
) -> None:  # fmt: skip
    """Sends a gossip message to the first dispatcher on its way to a publisher.

    Where that is linked no more it is dropped, or goes by unicast (setting ``broken_route``; rule E12).

    Args:
        turn: The dispatcher in the round.
        path: The dispatchers on the way, the publisher last.
        initiator: The dispatcher whose gossip round it belongs to.
        digest: The lost events.
        trigger: The message that caused it, or `TIMER`.
        rank: Its order among the messages with that cause.
    """
    is_linked = path[0] in turn.ctx.neighbours
    if is_linked or turn.setting("broken_route") == "unicast":
        latency = None if is_linked else turn.setting("out_of_band_rounds")
        message = Gossip("publisher", initiator, None, path[1:], digest)
        turn.send("GOSSIP", path[0], message, trigger, rank, latency)


def pass_on(turn: DispatcherRound, message: Gossip, trigger: int, sender: int) -> None:
    """Passes a push or subscriber-based message on, where P_forward is drawn as the figures print it (rule E2)."""
    is_free = message.style == "subscriber" or turn.setting("push_draw") == "subscribers"
    keys = turn.now, message.initiator, STYLES[message.style]
    if (is_free and not turn.is_subscribed(message.pattern_id)) or (
        turn.uniform("epidemic.forward", *keys) < turn.setting("p_forward")
    ):
        send_towards(turn, message, trigger, 0, sender)
