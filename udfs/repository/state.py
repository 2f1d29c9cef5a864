"""The tables of a node of protocol ``repository``. A node uses only the tables of its role."""

from __future__ import annotations

from typing import Annotated

from udfs.nodes.program import NodeProgram, appended, keyed, one, ordered
from udfs.nodes.records import record
from udfs.repository import records


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
    bundle = keyed(records.Bundle, is_durable=True)
    steering = keyed(records.Steering)
    publishing = keyed(records.Publishing)
    queued = ordered(records.Queued)
    unstable = keyed(records.Unstable)
    registering = keyed(records.Registering)
    subscribed = keyed(records.Subscribed, is_durable=True)
    mark = keyed(records.Mark, is_durable=True)
    reading = keyed(records.Reading)
    buffered = keyed(records.Buffered)
    expected = keyed(records.Expected)
    unsynced = keyed(records.Unsynced)
    ordered_delivery = appended(records.OrderedDelivery, is_durable=True)

    log = keyed(records.Log, is_durable=True)
    slot = keyed(records.Slot, is_durable=True)
    orphan = keyed(records.Orphan, is_durable=True)
    incarnation = keyed(records.Incarnation, is_durable=True)
    subscriber = keyed(records.Subscriber, is_durable=True)
    registration = keyed(records.Registration, is_durable=True)
    confirming = keyed(records.Confirming)
    designation = keyed(records.Designation, is_durable=True)
    member = keyed(records.Member, is_durable=True)
    acknowledged = keyed(records.Acknowledged, is_durable=True)
    duty = keyed(records.Duty)
    numbered = keyed(records.Numbered)
    located = keyed(records.Located)
    identity = keyed(records.Identity)
    lacking = keyed(records.Lacking)
    missed = keyed(records.Missed)
    live = keyed(records.Live)
    peer = keyed(records.Peer)
    held = keyed(records.PeerPrefix)
    foreign_ack = keyed(records.ForeignAck)
    foreign_sync = keyed(records.ForeignSync)
    storing = keyed(records.Storing)
