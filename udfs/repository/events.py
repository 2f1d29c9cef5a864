"""The base classes of all events, the events that clients send, and then the events that repositories send.

Names follow sections 3 and 4 and Figure 1 of the paper.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, NamedTuple, Protocol

from udfs.nodes.records import message, record


class _Catenated(Protocol):
    """A record or event about one message."""

    @property
    def publisher(self) -> int: ...
    @property
    def incarnation(self) -> int: ...
    @property
    def n(self) -> int: ...


class Key(NamedTuple):
    """The catenation of a message, which identifies the message within a topic (rule P1).

    In cuts and prefixes, a key stands for all messages of its incarnation up to number `n`; 0 stands for no message.
    """

    publisher: int
    incarnation: int
    n: int

    @classmethod
    def of(cls, row: _Catenated) -> Key:
        """Returns the key of the message that `row` is about."""
        return cls(row.publisher, row.incarnation, row.n)


def joined_cuts(one: Iterable[Key], other: Iterable[Key]) -> tuple[Key, ...]:
    """Returns the last message of each incarnation in two cuts or prefixes, ascending."""
    last: dict[tuple[int, int], int] = {}
    for publisher, incarnation, n in (*one, *other):
        last[publisher, incarnation] = max(last.get((publisher, incarnation), 0), n)
    return tuple(Key(*index, n) for index, n in sorted(last.items()))


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
    number: Annotated[int, "number of the action or designation; of two in conflict, the higher number is valid"]


class Publication(NamedTuple):
    """A publication: its id, its round of issue, and the subscriptions whose predicates its content satisfies."""

    source: int  # id of the publisher
    source_seq: int  # number of the publication among its publisher's calls; with ``source`` the message's identifier
    issued_round: int  # round of the publish call
    matches: tuple[int, ...]  # ids of the subscriptions whose predicate the message satisfies


class Interest(NamedTuple):
    """A subscription of a client, and its cut: for each incarnation, the last message before the subscription."""

    subscription_id: int  # id of the subscription
    cut: tuple[Key, ...]  # cut: messages up to these numbers are not delivered to the subscription (rule P10)


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


class Run(NamedTuple):
    """A range of consecutive sequence numbers."""

    first: int  # first number
    last: int  # last number


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


@message("P2R-Dropped")
class Dropped(Designated):
    """A publisher's answer to R2P-NAK about messages that it has deleted as stable (rule P37)."""

    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    upto: Annotated[int, "catenation number up to which the publisher has deleted its messages"]


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


class Action(NamedTuple):
    """A registration or deregistration of a client, or a change of its subscriptions; it has a sequence number."""

    client: int  # client that the action is about
    role: str  # role of the client: publisher or subscriber
    number: int  # number of the action; if two conflict, the one with the higher number is valid
    interests: tuple[Interest, ...] | None = None  # all subscriptions; null: it is a registration or deregistration
    is_registered: bool = True  # whether the action authorises the client
    cut: tuple[Key, ...] = ()  # for a deregistration: messages after this cut are excluded


class Entry(NamedTuple):
    """A sequence number of a repository, with the message or action that it identifies."""

    seq: int  # sequence number
    publisher: int  # id of the message's publisher
    incarnation: int  # round in which the publisher's incarnation started
    n: int  # catenation number of the message within the incarnation
    action: Action | None  # the action with this number; null: the number identifies a message


class Choice(NamedTuple):
    """The repository that a client has designated for a role."""

    client: int  # id of the client
    role: str  # role of the client: publisher or subscriber
    number: int  # number of the designation
    repository: int  # designated repository


class SyncFact(NamedTuple):
    """The sync of a subscriber: the number up to which the subscriber has acknowledged all its messages (rule P16)."""

    client: int  # id of the subscriber
    seq: int  # sequence number at the sender up to which the subscriber has acknowledged all its messages
    subscription_ids: tuple[int, ...]  # subscriptions that the sync covers


class Told(NamedTuple):
    """The sequence number up to which a repository has received all entries of another repository."""

    repository: int  # id of the other repository
    seq: int  # the sender has received that repository's entries up to this number


class Copy(NamedTuple):
    """A stored message that a repository sends to another repository."""

    incarnation: int  # round in which the publisher's incarnation started
    n: int  # catenation number of the message within the incarnation
    publication: Publication  # the message
    acknowledged: tuple[int, ...]  # subscribers that have acknowledged the message (its dissemination list)


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
    skipped: Annotated[tuple[Key, ...], "messages that no member has (rule P37)"]
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
    skipped: Annotated[tuple[Key, ...], "messages of the prefixes that no member has (rule P37)"]
    newest: Annotated[tuple[Key, ...], "newest incarnation of each publisher"]
    actions: Annotated[tuple[Action, ...], "all registrations and subscriptions"]
    choices: Annotated[tuple[Choice, ...], "designations of all clients"]
    members: Annotated[tuple[int, ...], "members of the bundle"]
    left: Annotated[tuple[int, ...], "repositories that have left"]


class Receiver(NamedTuple):
    """A receiver of R2S*-Persistent, the notification that a message is stored."""

    client: int  # id of the subscriber
    designation: int  # number of the subscriber's designation
    prev: int  # sequence number of the subscriber's previous message


class Listed(NamedTuple):
    """A stored message that a subscriber has not acknowledged."""

    seq: int  # sequence number
    source: int  # id of the message's publisher
    source_seq: int  # number of the publication among its publisher's calls
    incarnation: int  # round in which the publisher's incarnation started
    n: int  # catenation number of the message within the incarnation


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
