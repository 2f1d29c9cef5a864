"""Connections of a node, reports of failed peers, and the bypass of failed nodes (sections 4.3 and 5, Alg. 3 and 4).

Rules R9, R19 to R21, R24, R25 and R35.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from udfs.delta import view
from udfs.delta.forwarding import finish
from udfs.delta.messages import MULTICAST, ConRequest, Detect, JoinRequested, Request, Stated, SynRequest, ToldLink
from udfs.delta.state import Path, PeerState, Synch
from udfs.delta.turn import FAULT, Finished, Turn
from udfs.nodes.records import kind_of
from udfs.nodes.world import Flight

ABANDONED = -1
"""The value of `Finished.trigger` for a message that no live recipient can confirm."""


def bypass(turn: Turn) -> None:
    """Handles reports of failed peers: suspects the peers, connects to live nodes beyond them, and resends messages.

    A DETACHED node does none of this. If its join point failed, but not permanently, it sends JOIN_REQUEST again (rule
    R24).
    """
    failed = _failures(turn)
    if not failed:
        return
    if turn.node.is_detached:
        join = turn.node.own_join
        point = join.join_point if join is not None and join.is_asked else None
        if point is not None and point in failed and not turn.ctx.run.is_gone(point, turn.round):
            ask_join_point(turn)
        return
    _suspect(turn, failed)
    if turn.node.is_synchronising:  # only the failed peer may know a node that joined at this peer
        stored = (one for peer in failed for one in turn.ctx.run.stored(peer, "topology").values())
        view.add_received_links(turn, [ToldLink(one.a, one.b, one.is_marked) for one in stored])
    lost = {peer for peer in failed if peer in turn.node.synch and not turn.node.synch[peer].is_answered}
    lost |= failed.keys() if turn.node.is_joining else set()
    for peer in failed:
        turn.node.synch.pop(peer, None)
        turn.node.syn_request.pop(peer, None)
    if turn.has_new_links:
        view.compute_paths(turn)
    beyond = _frontier(turn, failed)
    if turn.node.is_synchronising:
        left = beyond | _stand_ins(turn, lost)
        synchronise(turn, {peer: way for peer, way in left.items() if peer not in turn.node.synch})
    else:
        asked = {peer: way for peer, way in beyond.items() if peer not in turn.node.peer}
        request(turn, ConRequest, asked)
    view.update_paths(turn)
    _resend_orphans(turn, failed)


def _failures(turn: Turn) -> dict[int, int]:
    """Returns the peers that messages of this round report as failed, each with its ended incarnation.

    A report is a DETECT, a JOIN_REQUEST of the peer's next incarnation, or a STATUS with the value DETACHED.
    """
    found: dict[int, int] = {}
    known = {one.peer: one.incarnation for one in connections(turn)} if turn.has("DETECT") else {}
    for one in turn.of("DETECT"):
        peer, ended = one.message.peer, one.message.incarnation
        if peer in known and ((incarnation := known[peer]) is None or incarnation <= ended):
            found[peer] = max(ended, found.get(peer, ended))
    gone = [(one.src, one.message.incarnation - 1) for one in turn.of("JOIN_REQUEST") if _is_gone(turn, one.src)]
    gone += [(one.src, one.message.incarnation) for one in turn.of("STATUS") if _is_detached(turn, one)]
    for peer, ended in gone if turn.is_disturbed else ():
        found[peer] = max(ended, found.get(peer, ended))
    return found


def _is_gone(turn: Turn, joiner: int) -> bool:
    """Returns whether a JOIN_REQUEST of `joiner` implies that the earlier incarnation of `joiner` has ended.

    This is the case if `joiner` is a neighbour of this node, or if this node is blocked. A blocked node suspects
    `joiner` until it answers the request.
    """
    path = turn.node.path.get(joiner)
    return turn.node.is_blocked or (path is not None and path.distance == 1)


def _is_detached(turn: Turn, told: Flight) -> bool:
    """Returns whether the STATUS `told` means that its sender is DETACHED.

    A STATUS is outdated if this node's answer to the JOIN_REQUEST of the sender has crossed it.
    """
    known, status = turn.node.peer.get(told.src), told.message
    is_answered = known is not None and known.status == "OPERATIONAL" and known.incarnation == status.incarnation
    return bool(status.status == "DETACHED") and not is_answered


def ask_join_point(turn: Turn) -> None:
    """Sends JOIN_REQUEST to the join point again, and watches the join point for a crash (rule R24)."""
    join = turn.node.own_join
    if join is not None:
        request_join(turn, FAULT, join.join_point, join.source_seq)
        watch(turn, join_point_connection(turn))


def _suspect(turn: Turn, failed: Mapping[int, int]) -> None:
    """Marks the `failed` peers as FAILED (Algorithm 3, lines 2 to 4).

    If a live node B lies on the path to a failed peer, this node deletes the row of the peer instead: the recovered
    peer sends SYN_REQUEST to B only, and with a FAILED row this node would still bypass the recovered peer.
    """
    node = turn.node
    for peer, incarnation in failed.items():
        node.peer[peer] = PeerState(peer, "FAILED", incarnation, None)
    paths = [node.path[peer] for peer in failed if peer in node.path]
    for behind in [one.target for one in paths if view.nearest_live(node, one.path) is not None]:
        node.peer.pop(behind)


def _frontier(turn: Turn, failed: Mapping[int, int]) -> dict[int, tuple[int, ...]]:
    """Returns the path from this node to each closest live node beyond the `failed` peers (Algorithm 3, line 5)."""
    node = turn.node
    return {
        one.target: one.path
        for one in node.path.values()
        if one.distance > 1 and _leads_through(one, failed) and view.nearest_live(node, one.path) == one.target
    }


def _stand_ins(turn: Turn, lost: set[int]) -> dict[int, tuple[int, ...]]:
    """Returns the path to the closest live node on each path through a `lost` synchronisation point.

    The closest live node may lie before the lost synchronisation point: it was down when this node chose the
    synchronisation point, and has recovered since.
    """
    node = turn.node
    ways = [one for one in node.path.values() if one.distance and _leads_through(one, lost)]
    nearest = (view.nearest_live(node, one.path) for one in ways)
    return {peer: node.path[peer].path for peer in nearest if peer is not None and peer in node.path}


def _leads_through(path: Path, nodes: Iterable[int]) -> bool:
    return any(one in path.path for one in nodes)


def _resend_orphans(turn: Turn, failed: Mapping[int, int]) -> None:
    """Resends messages whose responsible node is one of the `failed` peers (Algorithm 3, lines 20 to 22).

    The next live node on the path to the recipient becomes responsible. A message without a live recipient is finished.
    """
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
        view.apply_finished(turn, finished)


_EXEMPT = ("CON_REQUEST", "SYN_REQUEST", "JOIN_REQUEST")


def fill_inbox(turn: Turn) -> None:
    """Fills the inbox with the due messages, and receives the multicast messages among them.

    Drops messages that were sent to an earlier incarnation of this node.
    """
    own = turn.node.incarnation
    if turn.due.is_recovered:
        own = turn.ctx.run.incarnation(turn.id, turn.round)
    for one in turn.due.received:
        kind = one.kind
        if kind in _EXEMPT or (one.message.for_incarnation or 0) == own:
            turn.inbox.setdefault(kind, []).append(one)
            if kind in MULTICAST:
                turn.receive(one)
        else:
            turn.ctx.drop("lost_crash", one.message_id)


def connections(turn: Turn) -> list[PeerState]:
    """Returns the state of each peer to which this node has a connection.

    The peers are live neighbours, live nodes beyond failed nodes, and the join point to which this node has sent
    JOIN_REQUEST.
    """
    node, links = turn.node, turn.ctx.run.links
    found = [
        PeerState(one.target, "OPERATIONAL", 0, links[turn.id, one.target])
        for one in node.path.values()
        if one.distance == 1 and one.target not in node.peer and (turn.id, one.target) in links
    ]
    found += [one for one in node.peer.values() if one.status != "FAILED"]
    return [*found, *join_point_connection(turn)]


def join_point_connection(turn: Turn) -> list[PeerState]:
    """Returns the state of the join point while this node waits for its answer to JOIN_REQUEST, else an empty list."""
    join = turn.node.own_join
    if join is None or join.status != "DETACHED" or not join.is_asked:
        return []
    latency = turn.ctx.run.links.get((turn.id, join.join_point))
    return [] if latency is None else [PeerState(join.join_point, "WAITING", None, latency)]


def notice_crashes(turn: Turn) -> None:
    """Schedules failure reports for the connections of this node to nodes that crash in this round (rule R21)."""
    if turn.due.crashed:
        watch(turn, [one for one in connections(turn) if one.peer in turn.due.crashed])


def watch(turn: Turn, opened: Iterable[PeerState]) -> None:
    """Schedules a failure report for each new peer in `opened` whose incarnation has ended (rule R35).

    An incarnation of None stands for the incarnation that will answer the request of this node.
    """
    for one in opened:
        peer, incarnation, latency = one.peer, one.incarnation, one.latency_rounds or 0
        ended, is_down = turn.ctx.run.ended(peer, turn.round)
        if is_down if incarnation is None else incarnation <= ended:
            before = turn.broken.get(peer, (ended, latency))
            turn.broken[peer] = max(before[0], ended), max(before[1], latency, _latency_from(turn, peer))


def _latency_from(turn: Turn, peer: int) -> int:
    """Returns the largest latency of messages from `peer` over the link, or over the path to `peer`.

    Over a path it is the larger latency of both directions, because an answer has the latency of the request. Returns 0
    if this node knows neither a link nor a path.
    """
    link = turn.ctx.run.links.get((peer, turn.id))
    if link is not None:
        return link
    way = turn.node.path.get(peer)
    if way is None:
        return 0
    return max(turn.ctx.route_latency(way.path), turn.ctx.route_latency(way.path[::-1]))


def report(turn: Turn) -> None:
    """Sends DETECT from this node to itself for each broken connection.

    DETECT arrives after the detection delay, and not before the last messages of the crashed peer.
    """
    own = turn.node.own_status
    for peer, (ended, latency) in turn.broken.items():
        after = max(int(turn.ctx.settings["detection_rounds"]), latency)
        for_incarnation = None if own is None else own.incarnation
        turn.send(
            FAULT, peer, "DETECT", turn.id, Detect(peer, ended, None), for_incarnation=for_incarnation, latency=after
        )


def request(turn: Turn, cls: type[Request], asked: Mapping[int, tuple[int, ...]]) -> None:
    """Sends CON_REQUEST (Alg. 3, line 11) or SYN_REQUEST (Alg. 6, line 8) with TOP over the paths in `asked`.

    A receiver that is not a peer becomes a peer with status WAITING. The sum of the link latencies on the path is the
    latency of the request.
    """
    top = turn.node.topology.values() if asked else ()
    links = tuple(ToldLink(one.a, one.b, one.is_marked) for one in top) or None
    for peer, path in asked.items():
        latency = turn.ctx.route_latency(path)
        if peer not in turn.node.peer:
            turn.node.peer[peer] = PeerState(peer, "WAITING", None, latency)
        turn.send(FAULT, 1, kind_of(cls), peer, cls(turn.node.incarnation, links, None), latency=latency)


def synchronise(turn: Turn, asked: Mapping[int, tuple[int, ...]]) -> None:
    """Adds the nodes in `asked` (by path) to the synchronisation points (Synch_R), and sends SYN_REQUEST to each one.

    A node gets at most one SYN_REQUEST in a round (Alg. 6, lines 2 to 8). This node then waits for a new answer from
    each of them, even from nodes that have answered an earlier SYN_REQUEST.
    """
    fresh = {peer: path for peer, path in asked.items() if peer not in turn.asked}
    turn.asked |= fresh.keys()
    for peer in fresh:
        turn.node.synch[peer] = Synch(peer, is_answered=False)
    request(turn, SynRequest, fresh)


def answer(turn: Turn) -> None:
    """Answers all CON_REQUEST and SYN_REQUEST of a peer with one STATUS (Algorithm 4; Algorithm 7, line 5).

    The STATUS is addressed to the newest incarnation among the requests. Its latency is the longest travel time among
    the requests.
    """
    newest: dict[int, tuple[int, int]] = {}
    for one in turn.of("CON_REQUEST", "SYN_REQUEST"):
        incarnation, latency = newest.get(one.src, (0, 0))
        newest[one.src] = (
            max(incarnation, one.message.incarnation), max(latency, turn.round - one.sent_round)
        )  # fmt: skip
    for peer, (incarnation, latency) in newest.items():
        _state(turn, 0, peer, incarnation, latency)


def tell_peers(turn: Turn) -> None:
    """Sends the new status of this node to all its peers, after the answers to requests."""
    for one in connections(turn):
        _state(turn, 2, one.peer, one.incarnation, one.latency_rounds or 0)


def _state(turn: Turn, rank: int, peer: int, incarnation: int | None, latency: int) -> None:
    node = turn.node
    state = "DETACHED" if node.is_detached else "RECOVERING" if node.is_recovering else "OPERATIONAL"
    body = Stated(state, node.incarnation, None)
    turn.send(FAULT, rank, "STATUS", peer, body, for_incarnation=incarnation, latency=latency)


def request_join(turn: Turn, trigger: int, join_point: int, source_seq: int) -> None:
    """Sends JOIN_REQUEST to `join_point` (Algorithm 2)."""
    body = JoinRequested(turn.id, source_seq, turn.node.incarnation, None)
    turn.send(trigger, 0, "JOIN_REQUEST", join_point, body)
