"""The messages of the thesis, under their names in the thesis. Column ``body`` has the fields in the declared order."""

from __future__ import annotations

from typing import Annotated, NamedTuple

from udfs.ginger.buffer import Message, MissingSets, Runs
from udfs.nodes.records import message

ACCEPTED, DECLINED = "accepted", "declined"
"""Answers to a ParentRequest."""
JOINING = "joining"
"""Answer to a ParentRequest: the broker first joins sub-trees of topics, and accepts the sender afterwards."""
BACK = "back"
"""Answer to a ParentRequest: the broker is a newcomer, which has no position in the tree yet."""


class Step(NamedTuple):
    """A broker on the path of a Subscribe."""

    address: int
    hop_count: int  # links from the broker to the sender of the message
    direction: str  # up or down: the direction of the link to the next broker


class Seen(NamedTuple):
    """A broker in the view that a TreeViewUpdate carries, with its path to the sender."""

    broker: int
    n_up: int  # links upwards at the beginning of the path
    n_down: int  # links downwards in the rest of the path
    latency_rounds: int  # latency of the path
    incarnation: int = 0  # number of recoveries of the broker


class Incarnation(NamedTuple):
    """A broker between two crashes."""

    broker: int
    incarnation: int  # number of recoveries of the broker


@message("Subscribe")
class Subscribe:
    """The announcement of a client's subscription, which floods the tree of brokers (sections 3.4 and 4.2.1)."""

    source: Annotated[int, "the client"]
    source_seq: Annotated[int, "number of the subscription among the client's calls"]
    topic: Annotated[str, "the topic"]
    subscription_id: Annotated[int, "the subscription"]
    edge: Annotated[int | None, "the client's edge broker; null: the client itself sent the message"] = None
    path: Annotated[tuple[Step, ...], "brokers that forwarded the message, the last first, within maxHops"] = ()
    way: Annotated[tuple[int, ...], "all brokers that forwarded the message, the edge broker first"] = ()


@message("Subscribed")
class Subscribed:
    """The report that all brokers to which the sender forwarded a Subscribe have answered Subscribed."""

    source: Annotated[int, "the client"]
    source_seq: Annotated[int, "number of the subscription among the client's calls"]
    subscription_id: Annotated[int, "the subscription"]


@message()
class About:
    """The base class of messages about a publication: fields that identify and describe the publication."""

    topic: Annotated[str, "the topic of the message"]
    source: Annotated[int, "the client that published the message"]
    source_seq: Annotated[int, "number of the publication among the client's calls"]
    guarantee: Annotated[str, "delivery guarantee of the message"]
    keys: Annotated[tuple[str, ...], "key items of the message"]
    issued_round: Annotated[int, "round in which the client issued the message"]

    @property
    def message(self) -> Message:
        """The published message."""
        return Message(self.topic, self.source, self.source_seq, self.guarantee, self.keys, self.issued_round)


@message("Metadata")
class Metadata(About):
    """A published message. If it is in total order, it is also a request to lock its key items (section 3.5)."""

    hops: Annotated[int, "number of links that the message has traversed"]
    covered: Annotated[tuple[int, ...], "total order, on the way up: nodes that have locked the key items"] = ()


@message("TotalAck")
class TotalAck(About):
    """The report of a child that all members in the child's part of the sub-tree have locked the key items."""

    hops: Annotated[int, "number of links that the message has traversed"]
    covered: Annotated[tuple[int, ...], "nodes that have locked the key items"]


@message("TotalProcessed")
class TotalProcessed(About):
    """The report of the topic's root that all members have locked the key items. Receivers unlock them."""

    hops: Annotated[int, "number of links that the message has traversed"]


@message("Failed")
class Failed:
    """The report that a broker has failed. The message floods the tree in FIFO order (rule G3)."""

    failed: Annotated[int, "the failed broker"]
    incarnation: Annotated[int, "the latest incarnation of the broker that has failed, as far as the sender knows"]


@message("Current")
class Current:
    """The report to a neighbour in the sub-tree of a topic that the sender is current (rule G34)."""

    topic: Annotated[str, "the topic"]


