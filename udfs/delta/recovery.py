"""Recovery of a node R, and the answers of its synchronisation points S (section 6, Algorithms 4 to 7).

The code implements rules R20 to R33.
"""

from __future__ import annotations

from typing import NamedTuple

from udfs.delta import bypass, view
from udfs.delta.forwarding import in_view, new_members
from udfs.delta.messages import ParSub, ParTop, ToldEntry, ToldLink
from udfs.delta.state import PeerState, Processing, Recipient, Status, SubscriptionEntry, SynRequested, Tombstone
from udfs.delta.turn import Turn
from udfs.nodes.records import Keyed
from udfs.nodes.world import Flight

_CONCERNING = (
    "DETECT", "JOIN_REQUEST", "CON_REQUEST", "SYN_REQUEST", "STATUS", "PAR_TOP", "PAR_SUB"
)  # fmt: skip


class PeerAnswer(NamedTuple):
    """The status of a peer, from a message of the peer about a connection.

    Attributes:
        peer: The new state of the peer.
        kind: The kind of the message.
        is_new: Whether this node has sent no multicast message to this incarnation of the peer yet.
    """

    peer: PeerState
    kind: str
    is_new: bool


def handle_faults(turn: Turn) -> None:
    """Phase 1: handles crashes, recovery, failure reports, connections and synchronisation."""
    bypass.notice_crashes(turn)
    node = turn.node
    if not (turn.due.is_recovered or node.is_recovering or node.syn_request or turn.has(*_CONCERNING)):
        return
    before = {(one.peer, one.incarnation) for one in node.peer.values()}
    if turn.due.is_recovered:
        _restart(turn)
    bypass.bypass(turn)
    if turn.has("CON_REQUEST", "SYN_REQUEST", "STATUS", "PAR_TOP"):
        _connect(turn)
    _apply_routing_information(turn)
    hand_over(turn)
    live = (one for one in node.peer.values() if one.status != "FAILED")
    bypass.watch(turn, [one for one in live if (one.peer, one.incarnation) not in before])
    if node.is_recovering and not node.is_waiting_for_answers():
        _end_recovery(turn)


def _restart(turn: Turn) -> None:
    """Starts the recovery of this node from its durable tables (Algorithm 5, lines 1 to 7).

    A node whose join was unfinished does not recover: it becomes DETACHED and joins again.
    """
    node, incarnation = turn.node, turn.ctx.run.incarnation(turn.id, turn.round)
    join = node.own_join
    if join is not None and join.status != "VALID_JOINED":
        node.status[incarnation] = Status("OPERATIONAL", incarnation)
        node.topology = Keyed()
        join.status = "DETACHED"
        turn.ctx.status("RECOVERING" if join.is_asked else "DETACHED")
        if join.is_asked:
            bypass.ask_join_point(turn)
        return
    node.status[incarnation] = Status("RECOVERING", incarnation)
    turn.ctx.status("RECOVERING")
    for one in node.own_subscription:
        node.routing_entry[one] = SubscriptionEntry(one, turn.id, 0, turn.id, turn.id)
    view.compute_paths(turn)
    neighbours = {one.target: one.path for one in node.path.values() if one.distance == 1}
    bypass.synchronise(turn, neighbours)


def _connect(turn: Turn) -> None:
    """Handles CON_REQUEST, SYN_REQUEST, STATUS and the join point's PAR_TOP (Algorithms 4 and 7).

    Stores the status of each sender, answers requests, and resends unconfirmed messages to the senders.
    """
    node = turn.node
    answers = _answers(turn)
    if node.is_detached:
        answers = [one for one in answers if one.kind == "PAR_TOP"]
    for one in answers:
        node.peer[one.peer.peer] = one.peer
    forget_behind(turn, [one.peer.peer for one in answers if one.kind != "STATUS"], [one.peer.peer for one in answers])
    if turn.has("SYN_REQUEST", "CON_REQUEST"):
        view.add_received_links(turn, _told_links(turn))
    if answers:
        view.update_paths(turn)
    for one in answers:
        if one.kind == "SYN_REQUEST":
            node.syn_request[one.peer.peer] = SynRequested(one.peer.peer)
    bypass.answer(turn)
    if answers:
        _send_again(turn, answers)
        _ask_again(turn, answers)


