"""Events that repositories send, to clients and within their bundle; names as in sections 3 and 4 and Figure 1."""

from __future__ import annotations

from dataclasses import dataclass

from udfs.nodes.records import message
from udfs.repository.events import Addressed, Carrying, Designated, Identified, Interest, Publication, Upto


@dataclass(frozen=True, slots=True)
class Action:
    """A registration, deregistration or change of subscriptions; it takes a sequence number.

    Attributes:
        client: The client that it is about.
        role: The role of the client: publisher or subscriber.
        number: Of two actions about the same thing the one with the higher number counts.
        interests: All subscriptions of the client; None: the action is about its registration.
        is_registered: Whether the client is authorised from then on.
        cut: Deregistration: messages behind it are excluded.
    """

    client: int
    role: str
    number: int
    interests: tuple[Interest, ...] | None = None
    is_registered: bool = True
    cut: tuple[Upto, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """The content of a repository's sequence number.

    Attributes:
        seq: The number.
        publisher: The message's publisher.
        incarnation: The round of the publisher's start.
        n: The catenation number.
        action: The action that took the number; None: a message did.
    """

    seq: int
    publisher: int
    incarnation: int
    n: int
    action: Action | None


@dataclass(frozen=True, slots=True)
class Choice:
    """The designation of a client.

    Attributes:
        client: The client.
        role: The role of the client: publisher or subscriber.
        number: The number of the designation.
        repository: The repository.
    """

    client: int
    role: str
    number: int
    repository: int


@dataclass(frozen=True, slots=True)
class SyncFact:
    """How far a steered subscriber has acknowledged (rule P16).

    Attributes:
        client: The subscriber.
        seq: Up to this number of the sender's.
        subscription_ids: The subscriptions that this is about.
    """

    client: int
    seq: int
    subscription_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """How much a repository has had of another one's entries.

    Attributes:
        repository: The other one.
        seq: All up to this number.
    """

    repository: int
    seq: int


@dataclass(frozen=True, slots=True)
class Copy:
    """A stored message for another repository.

    Attributes:
        incarnation: The round of its publisher's start.
        n: Its catenation number.
        publication: The message.
        acknowledged: The subscribers that have acknowledged it: its dissemination list.
    """

    incarnation: int
    n: int
    publication: Publication
    acknowledged: tuple[int, ...]


@message("Gossip-ACK")
class GossipAck(Addressed):
    """The entries of a repository since the last gossip that its peer has received (section 4.5, rule P17).

    Attributes:
        base: The entries follow this number.
        frontier: The entries end with this number.
        entries: The stored messages in between, and the actions behind.
        beyond: Messages that are stored behind the first reserved number (rule P18).
        seen: The sender's position in each member's entries.
        members: The members of the bundle.
        leaving: The members that are about to leave.
        left: The repositories that have left.
        newest: The newest incarnation of each publisher.
        choices: The designations of all clients.
        syncs: How far its steered subscribers have acknowledged.
        is_complete: Whether the sender has been operational once.
    """

    base: int
    frontier: int
    entries: tuple[Entry, ...]
    beyond: tuple[Upto, ...]
    seen: tuple[Told, ...]
    members: tuple[int, ...]
    leaving: tuple[int, ...]
    left: tuple[int, ...]
    newest: tuple[Upto, ...]
    choices: tuple[Choice, ...]
    syncs: tuple[SyncFact, ...]
    is_complete: bool


@message("Gossip-LEAVE")
class GossipLeave(Addressed):
    """A repository has left the bundle (section 4.10)."""


@message("R2R-NAK")
class BundleNak(Addressed):
    """Asks another repository for messages (rule P19).

    Attributes:
        keys: The messages, each as the last one of an `Upto`.
    """

    keys: tuple[Upto, ...]


@message("R2R-Retransmit")
class BundleRetransmit(Addressed):
    """Messages for another repository (rule P19).

    Attributes:
        copies: The messages.
    """

    copies: tuple[Copy, ...]


@message("R2R-Assist")
class Assist(Addressed):
    """A repository that recovers or joins looks for an assisting repository (sections 4.8, 4.9)."""


@message("R2R-Recovery")
class BundleRecovery(Addressed):
    """The assisting repository's answer (section 4.8, rule P21).

    Attributes:
        prefixes: Its stored prefix of each incarnation of each publisher.
        newest: The newest incarnation of each publisher.
        actions: All registrations and subscriptions.
        choices: The designations of all clients.
        members: The members of the bundle.
        left: The repositories that have left.
    """

    prefixes: tuple[Upto, ...]
    newest: tuple[Upto, ...]
    actions: tuple[Action, ...]
    choices: tuple[Choice, ...]
    members: tuple[int, ...]
    left: tuple[int, ...]


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
    """A leaving repository asks a client to change to another one (section 4.10).

    Attributes:
        role: The role in which it steers the client.
        designation: The number of the client's designation.
    """

    role: str
    designation: int


@message("Refuse")
class Refuse(Addressed):
    """A client is not authorised for the topic.

    Attributes:
        role: The refused role.
        designation: The number of the client's designation.
    """

    role: str
    designation: int


@message("R2C-Confirm")
class RegistrationConfirm(Addressed):
    """A registration or deregistration is stored.

    Attributes:
        client: The client.
        role: The role of the registration.
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
        receivers: The matching subscribers.
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
        sync: Up to this number it has acknowledged all its messages.
        members: The bundle's members.
    """

    sync: int
    members: tuple[int, ...]


@message("R2S-Rectify")
class Rectify(Designated):
    """Lists the unacknowledged messages of a subscriber (section 3.9, rule P7).

    Attributes:
        sync: Up to this number it has acknowledged all its messages.
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
        prefix: The stored prefixes, behind which the subscriptions start.
        upto: The last sequence number of a stored message.
    """

    subscription_ids: tuple[int, ...]
    prefix: tuple[Upto, ...]
    upto: int
