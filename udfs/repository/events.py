"""The values that events carry, and the events that clients send; names as in section 3 and Figure 1 of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

from udfs.nodes.records import message


class Catenated(Protocol):
    """The catenation that names a message."""

    @property
    def publisher(self) -> int:
        """The publisher."""

    @property
    def incarnation(self) -> int:
        """The round of its start."""

    @property
    def n(self) -> int:
        """The message's number in it."""


class Key(NamedTuple):
    """Identifies a message: its catenation (rule P1)."""

    publisher: int
    incarnation: int
    n: int

    @classmethod
    def of(cls, row: Catenated) -> Key:
        """Returns the key of the message that a row is about."""
        return cls(row.publisher, row.incarnation, row.n)


@dataclass(frozen=True, slots=True)
class Upto:
    """All messages of a publisher's incarnation up to a number.

    Attributes:
        publisher: The publisher.
        incarnation: The round of its start.
        n: The number of the last message; 0: none.
    """

    publisher: int
    incarnation: int
    n: int


@dataclass(frozen=True, slots=True)
class Publication:
    """A message as its publisher issued it.

    Attributes:
        source: The publisher.
        source_seq: Its number among the calls there; with ``source`` the message's identifier.
        issued_round: The round of the call.
        matches: Ids of the subscriptions whose predicate it satisfies.
    """

    source: int
    source_seq: int
    issued_round: int
    matches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Interest:
    """A subscription as repositories know it.

    Attributes:
        subscription_id: The subscription.
        cut: Up to where it does not ask for messages (rule P10).
    """

    subscription_id: int
    cut: tuple[Upto, ...]


@dataclass(frozen=True, slots=True)
class Addressed:
    """An event on a link.

    Attributes:
        to: The receivers; a broker forwards one copy per link.
        origin: The first sender.
        hops: Links that it has travelled over.
        topic: The topic that it is about.
    """

    to: tuple[int, ...]
    origin: int
    hops: int
    topic: str


@dataclass(frozen=True, slots=True)
class Identified(Addressed):
    """An event about one message.

    Attributes:
        source: The message's publisher.
        source_seq: Its number among the calls there.
    """

    source: int
    source_seq: int


@dataclass(frozen=True, slots=True)
class Carrying(Identified):
    """An event that carries a message.

    Attributes:
        issued_round: The round in which it was published.
        matches: Ids of the subscriptions whose predicate it satisfies.
    """

    issued_round: int
    matches: tuple[int, ...]

    @property
    def publication(self) -> Publication:
        """The message."""
        return Publication(self.source, self.source_seq, self.issued_round, self.matches)


@dataclass(frozen=True, slots=True)
class Designated(Addressed):
    """An event between a client and repositories.

    Attributes:
        designation: The number of the client's designation (rule P12).
        steering: The repository that it designates.
    """

    designation: int
    steering: int


@dataclass(frozen=True, slots=True)
class Run:
    """Sequence numbers without a gap.

    Attributes:
        first: The first one.
        last: The last one.
    """

    first: int
    last: int


@message("Message")
class Message(Carrying):
    """A published message, on its way to subscribers and repositories."""


@message("C2R-Probe")
class Probe(Addressed):
    """A client asks for the repositories of a topic (section 4.1).

    Attributes:
        role: The role of the client: publisher or subscriber.
    """

    role: str


@message("P2R-Order")
class Order(Designated):
    """Announces the catenation of a message (section 3.4).

    Attributes:
        source: The publisher.
        source_seq: The message's number among the calls there.
        incarnation: The round of the publisher's start.
        n: Its catenation number.
    """

    source: int
    source_seq: int
    incarnation: int
    n: int


@message("P2R-Retransmit")
class Retransmit(Carrying):
    """A message again, with its catenation (section 3.6).

    Attributes:
        designation: The number of the publisher's designation.
        steering: The repository that it designates.
        incarnation: The round of the publisher's start.
        n: Its catenation number.
    """

    designation: int
    steering: int
    incarnation: int
    n: int


@message("P2R-Recovery")
class PublisherRecovery(Designated):
    """A publisher has started, or designates another repository (section 3.11).

    Attributes:
        incarnation: The round of its start.
    """

    incarnation: int


@message("S2R-Subscribe")
class Subscribe(Designated):
    """Asks where new subscriptions are to start (rule P10).

    Attributes:
        subscription_ids: The subscriptions.
    """

    subscription_ids: tuple[int, ...]


@message("S2R-Recovery")
class SubscriberRecovery(Designated):
    """A subscriber designates a repository, or asks it where it is (section 3.11).

    Attributes:
        interests: All its subscriptions.
    """

    interests: tuple[Interest, ...]


@message("S2R-ACK")
class SubscriberAck(Designated):
    """Acknowledges messages that were delivered (section 3.8, rule P8).

    Attributes:
        runs: Their sequence numbers at the steering repository.
    """

    runs: tuple[Run, ...]


@message("S2R-NAK")
class SubscriberNak(Designated):
    """Asks for messages that are missing (section 3.8).

    Attributes:
        seqs: Their sequence numbers at the steering repository.
    """

    seqs: tuple[int, ...]


@message("Register")
class Register(Addressed):
    """The owner of a topic authorises a client (section 3.3).

    Attributes:
        client: The client.
        role: The authorised role: publisher or subscriber.
        number: The number of the action; of two the higher one counts.
    """

    client: int
    role: str
    number: int


@message("Deregister")
class Deregister(Addressed):
    """The owner of a topic withdraws an authorisation (section 3.3).

    Attributes:
        client: The client.
        role: The withdrawn role: publisher or subscriber.
        number: The number of the action; of two the higher one counts.
    """

    client: int
    role: str
    number: int
