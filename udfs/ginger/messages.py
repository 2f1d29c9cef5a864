"""Messages, named as in the thesis; fields in the order in which the body shows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from udfs.ginger.buffer import Message, MissingSets, Runs
from udfs.nodes.records import message

ACCEPTED, DECLINED = "accepted", "declined"
"""Answers to a ParentRequest."""
JOINING = "joining"
"""The broker joins sub-trees first, in order to take the sender in."""
BACK = "back"
"""A newcomer was asked: it has no place in the tree yet."""


class Step(NamedTuple):
    """A broker that passed a Subscribe on.

    Attributes:
        address: The broker.
        hop_count: Hops since then.
        direction: Whether it went up or down from there.
    """

    address: int
    hop_count: int
    direction: str


class Seen(NamedTuple):
    """A broker, as another one sees it.

    Attributes:
        broker: The broker.
        n_up: Steps upwards from it, before
        n_down: steps downwards.
        latency_rounds: Rounds to it.
    """

    broker: int
    n_up: int
    n_down: int
    latency_rounds: int


@message("Subscribe")
class Subscribe:
    """A client subscribes; floods all brokers (sections 3.4 and 4.2.1).

    Attributes:
        source: The client.
        source_seq: The number of the call there.
        topic: The topic.
        subscription_id: The subscription.
        edge: The client's edge broker, which is the first to get it; null: from the client itself.
        path: The brokers that passed it on, the last first, within maxHops.
        way: All brokers that passed it on, the edge broker first.
    """

    source: int
    source_seq: int
    topic: str
    subscription_id: int
    edge: int | None = None
    path: tuple[Step, ...] = ()
    way: tuple[int, ...] = ()


@message("Subscribed")
class Subscribed:
    """All brokers beyond the sender have had a Subscribe.

    Attributes:
        source: The client.
        source_seq: The number of the call there.
        subscription_id: The subscription.
    """

    source: int
    source_seq: int
    subscription_id: int


@dataclass(frozen=True, slots=True)
class About:
    """Something about a message of a client.

    Attributes:
        topic: The topic of the message.
        source: The client that published it.
        source_seq: Its number among the client's calls.
        guarantee: Its delivery guarantee.
        keys: Its key items.
        issued_round: The round in which it was issued.
    """

    topic: str
    source: int
    source_seq: int
    guarantee: str
    keys: tuple[str, ...]
    issued_round: int

    @property
    def message(self) -> Message:
        """The message."""
        return Message(self.topic, self.source, self.source_seq, self.guarantee, self.keys, self.issued_round)


@message("Metadata")
class Metadata(About):
    """A message of a client, or one in total order that asks for locks (section 3.5).

    Attributes:
        hops: Links it travelled over.
        covered: Total order, on its way up: the nodes that have locked its key items.
    """

    hops: int
    covered: tuple[int, ...] = ()


@message("TotalAck")
class TotalAck(About):
    """A child's part of the sub-tree has locked the key items.

    Attributes:
        hops: Links it travelled over.
        covered: The nodes that have locked its key items.
    """

    hops: int
    covered: tuple[int, ...]


@message("TotalProcessed")
class TotalProcessed(About):
    """The topic's root has all acknowledgements.

    Attributes:
        hops: Links it travelled over.
    """

    hops: int


@message("Failed")
class Failed:
    """A broker has failed; floods the tree in FIFO order (rule G3).

    Attributes:
        failed: The broker.
        is_down: Whether it is still down, as far as the sender knows.
    """

    failed: int
    is_down: bool


@message("ParentRequest")
class ParentRequest:
    """A node looks for a parent (Alg. 3 and 4).

    Attributes:
        topics: The topics whose sub-tree it is in, but not at the root of (subscribedTopics).
        break_degree: Whether the broker is to accept beyond totalDegree (breakDegree).
        is_joining: Whether it is new in the tree.
        is_client: Whether it is a client.
        subscribed: A client: the topics that it subscribes to.
    """

    topics: tuple[str, ...]
    break_degree: bool
    is_joining: bool = False
    is_client: bool = False
    subscribed: tuple[str, ...] = ()


@message("ParentResponse")
class ParentResponse:
    """A broker answers a ParentRequest (Alg. 5).

    Attributes:
        answer: accepted, declined; joining: it joins sub-trees first; back: it has no place in the tree yet itself.
    """

    answer: str


@message("ParentBuffer")
class ParentBuffer:
    """A new parent sends the ids that it has had (Alg. 10).

    Attributes:
        told: The ids and further fields of the exchange.
    """

    told: MissingSets


@message("LostMessageRequest")
class LostMessageRequest:
    """A new child sends the messages that its parent lacks, and the ids that it has had (Alg. 11).

    Attributes:
        told: The messages that the parent lacks, and ids.
    """

    told: MissingSets


@message("LostMessages")
class LostMessages:
    """A new parent's answer to LostMessageRequest (Alg. 12).

    Attributes:
        told: The messages that the child lacks, and ids.
    """

    told: MissingSets


@message("TreeViewUpdate")
class TreeViewUpdate:
    """A broker sends its view of the tree to its children (Alg. 2).

    Attributes:
        seen: The brokers of its view, except the receiver.
    """

    seen: tuple[Seen, ...]


@message("RootElection")
class RootElection:
    """A vote for a new root (Alg. 7), or an answer to a vote.

    Attributes:
        vote: The residual degree of the sender; null: it has a parent, or is the root, and accepts a ParentRequest.
        brokers: The failed brokers that it knows; without a vote those above it.
    """

    vote: int | None
    brokers: tuple[int, ...]


@message("Exception")
class Lacking(About):
    """A node lacks a message that has left the buffers (section 4.3.2.3).

    Attributes:
        lacking: The node that lacks it.
    """

    lacking: int


@message("Repeat")
class Repeat(About):
    """The publisher sends a missing message again.

    Attributes:
        lacking: The node that lacks it.
    """

    lacking: int


@message("JoinTopic")
class JoinTopic:
    """A neighbour looks for the sub-tree of a topic (section 4.2.3).

    Attributes:
        topic: The topic.
    """

    topic: str


@message("TopicJoined")
class TopicJoined:
    """The answer to JoinTopic.

    Attributes:
        topic: The topic.
        told: The sender's state of the topic; null: the sender is not in its sub-tree.
    """

    topic: str
    told: MissingSets | None


@message("Received")
class Received:
    """All below the sender have had messages for good (section 6.1).

    Attributes:
        topic: Their topic.
        covered: Those below it, and the sender.
        runs: Their numbers by source, in runs without a gap.
    """

    topic: str
    covered: tuple[int, ...]
    runs: Runs


@message("Collect")
class Collect:
    """All members have had messages, so buffers drop them (section 6.1).

    Attributes:
        topic: Their topic.
        runs: Their numbers by source, in runs without a gap.
    """

    topic: str
    runs: Runs


MESSAGES = (
    Subscribe, Subscribed, Metadata, TotalAck, TotalProcessed, Failed, ParentRequest, ParentResponse, ParentBuffer,
    LostMessageRequest, LostMessages, TreeViewUpdate, RootElection, Lacking, Repeat, JoinTopic, TopicJoined, Received,
    Collect,
)  # fmt: skip
