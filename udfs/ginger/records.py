"""Records of a node; each is a row of a table.

The first records are about the tree, topics and messages (chapter 3, section 4.3.2). Those from `Repair` on are about
repairs of the tree and missing messages (chapter 4).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from udfs.ginger.buffer import Departed, Id, Message, MissingSets, Runs
from udfs.ginger.messages import Incarnation, ParentRequest
from udfs.nodes.records import record


@dataclass(slots=True)
class Identified:
    """The base class of records about a message: the topic and the id of the message."""

    topic: Annotated[str, "topic of the message"]
    source: Annotated[int, "client that published the message"]
    source_seq: Annotated[int, "number of the publication among the client's calls"]


@dataclass(slots=True)
class Publication(Identified):
    """The base class of records about a message with its body."""

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
    relationship: Annotated[str, "role of the neighbour: parent, child, client, or edge (the client's edge broker)"]
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
    usage: Annotated[str, "subscribed: the client has a subscription to the topic; published: it only publishes on it"]


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
    collected: Annotated[Runs, "garbage-collected messages: for each source, intervals of numbers (first, last)"]


@record(key="position")
class Delivered:
    """A delivery at a client."""

    position: Annotated[int, "number that ascends in the order of deliveries"]
    topic: Annotated[str, "topic of the message"]
    source: Annotated[int, "client that published the message"]
    source_seq: Annotated[int, "number of the publication among the client's calls"]


@record(key="topic, key_item, source, source_seq")
class Locked(Identified):
    """A key item that a pending total-order message locks at a broker."""

    key_item: Annotated[str, "the key item"]


@record()
class Repair:
    """A node in the tree, and its search for a parent (sections 4.2.3 and 6.1)."""

    role: Annotated[str, "broker or client"] = "broker"
    is_mended: Annotated[
        bool, "whether nodes store messages for repairs: in some round of the run a broker crashes or joins"
    ] = False
    is_present: Annotated[bool, "whether the node is in the tree, or searches for a place in it"] = False
    is_root: Annotated[bool, "whether the node is the root of the tree"] = False
    is_level: Annotated[bool, "false from the failure of the parent until the missed messages have arrived"] = True
    is_new: Annotated[
        bool, "whether the node has joined or recovered; it is then no longer in the sub-trees of the initial tree"
    ] = False
    is_joining: Annotated[bool, "whether the node is joining or recovering: its first exchange has not ended"] = False
    join_seq: Annotated[int | None, "number of the node's join call; null: the node does not join by a call"] = None
    asked: Annotated[int | None, "broker that has not answered the last ParentRequest; null: no open request"] = None
    awaited: Annotated[
        int | None,
        "broker whose answer or messages the node awaits; null: the node pauses until its timer expires",
    ] = None
    is_promised: Annotated[bool, "whether broker `asked` has answered that it first joins sub-trees"] = False
    declined: Annotated[list[int], "brokers that have declined a ParentRequest in this pass"] = field(
        default_factory=list
    )
    break_degree: Annotated[bool, "whether the node requests a connection beyond totalDegree (breakDegree)"] = False
    n_passes: Annotated[int, "number of passes in which all brokers of the view have declined"] = 0
    n_asked: Annotated[int, "number of times that the node has requested missing messages from their publishers"] = 0
    dead: Annotated[set[int], "brokers that the node knows to be down"] = field(default_factory=set)
    incarnations: Annotated[
        dict[int, int], "latest known incarnation of each broker of which the node knows a recovery"
    ] = field(default_factory=dict)
    lost_parent: Annotated[int | None, "the parent of the node that failed last; null: no parent has failed"] = None
    upward: Annotated[list[str], "topics whose sub-tree contained the last parent that failed"] = field(
        default_factory=list
    )
    seen: Annotated[
        dict[int, int],
        "client: latency in rounds of each broker in earlier views, for the case that its view has no live broker",
    ] = field(default_factory=dict)


class Vote(NamedTuple):
    """The vote of a sibling: its residual degree, and the brokers `gone` that the sibling knew to have failed."""

    degree: int
    gone: list[Incarnation]


class Deferred(NamedTuple):
    """A ParentRequest that arrived from `sender` during an election."""

    sender: int
    request: ParentRequest


@record()
class ElectionState:
    """The state of a broker's election (Alg. 7)."""

    is_electing: Annotated[bool, "whether an election has started and not ended"] = False
    is_elected: Annotated[bool, "whether the broker has won an election"] = False
    vote: Annotated[int, "residual degree in the vote that the broker sent to its siblings"] = 0
    gone: Annotated[list[Incarnation], "failed brokers in the vote that the broker sent"] = field(default_factory=list)
    votes: Annotated[dict[int, Vote], "received vote of each sibling"] = field(default_factory=dict)
    heard: Annotated[list[Incarnation], "the last parent that failed, and the failed brokers in received votes"] = (
        field(default_factory=list)
    )
    answered: Annotated[list[int], "siblings to which the broker sent its vote again after the election"] = field(
        default_factory=list
    )
    below: Annotated[list[int], "siblings that now are descendants of another sibling"] = field(default_factory=list)
    decided: Annotated[
        list[Incarnation] | None,
        "failed brokers in the last election that ended; null: none ended since the last parent failed",
    ] = None
    expected: Annotated[list[int], "siblings that have elected the broker and have not yet sent it a ParentRequest"] = (
        field(default_factory=list)
    )
    deferred: Annotated[list[Deferred], "ParentRequests that arrived during the election"] = field(default_factory=list)


