"""Bypass of nodes that failed (section 5, Algorithm 3; rules R19, R21, R24)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from udfs.delta import connections, view
from udfs.delta.confirmation import finish
from udfs.delta.records import Path, Peer
from udfs.delta.turn import FAULT, Finished, Turn

ABANDONED = -1
"""Trigger of messages that end because no recipient can confirm them."""


def bypass(turn: Turn) -> None:
    """Handles DETECT, and what else tells that a peer is gone; does nothing if N knew better."""
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
        connections.synchronise(turn, {peer: way for peer, way in left.items() if peer not in turn.node.synch})
    else:
        asked = {peer: way for peer, way in beyond.items() if peer not in turn.node.peer}
        connections.request(turn, "CON_REQUEST", asked)
    view.look_again(turn)
    _resend_orphans(turn, failed)


def _failures(turn: Turn) -> dict[int, int]:
    """Returns whom N suspects from now on, with the incarnation: by a report, by its new join, as it is DETACHED."""
    found: dict[int, int] = {}
    known = {one.peer: one.incarnation for one in connections.connections(turn)} if turn.has("DETECT") else {}
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
    """Returns whether the earlier incarnation of a node that asks to join is gone.

    It is where N is connected to it; whoever asks a join point that cannot answer yet is suspected, too, until it can.
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
        connections.request_join(turn, FAULT, join.join_point, join.source_seq)
        connections.watch(turn, connections.join_point_connection(turn))


def _suspect(turn: Turn, failed: Mapping[int, int]) -> None:
    """Algorithm 3, lines 2 to 4.

    Where M lies behind a node that is up, N forgets the connection only: the node in between hears of M's return, N
    does not, and would go past M when that node fails again.
    """
    node = turn.node
    for peer, incarnation in failed.items():
        node.peer[peer] = Peer(peer, "FAILED", incarnation, None)
    paths = [node.path[peer] for peer in failed if peer in node.path]
    for behind in [one.target for one in paths if view.nearest_left(node, one.path) is not None]:
        node.peer.pop(behind)


def _stored_links(turn: Turn, failed: Iterable[int]) -> Iterable[view.LinkRow]:
    """Returns the topology stored at failed nodes: one that joined at M while R was down is known to M alone."""
    for peer in failed:
        for one in turn.ctx.run.stored(peer, "topology").values():
            yield one.a, one.b, one.is_marked


def _frontier(turn: Turn, failed: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
    """Algorithm 3, line 5: the closest nodes that are left behind the ones that failed now, with the paths there."""
    node = turn.node
    return {
        one.target: one.path
        for one in node.path.values()
        if one.distance > 1 and _leads_through(one, failed) and view.nearest_left(node, one.path) == one.target
    }


def _stand_ins(turn: Turn, lost: set[int]) -> dict[int, tuple[int, ...]]:
    """Returns the substitutes of failed synchronisation points: the closest nodes left on the ways there.

    That may be a node nearer than the one that failed: it was down itself when N asked past it, and has come back.
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
