"""The tables of a node of protocol ``repository``. A node uses only the tables of its role."""

from __future__ import annotations

from typing import Annotated

from udfs.nodes.program import NodeProgram, appended, keyed, one, ordered
from udfs.nodes.records import record
from udfs.repository import client_records as client, repository_records as repository


@record()
class NodeRole:
    """The role of the node."""

    role: Annotated[str, "client, repository or broker"] = "broker"


@record(key="neighbour")
class Neighbour:
    """A neighbour in the overlay."""

    neighbour: Annotated[int, "id of the neighbour"]
    latency_rounds: Annotated[int, "latency of the link in rounds"]


@record(key="src, dst")
class Link:
    """A directed link of the overlay, as a node knows it. A node with one neighbour stores no links."""

    src: Annotated[int, "id of the sender"]
    dst: Annotated[int, "id of the receiver"]
    latency_rounds: Annotated[int, "latency of the link in rounds"]
    is_relay: Annotated[bool, "whether the receiver is a broker"]
    is_repository: Annotated[bool, "whether the receiver is a repository"]


@record(key="dst")
class Hop:
    """The next hop towards a node (rule P29)."""

    dst: Annotated[int, "id of the receiver"]
    next: Annotated[int, "neighbour on the shortest path to the receiver"]


@record(key="broker")
class Down:
    """A broker that the failure detector has reported as crashed."""

    broker: Annotated[int, "id of the broker"]


@record(key="node")
class Announced:
    """A node that has not acknowledged this broker's recovery (rule P31)."""

    node: Annotated[int, "id of the node"]
    up_round: Annotated[int, "round in which this broker recovered"]


@record(key="subscription_id")
class Home:
    """The client that issued a subscription. Publishers send this client the messages that match the subscription."""

    subscription_id: Annotated[int, "id of the subscription"]
    client: Annotated[int, "id of the client"]


class State(NodeProgram):
    """The tables of a node. Durable tables survive a crash (rules P9 and P20)."""

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
