"""Reliable forwarding: Algorithm 1, with the Guided messages of section 6.1."""

from __future__ import annotations

from oracles.delta.messages import Envelope, Item, Multicast, Recipient
from oracles.delta.node import Entry, Node, Status
from oracles.delta.view import Path, link


def receive(node: Node, envelope: Envelope) -> None:
    """Algorithm 1, lines 1 to 9: accepts a first copy; the sender of a duplicate waits, or receives a Conf."""
    m: Multicast = envelope.body
    node.network.count["guided"] += m.to is not None
    if node.status is Status.DETACHED:
        return
    if node.status is Status.RECOVERING and m.to is None:
        node.network.note("plain message at a RECOVERING node", node.name, m.key)
        return
    sender = (envelope.src, envelope.src_incarnation)
    if not node.detector.is_duplicate(m):
        if m.key in node.handled:
            node.network.note("duplicate judged a first copy", node.name, m.key)
        accept(node, m, sender)
        return
    node.network.count["duplicates"] += 1
    if m.key not in node.handled:
        refuse(node, m)
    item = node.processing.get(m.key)
    if item is None:
        _confirm(node, m, sender)
        return
    item.senders.add(sender)
    if node.status is Status.RECOVERING:
        route(node, item, {path[-1]: path for path, _ in m.to or () if path[-1] not in item.gamma})
        send_waiting(node, item)


def refuse(node: Node, m: Multicast) -> None:
    """Rejects a first copy of ``m`` that the detector judges a duplicate, because newer messages of its source arrived.

    The newer messages came through a partner M. On this node's SynRequest, M sent all messages that were unconfirmed on
    this node's side; m was not one of them, because it had been confirmed to M for all nodes behind this node. M's
    routing information about m is in its PAR_SUB, which has low priority: the newer messages overtook it, and if M
    fails, it never arrives. Therefore a synchronising node takes the routing information of rejected messages; taking
    it repeatedly has no further effect.
    """
    if node.synchronises:
        update_routing(node, m, m.origin_path)
    is_known = {
        "SUB": m.subscription in node.entries or m.subscription in node.removed,
        "UNSUB": m.subscription in node.removed,
        "J": m.kind == "J" and node.view.marks.get(link(m.source, m.join_point)) is False,
    }
    node.network.refused.append((node.name, m, is_known.get(m.kind, True)))


def accept(node: Node, m: Multicast, sender: tuple[int, int] | None) -> Item:
    """Algorithm 1, lines 10 to 18, for a first copy; ``sender`` None stands for a message of the node itself."""
    item = Item(
        message=m,
        msg_id=m.stamp if sender is None else node.stamp(),
        toward=None if sender is None else node.view.first_hop(sender[0]),
        senders=set() if sender is None else {sender},
        origin_path=m.origin_path,
        is_guided=node.status is Status.RECOVERING,
    )
    node.detector.update(m if sender else m.copy(visited=((node.name, m.stamp),)))
    node.handled.add(m.key)
    node.processing[m.key] = item
    if m.origin is not None and node.status is not Status.RECOVERING:
        item.origin_path = node.view.paths.get(m.origin, m.origin_path)
    if item.is_guided:
        paths = m.to or ()
        item.gamma = {path[-1]: Recipient(path, is_confirmed=True) for path, is_done in paths if is_done}
        route(node, item, {path[-1]: path for path, is_done in paths if not is_done})
    route(node, item, recipients(node, item))
    send_waiting(node, item)
    deliver(node, item)
    settle(node, item)
    return item


def scope(node: Node, item: Item) -> dict[int, Path]:
    """Returns RCPT_N without the recipients that lie toward the sender (settled rule 2)."""
    m, view = item.message, node.view
    if m.kind == "PUB" and node.status is Status.RECOVERING:
        return {}
    if m.kind == "PUB":
        origins = {node.entries[s].origin for s in m.matches if s in node.entries}
        chosen = {x: view.paths[x] for x in origins if x in view.paths}
    elif m.kind in ("J", "REJOIN"):
        chosen = _around(node, m)
    else:
        chosen = view.paths
    return {x: path for x, path in chosen.items() if len(path) == 1 or path[1] != item.toward}


def recipients(node: Node, item: Item) -> dict[int, Path]:
    """Returns the nodes of the scope that are neither in Γ nor behind a node that has confirmed for all behind it."""
    done = {x for x, r in item.gamma.items() if r.is_confirmed}
    return {x: path for x, path in scope(node, item).items() if x not in item.gamma and done.isdisjoint(path)}


