"""The join operation (section 4.6, Alg. 2; rules R5, R6, R16, R17), and application calls that wait for a join to end.

The steps for a joining node N and its join point M:

1. Join call at N: N sends JOIN_REQUEST to M and stays DETACHED.
2. JOIN_REQUEST at M, once M is VALID_JOINED: M adds the marked link N-M to TOP_M and sends PAR_TOP and PAR_SUB. N
   becomes a recipient of every SUB, UNSUB and REJOIN in M's ProcessingList, and of every J whose scope contains N.
3. PAR_TOP at N: N stores TOP_N, marks its own link, becomes ATTACHED and issues J. PAR_SUB at N: N stores SUBS_SET_N.
4. Confirmation of J at N: N becomes VALID_JOINED and issues the waiting calls.
"""

from __future__ import annotations

from dataclasses import replace

from udfs.delta import bypass, view
from udfs.delta.messages import ParSub, ParTop, ToldEntry, ToldLink
from udfs.delta.recovery import forget_behind
from udfs.delta.state import JoinRequest, PeerState, Recipient, SubscriptionEntry, WaitingCall
from udfs.delta.turn import CALL, Turn
from udfs.nodes.calls import Call, JoinCall, PublishCall, SubscribeCall, UnsubscribeCall

_ISSUED = {"publish": "PUB", "subscribe": "SUB", "unsubscribe": "UNSUB"}


def handle_joins(turn: Turn) -> None:
    """Phase 3: handles JOIN_REQUEST, PAR_TOP and PAR_SUB, marks the links of received J, and issues the node's calls.

    A node issues calls only if it is VALID_JOINED and OPERATIONAL.
    """
    node = turn.node
    for call in turn.due.calls:
        if isinstance(call, JoinCall):
            _send_join_request(turn, call)
    links = _take_offer(turn) if turn.has("PAR_TOP", "PAR_SUB") else []
    if node.join or node.status:
        _advance_status(turn)
    calls = _ready_calls(turn) if turn.due.calls or node.call else []
    if links or node.join_request or turn.has("JOIN_REQUEST", "J"):
        links += _answer_requests(turn)
        links += [view.link_of(one.message.source, one.message.join_point, is_marked=True) for one in turn.of("J")]
        if links:
            view.merge_links(node, links)
            view.compute_paths(turn)
    for ready in calls:
        turn.ctx.issue(ready.source_seq)
        origin = None if ready.kind == "publish" else turn.id
        trigger = CALL + ready.source_seq
        turn.issue(_ISSUED[ready.kind], ready.source_seq, trigger, ready.subscription_id, origin, matches=ready.matches)


def _send_join_request(turn: Turn, call: JoinCall) -> None:
    """Starts Algorithm 2 at the joining node: sends JOIN_REQUEST to the join point that `call` names."""
    turn.ctx.issue(call.source_seq)
    join = turn.node.own_join
    join_point = call.join_point if call.join_point is not None else -1
    bypass.request_join(turn, CALL + call.source_seq, join_point, call.source_seq)
    if join is not None and turn.ctx.run.has_crashes:
        join.is_asked = True
        bypass.watch(turn, bypass.join_point_connection(turn))


def _advance_status(turn: Turn) -> None:
    """Advances the status of this node.

    A joining node becomes ATTACHED, CONFIRMED or VALID_JOINED. A recovered node becomes OPERATIONAL (Alg. 5, line 23).
    """
    node, join = turn.node, turn.node.own_join
    confirmed = {one.m.kind: one.trigger for one in turn.finished if one.m.source == turn.id}
    if join is not None and join.status != "VALID_JOINED":
        before = join.status
        if "J" in confirmed or before == "CONFIRMED":
            join.status = "CONFIRMED" if node.is_waiting_for_answers() else "VALID_JOINED"
        elif before == "DETACHED" and any(one.message.source_seq is not None for one in turn.of("PAR_TOP")):
            join.status = "ATTACHED"
        if join.status not in (before, "CONFIRMED"):
            turn.ctx.status(join.status)
        if join.status == "VALID_JOINED":
            turn.entered.append(-1)
            if turn.is_disturbed:
                bypass.tell_peers(turn)
    status = node.own_status
    if status is not None and "REJOIN" in confirmed:
        status.status = "OPERATIONAL"
        turn.ctx.status("OPERATIONAL")
        turn.entered.append(confirmed["REJOIN"])


def _take_offer(turn: Turn) -> list[ToldLink]:
    """Handles PAR_TOP and PAR_SUB of the join point at the joining node: issues J and stores the routing entries.

    Only a DETACHED node issues J: a join point that has received JOIN_REQUEST twice sends two answers.

    Returns the links of PAR_TOP without marks, and the marked link to the join point.
    """
    links = list[ToldLink]()
    for one in turn.of("PAR_TOP"):
        if one.message.source_seq is not None:
            links += [link._replace(is_marked=False) for link in one.message.links or ()]
            links.append(view.link_of(one.src, turn.id, is_marked=True))
            if turn.node.is_detached:
                turn.issue("J", one.message.source_seq, one.message_id, join_point=one.src)
    for one in turn.of("PAR_SUB"):
        if one.message.source_seq is not None:
            for id_, origin, distance in one.message.entries or ():
                turn.told.append((one.message_id, SubscriptionEntry(id_, origin, distance, one.src, one.src)))
    return links


