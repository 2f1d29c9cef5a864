"""Failure handling: Algorithms 3 and 4, and the handshake of settled rule 20."""

from __future__ import annotations

from oracles.delta.forwarding import extend, flush, route, send_waiting, settle
from oracles.delta.messages import Envelope
from oracles.delta.node import Connection, Node, Status
from oracles.delta.view import Path


def failures_detected(node: Node, failed: set[int]) -> None:
    """Algorithm 3 for all peers reported in a round."""
    if node.status is Status.DETACHED:
        request_join(node)
        return
    for peer in failed:
        del node.connections[peer]
    node.network.count["partners lost midway"] += len(failed & node.synch)
    if node.status is Status.ATTACHED:
        node.has_bypassed = True
    if node.synchronises:
        for peer in failed:
            node.view.add(node.network.stored_topology(peer))
    _open_new_peers(node, failed)
    node.deferred -= failed
    node.answered -= failed
    for item in list(node.processing.values()):
        hit = {x: r.path for x, r in item.gamma.items() if r.responsible in failed and not r.is_confirmed}
        route(node, item, hit)
        send_waiting(node, item)
        node.network.count["resends"] += len({item.gamma[x].responsible for x in hit} - {None})
        settle(node, item)


def _open_new_peers(node: Node, failed: set[int]) -> None:
    """Lines 5 to 18: connects to the nearest unconnected nodes behind ``failed``.

    A synchronising node also synchronises to stand-ins, the nearest connected nodes on the paths to these nodes.
    """
    paths = node.view.paths
    beyond = {
        x: paths[x]
        for m in failed if m in paths
        for x in node.view.neighbours(m)
        if x in paths and m in paths[x] and x not in failed
    }  # fmt: skip
    partners = failed & node.synch if node.status is Status.RECOVERING else failed
    node.synch -= failed
    fresh = {x for x, path in beyond.items() if node.closest(path) is None and not _has_nearer(path, beyond)}
    nearest = (node.closest(path) for path in beyond.values() if partners.intersection(path))
    stand_ins = {x for x in nearest if x is not None}
    for x in sorted(fresh):
        node.network.count["bypasses"] += 1
        if node.synchronises:
            synchronise_to(node, x)
        else:
            connect(node, x, "CONNECTION_REQUEST", tuple(node.view.marks.items()))
    if node.synchronises:
        for x in sorted(stand_ins - node.synch - node.answered):
            synchronise_to(node, x)


def _has_nearer(path: Path, others: dict[int, Path]) -> bool:
    return any(x in others for x in path[1:-1])


def connect(node: Node, peer: int, kind: str, body: object) -> None:
    """Opens a connection, which is pending until the peer's Status arrives."""
    arrival = node.network.send(node, peer, kind, body, incarnation=None)
    node.connections[peer] = Connection(arrival)


def accept_connection(node: Node, peer: int, incarnation: int, *, is_recovering: bool = False) -> None:
    """Accepts the connection that a peer's request opens; it replaces an older connection to the peer."""
    node.connections[peer] = Connection(node.network.round, incarnation, is_recovering)
    node.network.watch(node, peer)


def synchronise_to(node: Node, peer: int) -> None:
    """Algorithm 6, lines 2 to 8; the request carries the node's own links."""
    node.synch.add(peer)
    node.answered.discard(peer)
    held = node.connections.get(peer)
    arrival = node.network.send(node, peer, "SYN_REQUEST", tuple(node.view.marks.items()), incarnation=None)
    if held is None:
        node.connections[peer] = Connection(arrival)


def request_join(node: Node) -> None:
    """Algorithm 2: the first step of the joining node."""
    node.connections.clear()
    connect(node, node.join_point, "JOIN_REQUEST", None)


def connection_request(node: Node, envelope: Envelope) -> None:
    """Algorithm 4; answers with a Status. Messages that an older incarnation of the peer did not confirm are resent."""
    if node.status is Status.DETACHED:
        send_status(node, envelope.src, envelope.src_incarnation)
        return
    peer = envelope.src
    node.view.add(envelope.body)
    held = node.connections.get(peer)
    if held is None or held.incarnation != envelope.src_incarnation:
        for item in node.processing.values():
            item.unsent |= item.out & {peer}
    accept_connection(node, peer, envelope.src_incarnation)
    send_status(node, peer, envelope.src_incarnation)
    extend(node)
    flush(node)


def send_status(node: Node, peer: int, incarnation: int | None) -> None:
    """Sends a peer a STATUS, which states whether messages for the node must be Guided."""
    told = node.status if node.status in (Status.DETACHED, Status.RECOVERING) else Status.OPERATIONAL
    node.network.send(node, peer, "STATUS", told, incarnation=incarnation)


def status(node: Node, envelope: Envelope) -> None:
    """Handles a peer's Status: opens the pending connection, and sends the waiting messages in order."""
    held = node.connections.get(envelope.src)
    if held is None or node.status is Status.DETACHED:
        return
    if envelope.body is Status.DETACHED:
        failures_detected(node, {envelope.src})
        return
    if held.is_open and held.incarnation != envelope.src_incarnation:
        return
    held.incarnation = envelope.src_incarnation
    held.is_recovering = envelope.body is Status.RECOVERING
    flush(node)
