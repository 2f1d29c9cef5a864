"""Recovery (section 6, Algorithms 4 to 6; rules R20 to R33): of R, and what its synchronisation points do first."""

from __future__ import annotations

from typing import NamedTuple

from udfs.delta import bypass, connections, view
from udfs.delta.handover import hand_over
from udfs.delta.recipients import in_view, new_members
from udfs.delta.records import Entry, Peer, Processing, Recipient, Status, SynRequested, Tombstone
from udfs.delta.turn import Copy, Turn
from udfs.nodes.keyed import Keyed
from udfs.nodes.step import Received

_CONCERNING = (
    "DETECT", "JOIN_REQUEST", "CON_REQUEST", "SYN_REQUEST", "STATUS", "PAR_TOP", "PAR_SUB"
)  # fmt: skip


class Answer(NamedTuple):
    """What a message about a connection says of its sender.

    Attributes:
        peer: What N knows from now on.
        kind: The kind of the message.
        is_new: Whether N has sent nothing to this incarnation yet.
    """

    peer: Peer
    kind: str
    is_new: bool


def handle_faults(turn: Turn) -> None:
    """Phase 1: crashes, recovery, detections, connections and synchronisation, in this order."""
    connections.notice_crashes(turn)
    if not turn.is_disturbed:
        return
    node = turn.node
    if not (turn.due.is_recovered or node.is_recovering or node.syn_request or turn.has(*_CONCERNING)):
        return
    before = {(one.peer, -1 if one.incarnation is None else one.incarnation) for one in node.peer.values()}
    if turn.due.is_recovered:
        _come_back(turn)
    bypass.bypass(turn)
    if turn.has("CON_REQUEST", "SYN_REQUEST", "STATUS", "PAR_TOP"):
        _connect(turn)
    _learn(turn)
    hand_over(turn)
    for one in node.peer.values():
        known = one.peer, -1 if one.incarnation is None else one.incarnation
        if one.status != "FAILED" and known not in before:
            made = connections.Connection(one.peer, one.incarnation, one.latency_rounds or 0)
            connections.watch(turn, [made])
    if node.is_recovering and not node.is_waiting_for_answers():
        _rise(turn)


def _come_back(turn: Turn) -> None:
    """Algorithm 5, lines 1 to 7: TOP_R from storage, Synch_R asked; an unfinished join starts again."""
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
        node.routing_entry[one] = Entry(one, turn.id, 0, turn.id, turn.id)
    view.look(turn)
    neighbours = {one.target: one.path for one in node.path.values() if one.distance == 1}
    connections.synchronise(turn, neighbours)


def _connect(turn: Turn) -> None:
    """Algorithms 4 and 7: handles CON_REQUEST, SYN_REQUEST, STATUS and the join point's PAR_TOP."""
    node = turn.node
    answers = _answers(turn)
    if node.is_detached:
        answers = [one for one in answers if one.kind == "PAR_TOP"]
    _take_answers(turn, answers)
    if turn.has("SYN_REQUEST", "CON_REQUEST"):
        view.learn_links(turn, _told_links(turn))
    if answers:
        view.look_again(turn)
    for one in answers:
        if one.kind == "SYN_REQUEST":
            node.syn_request[one.peer.peer] = SynRequested(one.peer.peer)
    connections.answer(turn)
    if answers:
        _send_again(turn, answers)
        _ask_again(turn, answers)


def _answers(turn: Turn) -> list[Answer]:
    """Returns the last status that messages about connections report of each sender.

    A CON_REQUEST comes from a node that is OPERATIONAL, a SYN_REQUEST from one that is RECOVERING; a STATUS counts
    where N has a connection. It does not where N suspects a former incarnation of the sender: what went through that
    has another way by now, and new messages would overtake it. N waits for the SYN_REQUEST.
    """
    found: dict[int, Answer] = {}
    for one in turn.of("CON_REQUEST", "SYN_REQUEST", "STATUS", "PAR_TOP"):
        is_offer = one.kind == "PAR_TOP" and one.message.source_seq is None
        if is_offer or (one.kind == "STATUS" and one.message.status == "DETACHED"):
            continue
        known, incarnation = turn.node.peer.get(one.src), one.message.incarnation
        if one.kind == "STATUS" and known is not None and _is_outdated(known, incarnation):
            continue
        connected = 0 if known is None else known.incarnation
        is_new = (known is not None and known.status == "WAITING") or (
            connected is not None and connected < incarnation
        )
        peer = Peer(one.src, _status_of(one), incarnation, turn.round - one.sent_round)
        found.pop(one.src, None)
        found[one.src] = Answer(peer, one.kind, is_new)
    return list(found.values())


def _is_outdated(known: Peer, incarnation: int) -> bool:
    return known.status == "FAILED" or (known.incarnation is not None and known.incarnation > incarnation)


