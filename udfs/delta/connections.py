"""Connections and the failure detectors on them (4.3; rules R9, R19 to R21, R25 and R35), Status (Algorithm 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from udfs.delta.messages import ConRequest, Detect, JoinRequested, Stated, SynRequest, ToldLink
from udfs.delta.records import Peer, Synch
from udfs.delta.turn import FAULT, Turn

_EXEMPT = ("CON_REQUEST", "SYN_REQUEST", "JOIN_REQUEST")


class Connection(NamedTuple):
    """A connection of a node: to an incarnation of the peer; None: to whichever answers."""

    peer: int
    incarnation: int | None
    latency: int


def take_in(turn: Turn) -> None:
    """Sorts the inbox; what was meant for an earlier incarnation of N is dropped: queues die with their connection."""
    own = turn.node.incarnation
    if turn.due.is_recovered:
        own = turn.ctx.run.incarnation(turn.id, turn.round)
    for one in turn.due.received:
        if one.kind in _EXEMPT or (one.message.for_incarnation or 0) == own:
            turn.inbox.setdefault(one.kind, []).append(one)
        else:
            turn.ctx.drop("lost_crash", one.message_id)


def connections(turn: Turn) -> list[Connection]:
    """Returns the connections of N: to neighbours, to peers past failed nodes, to the join point that it asked."""
    node, links = turn.node, turn.ctx.run.links
    found = [
        Connection(one.target, 0, links[turn.id, one.target])
        for one in node.path.values()
        if one.distance == 1 and one.target not in node.peer and (turn.id, one.target) in links
    ]
    others = [one for one in node.peer.values() if one.status != "FAILED"]
    found += [Connection(one.peer, one.incarnation, one.latency_rounds or 0) for one in others]
    return [*found, *join_point_connection(turn)]


def join_point_connection(turn: Turn) -> list[Connection]:
    """Returns the connection of a node that waits for its join point."""
    join = turn.node.own_join
    if join is None or join.status != "DETACHED" or not join.is_asked:
        return []
    latency = turn.ctx.run.links.get((turn.id, join.join_point))
    return [] if latency is None else [Connection(join.join_point, None, latency)]


def notice_crashes(turn: Turn) -> None:
    """Sets the failure detectors on connections to nodes that crash in this round (rule R21)."""
    if turn.due.crashed:
        watch(turn, [one for one in connections(turn) if one.peer in turn.due.crashed])


def watch(turn: Turn, made: Iterable[Connection]) -> None:
    """Sets the failure detectors on connections to nodes that are down, or to incarnations that are over (rule R35)."""
    for peer, incarnation, latency in made:
        ended, is_down = turn.ctx.run.ended(peer, turn.round)
        if is_down if incarnation is None else incarnation <= ended:
            before = turn.broken.get(peer, (ended, latency))
            turn.broken[peer] = max(before[0], ended), max(before[1], latency)


def report(turn: Turn) -> None:
    """Sends DETECT of N to itself, once for each peer: after the detection delay, never before its last words."""
    own = turn.node.own_status
    for peer, (ended, latency) in turn.broken.items():
        after = max(int(turn.ctx.settings["detection_rounds"]), latency)
        for_incarnation = None if own is None else own.incarnation
        turn.send(
            FAULT, peer, "DETECT", turn.id, Detect(peer, ended, None), for_incarnation=for_incarnation, latency=after
        )


def told_links(turn: Turn) -> tuple[ToldLink, ...] | None:
    """Returns TOP_N as it is told."""
    return tuple(ToldLink(one.a, one.b, one.is_marked) for one in turn.node.topology.values()) or None


def request(turn: Turn, kind: str, asked: Mapping[int, tuple[int, ...]]) -> None:
    """Sends CON_REQUEST (Algorithm 3, line 11) or SYN_REQUEST (Algorithm 6, line 8) with TOP_N.

    Args:
        turn: The node.
        kind: The kind.
        asked: Whom it goes to, with P(N, peer).
    """
    links = told_links(turn) if asked else None
    for peer, path in asked.items():
        latency = turn.ctx.route_latency(path)
        if peer not in turn.node.peer:
            turn.node.peer[peer] = Peer(peer, "WAITING", None, latency)
        make = ConRequest if kind == "CON_REQUEST" else SynRequest
        turn.send(FAULT, 1, kind, peer, make(turn.node.incarnation, links, None), latency=latency)


def synchronise(turn: Turn, asked: Mapping[int, tuple[int, ...]]) -> None:
    """Asks synchronisation points (Algorithm 6, lines 2 to 8), each once a round."""
    fresh = {peer: path for peer, path in asked.items() if peer not in turn.asked}
    turn.asked |= fresh.keys()
    for peer in fresh:
        if peer not in turn.node.synch:
            turn.node.synch[peer] = Synch(peer, is_answered=False)
    request(turn, "SYN_REQUEST", fresh)


def answer(turn: Turn) -> None:
    """Answers requests with STATUS, each peer once (Algorithm 4; Algorithm 7, line 5).

    The answer is for the incarnation that asked, and takes as long as the question.
    """
    newest: dict[int, tuple[int, int]] = {}
    for one in turn.of("CON_REQUEST", "SYN_REQUEST"):
        incarnation, latency = newest.get(one.src, (0, 0))
        newest[one.src] = (
            max(incarnation, one.message.incarnation), max(latency, turn.round - one.sent_round)
        )  # fmt: skip
    for peer, (incarnation, latency) in newest.items():
        _state(turn, 0, Connection(peer, incarnation, latency))


def tell_peers(turn: Turn) -> None:
    """Sends STATUS to all peers of a node that is up for good; it comes behind answers: the node has risen."""
    for one in connections(turn):
        _state(turn, 2, one)


def _state(turn: Turn, rank: int, to: Connection) -> None:
    node = turn.node
    state = "DETACHED" if node.is_detached else "RECOVERING" if node.is_recovering else "OPERATIONAL"
    body = Stated(state, node.incarnation, None)
    turn.send(FAULT, rank, "STATUS", to.peer, body, for_incarnation=to.incarnation, latency=to.latency)


def request_join(turn: Turn, trigger: int, join_point: int, source_seq: int) -> None:
    """Algorithm 2, N: JOIN_REQUEST goes to the join point."""
    body = JoinRequested(turn.id, source_seq, turn.node.incarnation, None)
    turn.send(trigger, 0, "JOIN_REQUEST", join_point, body)
