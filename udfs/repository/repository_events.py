"""The events that repositories send to clients and to the other repositories of their bundle.

Names follow sections 3 and 4 and Figure 1 of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from udfs.nodes.records import message
from udfs.repository.events import Addressed, Authorising, Carrying, Designated, Identified, Interest, Key, Publication


@dataclass(frozen=True, slots=True)
class Action:
    """A registration or deregistration of a client, or a change of its subscriptions.

    Each action has a sequence number.
    """

    client: Annotated[int, "client that the action is about"]
    role: Annotated[str, "role of the client: publisher or subscriber"]
    number: Annotated[int, "number of the action; if two conflict, the one with the higher number is valid"]
    interests: Annotated[
        tuple[Interest, ...] | None,
        "all subscriptions of the client; null: the action is a registration or deregistration",
    ] = None
    is_registered: Annotated[bool, "whether the action authorises the client"] = True
    cut: Annotated[tuple[Key, ...], "for a deregistration: messages after this cut are excluded"] = ()


@dataclass(frozen=True, slots=True)
class Entry:
    """A sequence number of a repository, with the message or action that it identifies."""

    seq: Annotated[int, "sequence number"]
    publisher: Annotated[int, "id of the message's publisher"]
    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    n: Annotated[int, "catenation number of the message within the incarnation"]
    action: Annotated[Action | None, "the action with this number; null: the number identifies a message"]


@dataclass(frozen=True, slots=True)
class Choice:
    """The repository that a client has designated for a role."""

    client: Annotated[int, "id of the client"]
    role: Annotated[str, "role of the client: publisher or subscriber"]
    number: Annotated[int, "number of the designation"]
    repository: Annotated[int, "designated repository"]


@dataclass(frozen=True, slots=True)
class SyncFact:
    """The sync of a subscriber: the number up to which the subscriber has acknowledged all its messages (rule P16)."""

    client: Annotated[int, "id of the subscriber"]
    seq: Annotated[int, "sequence number at the sender up to which the subscriber has acknowledged all its messages"]
    subscription_ids: Annotated[tuple[int, ...], "subscriptions that the sync covers"]


@dataclass(frozen=True, slots=True)
class Told:
    """The sequence number up to which a repository has received all entries of another repository."""

    repository: Annotated[int, "id of the other repository"]
    seq: Annotated[int, "the sender has received that repository's entries up to this number"]


@dataclass(frozen=True, slots=True)
class Copy:
    """A stored message that a repository sends to another repository."""

    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    n: Annotated[int, "catenation number of the message within the incarnation"]
    publication: Annotated[Publication, "the message"]
    acknowledged: Annotated[tuple[int, ...], "subscribers that have acknowledged the message (its dissemination list)"]


@message("Gossip-ACK")
class GossipAck(Addressed):
    """Gossip: entries that the receivers lack, and the sender's state of the bundle (section 4.5, rule P17)."""

    base: Annotated[int, "sequence number before the first entry"]
    frontier: Annotated[int, "the sender's frontier"]
    entries: Annotated[tuple[Entry, ...], "after `base`: all actions, and the stored messages up to the frontier"]
    beyond: Annotated[tuple[Key, ...], "messages that the sender has stored after its frontier (rule P18)"]
    seen: Annotated[tuple[Told, ...], "the sender's position in each member's entries"]
    members: Annotated[tuple[int, ...], "members of the bundle"]
    leaving: Annotated[tuple[int, ...], "members that have started to leave"]
    left: Annotated[tuple[int, ...], "repositories that have left"]
    newest: Annotated[tuple[Key, ...], "newest incarnation of each publisher"]
    choices: Annotated[tuple[Choice, ...], "designations of all clients"]
    syncs: Annotated[tuple[SyncFact, ...], "syncs of the subscribers that the sender steers"]
    is_complete: Annotated[bool, "whether the sender has been operational once"]


@message("Gossip-LEAVE")
class GossipLeave(Addressed):
    """The departure of the sender from the bundle (section 4.10)."""


@message("R2R-NAK")
class BundleNak(Addressed):
    """A request to another repository for messages (rule P19)."""

    keys: Annotated[tuple[Key, ...], "the requested messages"]


@message("R2R-Retransmit")
class BundleRetransmit(Addressed):
    """The answer to R2R-NAK: the requested messages that the sender has stored (rule P19)."""

    copies: Annotated[tuple[Copy, ...], "the messages"]


@message("R2R-Assist")
class Assist(Addressed):
    """A request of a recovering or joining repository for assistance (sections 4.8, 4.9)."""


@message("R2R-Recovery")
class BundleRecovery(Addressed):
    """The answer to R2R-Assist: the state that the recovery needs (section 4.8, rule P21)."""

    prefixes: Annotated[tuple[Key, ...], "the sender's filled prefix of each incarnation"]
    newest: Annotated[tuple[Key, ...], "newest incarnation of each publisher"]
    actions: Annotated[tuple[Action, ...], "all registrations and subscriptions"]
    choices: Annotated[tuple[Choice, ...], "designations of all clients"]
    members: Annotated[tuple[int, ...], "members of the bundle"]
    left: Annotated[tuple[int, ...], "repositories that have left"]


