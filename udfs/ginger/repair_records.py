"""Records of a node about repairs of the tree and missing messages (chapter 4); each is a row of a table."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, NamedTuple

from udfs.ginger.buffer import Message, MissingSets, Runs
from udfs.ginger.messages import Incarnation, ParentRequest
from udfs.ginger.records import Publication
from udfs.nodes.records import record


@record()
class Repair:
    """A node in the tree, and its search for a parent (sections 4.2.3 and 6.1)."""

    role: Annotated[str, "broker or client"] = "broker"
    is_mended: Annotated[
        bool, "whether nodes store messages for repairs: in some round of the run a broker crashes or joins"
    ] = False
    is_present: Annotated[bool, "whether the node is in the tree, or searches for a place in it"] = False
    is_root: Annotated[bool, "whether the node is the root of the tree"] = False
    is_level: Annotated[
        bool,
        "false from the failure of the node's parent until the messages that it missed have arrived",
    ] = True
    is_new: Annotated[
        bool, "whether the node has joined or recovered; it is then no longer in the sub-trees of the initial tree"
    ] = False
    is_joining: Annotated[
        bool, "whether the node is joining or recovering: its exchange with a parent has not ended"
    ] = False
    join_seq: Annotated[int | None, "number of the node's join call; null: the node does not join by a call"] = None
    asked: Annotated[
        int | None, "broker that has not answered the node's last ParentRequest; null: no request is open"
    ] = None
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
class Coverage:
    """The last report of each child of a broker about a pending message (rule G33)."""

    topic: Annotated[str, "topic of the message"]
    source: Annotated[int, "client that published the message"]
    source_seq: Annotated[int, "number of the publication among the client's calls"]
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

    @property
    def message(self) -> Message:
        """The published message of the row. A row of `kind` Failed has no published message."""
        return Message(self.topic, self.source, self.source_seq, self.guarantee, self.keys, self.issued_round)  # type: ignore[arg-type]


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

    status: Annotated[
        str, "open: the publisher may still repeat the message; given_up: it has not repeated the message"
    ]


@record(key="source, source_seq, lacking")
class Exceptional:
    """An Exception that a client has received: a node lacks one of the client's messages (section 4.3.2.3)."""

    topic: Annotated[str, "topic of the message"]
    source: Annotated[int, "the client"]
    source_seq: Annotated[int, "number of the publication among the client's calls"]
    lacking: Annotated[int, "node that lacks the message"]


@record(key="topic")
class TopicJoin:
    """A broker's search for the sub-tree of a topic (section 4.2.3)."""

    topic: Annotated[str, "the topic"]
    is_joined: Annotated[bool, "whether the broker has joined the sub-tree by a search that it started for itself"] = (
        False
    )
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
