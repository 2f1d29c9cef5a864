"""Connections, their failure detectors, and the bypass of nodes that failed (4.3, section 5, Algorithms 3 and 4).

Rules R9, R19 to R21, R24, R25 and R35.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from udfs.delta import view
from udfs.delta.forwarding import finish
from udfs.delta.messages import MULTICAST, ConRequest, Detect, JoinRequested, Stated, SynRequest, ToldLink
from udfs.delta.state import Path, PeerState, Synch
from udfs.delta.turn import FAULT, Finished, Turn

ABANDONED = -1
"""Trigger of messages that end because no recipient can confirm them."""


def bypass(turn: Turn) -> None:
    """Handles DETECT and other reports of failed peers; ignores reports about earlier incarnations."""
    failed = _failures(turn)
    if failed and turn.node.is_detached:
        _retry_join(turn, failed)
        return
    if not failed:
        return
    _suspect(turn, failed)
    if turn.node.is_synchronising:
        view.learn_links(turn, _stored_links(turn, failed))
    lost = {peer for peer in failed if peer in turn.node.synch and not turn.node.synch[peer].is_answered}
    lost |= failed.keys() if turn.node.is_joining else set()
    for peer in failed:
        turn.node.synch.pop(peer, None)
        turn.node.syn_request.pop(peer, None)
    if turn.has_new_links:
        view.look(turn)
    beyond = _frontier(turn, failed)
    if turn.node.is_synchronising:
        left = beyond | _stand_ins(turn, lost)
        synchronise(turn, {peer: way for peer, way in left.items() if peer not in turn.node.synch})
    else:
        asked = {peer: way for peer, way in beyond.items() if peer not in turn.node.peer}
        request(turn, "CON_REQUEST", asked)
    view.look_again(turn)
    _resend_orphans(turn, failed)


def _failures(turn: Turn) -> dict[int, int]:
    """Returns the newly suspected peers with their incarnations: by a report, by a new join, or as DETACHED nodes."""
    found: dict[int, int] = {}
    known = {one.peer: one.incarnation for one in connections(turn)} if turn.has("DETECT") else {}
    for one in turn.of("DETECT"):
        peer, ended = one.message.peer, one.message.incarnation
        if peer in known and ((incarnation := known[peer]) is None or incarnation <= ended):
            found[peer] = max(ended, found.get(peer, ended))
    gone = [(one.src, one.message.incarnation - 1) for one in turn.of("JOIN_REQUEST") if _is_gone(turn, one.src)]
    gone += [(one.src, one.message.incarnation) for one in turn.of("STATUS") if one.message.status == "DETACHED"]
    for peer, ended in gone if turn.is_disturbed else ():
        found[peer] = max(ended, found.get(peer, ended))
    return found


def _is_gone(turn: Turn, joiner: int) -> bool:
    """Returns whether the earlier incarnation of a node that asks to join has ended.

    It has ended if N is connected to it. A node that asks a join point that cannot answer yet is suspected, too, until
    the join point can.
    """
    path = turn.node.path.get(joiner)
    return turn.node.is_blocked or (path is not None and path.distance == 1)


def _retry_join(turn: Turn, failed: Mapping[int, int]) -> None:
    """Rule R24: a DETACHED node asks again when its join point fails, unless that is down for good."""
    join = turn.node.own_join
    if join is None or not join.is_asked or join.join_point not in failed:
        return
    if not turn.ctx.run.is_gone(join.join_point, turn.round):
        ask_join_point(turn)


def ask_join_point(turn: Turn) -> None:
    """Sends JOIN_REQUEST once more, and watches the join point."""
    join = turn.node.own_join
    if join is not None:
        request_join(turn, FAULT, join.join_point, join.source_seq)
        watch(turn, join_point_connection(turn))


def _suspect(turn: Turn, failed: Mapping[int, int]) -> None:
    """Algorithm 3, lines 2 to 4.

    If a node on the path from N to M is up, N deletes its connection to M instead of suspecting M: that node learns of
    M's recovery, N does not. A suspicion would remain, and N would bypass M when that node fails.
    """
    node = turn.node
    for peer, incarnation in failed.items():
        node.peer[peer] = PeerState(peer, "FAILED", incarnation, None)
    paths = [node.path[peer] for peer in failed if peer in node.path]
    for behind in [one.target for one in paths if view.nearest_left(node, one.path) is not None]:
        node.peer.pop(behind)


def _stored_links(turn: Turn, failed: Iterable[int]) -> Iterable[view.LinkRow]:
    """Returns the topology stored at failed nodes: one that joined at M while R was down is known to M alone."""
    for peer in failed:
        for one in turn.ctx.run.stored(peer, "topology").values():
            yield one.a, one.b, one.is_marked


def _frontier(turn: Turn, failed: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
    """Algorithm 3, line 5: the closest live nodes beyond the nodes that failed in this round, with their paths."""
    node = turn.node
    return {
        one.target: one.path
        for one in node.path.values()
        if one.distance > 1 and _leads_through(one, failed) and view.nearest_left(node, one.path) == one.target
    }


def _stand_ins(turn: Turn, lost: set[int]) -> dict[int, tuple[int, ...]]:
    """Returns the substitutes of failed synchronisation points: the closest live nodes on the ways to them.

    A substitute may be nearer than the failed node: it was down when N asked past it, and has recovered.
    """
    node = turn.node
    ways = [one for one in node.path.values() if one.distance and _leads_through(one, lost)]
    nearest = (view.nearest_left(node, one.path) for one in ways)
    return {peer: node.path[peer].path for peer in nearest if peer is not None and peer in node.path}


def _leads_through(path: Path, nodes: Iterable[int]) -> bool:
    return any(one in path.path for one in nodes)


def _resend_orphans(turn: Turn, failed: Mapping[int, int]) -> None:
    """Algorithm 3, lines 20 to 22: the closest remaining node takes over; messages without a recipient end."""
    node, finished = turn.node, list[Finished]()
    for m in node.processing_list.values():
        orphans = {
            recipient: row for recipient, row in m.recipients.items()
            if not row.is_confirmed and row.responsible in failed
        }  # fmt: skip
        for recipient, row in orphans.items():
            way = row.path or (node.path[recipient].path if recipient in node.path else ())
            row.responsible = view.closest(node, way)
            turn.send_again(m, row.responsible)
        if orphans and m.is_finished:
            finished.append(Finished(m, ABANDONED, m.sender))
    for one in finished:
        finish(turn, one)
    if finished:
        view.take_in(turn, finished)


_EXEMPT = ("CON_REQUEST", "SYN_REQUEST", "JOIN_REQUEST")


class Connection(NamedTuple):
    """A connection of a node: to an incarnation of the peer; None: to whichever answers."""

    peer: int
    incarnation: int | None
    latency: int


def take_in(turn: Turn) -> None:
    """Sorts the inbox; drops messages for an earlier incarnation of N, whose queues end with their connection."""
    own = turn.node.incarnation
    if turn.due.is_recovered:
        own = turn.ctx.run.incarnation(turn.id, turn.round)
    inbox, multicast = turn.inbox, turn.multicast
    for one in turn.due.received:
        kind = one.kind
        if kind in _EXEMPT or (one.message.for_incarnation or 0) == own:
            if kind in inbox:
                inbox[kind].append(one)
            else:
                inbox[kind] = [one]
            if kind in MULTICAST:
                multicast.append(one)
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
    """Sets the failure detectors of connections to nodes that are down, or to earlier incarnations (rule R35)."""
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
        asked: The receivers, with P(N, peer).
    """
    links = told_links(turn) if asked else None
    for peer, path in asked.items():
        latency = turn.ctx.route_latency(path)
        if peer not in turn.node.peer:
            turn.node.peer[peer] = PeerState(peer, "WAITING", None, latency)
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
