"""Outgoing messages: m.from for the receiver, the visited list, the connection.

A message to a RECOVERING node is Guided: it carries the paths from there to the recipients (section 6). Multicast
messages to a node that has not answered yet wait in ProcessingList. Messages leave as answers, requests, STATUS of the
node's own, what is sent again by MsgId_N, then all else in the order of what caused it (rule R36).
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter

from udfs.delta.messages import MULTICAST, Step
from udfs.delta.records import Processing, Visit
from udfs.delta.turn import AGAIN, Copy, Leaving, Turn

_SKIPPED = Visit(None, None)


def leave(turn: Turn) -> None:
    """Sends what the round brought together."""
    for (_, _, responsible), m in turn.again.items():
        turn.send(m.round - AGAIN, m.trigger, m.kind, responsible, m)
    for one in sorted(turn.outbox, key=attrgetter("order")):
        _send(turn, one)


def _send(turn: Turn, one: Leaving) -> None:
    """Puts a message on its connection; what has to wait for an answer, or has nobody to go to, does not leave.

    A Conf to a bypassing node that failed, or that the node has no connection to any more, is lost (rule R15).
    """
    peer = turn.node.peer.get(one.dst)
    latency = one.latency
    if latency is None and peer is not None and peer.latency_rounds is not None:
        latency = peer.latency_rounds + one.delay
    incarnation = one.for_incarnation
    if incarnation is None and peer is not None:
        incarnation = peer.incarnation
    if one.kind in MULTICAST:
        if peer is not None and peer.status in ("WAITING", "FAILED"):
            return
        guide = None
        if peer is not None and peer.status == "RECOVERING":
            guide = _guide(turn, one.body, one.dst)
            if guide is None:
                return
        body = _copy(turn, one.body, one.dst, guide, incarnation)
    else:
        if one.kind == "CONF" and latency is None and (turn.id, one.dst) not in turn.ctx.run.links:
            return
        body = one.body if incarnation is None else replace(one.body, for_incarnation=incarnation)
    turn.ctx.send(one.dst, body, latency)


def _copy(
    turn: Turn, m: Copy | Processing, dst: int, guide: tuple[Step, ...] | None, incarnation: int | None
) -> object:  # fmt: skip
    """make_copy_send: the message as its receiver gets it (Algorithm 1, line 17)."""
    origin, origin_path = m.origin, None
    if m.origin is not None:
        way = _way_to_origin(turn, m, dst)
        if way is not None:
            origin = way[-1]
            origin_path = way if guide is not None else None
    return MULTICAST[m.kind](
        m.source, m.source_seq, None if m.hops is None else m.hops + 1, m.join_point, m.subscription_id, origin, guide,
        m.issued_round, m.matches, origin_path, _visited(turn, m, dst), incarnation,
    )  # fmt: skip


def _way_to_origin(turn: Turn, m: Copy | Processing, dst: int) -> tuple[int, ...] | None:
    """Returns P(receiver, m.from): beyond δ+1 hops it ends at the node δ+1 hops away (rule R1)."""
    paths = turn.node.path
    onward = m.origin_path
    if onward is None and m.origin in paths:
        onward = paths[m.origin].path
    if dst not in paths or onward is None:
        return None
    return (*paths[dst].path[:0:-1], *onward)[: turn.delta + 2]


def _visited(turn: Turn, m: Copy | Processing, dst: int) -> tuple[Visit, ...] | None:
    """Returns m.visited with N's own pair and one for each node that is skipped, cut to the last δ+1 (section 5)."""
    if m.msg_id is None:
        return None
    path = turn.node.path.get(dst)
    skipped = 0 if path is None else max(path.distance - 1, 0)
    whole = (*(m.visited or ()), Visit(turn.id, m.msg_id), *([_SKIPPED] * skipped))
    return whole[-(turn.delta + 1) :]


def _guide(turn: Turn, m: Copy | Processing, dst: int) -> tuple[Step, ...] | None:
    """Returns g.to from ProcessingList as it is now; None: all its recipients have confirmed in this very round."""
    known = turn.node.processing_list.get((m.source, m.source_seq))
    steps = []
    for recipient, row in known.recipients.items() if known is not None else ():
        seen = turn.node.path.get(recipient)
        way = row.path or (seen.path if seen is not None else ())
        if dst in way:
            steps.append(Step(way[way.index(dst) :], row.is_confirmed or row.is_reopened))
    return tuple(sorted(steps)) or None
