"""A synchronisation point S hands over its routing information to R (Algorithm 7, lines 13 to 20; rules R28, R30)."""

from __future__ import annotations

from typing import NamedTuple

from udfs.delta.messages import ParSub, ParTop, ToldEntry, ToldLink
from udfs.delta.turn import Turn

_LOW = -1
"""Trigger of PAR_TOP and PAR_SUB to R; their ranks put them behind normal messages (rule R10)."""


class Route(NamedTuple):
    """P(R, X) as S sees it, and whether X lies behind R."""

    path: tuple[int, ...]
    is_behind: bool


def hand_over(turn: Turn) -> None:
    """Answers the requests that S can answer: all; while it recovers, those from the one side that has not answered."""
    node = turn.node
    for peer in [one for one in node.syn_request if not _waits(turn, one)]:
        del node.syn_request[peer]
        routes = _routes(turn, peer)
        near = {target for target, one in routes.items() if len(one.path) <= turn.delta + 2}
        links = tuple(
            ToldLink(one.a, one.b, one.is_marked) for one in node.topology.values() if one.a in near and one.b in near
        )
        entries = _entries(turn, peer, routes)
        tombstones = tuple(node.tombstone) or None
        top = ParTop(None, None, links or None, None, None)
        sub = ParSub(None, None, entries or None, tombstones, None)
        rows = int(turn.ctx.settings["par_rows"])
        turn.send(_LOW, 1_000_000, "PAR_TOP", peer, top, delay=len(links) // rows)
        turn.send(_LOW, 1_000_001, "PAR_SUB", peer, sub, delay=max(len(links), len(entries)) // rows)


def _waits(turn: Turn, peer: int) -> bool:
    node = turn.node
    if not node.is_recovering or peer not in node.path:
        return False
    side = _side(turn, peer)
    opened = {_side(turn, one.peer) for one in node.synch.values() if not one.is_answered} - {None}
    return bool(opened - {side}) and side is not None


def _side(turn: Turn, peer: int) -> int | None:
    path = turn.node.path.get(peer)
    return path.path[1] if path is not None and path.distance else None


def _routes(turn: Turn, peer: int) -> dict[int, Route]:
    """Returns P(R, X) of all X that S sees: back to where P(S, R) and P(S, X) part, and on."""
    node = turn.node
    if peer not in node.path:
        return {}
    to_peer = node.path[peer].path
    found = {}
    for one in node.path.values():
        shared = len({*to_peer} & {*one.path})
        route = (*to_peer[::-1][: len(to_peer) - shared + 1], *one.path[shared:])
        found[one.target] = Route(route, peer in one.path and one.target != peer)
    return found


def _entries(turn: Turn, peer: int, routes: dict[int, Route]) -> tuple[ToldEntry, ...]:
    """PAR_SUB_S^R: every entry with its from not behind R, rewritten for R; behind R those that name the subscriber."""
    reach, found = turn.delta + 2, []
    subscribers = turn.ctx.run.subscribers
    for entry in turn.node.routing_entry.values():
        route, is_behind = routes.get(entry.origin, (None, False))
        if route is None or entry.origin == peer:
            continue
        if is_behind and not (entry.origin == subscribers.get(entry.subscription_id) and len(route) <= reach):
            continue
        origin = route[turn.delta + 1] if len(route) > reach else entry.origin
        if origin != peer:
            found.append(ToldEntry(entry.subscription_id, origin, min(len(route) - 1, turn.delta + 1)))
    return tuple(found)