def _answers(turn: Turn) -> list[PeerAnswer]:
    """Returns the newest status of each peer that sent a message about a connection.

    The sender of CON_REQUEST is OPERATIONAL, and the sender of SYN_REQUEST is RECOVERING. A STATUS from a suspected
    peer is ignored until the peer sends SYN_REQUEST. This node has sent messages for nodes behind the peer over another
    path, and new messages over the peer could overtake them. A STATUS does not replace another message of its
    incarnation: SYN_REQUEST needs an answer and Guided messages, even if a joining node then states OPERATIONAL.
    """
    found: dict[int, PeerAnswer] = {}
    for one in turn.of("CON_REQUEST", "SYN_REQUEST", "STATUS", "PAR_TOP"):
        is_offer = one.kind == "PAR_TOP" and one.message.source_seq is None
        if is_offer or (one.kind == "STATUS" and one.message.status == "DETACHED"):
            continue
        known, incarnation = turn.node.peer.get(one.src), one.message.incarnation
        if one.kind == "STATUS" and known is not None and _is_outdated(known, incarnation):
            continue
        news = found.get(one.src)
        if one.kind == "STATUS" and news is not None and news.kind != "STATUS" and news.peer.incarnation == incarnation:
            continue
        connected = 0 if known is None else known.incarnation
        is_new = (known is not None and known.status == "WAITING") or (
            connected is not None and connected < incarnation
        )
        peer = PeerState(one.src, _status_of(one), incarnation, turn.round - one.sent_round)
        found.pop(one.src, None)
        found[one.src] = PeerAnswer(peer, one.kind, is_new)
    return list(found.values())


def _is_outdated(known: PeerState, incarnation: int) -> bool:
    return known.status == "FAILED" or (known.incarnation is not None and known.incarnation > incarnation)


def _status_of(one: Flight) -> str:
    if one.kind == "STATUS":
        return str(one.message.status)
    return "RECOVERING" if one.kind == "SYN_REQUEST" else "OPERATIONAL"


def forget_behind(turn: Turn, recovered: list[int], kept: list[int]) -> None:
    """Deletes the FAILED rows of nodes behind the peers `recovered`, except the rows of the nodes `kept`.

    A node behind a recovered peer reports its own recovery only to this peer, so this node cannot know its status.
    """
    node = turn.node
    for peer in node.peer.values():
        path = node.path.get(peer.peer)
        is_behind = path is not None and any(nearer in path.path for nearer in recovered)
        if is_behind and peer.status == "FAILED" and peer.peer not in kept:
            del node.peer[peer.peer]


def _told_links(turn: Turn) -> list[ToldLink]:
    """Returns the links in SYN_REQUEST, CON_REQUEST, and the PAR_TOP of synchronisation points."""
    told = [one for one in turn.of("SYN_REQUEST", "CON_REQUEST", "PAR_TOP")
            if one.kind != "PAR_TOP" or one.message.source_seq is None]  # fmt: skip
    return [link for one in told for link in one.message.links or ()]


def _send_again(turn: Turn, answers: list[PeerAnswer]) -> None:
    """Resends messages to the peers of `answers`.

    A peer that answered a request gets the messages that waited for this answer (rule R20). A recovering peer gets the
    messages of PrevOut (Alg. 7, lines 8 to 11). Messages also go to recipients that the received links add to the view.
    One pass handles all three cases, so that a peer gets its messages in the order of ProcessingList.
    """
    held = {one.peer.peer for one in answers if one.is_new and one.kind != "SYN_REQUEST"}
    asked = [one.peer.peer for one in answers if one.kind == "SYN_REQUEST"]
    extends = any(one.kind != "STATUS" for one in answers) and turn.has("SYN_REQUEST", "CON_REQUEST")
    for m in turn.node.processing_list.values():
        reach = in_view(turn, m) if extends else []
        fresh = new_members(reach, m.recipients)
        m.recipients |= fresh
        taken = _earlier(turn, m, asked, {one.target for one in reach})
        for recipient, row in m.recipients.items():
            is_held = not row.is_confirmed and row.responsible in held
            if recipient not in taken and (is_held or recipient in fresh):
                turn.send_again(m, row.responsible)