def _status_of(one: Received) -> str:
    if one.kind == "STATUS":
        return str(one.message.status)
    return "RECOVERING" if one.kind == "SYN_REQUEST" else "OPERATIONAL"


def _take_answers(turn: Turn, answers: list[Answer]) -> None:
    for one in answers:
        turn.node.peer[one.peer.peer] = one.peer
    forget_behind(turn, [one.peer.peer for one in answers if one.kind != "STATUS"], [one.peer.peer for one in answers])


def forget_behind(turn: Turn, back: list[int], told: list[int]) -> None:
    """A node behind a recovered node counts as up again: it has told the nodes in between, not N."""
    node = turn.node
    for peer in node.peer.values():
        path = node.path.get(peer.peer)
        is_behind = path is not None and any(nearer in path.path for nearer in back)
        if is_behind and peer.status == "FAILED" and peer.peer not in told:
            del node.peer[peer.peer]


def _told_links(turn: Turn) -> list[view.LinkRow]:
    """Returns the links that SYN_REQUEST, CON_REQUEST and PAR_TOP bring."""
    told = [one for one in turn.of("SYN_REQUEST", "CON_REQUEST", "PAR_TOP")
            if one.kind != "PAR_TOP" or one.message.source_seq is None]  # fmt: skip
    return [(a, b, is_marked) for one in told for a, b, is_marked in one.message.links or ()]


def _send_again(turn: Turn, answers: list[Answer]) -> None:
    """Sends what waited for peers that answer (rule R20), and to nodes that came back PrevOut (Alg. 7, 8 to 11).

    Recipients that have come into view join first, so that everything leaves in the order of ProcessingList.
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
    """PrevOut_S^R: sends R what it is responsible for from now on (rule R26); returns the recipients.

    They are those with R on the way that have not confirmed; and R itself of what changes routing information and is in
    its scope, even if it had confirmed: it has lost that, and the snapshot that S sends has it only once the message is
    finished at S. What lies behind R is not asked for again then. Of two nodes of one path that ask in one round both
    get the message, and the last one is responsible.
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


def _ask_again(turn: Turn, answers: list[Answer]) -> None:
    """A synchronisation point that came back itself has not got R's SYN_REQUEST: R asks again (rule R28)."""
    node = turn.node
    again = [one.peer.peer for one in answers if one.kind == "SYN_REQUEST" and one.is_new]
    asked = [peer for peer in again if peer in node.synch and not node.synch[peer].is_answered and peer in node.path]
    connections.synchronise(turn, {peer: node.path[peer].path for peer in asked})


def _learn(turn: Turn) -> None:
    """Algorithm 6, lines 11 to 15: PAR_TOP and PAR_SUB of synchronisation points."""
    node = turn.node
    came = [one for one in turn.of("PAR_TOP", "PAR_SUB") if one.message.source_seq is None]
    if not came:
        return
    view.learn_links(turn, _told_links(turn))
    subs = [one for one in came if one.kind == "PAR_SUB"]
    for one in subs:
        for ended in one.message.tombstones or ():
            node.tombstone[ended] = Tombstone(ended)
        if one.src in node.synch:
            node.synch[one.src].is_answered = True
    if subs:
        _merge_entries(turn, subs)
    view.look_again(turn)


def _merge_entries(turn: Turn, subs: list[Received]) -> None:
    """SUBS_SET_R grows: per subscription the from that is farthest from R (rule R30)."""
    node = turn.node
    known = [*node.routing_entry.values()]
    known += [
        Entry(id_, origin, distance, None, None) for one in subs for id_, origin, distance in one.message.entries or ()
    ]
    best: dict[int, Entry] = {}
    for entry in sorted(known, key=_farthest):
        if entry.subscription_id not in node.tombstone:
            best.setdefault(entry.subscription_id, entry)
    node.routing_entry = best


def _farthest(entry: Entry) -> tuple[float, int, float]:
    distance = float("inf") if entry.distance is None else -entry.distance
    return distance, entry.origin, float("inf") if entry.first_hop is None else entry.first_hop


def _rise(turn: Turn) -> None:
    """Algorithm 5, lines 11 to 19: R is OPERATIONAL*: STATUS to all peers, REJOIN, Γ of Guided messages again."""
    node, status = turn.node, turn.node.own_status
    if status is None:
        return
    is_alone = not any(one.distance and one.responsible is not None for one in node.path.values())
    status.status = "OPERATIONAL" if is_alone else "REJOINING"
    connections.tell_peers(turn)
    turn.guided = [m for m in node.processing_list.values() if m.kind == "PUB"]
    if is_alone:
        turn.ctx.status("OPERATIONAL")
        turn.entered.append(bypass.ABANDONED)
    else:
        rejoin = Copy("REJOIN", turn.id, -status.incarnation, 0, None, issued_round=turn.round, join_point=turn.id)
        turn.copies.append(rejoin)
