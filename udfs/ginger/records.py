"""Records of a node about the tree, topics and messages (chapter 3 and section 4.3.2); each is a row of a table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc

from udfs.ginger.buffer import Departed, Id, Message, Runs
from udfs.nodes.records import record


@dataclass(slots=True)
class Publication:
    """The base class of records about a publication: fields that identify and describe the publication."""

    topic: Annotated[str, "topic of the message"]
    source: Annotated[int, "client that published the message"]
    source_seq: Annotated[int, "number of the publication among the client's calls"]
    guarantee: Annotated[str, "order of delivery of the message: eventual, causal or total"]
    keys: Annotated[tuple[str, ...], "key items of the message"]
    issued_round: Annotated[int, "round in which the client issued the message"]

    @property
    def id(self) -> Id:
        """The id of the message within its run."""
        return Id(self.source, self.source_seq)

    @property
    def message(self) -> Message:
        """The publication that the record is about, as a `Message`."""
        return Message(self.topic, self.source, self.source_seq, self.guarantee, self.keys, self.issued_round)


@record(key="neighbour")
class Neighbour:
    """A neighbour of a node in the tree."""

    neighbour: Annotated[int, "the neighbour"]
    relationship: Annotated[
        str, "role of the neighbour: parent, child, client, or edge (the edge broker, if the node is a client)"
    ]
    latency_rounds: Annotated[int, "latency of the path from the neighbour to the node, in rounds"]
    incarnation: Annotated[int, "number of recoveries of the neighbour before it connected to the node"] = 0


@record(key="peer")
class TreeView:
    """A broker in a node's view of the tree. The broker is not a neighbour of the node (section 4.2.2)."""

    peer: Annotated[int, "the broker"]
    relationship: Annotated[str, "ancestor or sibling"]
    n_up: Annotated[int, "number of links from child to parent on the path from the broker to the node"]
    n_down: Annotated[int, "number of links from parent to child on this path, after the n_up links"]
    latency_rounds: Annotated[int, "latency of the path from the broker to the node, in rounds"]


@record(key="contact")
class Contact:
    """A broker to which a joining or recovering broker sends its first ParentRequests."""

    contact: Annotated[int, "the join point of a joining broker, or a neighbour in the overlay"]
    latency_rounds: Annotated[int, "latency of the link from the contact to the broker, in rounds"]
    is_joining: Annotated[bool, "whether the row belongs to a broker that joins during the run"]


@record(key="topic")
class ClientTopic:
    """A topic that a client subscribes to or publishes on."""

    topic: Annotated[str, "the topic"]
    usage: Annotated[
        str, "subscribed: the client has a subscription to the topic; published: it only publishes on the topic"
    ]


@record(key="subscription_id")
class ReceivedSubscribe:
    """A Subscribe message that a broker has received."""

    subscription_id: Annotated[int, "the subscription"]
    topic: Annotated[str, "topic of the subscription"]
    source: Annotated[int, "the client that subscribes"]
    source_seq: Annotated[int, "number of the subscription among the client's calls"]
    edge: Annotated[int, "the client's edge broker"]
    next_hop: Annotated[int, "neighbour that sent the message, and to which the broker sends Subscribed"]
    n_waiting: Annotated[int, "number of neighbours whose Subscribed has not arrived"]


@record(key="topic, neighbour")
class Subscriber:
    """A neighbour of a broker in the sub-tree of a topic."""

    topic: Annotated[str, "the topic"]
    neighbour: Annotated[int, "a broker of the sub-tree, or a client that subscribes"]
    relationship: Annotated[str, "broker or client"]


@record(key="topic")
class Member:
    """A topic with the members that a broker knows: the nodes that lock the key items of the topic's messages."""

    topic: Annotated[str, "the topic"]
    members: Annotated[set[int], "brokers of the sub-tree, and clients that subscribe"] = field(default_factory=set)
    approach: Annotated[
        list[int], "path from the broker to the nearest broker of the sub-tree, in the initial tree"
    ] = field(default_factory=list)
    clients: Annotated[set[int], "the clients in members"] = field(default_factory=set)


@record(key="topic, source, source_seq")
class Pending(Publication):
    """A total-order message that waits at a broker: its key items are locked, and it is not processed (linearT)."""

    arrival: Annotated[int, "number that ascends in the order in which messages arrived at the broker"]
    came_from: Annotated[
        str, "sender of the message; below: a client or child, so the parent lacks the message; above: the parent"
    ]
    hops: Annotated[int, "number of links that the message has traversed"]
    covered: Annotated[set[int], "nodes that have locked the key items, as far as the broker knows"]
    acked: Annotated[set[int], "children that acknowledged the message (childrenAcks)"] = field(default_factory=set)
    sent: Annotated[
        set[int] | None, "nodes in covered that the broker has reported to its parent; null: it has sent no report"
    ] = None


@record(key="topic, source, source_seq")
class EntryQueue(Publication):
    """A client's message that waits at the client's edge broker until it may enter the tree."""

    arrival: Annotated[int, "number that ascends in the order in which messages arrived at the broker"]
    client: Annotated[int, "client that sent the message to the broker"]
    hops: Annotated[int, "number of links that the message has traversed"]


@record(key="position")
class BufferedEvent(Publication):
    """An event of a message at a node, such as its forwarding: an entry of metadataBuffer."""

    position: Annotated[int, "number that ascends in the order of the events at the node"]
    event: Annotated[
        str,
        "passed: the node forwarded the message or locked its key items; processed: the node unlocked them and "
        "delivered the message; published: the node, a client, published the message",
    ]
    hops: Annotated[int | None, "number of links that the message has traversed; null: event is published"]


@record(key="topic")
class Discarded:
    """The discarded events of a topic: events that have left the buffer of a node."""

    topic: Annotated[str, "the topic"]
    position: Annotated[int, "position of the last event that has left the buffer because of its size; -1: no event"]
    left: Annotated[list[Departed], "events that have left the buffer, in order, without the bodies of their messages"]
    collected: Annotated[
        Runs,
        "garbage-collected messages: for each source, intervals of numbers (first, last)",
    ]


@record(key="position")
class Delivered:
    """A delivery at a client."""

    position: Annotated[int, "number that ascends in the order of deliveries"]
    topic: Annotated[str, "topic of the message"]
    source: Annotated[int, "client that published the message"]
    source_seq: Annotated[int, "number of the publication among the client's calls"]


@record(key="topic, key_item, source, source_seq")
class Locked:
    """A key item that a pending total-order message locks at a broker."""

    topic: Annotated[str, "topic of the message"]
    source: Annotated[int, "client that published the message"]
    source_seq: Annotated[int, "number of the publication among the client's calls"]
    key_item: Annotated[str, "the key item"]


def locked_rows(pending: pa.Table) -> pa.Table:
    """Returns one row for each key item of each pending message.

    Args:
        pending: Rows of `Pending` with ``run_id, node_id``.

    Returns:
        ``run_id, node_id`` and the fields of `Locked`.
    """
    keys = pending["keys"].combine_chunks()
    item = pending.take(pc.list_parent_indices(keys)).append_column("key_item", pc.list_flatten(keys))
    return item.select(["run_id", "node_id", "topic", "source", "source_seq", "key_item"])