def _earlier(turn: Turn, m: Processing, asked: list[int], reach: set[int]) -> set[int]:
    """Resends `m` to the recovering peers `asked` (PrevOut, rule R26).

    A recovering peer on the path to an unconfirmed recipient gets `m`, and becomes responsible for this recipient. If
    two recovering peers are on one path, both get `m`, and the later peer in `asked` becomes responsible. `reach`
    contains the recipients of `m`. A recovering peer in `reach` gets `m` even if it confirmed `m` before its crash,
    because the crash has deleted the effect of `m`. PAR_SUB contains this effect only after this node has finished `m`.
    Returns the recipients for which a recovering peer became responsible.
    """
    rows, taken = m.recipients, set[int]()
    for peer in asked:
        for recipient, row in rows.items():
            seen = turn.node.path.get(recipient)
            way = row.path or (seen.path if seen is not None else ())
            if not row.is_confirmed and peer in way:
                row.responsible = peer
                taken.add(recipient)
                turn.send_again(m, peer)
    for peer in asked:
        if peer in reach and peer not in taken:
            rows[peer] = Recipient(None, peer, is_confirmed=False, is_reopened=True)
            taken.add(peer)
            turn.send_again(m, peer)
    return taken


def _ask_again(turn: Turn, answers: list[PeerAnswer]) -> None:
    """Sends SYN_REQUEST again to peers that crashed and recovered (rule R28).

    If this node is RECOVERING, it sends SYN_REQUEST to the peers that have not answered an earlier SYN_REQUEST. If this
    node joins, it sends SYN_REQUEST to all these peers, because the crash may have lost a SUB or UNSUB for this node.
    """
    node = turn.node
    open_ = {peer for peer, one in node.synch.items() if not one.is_answered}
    again = [one.peer.peer for one in answers if one.kind == "SYN_REQUEST" and one.is_new]
    asked = [peer for peer in again if (node.is_joining or peer in open_) and peer in node.path]
    bypass.synchronise(turn, {peer: node.path[peer].path for peer in asked})


def _apply_routing_information(turn: Turn) -> None:
    """Applies PAR_TOP and PAR_SUB of synchronisation points to this recovering node (Algorithm 6, lines 11 to 15)."""
    node = turn.node
    came = [one for one in turn.of("PAR_TOP", "PAR_SUB") if one.message.source_seq is None]
    if not came:
        return
    view.add_received_links(turn, _told_links(turn))
    subs = [one for one in came if one.kind == "PAR_SUB"]
    for one in subs:
        for ended in one.message.tombstones or ():
            node.tombstone[ended] = Tombstone(ended)
        if one.src in node.synch:
            node.synch[one.src].is_answered = True
    if subs:
        _merge_entries(turn, subs)
    view.update_paths(turn)


def _merge_entries(turn: Turn, subs: list[Flight]) -> None:
    """Adds the entries of the PAR_SUB messages `subs` to SUBS_SET (rule R30).

    If SUBS_SET has an entry of the subscription already, the entry with the more distant origin stays. Entries with a
    tombstone are dropped.
    """
    node = turn.node
    known = [*node.routing_entry.values()]
    known += [
        SubscriptionEntry(id_, origin, distance, None, None)
        for one in subs
        for id_, origin, distance in one.message.entries or ()
    ]
    best: dict[int, SubscriptionEntry] = {}
    for entry in sorted(known, key=_farthest):
        if entry.subscription_id not in node.tombstone:
            best.setdefault(entry.subscription_id, entry)
    node.routing_entry = best