@message("ParentRequest")
class ParentRequest:
    """The request of a node to become a child of the receiver (Alg. 3 and 4)."""

    topics: Annotated[tuple[str, ...], "topics whose sub-tree contained the failed parent; of a client: all its topics"]
    break_degree: Annotated[bool, "whether to accept even with totalDegree connections (breakDegree)"]
    is_joining: Annotated[bool, "whether the node is new in the tree"] = False
    is_client: Annotated[bool, "whether the node is a client"] = False
    subscribed: Annotated[tuple[str, ...], "topics that a client subscribes to"] = ()
    incarnation: Annotated[int, "number of recoveries of the node"] = 0


@message("ParentResponse")
class ParentResponse:
    """The answer to a ParentRequest (Alg. 5)."""

    answer: Annotated[str, "accepted, declined; joining: joins sub-trees first; back: the sender has no position"]
    incarnation: Annotated[int, "incarnation in the ParentRequest"] = 0
    own_incarnation: Annotated[int, "number of recoveries of the sender"] = 0


@message("Disconnect")
class Disconnect:
    """The message to a node that wrongly regards the sender as its neighbour (rule G28)."""


@message("ParentBuffer")
class ParentBuffer:
    """The answer of a new parent to its new child: the ids of the messages that the parent has received (Alg. 10)."""

    told: Annotated[MissingSets, "ids of messages that the parent has, and all fields of the exchange except events"]


@message("LostMessageRequest")
class LostMessageRequest:
    """The messages that the new parent lacks, and the ids of the messages that the child has received (Alg. 11)."""

    told: Annotated[MissingSets, "messages that the parent lacks, and ids of the child"]


@message("LostMessages")
class LostMessages:
    """The answer of a new parent to LostMessageRequest (Alg. 12)."""

    told: Annotated[MissingSets, "messages that the child lacks, and ids of the parent"]


@message("TreeViewUpdate")
class TreeViewUpdate:
    """A broker's view of the tree, for its children and clients (Alg. 2)."""

    seen: Annotated[tuple[Seen, ...], "brokers of the view, except the receiver"]


@message("RootElection")
class RootElection:
    """A vote for a new root (Alg. 7), or the answer to a vote."""

    vote: Annotated[int | None, "residual degree of the sender; null: the sender has a parent or is the root"]
    brokers: Annotated[
        tuple[Incarnation, ...],
        "brokers that have failed, each with its latest failed incarnation; without a vote: brokers above the sender",
    ]
    incarnation: Annotated[int, "number of recoveries of the sender"] = 0


@message("Exception")
class Lacking(About):
    """Message Exception: the request to a publisher for a message whose body has left the buffers (4.3.2.3)."""

    lacking: Annotated[int, "node that lacks the message"]


@message("Repeat")
class Repeat(About):
    """Message Repeat: a publisher resends a missing message after it has received message Exception."""

    lacking: Annotated[int, "node that lacks the message"]


@message("JoinTopic")
class JoinTopic:
    """The request of a neighbour to join the sub-tree of a topic (section 4.2.3)."""

    topic: Annotated[str, "the topic"]


@message("TopicJoined")
class TopicJoined:
    """The answer to JoinTopic. A sender in the sub-tree adds its state of the topic."""

    topic: Annotated[str, "the topic"]
    told: Annotated[MissingSets | None, "the sender's state of the topic; null: the sender is outside its sub-tree"]


@message("Received")
class Received:
    """The report of the messages that the sender and all nodes below it have received (section 6.1)."""

    topic: Annotated[str, "topic of the messages"]
    covered: Annotated[tuple[int, ...], "the sender, and the nodes below it"]
    runs: Annotated[Runs, "first and last numbers of runs of messages, by source"]


@message("Collect")
class Collect:
    """The request to drop messages from buffers, because all members have received them (section 6.1)."""

    topic: Annotated[str, "topic of the messages"]
    runs: Annotated[Runs, "first and last numbers of runs of messages, by source"]


MESSAGES = (
    Subscribe, Subscribed, Metadata, TotalAck, TotalProcessed, Failed, Current, ParentRequest, ParentResponse,
    Disconnect, ParentBuffer, LostMessageRequest, LostMessages, TreeViewUpdate, RootElection, Lacking, Repeat,
    JoinTopic, TopicJoined, Received, Collect,
)  # fmt: skip
