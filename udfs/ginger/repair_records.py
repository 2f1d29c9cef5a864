"""Rows that nodes keep of repairs of the tree, and of messages that they miss (chapter 4)."""

from __future__ import annotations

from dataclasses import field
from typing import NamedTuple

from udfs.ginger.buffer import Message, MissingSets, Runs
from udfs.ginger.messages import ParentRequest
from udfs.ginger.records import Publication
from udfs.nodes.records import record


@record()
class Repair:
    """A node's search for a parent (sections 4.2.3 and 6.1).

    Attributes:
        role: Broker or client.
        is_mended: Whether the tree of the run may be repaired: a broker crashes or joins at some time.
        is_present: Whether it is in the tree, or on its way into it.
        is_root: Whether it is the root.
        is_level: False from the failure of the parent until the missing messages have arrived.
        is_new: Whether it has lost its sub-trees of the start.
        is_joining: Whether it joins or recovers, and has no position in the tree yet.
        join_seq: Number of the call by which it joins; null: it does not.
        asked: The broker that it has sent a ParentRequest.
        awaited: The broker whose answer the timer awaits; null: the timer ends a pause.
        is_promised: Whether the awaited broker joins sub-trees, to take the node in.
        declined: The brokers that declined.
        break_degree: Whether it asks again for a position beyond totalDegree (breakDegree).
        n_passes: Number of passes over all brokers of its view.
        n_asked: Number of requests to publishers for missing messages.
        dead: Brokers whose failure it knows.
        lost_parent: The last parent that failed.
        upward: Topics whose sub-tree continues at that parent.
        seen: A client: the brokers that it saw before its present edge broker, and the rounds to them.
    """

    role: str = "broker"
    is_mended: bool = False
    is_present: bool = False
    is_root: bool = False
    is_level: bool = True
    is_new: bool = False
    is_joining: bool = False
    join_seq: int | None = None
    asked: int | None = None
    awaited: int | None = None
    is_promised: bool = False
    declined: list[int] = field(default_factory=list)
    break_degree: bool = False
    n_passes: int = 0
    n_asked: int = 0
    dead: set[int] = field(default_factory=set)
    lost_parent: int | None = None
    upward: list[str] = field(default_factory=list)
    seen: dict[int, int] = field(default_factory=dict)


class Vote(NamedTuple):
    """A sibling's vote.

    Attributes:
        degree: Its residual degree.
        gone: The brokers that it knew to be gone.
    """

    degree: int
    gone: list[int]


class Deferred(NamedTuple):
    """A ParentRequest that came during an election.

    Attributes:
        sender: Who sent it.
        request: The request.
    """

    sender: int
    request: ParentRequest


@record()
class ElectionState:
    """The state of a broker's election (Alg. 7).

    Attributes:
        is_electing: Whether it votes.
        is_elected: Whether it has been elected.
        vote: The residual degree that it told its siblings.
        gone: The brokers that it told to be gone.
        votes: What siblings told.
        heard: All that they told to be gone.
        answered: Those that were told a vote after an election.
        below: Those that are below another sibling by now.
        decided: The brokers that were gone in the last election that ended; null: none has.
        expected: Siblings that elected it, and have not come yet.
        deferred: Requests that came during the election.
    """

    is_electing: bool = False
    is_elected: bool = False
    vote: int = 0
    gone: list[int] = field(default_factory=list)
    votes: dict[int, Vote] = field(default_factory=dict)
    heard: list[int] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    below: list[int] = field(default_factory=list)
    decided: list[int] | None = None
    expected: list[int] = field(default_factory=list)
    deferred: list[Deferred] = field(default_factory=list)


@record(key="partner")
class Awaited:
    """A new child or client whose missing messages a broker awaits.

    Attributes:
        partner: The node.
    """

    partner: int


@record(key="failed")
class FailedBroker:
    """A broker that is known to have failed.

    Attributes:
        failed: The other broker.
    """

    failed: int


