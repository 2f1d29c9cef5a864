"""Records of a node about repairs of the tree and missing messages (chapter 4); each is a row of a table."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, NamedTuple

from udfs.ginger.buffer import Message, MissingSets, Runs
from udfs.ginger.messages import ParentRequest
from udfs.ginger.records import Publication
from udfs.nodes.records import record


@record()
class Repair:
    """The position of a node in the tree, and its search for a parent (sections 4.2.3 and 6.1)."""

    role: Annotated[str, "broker or client"] = "broker"
    is_mended: Annotated[bool, "whether the run repairs its tree: a broker crashes or joins in some round"] = False
    is_present: Annotated[bool, "whether the node is in the tree, or searches for a parent"] = False
    is_root: Annotated[bool, "whether the node is the root"] = False
    is_level: Annotated[bool, "false from the failure of the parent until the missing messages have arrived"] = True
    is_new: Annotated[bool, "whether the node joined or recovered, and so left the sub-trees of the start"] = False
    is_joining: Annotated[bool, "whether the node joins or recovers, until its exchange with a parent ends"] = False
    join_seq: Annotated[int | None, "number of the call by which the node joins; null: no call"] = None
    asked: Annotated[int | None, "broker that has not answered the ParentRequest; null: no broker"] = None
    awaited: Annotated[int | None, "broker for whose answer the timer waits; null: the timer ends a pause"] = None
    is_promised: Annotated[bool, "whether broker `awaited` joins sub-trees before it accepts the node"] = False
    declined: Annotated[list[int], "brokers that declined"] = field(default_factory=list)
    break_degree: Annotated[bool, "whether the node requests a connection beyond totalDegree (breakDegree)"] = False
    n_passes: Annotated[int, "number of passes over all brokers of the view"] = 0
    n_asked: Annotated[int, "number of requests to publishers for missing messages"] = 0
    dead: Annotated[set[int], "brokers that the node knows to be down"] = field(default_factory=set)
    lost_parent: Annotated[int | None, "the last parent that failed; null: no parent failed"] = None
    upward: Annotated[list[str], "topics whose sub-tree continues at the last parent that failed"] = field(
        default_factory=list
    )
    seen: Annotated[dict[int, int], "at a client: brokers of earlier views, and the rounds to them"] = field(
        default_factory=dict
    )


class Vote(NamedTuple):
    """The vote of a sibling: its residual degree, and the brokers `gone` that the sibling knew to have failed."""

    degree: int
    gone: list[int]


class Deferred(NamedTuple):
    """A ParentRequest that arrived from `sender` during an election."""

    sender: int
    request: ParentRequest


@record()
class ElectionState:
    """The state of a broker's election (Alg. 7)."""

    is_electing: Annotated[bool, "whether an election is under way"] = False
    is_elected: Annotated[bool, "whether the broker has won an election"] = False
    vote: Annotated[int, "residual degree that the broker sent to its siblings"] = 0
    gone: Annotated[list[int], "failed brokers that the broker's vote names"] = field(default_factory=list)
    votes: Annotated[dict[int, Vote], "received votes, by sibling"] = field(default_factory=dict)
    heard: Annotated[list[int], "failed brokers that the received votes name"] = field(default_factory=list)
    answered: Annotated[list[int], "siblings that got a vote after the election ended"] = field(default_factory=list)
    below: Annotated[list[int], "siblings that have become descendants of another sibling"] = field(
        default_factory=list
    )
    decided: Annotated[list[int] | None, "failed brokers named in the last election; null: no election ended"] = None
    expected: Annotated[list[int], "siblings that elected the broker, and have not sent a ParentRequest"] = field(
        default_factory=list
    )
    deferred: Annotated[list[Deferred], "ParentRequests that arrived during the election"] = field(default_factory=list)


@record(key="partner")
class Awaited:
    """A new child or client that has not yet sent its broker the messages that the broker lacks."""

    partner: Annotated[int, "the child or client"]
    incarnation: Annotated[int, "number of recoveries of the child before its request"] = 0


@record(key="failed")
class FailedBroker:
    """A broker that a node knows to have failed at least once."""

    failed: Annotated[int, "the failed broker"]


@record()
class Hold:
    """An application message that a node holds until its repair ends."""

    kind: Annotated[str, "kind of the message"]
    sender: Annotated[int, "node that sent the message"]
    topic: Annotated[str | None, "topic of the message"] = None
    source: Annotated[int | None, "client that published the message"] = None
    source_seq: Annotated[int | None, "number of the publication among the client's calls"] = None
    guarantee: Annotated[str | None, "delivery guarantee of the message"] = None
    keys: Annotated[tuple[str, ...] | None, "key items of the message"] = None
    issued_round: Annotated[int | None, "round in which the client issued the message"] = None
    hops: Annotated[int | None, "number of links that the message travelled over"] = None
    covered: Annotated[tuple[int, ...] | None, "nodes that are known to have locked the key items"] = None
    failed: Annotated[
        int | None, "the failed broker if kind is Failed, else null; for Failed, columns topic to covered are null"
    ] = None
    is_down: Annotated[bool | None, "whether the failed broker is still down, if kind is Failed; else null"] = None

    @property
    def message(self) -> Message:
        """The published message in a row of any `kind` except Failed."""
        return Message(self.topic, self.source, self.source_seq, self.guarantee, self.keys, self.issued_round)  # type: ignore[arg-type]


@record(key="client")
class ClientSubscription:
    """A client that attached to a broker after its earlier edge broker had failed."""

    client: Annotated[int, "the client"]
    topics: Annotated[tuple[str, ...], "topics that the client subscribes to"]


@record(key="partner")
class Parked:
    """A partner's answer that lacks the bodies of messages, and waits until their publishers repeat them."""

    partner: Annotated[int, "node that sent the answer"]
    kind: Annotated[str, "kind of the answer"]
    topic: Annotated[str | None, "topic of the answer; null: several topics"]
    told: Annotated[MissingSets, "content of the answer"]


@record(key="source, source_seq")
class Gap(Publication):
    """A message that a node lacks and that has left the buffer of its partner."""

    status: Annotated[str, "open; given_up: the publisher did not repeat the message"]


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
    is_joined: Annotated[bool, "whether the broker has joined the sub-tree by a search of its own"] = False
    is_open: Annotated[bool, "whether answers are missing"] = False
    is_own: Annotated[bool, "whether the broker itself joins; false: the broker searches for a neighbour"] = False
    askers: Annotated[list[int], "neighbours that sent JoinTopic and await the answer"] = field(default_factory=list)
    waiting: Annotated[list[int], "neighbours whose answers are missing"] = field(default_factory=list)


@record()
class Entrant:
    """A node whose ParentRequest waits until the broker has joined the sub-trees of the requested topics."""

    node: Annotated[int, "the node"]
    request: Annotated[ParentRequest, "ParentRequest of the node"]
    latency_rounds: Annotated[int, "latency between the node and the broker, in rounds"]


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
    covered: Annotated[tuple[int, ...], "the sender, and the nodes below it"]
    runs: Annotated[Runs, "received messages: intervals of numbers (first, last), by source"]


@record(key="topic")
class Reported:
    """The number of messages in a node's last report Received to its parent."""

    topic: Annotated[str, "the topic"]
    n_messages: Annotated[int, "number of messages in the report that have not been garbage-collected since"]