def _ready_calls(turn: Turn) -> list[WaitingCall]:
    """Returns the calls to issue in this round: first the waiting calls, then the due calls (rule R33).

    A blocked node issues no calls: its due calls wait, and the result is empty.
    """
    node = turn.node
    due = [_waiting(call) for call in turn.due.calls if not isinstance(call, JoinCall)]
    if node.is_blocked:
        for call in due:
            node.call[call.source_seq] = call
        return []
    ready = [*node.call.values(), *due]
    node.call.clear()
    return ready


def _waiting(call: Call) -> WaitingCall:
    subscription = call.subscription_id if isinstance(call, (SubscribeCall, UnsubscribeCall)) else None
    matches = call.matches if isinstance(call, PublishCall) else ()
    return WaitingCall(call.source_seq, call.kind, subscription, matches or None)


def _answer_requests(turn: Turn) -> list[ToldLink]:
    """Answers each JOIN_REQUEST at the join point. Returns the new, marked links to the joining nodes.

    A blocked join point stores the requests and returns no links.
    """
    node = turn.node
    opened = _open_requests(turn)
    if node.is_blocked:
        for request, _ in opened:
            node.join_request[request.joiner] = request
        return []
    accepted = [(request, trigger) for request, trigger in opened if trigger is not None]
    for request, trigger in accepted:
        node.join_request.pop(request.joiner, None)
        turn.accepted[request.joiner] = trigger
    if turn.is_disturbed:
        _connect_joiners(turn, [request for request, _ in accepted])
    entries = dict(node.routing_entry.items()) if accepted else {}
    if accepted:
        view.change_entries(entries, view.changes_of(turn, turn.finished, turn.told))
    for request, trigger in accepted:
        _send_offer(turn, request, trigger, entries)
    for request, trigger in accepted:
        _add_joiner(turn, request.joiner, trigger)
    return [view.link_of(turn.id, request.joiner, is_marked=True) for request, _ in accepted]


def _open_requests(turn: Turn) -> list[tuple[JoinRequest, int | None]]:
    """Returns the join requests that arrive in this round or wait at this join point, ascending by joining node.

    Each request has the trigger of its answer, or None if it waits for the end of the join point's own join.
    A new request replaces the waiting request of its sender: a joining node may repeat its request before the answer.
    """
    now = max(turn.entered, default=None)
    found = {one.joiner: (one, now) for one in turn.node.join_request.values()}
    for one in turn.of("JOIN_REQUEST"):
        seq, incarnation, trigger = one.message.source_seq, one.message.incarnation, one.message_id
        if one.src in found:
            known, earlier = found[one.src]
            seq, incarnation = max(seq, known.source_seq), max(incarnation, known.incarnation)
            trigger = max(trigger, trigger if earlier is None else earlier)
        found[one.src] = JoinRequest(one.src, seq, incarnation), trigger
    return [found[joiner] for joiner in sorted(found)]


def _connect_joiners(turn: Turn, accepted: list[JoinRequest]) -> None:
    """Opens the connections of the join point to the senders of the `accepted` requests."""
    peers = []
    for request in accepted:
        latency = turn.ctx.run.links.get((turn.id, request.joiner))
        if latency is not None:
            turn.node.peer[request.joiner] = PeerState(request.joiner, "OPERATIONAL", request.incarnation, latency)
            peers.append(request.joiner)
    forget_behind(turn, peers, peers)
    bypass.watch(turn, [turn.node.peer[peer] for peer in peers])


def _send_offer(turn: Turn, request: JoinRequest, trigger: int, entries: dict[int, SubscriptionEntry]) -> None:
    """Sends PAR_TOP and PAR_SUB to the sender of `request` (rule R16).

    PAR_TOP has the links of the join point's view with both ends within δ hops. PAR_SUB has the routing `entries`. If
    the origin of an entry is more than δ hops away, PAR_SUB names the node at distance δ on the path to the origin.
    Entries whose origin is outside the view are omitted.
    """
    node, delta, to = turn.node, turn.delta, request.joiner
    near = {one.target for one in node.path.values() if one.distance <= delta}
    links = tuple(ToldLink(one.a, one.b, False) for one in node.topology.values() if one.a in near and one.b in near)
    top = ParTop(to, request.source_seq, links or None, node.incarnation, None)
    turn.send(trigger, 0, "PAR_TOP", to, top)
    told = []
    for id_, entry in sorted(entries.items()):
        path = node.path.get(entry.origin)
        if path is not None:
            origin = path.path[delta] if path.distance > delta else entry.origin
            told.append(ToldEntry(id_, origin, min(path.distance + 1, delta + 1)))
    if told:
        turn.send(trigger, 1, "PAR_SUB", to, ParSub(to, request.source_seq, tuple(told), None, None))


def _add_joiner(turn: Turn, joiner: int, trigger: int) -> None:
    """Adds `joiner` to the recipients of messages in the ProcessingList of the join point, and sends it the messages.

    These messages are all SUB, UNSUB and REJOIN, and each J whose scope contains `joiner`. A J that `joiner` issued
    before a crash is excluded: `joiner` and the join point would wait for each other's confirmation.
    """
    node, rank = turn.node, 2
    for m in sorted(node.processing_list.values(), key=lambda one: (one.round, one.trigger)):
        if m.kind == "PUB":
            continue
        if m.kind == "J":
            path = None if m.join_point is None else node.path.get(m.join_point)
            if path is None or path.distance >= turn.delta or m.source == joiner:
                continue
        m.recipients[joiner] = Recipient(None, joiner)
        turn.send(trigger, rank, m.kind, joiner, replace(m, issued_round=None, matches=None))
        rank += 1
