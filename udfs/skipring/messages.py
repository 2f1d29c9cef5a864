"""The messages between subscribers, and between them and the supervisor; each is about one topic."""

from __future__ import annotations

from typing import Any

from udfs.nodes.context import Context
from udfs.nodes.records import message
from udfs.skipring.labels import Label
from udfs.skipring.state import Contact
from udfs.skipring.trie import NodeHash, Publication

LIN, CYC, COR = "LIN", "CYC", "COR"
"""The purpose of an introduction: the sorted list, the closing edge, the correction of a label."""


@message()
class Subscribe:
    """A request of the sender to be recorded (4.1).

    Attributes:
        topic: The topic.
    """

    topic: str


@message()
class Unsubscribe:
    """A request of the sender to leave (4.1).

    Attributes:
        topic: The topic.
    """

    topic: str


@message()
class GetConfiguration:
    """A request of the sender for its own configuration (3.2.1, rule K13).

    Attributes:
        topic: The topic.
        reason: ``label``: action (ii); ``minimum``: action (iv); ``silence``: a neighbour has been silent.
    """

    topic: str
    reason: str


@message()
class RequestFor:
    """A request that another subscriber gets its configuration: action (iii) of 3.2.1.

    Attributes:
        topic: The topic.
        subscriber: The other subscriber.
    """

    topic: str
    subscriber: int


@message()
class SetData:
    """A configuration from the supervisor; without a label: the receiver is not recorded, and may leave.

    Attributes:
        topic: The topic.
        predecessor: The node before the receiver on the ring, or None.
        label: The receiver's label; None: it has none.
        successor: The node after the receiver on the ring, or None.
        reason: ``round_robin``, ``subscribe``, ``request``, ``moved``: its label has changed as another node has left;
            ``leave``: permission to leave.
    """

    topic: str
    predecessor: Contact | None
    label: Label | None
    successor: Contact | None
    reason: str


@message()
class Remove:
    """A request to delete all references to a node (4.1, rule K4).

    Attributes:
        topic: The topic.
        node: The node.
    """

    topic: str
    node: int


@message()
class Introduce:
    """An introduction of a node by BuildRing (2.2).

    Attributes:
        topic: The topic.
        node: The node that is introduced.
        label: Its label.
        believed: The label that it believes the receiver to have; None: it has not said so.
        flag: ``LIN``, ``CYC`` or ``COR``.
    """

    topic: str
    node: int
    label: Label
    believed: Label | None
    flag: str


@message()
class IntroduceShortcut:
    """An introduction of a node for a slot (3.2.2).

    Attributes:
        topic: The topic.
        node: The node that is introduced.
        label: Its label.
    """

    topic: str
    node: int
    label: Label


@message()
class CheckTrie:
    """A request to compare nodes of tries (4.2); one for two nodes stands for two requests.

    Attributes:
        topic: The topic.
        nodes: Nodes of the sender's trie.
    """

    topic: str
    nodes: tuple[NodeHash, ...]


@message()
class CheckAndPublish:
    """A request to compare a node of tries, and to send publications (4.2).

    Attributes:
        topic: The topic.
        trie_node: A node of the sender's trie; None: nothing is to be compared.
        prefix: The start of the keys of the publications that the sender lacks.
    """

    topic: str
    trie_node: NodeHash | None
    prefix: str


@message()
class Publish:
    """Publications that the receiver has asked for (4.2).

    Attributes:
        topic: The topic.
        publications: The publications.
    """

    topic: str
    publications: tuple[Publication, ...]


@message()
class PublishNew:
    """A publication on its way by flooding (4.3).

    Attributes:
        topic: The topic.
        key: Its key.
        source: The node that published it.
        source_seq: Its number among the calls there.
        issued_round: The round in which it was published.
        hops: Links that it has travelled over when it is received.
    """

    topic: str
    key: str
    source: int
    source_seq: int
    issued_round: int
    hops: int


REQUESTS = (Subscribe, GetConfiguration, RequestFor, Unsubscribe)
"""The messages that supervisors receive."""
MESSAGES = (
    *REQUESTS, Remove, SetData, Introduce, IntroduceShortcut, PublishNew, Publish, CheckTrie, CheckAndPublish,
)  # fmt: skip


def send(ctx: Context, dst: int, message: Any) -> None:  # noqa: ANN401 - any message of `MESSAGES`
    """Sends a message over a channel that is not FIFO: its delay is drawn (rule K15)."""
    least, most = int(ctx.settings["min_delay"]), int(ctx.settings["max_delay"])
    delay = least + int(ctx.draw("delay", len(ctx.sent)) * (most - least + 1))
    ctx.send(dst, message, after=delay)
