"""The join point's part of Algorithm 2."""

from __future__ import annotations

from oracles.delta.connections import accept_connection, failures_detected
from oracles.delta.messages import Envelope
from oracles.delta.node import Node, Status
from oracles.delta.recovery import resend, send_par_sub, send_par_top
from oracles.delta.view import link


def join_request(node: Node, envelope: Envelope) -> None:
    """Stores a JoinRequest; a connection to an older incarnation of the joining node is closed as failed."""
    node.requests[envelope.src] = envelope.src_incarnation
    if envelope.src in node.connections:
        failures_detected(node, {envelope.src})
    serve_requests(node)


def serve_requests(node: Node) -> None:
    """Answers the waiting JoinRequests if the node is VALID_JOINED."""
    if node.status is not Status.OPERATIONAL:
        return
    for joiner, incarnation in sorted(node.requests.items()):
        del node.requests[joiner]
        node.view.add([(link(node.name, joiner), True)])
        accept_connection(node, joiner, incarnation)
        send_par_top(node, joiner, is_low=False)
        resend(node, joiner)
        send_par_sub(node, joiner)