@record()
class Hold:
    """An application message that is held while the node is reconfigured.

    Attributes:
        kind: Kind of message.
        sender: Node that sent it.
        topic: Topic of the message.
        source: Client that published it.
        source_seq: Number of the publication at its client.
        guarantee: Its delivery guarantee.
        keys: Its key items.
        issued_round: Round in which it was issued.
        hops: Links it travelled over.
        covered: Nodes known to have locked its keys.
        failed: Kind Failed, which has nothing of the others: the broker that failed.
        is_down: Kind Failed: whether it is still down.
    """

    kind: str
    sender: int
    topic: str | None = None
    source: int | None = None
    source_seq: int | None = None
    guarantee: str | None = None
    keys: tuple[str, ...] | None = None
    issued_round: int | None = None
    hops: int | None = None
    covered: tuple[int, ...] | None = None
    failed: int | None = None
    is_down: bool | None = None

    @property
    def message(self) -> Message:
        """The message, where it is about one."""
        return Message(self.topic, self.source, self.source_seq, self.guarantee, self.keys, self.issued_round)  # type: ignore[arg-type]


@record(key="client")
class ClientSubscription:
    """A client that came to a broker after its own had failed.

    Attributes:
        client: The client.
        topics: The topics that it subscribes to.
    """

    client: int
    topics: tuple[str, ...]


@record(key="partner")
class Parked:
    """An answer of a partner that waits for the repetition of messages that have left the partner's buffer.

    Attributes:
        partner: The partner.
        kind: Kind of message.
        topic: The topic of the answer; None: it concerns several topics.
        told: The missing messages that the answer names.
    """

    partner: int
    kind: str
    topic: str | None
    told: MissingSets


@record(key="source, source_seq")
class Gap(Publication):
    """A message that a node lacks and that has left the buffer of its partner.

    Attributes:
        status: open; given_up: its publisher did not repeat it.
    """

    status: str


@record(key="source, source_seq, lacking")
class Exceptional:
    """An Exception at the client that published the message: a node lacks it (section 4.3.2.3).

    Attributes:
        topic: Topic of the message.
        source: The client.
        source_seq: Number of the publication at its client.
        lacking: The node that lacks it.
    """

    topic: str
    source: int
    source_seq: int
    lacking: int


@record(key="topic")
class TopicJoin:
    """A search for the sub-tree of a topic (section 4.2.3).

    Attributes:
        topic: The topic.
        is_joined: Whether the broker wanted to join it itself, and did.
        is_open: Whether answers are missing.
        is_own: Whether the search is for its own sake.
        askers: The neighbours that asked it.
        waiting: Those whose answers it waits for.
    """

    topic: str
    is_joined: bool = False
    is_open: bool = False
    is_own: bool = False
    askers: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)


@record()
class Entrant:
    """A node that waits to be taken in until the broker has joined sub-trees.

    Attributes:
        node: The node.
        request: Its request.
        latency_rounds: Rounds to it.
    """

    node: int
    request: ParentRequest
    latency_rounds: int


@record()
class Postponed:
    """A question for a sub-tree that came while the broker was reconfigured.

    Attributes:
        sender: The neighbour that asked.
        topic: The topic.
    """

    sender: int
    topic: str


@record(key="topic, sender")
class Receipt:
    """The messages that a child or client and all nodes below it have received for good (section 6.1).

    Attributes:
        topic: The topic.
        sender: The child or client.
        covered: The nodes below the sender, and the sender.
        runs: Numbers of the messages by source, in runs without a gap.
    """

    topic: str
    sender: int
    covered: tuple[int, ...]
    runs: Runs


@record(key="topic")
class Reported:
    """How many messages a node has told its parent to be had for good.

    Attributes:
        topic: Their topic.
        n_messages: How many.
    """

    topic: str
    n_messages: int