@dataclass(frozen=True, slots=True)
class Receiver:
    """A receiver of R2S*-Persistent, the notification that a message is stored."""

    client: Annotated[int, "id of the subscriber"]
    designation: Annotated[int, "number of the subscriber's designation"]
    prev: Annotated[int, "sequence number of the subscriber's previous message"]


@dataclass(frozen=True, slots=True)
class Listed:
    """A stored message that a subscriber has not acknowledged."""

    seq: Annotated[int, "sequence number"]
    source: Annotated[int, "id of the message's publisher"]
    source_seq: Annotated[int, "number of the publication among its publisher's calls"]
    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    n: Annotated[int, "catenation number of the message within the incarnation"]


@message("R2C-Probe")
class ProbeAnswer(Addressed):
    """A repository's answer to a client's probe."""

    role: Annotated[str, "role in the probe"]
    designation: Annotated[int, "designation in the probe"]
    is_operational: Annotated[bool, "whether the sender may steer the client"]
    members: Annotated[tuple[int, ...], "members of the bundle"]


@message("R2C-Migrate")
class Migrate(Addressed):
    """A repository's request that a client designates another repository (section 4.10)."""

    role: Annotated[str, "role in which the sender steers the client"]
    designation: Annotated[int, "number of the client's designation"]


@message("Refuse")
class Refuse(Addressed):
    """The answer to a client that is not authorised for the role in which it sent an event."""

    role: Annotated[str, "role that the client lacks"]
    designation: Annotated[int, "number of the client's designation"]


@message("R2C-Confirm")
class RegistrationConfirm(Authorising):
    """The confirmation that a registration or deregistration is stored."""


@message("R2P-ACK")
class PublisherAck(Designated):
    """An acknowledgement of a publisher's messages (section 3.5, rule P3)."""

    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    single: Annotated[tuple[int, ...], "catenation numbers of messages that were just stored"]
    upto: Annotated[int, "all messages up to this catenation number are stored"]
    stable: Annotated[int, "every member of the bundle has all messages up to this catenation number"]
    members: Annotated[tuple[int, ...], "members of the bundle"]
    registered: Annotated[tuple[int, ...] | None, "registered subscribers; null: everybody may subscribe"]


@message("R2P-NAK")
class PublisherNak(Designated):
    """A request to a publisher for missing messages (section 3.5)."""

    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    ns: Annotated[tuple[int, ...], "catenation numbers of the messages"]


@message("R2P-Recovery")
class PublisherRecovered(Designated):
    """The answer to P2R-Recovery (section 3.11)."""

    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    upto: Annotated[int, "end of the incarnation's filled prefix at the sender"]
    members: Annotated[tuple[int, ...], "members of the bundle"]
    registered: Annotated[tuple[int, ...] | None, "registered subscribers; null: everybody may subscribe"]


@message("R2S*-Persistent")
class Persistent(Identified):
    """The notification of a message's subscribers that the message is stored (section 3.7, rule P6)."""

    seq: Annotated[int, "sequence number of the message"]
    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    n: Annotated[int, "catenation number of the message within the incarnation"]
    receivers: Annotated[tuple[Receiver, ...], "subscribers with a matching subscription"]


@message("R2S-Retransmit")
class SubscriberRetransmit(Carrying):
    """The answer to S2R-NAK: a stored message with its sequence number (Figure 1)."""

    designation: Annotated[int, "number of the subscriber's designation"]
    steering: Annotated[int, "repository that the subscriber designates"]
    seq: Annotated[int, "sequence number of the message"]
    prev: Annotated[int, "sequence number of the subscriber's previous message"]
    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    n: Annotated[int, "catenation number of the message within the incarnation"]


@message("R2S-Sync")
class Sync(Designated):
    """R2S-Sync: the number up to which a subscriber has acknowledged all its messages, its *sync* (section 3.9)."""

    sync: Annotated[int, "the subscriber has acknowledged all its messages up to this number"]
    members: Annotated[tuple[int, ...], "members of the bundle"]


@message("R2S-Rectify")
class Rectify(Designated):
    """R2S-Rectify: the messages that a subscriber has not acknowledged (section 3.9, rule P7)."""

    sync: Annotated[int, "the subscriber has acknowledged all its messages up to this number"]
    listed: Annotated[tuple[Listed, ...], "the subscriber's unacknowledged messages up to `upto`, ascending"]
    upto: Annotated[int, "end of the listed range of sequence numbers"]
    members: Annotated[tuple[int, ...], "members of the bundle"]


@message("R2S-Confirm")
class SubscribeConfirm(Designated):
    """The answer to S2R-Subscribe (rule P10)."""

    subscription_ids: Annotated[tuple[int, ...], "ids of the subscriptions"]
    prefix: Annotated[tuple[Key, ...], "filled prefixes: the subscriptions start after them"]
    upto: Annotated[int, "the sender's frontier"]
