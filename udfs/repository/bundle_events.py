"""Events between the repositories of a bundle; names as in section 4 of the paper."""

from __future__ import annotations

from dataclasses import dataclass

from udfs.nodes.records import message
from udfs.repository.events import Addressed, Interest, Publication, Upto


@dataclass(frozen=True, slots=True)
class Action:
    """A registration, deregistration or change of subscriptions; it takes a sequence number.

    Attributes:
        client: The client that it is about.
        role: As what: publisher or subscriber.
        number: Of two actions about the same thing the one with the higher number counts.
        interests: All its subscriptions, where it is about these; None: it is about its registration.
        is_registered: Whether the client is authorised from then on.
        cut: Deregistration: messages behind it are out.
    """

    client: int
    role: str
    number: int
    interests: tuple[Interest, ...] | None = None
    is_registered: bool = True
    cut: tuple[Upto, ...] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """What a repository has at a sequence number.

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
    """Which repository a client has designated.

    Attributes:
        client: The client.
        role: As what: publisher or subscriber.
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
    """What a repository has stored since its peer had heard of it last (section 4.5, rule P17).

    Attributes:
        base: The entries follow this number.
        frontier: The entries end with this number.
        entries: What is stored in between, and the actions behind.
        beyond: Messages that are stored behind the first reserved number (rule P18).
        seen: What the sender has had of each member's entries.
        members: The members of the bundle.
        leaving: Those that are about to leave.
        left: Those that have left.
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
        prefixes: What it has stored of each incarnation of each publisher.
        newest: The newest incarnation of each publisher.
        actions: All registrations and subscriptions.
        choices: The designations of all clients.
        members: The members of the bundle.
        left: Those that have left.
    """

    prefixes: tuple[Upto, ...]
    newest: tuple[Upto, ...]
    actions: tuple[Action, ...]
    choices: tuple[Choice, ...]
    members: tuple[int, ...]
    left: tuple[int, ...]
