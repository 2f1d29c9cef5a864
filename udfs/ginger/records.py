"""Rows that nodes keep of the tree, of topics and of messages (chapter 3 and section 4.3.2)."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from udfs.ginger.buffer import Departed, Id, Message, Runs
from udfs.nodes.records import record


@dataclass(slots=True)
class Publication:
    """A message of a client.

    Attributes:
        topic: Topic of the message.
        source: Client that published it.
        source_seq: Number of the publication at its client.
        guarantee: Its delivery guarantee.
        keys: Its key items.
        issued_round: Round in which it was issued.
    """

    topic: str
    source: int
    source_seq: int
    guarantee: str
    keys: tuple[str, ...]
    issued_round: int

    @property
    def id(self) -> Id:
        """Identifies it within its run."""
        return Id(self.source, self.source_seq)

    @property
    def message(self) -> Message:
        """The message."""
        return Message(self.topic, self.source, self.source_seq, self.guarantee, self.keys, self.issued_round)


@record(key="neighbour")
class Neighbour:
    """A neighbour of a node in the tree.

    Attributes:
        neighbour: The neighbour.
        relationship: Its role for the node: parent, child or client; edge: the broker of a client.
        latency_rounds: Rounds from one to the other.
    """

    neighbour: int
    relationship: str
    latency_rounds: int


@record(key="peer")
class TreeView:
    """A broker that a node sees beyond its neighbours.

    Attributes:
        peer: The broker.
        relationship: Ancestor or sibling.
        n_up: Steps upwards from it, before
        n_down: steps downwards to the node.
        latency_rounds: Rounds from one to the other.
    """

    peer: int
    relationship: str
    n_up: int
    n_down: int
    latency_rounds: int


@record(key="contact")
class Contact:
    """A broker that another one asks first when it joins, or recovers after a failure.

    Attributes:
        contact: The other broker: the one to join at, or a neighbour in the overlay.
        latency_rounds: Rounds from one to the other.
        is_joining: Whether the broker joins during the run.
    """

    contact: int
    latency_rounds: int
    is_joining: bool


@record(key="topic")
class ClientTopic:
    """A topic that a client works on.

    Attributes:
        topic: The topic.
        usage: Subscribed, or only published.
    """

    topic: str
    usage: str


@record(key="subscription_id")
class ReceivedSubscribe:
    """A Subscribe message that a broker has had.

    Attributes:
        subscription_id: The subscription.
        topic: Its topic.
        source: The client that subscribes.
        source_seq: Number of the call at the client.
        edge: The client's edge broker.
        next_hop: Neighbour that sent the message.
        n_waiting: Neighbours that have still to answer it.
    """

    subscription_id: int
    topic: str
    source: int
    source_seq: int
    edge: int
    next_hop: int
    n_waiting: int


@record(key="topic, neighbour")
class Subscriber:
    """A neighbour in the sub-tree of a topic.

    Attributes:
        topic: The topic.
        neighbour: Neighbour through which there are subscribers, or a client that subscribes.
        relationship: Broker or client.
    """

    topic: str
    neighbour: int
    relationship: str


@record(key="topic")
class Member:
    """A topic that a broker knows, and the members that lock the key items of its messages.

    Attributes:
        topic: The topic.
        members: Brokers of the sub-tree and clients that subscribe.
        approach: Brokers from this one to the nearest of the sub-tree, at the start.
    """

    topic: str
    members: set[int] = field(default_factory=set)
    approach: list[int] = field(default_factory=list)


@record(key="topic, source, source_seq")
class Pending(Publication):
    """A total-order message that is not processed yet (linearT).

    Attributes:
        arrival: Ascending in the order in which messages came.
        came_from: Below: from a client or a child, so the parent does not have it yet; above: from the parent.
        hops: Links it travelled over.
        covered: Nodes known to have locked its keys.
        acked: Children that acknowledged it (childrenAcks).
        sent: The covered nodes that the parent knows; null: nothing was sent.
    """

    arrival: int
    came_from: str
    hops: int
    covered: set[int]
    acked: set[int] = field(default_factory=set)
    sent: set[int] | None = None


@record(key="topic, source, source_seq")
class EntryQueue(Publication):
    """A client's message that waits at its edge broker.

    Attributes:
        arrival: Ascending in the order in which messages came.
        client: The client that brought it.
        hops: Links it travelled over.
    """

    arrival: int
    client: int
    hops: int


@record(key="position")
class BufferedEvent(Publication):
    """An event in the life of a message at a node.

    Attributes:
        position: Ascending in the order of events.
        event: passed: sent on, or locked; processed: unlocked and delivered in total order; at clients published, too.
        hops: Links it travelled over; null for a client's own publication.
    """

    position: int
    event: str
    hops: int | None


@record(key="topic")
class Discarded:
    """The messages that have left a node's buffer of a topic.

    Attributes:
        topic: The topic.
        position: No event up to this position is in the buffer.
        left: The events that have left it, in order.
        collected: Messages that all members have had: by source the first and the last number of runs of numbers.
    """

    topic: str
    position: int
    left: list[Departed]
    collected: Runs


@record(key="position")
class Delivered:
    """A delivery at a client, in order.

    Attributes:
        position: Ascending in the order of deliveries.
        topic: Topic of the message.
        source: Client that published it.
        source_seq: Number of the publication at its client.
    """

    position: int
    topic: str
    source: int
    source_seq: int


@record(key="topic, key_item, source, source_seq")
class Locked:
    """A key item that a total-order message locks.

    Attributes:
        topic: Topic of the message.
        source: Client that published it.
        source_seq: Number of the publication at its client.
        key_item: The key item.
    """

    topic: str
    source: int
    source_seq: int
    key_item: str


def locked_rows(pending: pa.Table) -> pa.Table:
    """Returns the key items of pending messages.

    Args:
        pending: Rows of `Pending` with ``run_id, node_id``.

    Returns:
        ``run_id, node_id`` and the fields of `Locked`.
    """
    keys = pending["keys"].combine_chunks()
    item = pending.take(pc.list_parent_indices(keys)).append_column("key_item", pc.list_flatten(keys))
    return item.select(["run_id", "node_id", "topic", "source", "source_seq", "key_item"])
