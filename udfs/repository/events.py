"""The base classes of all events, and the events that clients send.

Names follow section 3 and Figure 1 of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NamedTuple, Protocol

from udfs.nodes.records import message, record


class Catenated(Protocol):
    """A record or event about one message, with the message's incarnation and number (its catenation)."""

    @property
    def publisher(self) -> int:
        """Id of the message's publisher."""

    @property
    def incarnation(self) -> int:
        """The round in which the publisher's incarnation started."""

    @property
    def n(self) -> int:
        """The message's catenation number."""


class Key(NamedTuple):
    """The catenation of a message, which identifies the message within a topic (rule P1).

    In cuts and prefixes, a key stands for all messages of its incarnation up to number `n`; 0 stands for no message.
    """

    publisher: int
    incarnation: int
    n: int

    @classmethod
    def of(cls, row: Catenated) -> Key:
        """Returns the key of the message that `row` is about."""
        return cls(row.publisher, row.incarnation, row.n)


@record(key="topic")
class OfTopic:
    """A record about a topic."""

    topic: Annotated[str, "the topic"]


@record(key="topic, publisher, incarnation, n")
class OfMessage(OfTopic):
    """A record about a message of a topic."""

    publisher: Annotated[int, "id of the message's publisher"]
    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    n: Annotated[int, "catenation number of the message within the incarnation"]


@record(key="topic, client, role")
class OfRole(OfTopic):
    """A record about the latest action or designation of a client in a role."""

    client: Annotated[int, "id of the client"]
    role: Annotated[str, "role of the client: publisher or subscriber"]
    number: Annotated[
        int, "number of the action or designation; if two conflict, the one with the higher number is valid"
    ]


@dataclass(frozen=True, slots=True)
class Publication:
    """A publication: its id, its round of issue, and the subscriptions whose predicates its content satisfies."""

    source: Annotated[int, "id of the publisher"]
    source_seq: Annotated[
        int, "number of the publication among its publisher's calls; with ``source`` the message's identifier"
    ]
    issued_round: Annotated[int, "round of the publish call"]
    matches: Annotated[tuple[int, ...], "ids of the subscriptions whose predicate the message satisfies"]


@dataclass(frozen=True, slots=True)
class Interest:
    """A subscription of a client, and its cut: for each incarnation, the last message before the subscription."""

    subscription_id: Annotated[int, "id of the subscription"]
    cut: Annotated[
        tuple[Key, ...], "cut: messages up to these numbers are not delivered to the subscription (rule P10)"
    ]


@dataclass(frozen=True, slots=True)
class Addressed:
    """An event with its receivers: the base class of all events about a topic."""

    to: Annotated[tuple[int, ...], "receivers; a broker forwards one copy per link"]
    origin: Annotated[int, "id of the node that created the event"]
    hops: Annotated[int, "number of links from the origin to this node"]
    topic: Annotated[str, "topic of the event"]


@dataclass(frozen=True, slots=True)
class Identified(Addressed):
    """An event about one message."""

    source: Annotated[int, "id of the message's publisher"]
    source_seq: Annotated[int, "number of the publication among its publisher's calls"]


@dataclass(frozen=True, slots=True)
class Carrying(Identified):
    """An event that carries a message."""

    issued_round: Annotated[int, "round of the publish call"]
    matches: Annotated[tuple[int, ...], "ids of the subscriptions whose predicate the message satisfies"]

    @property
    def publication(self) -> Publication:
        """The message, without the fields of the event."""
        return Publication(self.source, self.source_seq, self.issued_round, self.matches)


@dataclass(frozen=True, slots=True)
class Designated(Addressed):
    """An event between a client and repositories, with the client's designation of a steering repository."""

    designation: Annotated[int, "number of the client's designation (rule P12)"]
    steering: Annotated[int, "repository that the client designates"]


@dataclass(frozen=True, slots=True)
class Authorising(Addressed):
    """An event about an action of the topic's owner: the registration or deregistration of a client."""

    client: Annotated[int, "client of the action"]
    role: Annotated[str, "role of the client: publisher or subscriber"]
    number: Annotated[int, "number of the action; if two conflict, the one with the higher number is valid"]


@dataclass(frozen=True, slots=True)
class Run:
    """A range of consecutive sequence numbers."""

    first: Annotated[int, "first number"]
    last: Annotated[int, "last number"]


@message("Message")
class Message(Carrying):
    """A publication on its way to subscribers and repositories."""


@message("C2R-Probe")
class Probe(Addressed):
    """A client's request for the operational repositories of a topic (section 4.1)."""

    role: Annotated[str, "role of the client: publisher or subscriber"]
    designation: Annotated[int, "number of the client's designation before its search"]


@message("P2R-Order")
class Order(Designated):
    """A publisher's announcement of the catenation of a message (section 3.4)."""

    source: Annotated[int, "id of the message's publisher"]
    source_seq: Annotated[int, "number of the publication among its publisher's calls"]
    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    n: Annotated[int, "catenation number of the message within the incarnation"]


@message("P2R-Retransmit")
class Retransmit(Carrying):
    """A publisher's answer to R2P-NAK: the message with its catenation (section 3.6)."""

    designation: Annotated[int, "number of the publisher's designation"]
    steering: Annotated[int, "repository that the publisher designates"]
    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    n: Annotated[int, "catenation number of the message within the incarnation"]


@message("P2R-Recovery")
class PublisherRecovery(Designated):
    """A publisher's announcement that it has started, or has chosen another steering repository (section 3.11)."""

    incarnation: Annotated[int, "round in which the publisher started"]


@message("S2R-Subscribe")
class Subscribe(Designated):
    """A subscriber's request for the cuts of new subscriptions (rule P10)."""

    subscription_ids: Annotated[tuple[int, ...], "ids of the new subscriptions"]


@message("S2R-Recovery")
class SubscriberRecovery(Designated):
    """A subscriber's designation, and all its subscriptions on the topic (section 3.11). The answer is R2S-Rectify."""

    interests: Annotated[tuple[Interest, ...], "all subscriptions of the client on the topic"]


@message("S2R-ACK")
class SubscriberAck(Designated):
    """A subscriber's acknowledgement of delivered messages (section 3.8; rule P8)."""

    runs: Annotated[tuple[Run, ...], "sequence numbers of the messages at the steering repository"]


@message("S2R-NAK")
class SubscriberNak(Designated):
    """A subscriber's request for missing messages (section 3.8)."""

    seqs: Annotated[tuple[int, ...], "sequence numbers of the messages at the steering repository"]


@message("Register")
class Register(Authorising):
    """The authorisation of a client by the owner of the topic (section 3.3)."""


@message("Deregister")
class Deregister(Authorising):
    """The withdrawal of an authorisation by the owner of the topic (section 3.3)."""
