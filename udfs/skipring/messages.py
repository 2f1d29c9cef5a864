"""The messages of the skip ring. Each message is about one topic."""

from __future__ import annotations

from typing import Annotated, Any

from udfs.nodes.context import Context
from udfs.nodes.records import message
from udfs.skipring.labels import Label
from udfs.skipring.state import Contact
from udfs.skipring.trie import NodeHash, Publication

LIN, CYC, COR = "LIN", "CYC", "COR"
"""Purposes of an introduction: to insert a node into the sorted list, to close the ring, or to correct a label."""


@message()
class OfTopic:
    """The base class of messages about the ring of a topic."""

    topic: Annotated[str, "topic of the ring"]


@message()
class Subscribe(OfTopic):
    """A node's request to the supervisor to add the node to the database (section 4.1)."""


@message()
class Unsubscribe(OfTopic):
    """A node's request to leave the ring of the topic (section 4.1)."""


@message()
class GetConfiguration(OfTopic):
    """A subscriber's request for its own configuration (section 3.2.1, rule K13)."""

    reason: Annotated[str, "``label``: action (ii); ``minimum``: action (iv); ``silence``: a neighbour is silent"]


@message()
class RequestFor(OfTopic):
    """A request to send another subscriber the configuration of that subscriber (section 3.2.1, action (iii))."""

    subscriber: Annotated[int, "id of the subscriber that is to get its configuration"]


@message()
class SetData(OfTopic):
    """The configuration of a subscriber, sent by the supervisor (section 3.2.1)."""

    predecessor: Annotated[Contact | None, "node before the receiver on the ring; null: no such node"]
    label: Annotated[Label | None, "the receiver's label; null: the receiver is not recorded, and may leave"]
    successor: Annotated[Contact | None, "node after the receiver on the ring; null: no such node"]
    reason: Annotated[
        str, "``round_robin``, ``subscribe``, ``request``, ``moved`` (to the label of a node that left) or ``leave``"
    ]


@message()
class Remove(OfTopic):
    """A request to delete all references to a node (section 4.1, rule K4)."""

    node: Annotated[int, "id of the node"]


@message()
class Introduce(OfTopic):
    """BuildRing (section 2.2): introduces a node to a possible neighbour on the ring."""

    node: Annotated[int, "id of the introduced node"]
    label: Annotated[Label, "label of the introduced node"]
    believed: Annotated[
        Label | None, "the receiver's label as the introduced node knows it; null: the sender forwards the introduction"
    ]
    flag: Annotated[str, "purpose: ``LIN``, ``CYC`` or ``COR``"]


@message()
class IntroduceShortcut(OfTopic):
    """Introduces a node that fits a shortcut slot of the receiver (section 3.2.2)."""

    node: Annotated[int, "id of the introduced node"]
    label: Annotated[Label, "label of the introduced node"]


@message()
class CheckTrie(OfTopic):
    """A request to compare trie nodes of the sender with the receiver's trie (section 4.2).

    In the paper, a request contains one trie node. Here it may contain several.
    """

    nodes: Annotated[tuple[NodeHash, ...], "trie nodes of the sender"]


@message()
class CheckAndPublish(OfTopic):
    """A request to compare a trie node of the sender, and to send publications that the sender lacks (section 4.2)."""

    trie_node: Annotated[NodeHash | None, "trie node of the sender; null: nothing to compare"]
    prefix: Annotated[str, "prefix of the keys of the publications that the sender lacks"]


@message()
class Publish(OfTopic):
    """The answer to CheckAndPublish: the publications that the requesting node lacks (section 4.2)."""

    publications: Annotated[tuple[Publication, ...], "the publications"]


@message()
class PublishNew(OfTopic):
    """A publication that spreads by flooding (section 4.3)."""

    key: Annotated[str, "key of the publication"]
    source: Annotated[int, "id of the publisher"]
    source_seq: Annotated[int, "number of the publication among its publisher's calls"]
    issued_round: Annotated[int, "round of the publish call"]
    hops: Annotated[int, "number of links from the publisher to the receiver"]


REQUESTS = (Subscribe, GetConfiguration, RequestFor, Unsubscribe)
"""The messages that supervisors handle; subscribers handle all other messages."""
MESSAGES = (
    *REQUESTS, Remove, SetData, Introduce, IntroduceShortcut, PublishNew, Publish, CheckTrie, CheckAndPublish,
)  # fmt: skip


def send(ctx: Context, dst: int, message: Any) -> None:  # noqa: ANN401 - any message of `MESSAGES`
    """Sends `message` to node `dst` with a random delay, so that a channel is not FIFO (rule K15)."""
    least, most = int(ctx.settings["min_delay"]), int(ctx.settings["max_delay"])
    ctx.send(dst, message, after=least + int(ctx.draw("delay", len(ctx.sent)) * (most - least + 1)))