def _around(node: Node, m: Multicast) -> dict[int, Path]:
    """Returns the recipients of a J, within δ hops of the join point, or of a REJOIN, within δ+1 hops of its source."""
    center, reach = (m.join_point, node.delta) if m.kind == "J" else (m.source, node.delta + 1)
    view = node.view
    if center not in view.paths:
        return {}
    joiner = m.source if m.kind == "J" else None
    return {x: path for x, path in view.paths.items() if x != joiner and len(view.between(x, center)) - 1 <= reach}


def deliver(node: Node, item: Item) -> None:
    """Delivers a publication to the application when its first copy is accepted (settled rule 12)."""
    m = item.message
    if m.kind != "PUB" or node.name not in item.gamma or not node.own & m.matches:
        return
    if m.seq > node.delivered.get(m.source, -1):
        node.delivered[m.source] = m.seq
        node.network.deliveries.append((node.name, m.source, m.seq, node.network.round))


def route(node: Node, item: Item, gamma: dict[int, Path]) -> None:
    """Makes the closest connected node toward each recipient in ``gamma`` responsible for the recipient (line 15)."""
    for x, path in gamma.items():
        recipient = item.gamma[x] = Recipient(path, node.closest(path))
        if recipient.responsible is not None:
            item.unsent.add(recipient.responsible)


def extend(node: Node) -> None:
    """Adds nodes that have come into view to the recipients of the unconfirmed messages (settled rule 16)."""
    for item in node.processing.values():
        if item.message.kind != "PUB":
            route(node, item, recipients(node, item))


def flush(node: Node) -> None:
    """Sends all unsent messages whose connections are open, in ProcessingList order."""
    for item in list(node.processing.values()):
        send_waiting(node, item)


def send_waiting(node: Node, item: Item) -> None:
    """Sends the copies of a message whose connections have opened (settled rule 20)."""
    for peer in sorted(item.unsent):
        if peer not in node.connections:
            item.unsent.discard(peer)
        elif node.connections[peer].is_open:
            item.unsent.discard(peer)
            transmit(node, item, peer)


def transmit(node: Node, item: Item, peer: int) -> None:
    """make_copy_send: sends a copy with a new visited list, a rewritten ``from``, and the paths of a Guided message."""
    paths = item.through(peer)
    if not paths:
        return
    m = item.message
    hops = paths[0][: paths[0].index(peer) + 1]
    pairs = (*m.visited, (node.name, item.msg_id), *((x, None) for x in hops[1:-1]))
    m = m.copy(visited=pairs[-node.delta - 1 :], to=None)
    if m.origin is not None:
        back = (*reversed(hops), *item.origin_path[1:])[: node.delta + 2]
        m = m.copy(origin=back[-1], origin_path=back)
    if node.connections[peer].is_recovering:
        behind = [r for r in item.gamma.values() if peer in r.path]
        m = m.copy(to=tuple((r.path[r.path.index(peer) :], r.is_confirmed or r.is_reopened) for r in behind))
    else:
        node.network.passed_over(hops)
    node.network.send(node, peer, "MULTICAST", m)


def settle(node: Node, item: Item) -> None:
    """Algorithm 1, lines 25 to 31, if Out is empty."""
    if item.out or item.message.key not in node.processing:
        return
    del node.processing[item.message.key]
    if node.name in item.gamma or item.message.source == node.name:
        update_routing(node, item.message, item.origin_path)
    for sender in sorted(item.senders):
        _confirm(node, item.message, sender)
    if item.message.source == node.name:
        node.network.confirmed(node, item.message)


def update_routing(node: Node, m: Multicast, origin_path: Path) -> None:
    """update_routing_information for a J, SUB or UNSUB."""
    if m.kind == "J":
        node.view.unmark(link(m.source, m.join_point))
    elif m.kind == "SUB":
        node.merge_entry(m.subscription, Entry(origin_path[-1], len(origin_path) - 1))
        if m.source == node.name and m.subscription in node.entries:
            node.own.add(m.subscription)
    elif m.kind == "UNSUB":
        node.remove_entry(m.subscription)
        node.own.discard(m.subscription)


def confirmation(node: Node, envelope: Envelope) -> None:
    """Handles a Conf: all recipients for which the peer was responsible are confirmed (line 22)."""
    item = node.processing.get(envelope.body)
    if item is None:
        return
    for recipient in item.gamma.values():
        recipient.is_confirmed = recipient.is_confirmed or recipient.responsible == envelope.src
    settle(node, item)


def _confirm(node: Node, m: Multicast, sender: tuple[int, int]) -> None:
    node.network.send(node, sender[0], "CONF", m.key, incarnation=sender[1])
