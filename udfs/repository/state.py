"""All that a node keeps; parts of other roles stay empty."""

from __future__ import annotations

from udfs.nodes.program import NodeProgram, appended, keyed, one, ordered
from udfs.nodes.records import record
from udfs.repository import client_records as client, repository_records as repository


@record()
class NodeRole:
    """The role of a node.

    Attributes:
        role: ``client``, ``repository`` or ``broker``.
    """

    role: str = "broker"


@record(key="neighbour")
class Neighbour:
    """A link of a node.

    Attributes:
        neighbour: The other end.
        latency_rounds: Its latency.
    """

    neighbour: int
    latency_rounds: int


@record(key="src, dst")
class Link:
    """A directed link of the overlay, at a node that has a choice of routes.

    Attributes:
        src: Its start.
        dst: Its end.
        latency_rounds: Its latency.
        is_relay: Whether its end is a broker.
        is_repository: Whether its end is a repository.
    """

    src: int
    dst: int
    latency_rounds: int
    is_relay: bool
    is_repository: bool


@record(key="dst")
class Hop:
    """The next hop of an event (rule P29).

    Attributes:
        dst: Its receiver.
        next: The neighbour on the way there.
    """

    dst: int
    next: int


@record(key="broker")
class Down:
    """A broker that is down.

    Attributes:
        broker: Its id.
    """

    broker: int


@record(key="node")
class Announced:
    """A node that is to route over this broker again, and has not answered yet (rule P31).

    Attributes:
        node: Its id.
        up_round: Round of this broker's recovery.
    """

    node: int
    up_round: int


@record(key="subscription_id")
class Home:
    """The client of a subscription, to which messages that satisfy it are routed.

    Attributes:
        subscription_id: The subscription.
        client: Its client.
    """

    subscription_id: int
    client: int


class State(NodeProgram):
    """The tables of a node. Durable ones survive its crash (rules P9 and P20)."""

    own = one(NodeRole, is_durable=True)
    neighbour = keyed(Neighbour, is_durable=True)
    link = keyed(Link, is_durable=True)
    hop = keyed(Hop)
    down = keyed(Down)
    announced = keyed(Announced)

    home = keyed(Home, is_durable=True)
    bundle = keyed(client.Bundle, is_durable=True)
    steering = keyed(client.Steering)
    publishing = keyed(client.Publishing)
    queued = ordered(client.Queued)
    unstable = keyed(client.Unstable)
    registering = keyed(client.Registering)
    subscribed = keyed(client.Subscribed, is_durable=True)
    mark = keyed(client.Mark, is_durable=True)
    reading = keyed(client.Reading)
    buffered = keyed(client.Buffered)
    expected = keyed(client.Expected)
    unsynced = keyed(client.Unsynced)
    ordered_delivery = appended(client.OrderedDelivery, is_durable=True)

    log = keyed(repository.Log, is_durable=True)
    slot = keyed(repository.Slot, is_durable=True)
    orphan = keyed(repository.Orphan, is_durable=True)
    incarnation = keyed(repository.Incarnation, is_durable=True)
    subscriber = keyed(repository.Subscriber, is_durable=True)
    registration = keyed(repository.Registration, is_durable=True)
    confirming = keyed(repository.Confirming)
    designation = keyed(repository.Designation, is_durable=True)
    member = keyed(repository.Member, is_durable=True)
    acknowledged = keyed(repository.Acknowledged, is_durable=True)
    duty = keyed(repository.Duty)
    numbered = keyed(repository.Numbered)
    located = keyed(repository.Located)
    identity = keyed(repository.Identity)
    lacking = keyed(repository.Lacking)
    missed = keyed(repository.Missed)
    live = keyed(repository.Live)
    peer = keyed(repository.Peer)
    held = keyed(repository.PeerPrefix)
    foreign_ack = keyed(repository.ForeignAck)
    foreign_sync = keyed(repository.ForeignSync)
    storing = keyed(repository.Storing)