@record(key="partner")
class Awaited:
    """A new child or client that has not yet sent its broker the messages that the broker lacks."""

    partner: Annotated[int, "the child or client"]


@record(key="topic, source, source_seq")
class Coverage(Identified):
    """The last report of each child of a broker about a pending message (rule G33)."""

    reported: Annotated[dict[int, set[int]], "nodes in the last report of each child"] = field(default_factory=dict)


@record(key="failed")
class FailedBroker:
    """A broker that a node knows to have failed at least once."""

    failed: Annotated[int, "the failed broker"]


@record()
class Hold:
    """An application message that a node holds until its repair ends."""

    kind: Annotated[str, "type of the message"]
    sender: Annotated[int, "node that sent the message"]
    topic: Annotated[str | None, "topic of the message"] = None
    source: Annotated[int | None, "client that published the message"] = None
    source_seq: Annotated[int | None, "number of the publication among the client's calls"] = None
    guarantee: Annotated[str | None, "order of delivery of the message: eventual, causal or total"] = None
    keys: Annotated[tuple[str, ...] | None, "key items of the message"] = None
    issued_round: Annotated[int | None, "round in which the client issued the message"] = None
    hops: Annotated[int | None, "number of links that the message has traversed"] = None
    covered: Annotated[tuple[int, ...] | None, "nodes that have locked the key items, as far as the node knows"] = None
    failed: Annotated[
        int | None, "kind Failed: the failed broker, and columns topic to covered are null; else null"
    ] = None


@record(key="client")
class ClientSubscription:
    """A client that attached to a broker after the client's earlier edge broker had failed."""

    client: Annotated[int, "the client"]
    topics: Annotated[tuple[str, ...], "topics that the client subscribes to"]


@record(key="partner")
class Parked:
    """A partner's answer that lacks the bodies of messages, and waits until their publishers repeat them."""

    partner: Annotated[int, "exchange partner: the node that sent the answer"]
    kind: Annotated[str, "type of the answer"]
    topic: Annotated[str | None, "topic of the answer; null: it concerns several topics"]
    told: Annotated[MissingSets, "content of the answer: events, ids, failed brokers and members that the partner has"]


@record(key="source, source_seq")
class Gap(Publication):
    """A message that a node lacks and that has left the buffer of its exchange partner."""

    status: Annotated[str, "open: the publisher may repeat the message; given_up: it has not repeated the message"]


@record(key="source, source_seq, lacking")
class Exceptional(Identified):
    """An Exception that a client has received: a node lacks one of the client's messages (section 4.3.2.3)."""

    lacking: Annotated[int, "node that lacks the message"]


@record(key="topic")
class TopicJoin:
    """A broker's search for the sub-tree of a topic (section 4.2.3)."""

    topic: Annotated[str, "the topic"]
    is_joined: Annotated[bool, "whether the broker has joined the sub-tree by a search for itself"] = False
    is_open: Annotated[bool, "whether the search has not ended"] = False
    is_own: Annotated[
        bool, "true: the broker searches in order to join the sub-tree; false: it only searches for a neighbour"
    ] = False
    askers: Annotated[list[int], "neighbours that sent JoinTopic, and get the answer at the end of the search"] = field(
        default_factory=list
    )
    waiting: Annotated[list[int], "neighbours that have not answered JoinTopic"] = field(default_factory=list)
    is_current: Annotated[bool, "whether a current neighbour has sent the broker Current (rule G34)"] = False
    late: Annotated[list[int], "neighbours that have connected during the search"] = field(default_factory=list)


@record()
class Entrant:
    """A node whose ParentRequest waits until the requested broker has joined the sub-trees of the request's topics."""

    node: Annotated[int, "the node"]
    request: Annotated[ParentRequest, "ParentRequest of the node"]
    latency_rounds: Annotated[int, "latency of messages from the node to the broker, in rounds"]


@record()
class Postponed:
    """A JoinTopic that arrived while the broker was under repair."""

    sender: Annotated[int, "neighbour that sent JoinTopic"]
    topic: Annotated[str, "the topic"]


@record(key="topic, sender")
class Receipt:
    """The last report of a child or client: the messages that it and all nodes below it have received (section 6.1)."""

    topic: Annotated[str, "the topic"]
    sender: Annotated[int, "the child or client"]
    covered: Annotated[tuple[int, ...], "the sender, and the nodes below the sender in the tree"]
    runs: Annotated[Runs, "received messages: for each source, intervals of numbers (first, last)"]


@record(key="topic")
class Reported:
    """The number of messages in a node's last report Received to its parent."""

    topic: Annotated[str, "the topic"]
    n_messages: Annotated[int, "number of messages in the report that have not been garbage-collected"]


def locked_rows(pending: pa.Table) -> pa.Table:
    """Returns a row of `Locked` with ``run_id, node_id`` for each key item of each row of `Pending` in `pending`."""
    keys = pending["keys"].combine_chunks()
    item = pending.take(pc.list_parent_indices(keys)).append_column("key_item", pc.list_flatten(keys))
    return item.select(["run_id", "node_id", "topic", "source", "source_seq", "key_item"])
