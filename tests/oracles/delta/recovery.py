"""Recovery: Algorithms 5, 6 and 7, and the end of a join, which collects routing information like a recovery."""

from __future__ import annotations

from oracles.delta.connections import accept_connection, request_join, send_status, synchronise_to
from oracles.delta.forwarding import accept, deliver, extend, flush, recipients, route, scope, send_waiting, settle
from oracles.delta.messages import Envelope, Multicast, Recipient
from oracles.delta.node import Entry, Node, Status


def recover(node: Node) -> None:
    """Algorithm 5, lines 1 to 7; an unfinished join starts again."""
    node.forget()
    node.incarnation += 1
    if not node.has_joined:
        node.view.clear()
        node.become(Status.DETACHED)
        request_join(node)
        return
    node.become(Status.RECOVERING)
    for subscription in node.own:
        node.merge_entry(subscription, Entry(node.name, 0))
    for peer in sorted(node.view.neighbours(node.name)):
        synchronise_to(node, peer)
    check_synchronised(node)


def syn_request(node: Node, envelope: Envelope) -> None:
    """Algorithm 7 at the synchronisation point."""
    peer, incarnation = envelope.src, envelope.src_incarnation
    if node.status is Status.DETACHED:
        send_status(node, peer, incarnation)
        return
    node.view.add(envelope.body)
    held = node.connections.get(peer)
    is_new = held is None or held.incarnation != incarnation
    accept_connection(node, peer, incarnation, is_recovering=True)
    send_status(node, peer, incarnation)
    if is_new:
        node.answered.discard(peer)
    if is_new and (peer in node.synch or node.status is Status.ATTACHED):
        synchronise_to(node, peer)
    node.deferred.add(peer)
    answer_deferred(node)
    resend(node, peer)


def resend(node: Node, peer: int) -> None:
    """PrevOut_N^R: makes R responsible for the unconfirmed recipients behind R, and for R's own routing information."""
    extend(node)
    for item in node.processing.values():
        item.unsent.discard(peer)
        behind = [r for r in item.gamma.values() if peer in r.path and not r.is_confirmed]
        if item.message.kind != "PUB" and peer in scope(node, item):
            own = item.gamma.setdefault(peer, Recipient(node.view.paths[peer], is_confirmed=True))
            if own.is_confirmed:
                own.is_reopened, own.is_confirmed = True, False
                behind.append(own)
        for recipient in behind:
            recipient.responsible = peer
        if behind:
            node.network.count["resends"] += 1
            item.unsent.add(peer)
    flush(node)


def answer_deferred(node: Node) -> None:
    """Sends PAR_TOP and PAR_SUB to each deferred peer if no answer is pending on the other sides of the node."""
    hop = node.view.first_hop
    for peer in sorted(node.deferred):
        if node.status is Status.RECOVERING and any(hop(x) != hop(peer) for x in node.synch):
            continue
        node.deferred.discard(peer)
        send_par_top(node, peer, is_low=True)
        send_par_sub(node, peer)


def send_par_top(node: Node, peer: int, *, is_low: bool) -> None:
    """Sends PAR_TOP_N^R: the links within δ+1 hops of R."""
    links = node.view.within(peer, node.delta + 1)
    node.network.send(node, peer, "PAR_TOP", links, low=len(links) if is_low else None)


def send_par_sub(node: Node, peer: int) -> None:
    """Sends PAR_SUB_N^R: the entries in the form in which R must store them, and the tombstones."""
    entries = {s: rewritten for s, entry in node.entries.items() if (rewritten := _rewrite(node, s, entry, peer))}
    node.network.count["PAR_SUB"] += 1
    node.network.send(node, peer, "PAR_SUB", (entries, frozenset(node.removed)), low=len(entries))


def _rewrite(node: Node, subscription: int, entry: Entry, peer: int) -> Entry | None:
    """Applies settled rule 30 to one entry; returns the entry for R, or None."""
    if entry.origin == peer or entry.origin not in node.view.paths:
        return None
    path = node.view.between(peer, entry.origin)
    if peer in node.view.paths[entry.origin]:
        is_subscriber = entry.origin == node.network.subscriber[subscription]
        return Entry(entry.origin, len(path) - 1) if is_subscriber and len(path) <= node.delta + 2 else None
    path = path[: node.delta + 2]
    return Entry(path[-1], len(path) - 1)


def par_top(node: Node, envelope: Envelope) -> None:
    """Algorithm 6, line 13; for a joining node, this ends the first phase (Algorithm 2)."""
    if not _is_current(node, envelope):
        return
    node.view.add(envelope.body)
    if node.status is Status.DETACHED:
        node.connections[envelope.src].incarnation = envelope.src_incarnation
        node.become(Status.ATTACHED)
        node.synch.add(envelope.src)
        stamp = node.stamp()
        accept(node, Multicast("J", node.name, stamp, join_point=node.join_point), None)


def par_sub(node: Node, envelope: Envelope) -> None:
    """Algorithm 6, lines 14 and 15."""
    if not _is_current(node, envelope):
        return
    entries, removed = envelope.body
    for subscription in removed:
        node.remove_entry(subscription)
    for subscription, entry in entries.items():
        node.merge_entry(subscription, entry)
    node.synch.discard(envelope.src)
    node.answered.add(envelope.src)


def _is_current(node: Node, envelope: Envelope) -> bool:
    held = node.connections.get(envelope.src)
    return held is not None and held.incarnation in (None, envelope.src_incarnation)


def check_synchronised(node: Node) -> None:
    """Algorithm 5, lines 8 to 23, if Synch is empty."""
    answer_deferred(node)
    if node.synch or not node.synchronises:
        return
    if node.status is Status.ATTACHED:
        finish_join(node)
        return
    node.become(Status.OPERATIONAL_STAR)
    for peer, connection in sorted(node.connections.items()):
        send_status(node, peer, connection.incarnation)
    _resume_guided(node)
    accept(node, Multicast("REJOIN", node.name, node.stamp()), None)


def _resume_guided(node: Node) -> None:
    """Computes Γ and Out again for messages accepted as Guided (settled rule 32)."""
    for item in list(node.processing.values()):
        if not item.is_guided or item.message.kind != "PUB":
            continue
        item.is_guided = False
        route(node, item, recipients(node, item))
        send_waiting(node, item)
        deliver(node, item)
        settle(node, item)


def finish_join(node: Node) -> None:
    """Makes an ATTACHED node VALID_JOINED if its J is confirmed and its peers have answered."""
    if node.status is not Status.ATTACHED or node.synch or not node.has_joined:
        return
    node.network.count["joins completed through a bypass"] += node.has_bypassed
    for peer, connection in sorted(node.connections.items()):
        send_status(node, peer, connection.incarnation)
    node.network.operational(node)
