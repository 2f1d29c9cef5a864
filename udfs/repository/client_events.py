"""Events that clients send; names as in section 3 and Figure 1 of the paper."""

from __future__ import annotations

from dataclasses import dataclass

from udfs.nodes.records import message
from udfs.repository.events import Addressed, Carrying, Designated, Interest


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
    """A client asks who is there (section 4.1).

    Attributes:
        role: What it will be steered as: publisher or subscriber.
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
        role: What it may be: publisher or subscriber.
        number: The number of the action; of two the higher one counts.
    """

    client: int
    role: str
    number: int


@message("Deregister")
class Deregister(Addressed):
    """The owner of a topic takes an authorisation back (section 3.3).

    Attributes:
        client: The client.
        role: What it was: publisher or subscriber.
        number: The number of the action; of two the higher one counts.
    """

    client: int
    role: str
    number: int