def _farthest(entry: SubscriptionEntry) -> tuple[float, int, float]:
    distance = float("inf") if entry.distance is None else -entry.distance
    return distance, entry.origin, float("inf") if entry.first_hop is None else entry.first_hop


def _end_recovery(turn: Turn) -> None:
    """Ends the recovery of this node (Algorithm 5, lines 11 to 19).

    Sends STATUS to all peers. A node that can reach another node becomes OPERATIONAL* and issues REJOIN; a node that
    can reach no other node becomes OPERATIONAL. Phase 4 computes the recipients of the publications in ProcessingList
    again (rule R32).
    """
    node, status = turn.node, turn.node.own_status
    if status is None:
        return
    is_alone = not any(one.distance and one.responsible is not None for one in node.path.values())
    status.status = "OPERATIONAL" if is_alone else "REJOINING"
    bypass.tell_peers(turn)
    turn.guided = [m for m in node.processing_list.values() if m.kind == "PUB"]
    if is_alone:
        turn.ctx.status("OPERATIONAL")
        turn.entered.append(bypass.ABANDONED)
    else:
        turn.issue("REJOIN", -status.incarnation, 0, join_point=turn.id)


_LOW = -1
"""The trigger of PAR_TOP and PAR_SUB to a recovering node. It sorts them behind resent messages, and their ranks sort
them behind all other messages with this trigger (rules R10 and R36). Copies of this round's messages follow them.
"""


def hand_over(turn: Turn) -> None:
    """Sends PAR_TOP and PAR_SUB for each SYN_REQUEST that this node can answer (Algorithm 7, lines 13 to 20).

    A node that is RECOVERING itself first waits for the answers of its own synchronisation points (rule R28). It does
    not wait for points whose path begins with the same neighbour as the path to the requesting node.
    """
    node = turn.node
    for peer in [one for one in node.syn_request if not _waits(turn, one)]:
        del node.syn_request[peer]
        routes = _routes(turn, peer)
        near = {target for target, route in routes.items() if len(route) <= turn.delta + 2}
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


def _routes(turn: Turn, peer: int) -> dict[int, tuple[int, ...]]:
    """Returns the path from the recovering node `peer` to each node X in the view of this node S.

    The path goes back from `peer` to the last common node of the two paths from S, and then on to X.
    """
    node = turn.node
    if peer not in node.path:
        return {}
    to_peer = node.path[peer].path
    found = {}
    for one in node.path.values():
        shared = len({*to_peer} & {*one.path})
        found[one.target] = (*to_peer[::-1][: len(to_peer) - shared + 1], *one.path[shared:])
    return found


def _entries(turn: Turn, peer: int, routes: dict[int, tuple[int, ...]]) -> tuple[ToldEntry, ...]:
    """Returns the entries of PAR_SUB for the recovering node `peer` (rule R30).

    The result has each entry whose origin is not behind `peer`. An origin more than δ+1 hops from `peer` is replaced by
    the node δ+1 hops away. The result also has each entry behind `peer` whose origin is the subscriber itself and is at
    most δ+1 hops from `peer`. A node is behind `peer` if the path to it leads through `peer`.
    """
    reach, found = turn.delta + 2, []
    subscribers = turn.ctx.run.subscribers
    for entry in turn.node.routing_entry.values():
        route = routes.get(entry.origin)
        if route is None or entry.origin == peer:
            continue
        is_behind = peer in turn.node.path[entry.origin].path
        if is_behind and not (entry.origin == subscribers.get(entry.subscription_id) and len(route) <= reach):
            continue
        origin = route[turn.delta + 1] if len(route) > reach else entry.origin
        if origin != peer:
            found.append(ToldEntry(entry.subscription_id, origin, min(len(route) - 1, turn.delta + 1)))
    return tuple(found)
