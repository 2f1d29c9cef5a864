"""Events that repositories send to clients; names as in section 3 and Figure 1 of the paper."""

from __future__ import annotations

from dataclasses import dataclass

from udfs.nodes.records import message
from udfs.repository.events import Addressed, Carrying, Designated, Identified, Upto


@dataclass(frozen=True, slots=True)
class Receiver:
    """A subscriber that a persistence notification is for.

    Attributes:
        client: The subscriber.
        designation: The number of its designation.
        prev: The sequence number of the message before this one that is for it.
    """

    client: int
    designation: int
    prev: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A stored message that a subscriber has not acknowledged.

    Attributes:
        seq: Its sequence number.
        source: Its publisher.
        source_seq: Its number among the calls there.
        incarnation: The round of the publisher's start.
        n: Its catenation number.
    """

    seq: int
    source: int
    source_seq: int
    incarnation: int
    n: int


@message("R2C-Probe")
class ProbeAnswer(Addressed):
    """A member of the bundle answers a probe.

    Attributes:
        role: As in the probe.
        is_operational: Whether it may steer the client.
        members: The bundle's members.
    """

    role: str
    is_operational: bool
    members: tuple[int, ...]


@message("R2C-Migrate")
class Migrate(Addressed):
    """A repository that leaves asks a client to turn to another one (section 4.10).

    Attributes:
        role: What it steers the client as.
        designation: The number of the client's designation.
    """

    role: str
    designation: int


@message("Refuse")
class Refuse(Addressed):
    """A client is not authorised for the topic.

    Attributes:
        role: What it is not authorised to be.
        designation: The number of the client's designation.
    """

    role: str
    designation: int


@message("R2C-Confirm")
class RegistrationConfirm(Addressed):
    """A registration or deregistration is stored.

    Attributes:
        client: The client.
        role: What it may be, or not.
        number: The number of the action.
    """

    client: int
    role: str
    number: int


@message("R2P-ACK")
class PublisherAck(Designated):
    """Acknowledges messages of a publisher (section 3.5, rule P3).

    Attributes:
        incarnation: The round of the publisher's start.
        single: Catenation numbers of messages that are stored.
        upto: All up to this one are stored, and so is all before them.
        stable: All up to this one are held by every member of the bundle.
        members: The bundle's members.
        registered: The registered subscribers; None: the topic is open to all.
    """

    incarnation: int
    single: tuple[int, ...]
    upto: int
    stable: int
    members: tuple[int, ...]
    registered: tuple[int, ...] | None


@message("R2P-NAK")
class PublisherNak(Designated):
    """Asks a publisher for messages again (section 3.5).

    Attributes:
        incarnation: The round of the publisher's start.
        ns: The catenation numbers of the messages.
    """

    incarnation: int
    ns: tuple[int, ...]


@message("R2P-Recovery")
class PublisherRecovered(Designated):
    """Answers a publisher's recovery (section 3.11).

    Attributes:
        incarnation: The round of the publisher's start.
        upto: The last known catenation number of it.
        members: The bundle's members.
        registered: The registered subscribers; None: the topic is open to all.
    """

    incarnation: int
    upto: int
    members: tuple[int, ...]
    registered: tuple[int, ...] | None


@message("R2S*-Persistent")
class Persistent(Identified):
    """A message is stored: sent to the matching subscribers only (section 3.7, rule P6).

    Attributes:
        seq: Its sequence number.
        incarnation: The round of its publisher's start.
        n: Its catenation number.
        receivers: Whom it is for.
    """

    seq: int
    incarnation: int
    n: int
    receivers: tuple[Receiver, ...]


@message("R2S-Retransmit")
class SubscriberRetransmit(Carrying):
    """A stored message again (Figure 1).

    Attributes:
        designation: The number of the subscriber's designation.
        steering: The repository that it designates.
        seq: Its sequence number.
        prev: The sequence number of the message before this one that is for the subscriber.
        incarnation: The round of its publisher's start.
        n: Its catenation number.
    """

    designation: int
    steering: int
    seq: int
    prev: int
    incarnation: int
    n: int


@message("R2S-Sync")
class Sync(Designated):
    """Advances a subscriber's sync (section 3.9).

    Attributes:
        sync: Up to this number it has acknowledged all that is for it.
        members: The bundle's members.
    """

    sync: int
    members: tuple[int, ...]


@message("R2S-Rectify")
class Rectify(Designated):
    """Lists what a subscriber has not acknowledged (section 3.9, rule P7).

    Attributes:
        sync: Up to this number it has acknowledged all that is for it.
        listed: The messages behind it that it has not acknowledged, in order.
        upto: The number up to which they are listed.
        members: The bundle's members.
    """

    sync: int
    listed: tuple[Listed, ...]
    upto: int
    members: tuple[int, ...]


@message("R2S-Confirm")
class SubscribeConfirm(Designated):
    """Answers S2R-Subscribe (rule P10).

    Attributes:
        subscription_ids: The subscriptions.
        prefix: What is stored: where they are to start.
        upto: The last sequence number of what is stored.
    """

    subscription_ids: tuple[int, ...]
    prefix: tuple[Upto, ...]
    upto: int
