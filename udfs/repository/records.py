"""Records of clients, and then records of repositories.

A crash deletes `Peer`, `PeerPrefix`, `Located`, `ForeignAck` and `ForeignSync`, the records of a repository about other
members of a bundle. Gossip from these members restores the records.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from udfs.nodes.records import record
from udfs.repository.events import Action, Interest, Key, OfMessage, OfRole, OfTopic, Publication

PUBLISHER = "publisher"
SUBSCRIBER = "subscriber"
STORED = "stored"
RESERVED = "reserved"
VOID = "void"
ACTION = "action"


@record(key="topic")
class Bundle(OfTopic):
    """A topic that a client uses, with the bundle of repositories that serve the topic."""

    number: Annotated[int, "number of the topic at this node; it is the key of the topic's timers in table timer"]
    members: Annotated[tuple[int, ...], "repositories that serve the topic, as far as the client knows"]
    is_publisher: Annotated[bool, "whether the client publishes on the topic"]
    registered: Annotated[
        tuple[int, ...] | None, "registered subscribers, as far as the client knows; null: everybody may subscribe"
    ] = None


@record(key="topic, role")
class Steering(OfTopic):
    """A client's choice of a steering repository for a topic."""

    role: Annotated[str, "the client's role: publisher or subscriber"]
    repository: Annotated[int | None, "the steering repository; null: no repository has answered a probe"] = None
    designation: Annotated[int, "number of the designation: the round in which it started (rule P12)"] = -1
    is_seeking: Annotated[bool, "whether the client waits for an answer to its probes"] = False
    is_changing: Annotated[bool, "whether the client starts a new designation at the end of the round"] = False
    is_established: Annotated[bool, "whether the steering repository has answered this designation"] = False
    is_refused: Annotated[bool, "whether the steering repository has refused the client"] = False
    tries: Annotated[int, "number of requests since the last answer"] = 0
    heard_round: Annotated[int, "round of the last event from the steering repository"] = -1
    answers: Annotated[tuple[int, ...], "operational repositories that answered a probe in this round"] = ()


@record(key="topic")
class Publishing(OfTopic):
    """The current catenation of a publisher on a topic: its incarnation and its last number (rule P1)."""

    incarnation: Annotated[int, "round in which the publisher started"]
    n: Annotated[int, "catenation number of the publisher's last message"] = 0
    confirmed: Annotated[int, "catenation number up to which the publish calls are confirmed"] = 0


@record()
class Queued(OfTopic):
    """A publication that its publisher sends only after the steering repository has answered the publisher."""

    publication: Annotated[Publication, "the message"]


@record(key="topic, n")
class Unstable(OfTopic):
    """A message in a publisher's buffer that some member of the bundle may lack."""

    n: Annotated[int, "catenation number of the message"]
    publication: Annotated[Publication, "the message"]
    sent_round: Annotated[int, "round of the last P2R-Order for the message"]
    is_acknowledged: Annotated[bool, "whether the steering repository has acknowledged the message"] = False


@record(key="topic, client, role")
class Registering(OfRole):
    """A registration or deregistration that no repository has confirmed to the owner of the topic."""

    tries: Annotated[int, "number of times that the owner has repeated the request"]
    is_registered: Annotated[bool, "true: a registration; false: a deregistration"]
    source_seq: Annotated[int, "number of the call among the owner's calls"]


@record(key="topic, subscription_id")
class Subscribed(OfTopic):
    """A subscription of a client."""

    subscription_id: Annotated[int, "id of the subscription"]
    source_seq: Annotated[
        int | None,
        "number of the subscribe or unsubscribe call that is not confirmed yet; null: all calls are confirmed",
    ]
    cut: Annotated[
        tuple[Key, ...] | None,
        "cut: messages up to these numbers are not delivered (rule P10); null: no repository has answered",
    ] = None
    is_ended: Annotated[bool, "whether the client has unsubscribed"] = False


@record(key="topic, publisher, incarnation")
class Mark(OfMessage):
    """The last message of a publisher's incarnation that a subscriber has delivered (rule P9)."""


@record(key="topic")
class Reading(OfTopic):
    """The position of a subscriber in the messages of a topic, as sequence numbers of its steering repository."""

    position: Annotated[int, "number up to which the subscriber has delivered or skipped all messages"] = 0
    sync: Annotated[
        int, "number up to which the steering repository has confirmed the subscriber's acknowledgements"
    ] = 0
    unacknowledged: Annotated[int, "number of deliveries since the last S2R-ACK"] = 0


@record(key="topic, source, source_seq")
class Buffered(OfTopic):
    """A message in the temporary buffer of a client or repository."""

    source: Annotated[int, "id of the message's publisher"]
    source_seq: Annotated[int, "number of the publication among its publisher's calls"]
    publication: Annotated[Publication, "the message"]
    hops: Annotated[int, "number of links from the publisher to this node"]
    round: Annotated[int, "round in which the message arrived"]


@record(key="topic, seq")
class Expected(OfTopic):
    """A sequence number, after the subscriber's position, that the steering repository has announced."""

    seq: Annotated[int, "sequence number at the steering repository"]
    prev: Annotated[int, "number that the subscriber's position must reach before it delivers this message"]
    source: Annotated[
        int, "id of the message's publisher; -1: the row has no message, but is the end of the range of a Rectify"
    ]
    source_seq: Annotated[int, "number of the publication among its publisher's calls"]
    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    n: Annotated[int, "catenation number of the message within the incarnation"]
    round: Annotated[int, "round in which the subscriber first received the number"]


@record(key="topic, seq")
class Unsynced(OfTopic):
    """A sequence number above the subscriber's sync whose message the subscriber has delivered."""

    seq: Annotated[int, "sequence number at the steering repository"]


@record(key="position")
class OrderedDelivery:
    """A delivery of a subscriber, with its position among all deliveries of the subscriber."""

    position: Annotated[int, "number that ascends in the order of deliveries, also within a round"]
    topic: Annotated[str, "the topic"]
    source: Annotated[int, "id of the message's publisher"]
    source_seq: Annotated[int, "number of the publication among its publisher's calls"]


@record(key="topic")
class Log(OfTopic):
    """A topic that a repository serves."""

    number: Annotated[int, "number of the topic at this node; it is the key of the topic's timers in table timer"]
    last_seq: Annotated[int, "last sequence number in use"] = 0
    frontier: Annotated[int, "last sequence number before the first reserved slot (rule P5)"] = 0
    owner: Annotated[
        int | None, "client that registers the other clients of the topic; null: everybody may publish and subscribe"
    ] = None
    is_member: Annotated[bool, "whether the repository is a member of the bundle, or has asked to join"] = True
    is_complete: Annotated[bool, "whether the repository has been operational once (rule P22)"] = True
    is_leaving: Annotated[bool, "whether the repository has started to leave the bundle"] = False
    is_left: Annotated[bool, "whether the repository has left the bundle"] = False


@record(key="topic")
class Duty(OfTopic):
    """The recovery of a topic at a repository since the repository's last start."""

    is_operational: Annotated[bool, "whether the repository may steer clients"] = False
    assistant: Annotated[int | None, "repository that assists the recovery; null: no repository has answered"] = None
    begun_round: Annotated[int, "round in which the repository started, or recovered"] = 0
    asked_round: Annotated[
        int,
        "round of the recovery's last progress: its start, the assistant's answer, or the arrival of a message",
    ] = 0
    n_missed: Annotated[int, "number of messages that were missing at the last request of the recovery"] = 0
    answered: Annotated[
        set[int], "repositories that have sent R2R-Recovery, or R2R-Assist because they recover themselves"
    ] = field(default_factory=set)


@record(key="topic, seq")
class Slot(OfTopic):
    """A sequence number of a repository. It belongs to a message or action, or is reserved for a message (P2, P5)."""

    seq: Annotated[int, "sequence number"]
    status: Annotated[str, "stored, reserved, void or action"]
    publisher: Annotated[int, "message: id of its publisher; action: id of its client"]
    incarnation: Annotated[
        int, "message: round in which the publisher's incarnation started; action: number of the action"
    ]
    n: Annotated[int, "message: its catenation number; action: 0"]
    source_seq: Annotated[
        int | None, "number of the publication among its publisher's calls; null: the message has not arrived"
    ] = None
    publication: Annotated[
        Publication | None, "the message; null: it has not arrived, the slot is void, or the slot has an action"
    ] = None
    action: Annotated[Action | None, "the action; null: the slot has no action"] = None


@record(key="topic, publisher, incarnation, n")
class Orphan(OfMessage):
    """A stored message of a closed incarnation, after the first missing message of the incarnation (rule P2)."""

    publication: Annotated[Publication, "the message"]


@record(key="topic, publisher, incarnation")
class Incarnation(OfTopic):
    """An incarnation of a publisher, with the state of its messages at the repository."""

    publisher: Annotated[int, "id of the publisher"]
    incarnation: Annotated[int, "round in which the incarnation started"]
    last: Annotated[int, "highest catenation number that has a slot"] = 0
    prefix: Annotated[int, "highest catenation number of the incarnation in the filled prefix"] = 0
    is_closed: Annotated[
        bool,
        "whether the incarnation is closed: a newer one exists, or the publisher is silent and a message is "
        "missing (P32)",
    ] = False
    heard_round: Annotated[
        int, "last round in which an event of the publisher arrived while the publisher was authorised"
    ] = 0
    dropped: Annotated[int, "catenation number up to which the publisher says that it has deleted its messages"] = 0
    dropped_round: Annotated[
        int, "last round in which it said so of more messages, or in which a member was not heard"
    ] = 0
    skipped: Annotated[set[int], "catenation numbers of the messages that no member has (P37)"] = field(
        default_factory=set
    )


@record(key="topic, client")
class Subscriber(OfTopic):
    """The subscriptions of a client on a topic, as a repository knows them."""

    client: Annotated[int, "id of the client"]
    number: Annotated[int, "number of the designation in which the client sent these subscriptions"]
    interests: Annotated[tuple[Interest, ...], "the client's subscriptions on the topic, with their cuts"]
    last_seq: Annotated[int, "sequence number of the last message up to the frontier that matches a subscription"] = 0
    sync: Annotated[int, "sequence number up to which the client has acknowledged all its messages"] = 0
    offered: Annotated[int, "the frontier at the last check for missing acknowledgements (rule P14)"] = 0


@record(key="topic, client, role")
class Registration(OfRole):
    """The registration or deregistration of a client."""

    is_registered: Annotated[bool, "whether the client is authorised"]
    cut: Annotated[
        tuple[Key, ...], "deregistration: the client gets, or publishes, no messages after this cut (rule P25)"
    ] = ()
    seq: Annotated[int, "sequence number of the action at this repository; 0: the scenario registers the client"] = 0


@record(key="topic, client, role")
class Confirming(OfRole):
    """A registration or deregistration that this repository confirms to the owner when all heard members have it."""

    owner: Annotated[int, "owner of the topic, which awaits the confirmation"]


@record(key="topic, client, role")
class Designation(OfRole):
    """The designation of a client (rule P12)."""

    repository: Annotated[int, "designated repository"]
    is_active: Annotated[bool, "whether this repository steers the client (rule P13)"]


@record(key="topic, repository")
class Member(OfTopic):
    """Another repository of the bundle."""

    repository: Annotated[int, "id of the repository"]
    is_leaving: Annotated[bool, "whether the repository has started to leave"] = False
    is_left: Annotated[bool, "whether the repository has left"] = False


@record(key="topic, client, publisher, incarnation, n")
class Acknowledged(OfTopic):
    """A subscriber's acknowledgement of a message."""

    client: Annotated[int, "id of the subscriber"]
    publisher: Annotated[int, "id of the message's publisher"]
    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    n: Annotated[int, "catenation number of the message within the incarnation"]


@record(key="topic, publisher, incarnation, n")
class Numbered(OfMessage):
    """A message of the repository-table, with its sequence number at this repository."""

    seq: Annotated[int, "sequence number at this repository"]


@record(key="topic, source, source_seq")
class Identity(OfTopic):
    """The identifier of a message (publisher and call number), and its catenation (incarnation and `n`)."""

    source: Annotated[int, "id of the message's publisher"]
    source_seq: Annotated[int, "number of the publication among its publisher's calls"]
    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    n: Annotated[int, "catenation number of the message within the incarnation"]


@record(key="topic, due_round, publisher, incarnation, n")
class Storing(OfTopic):
    """A message that is being written to the disk."""

    due_round: Annotated[int, "round in which the write ends"]
    publisher: Annotated[int, "id of the message's publisher"]
    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    n: Annotated[int, "catenation number of the message within the incarnation"]
    publication: Annotated[Publication, "the message"]


@record(key="topic, repository, seq")
class Located(OfTopic):
    """A message of the repository-table, with its sequence number at another repository."""

    repository: Annotated[int, "id of the other repository"]
    seq: Annotated[int, "sequence number at the other repository"]
    publisher: Annotated[int, "id of the message's publisher"]
    incarnation: Annotated[int, "round in which the publisher's incarnation started"]
    n: Annotated[int, "catenation number of the message within the incarnation"]


@record(key="topic, publisher, incarnation, n")
class Lacking(OfMessage):
    """A message that other repositories have stored and this repository lacks."""

    holders: Annotated[set[int], "repositories that have the message"]


@record(key="topic, publisher, incarnation, n")
class Missed(OfMessage):
    """A message that the recovery of the topic awaits (rule P21)."""


@record(key="topic, publisher")
class Live(OfTopic):
    """A publisher from which this repository has received an event since the start of its recovery."""

    publisher: Annotated[int, "id of the publisher"]


@record(key="topic, repository")
class Peer(OfTopic):
    """The state of another member of the bundle, as far as this repository knows it."""

    repository: Annotated[int, "id of the other repository"]
    seen: Annotated[int, "number up to which this repository has received the entries of the other repository"] = 0
    told: Annotated[int, "number up to which the other repository has received the entries of this repository"] = 0
    beyond: Annotated[tuple[Key, ...], "messages that the other repository has stored after its frontier"] = ()
    knows_leaving: Annotated[bool, "whether the other repository knows that this repository is leaving"] = False
    is_complete: Annotated[
        bool | None, "whether the other repository has been operational once; null: no Gossip-ACK has told it"
    ] = None
    heard_round: Annotated[
        int, "round of the last event from the other repository; before the first one: round in which it became known"
    ] = 0


@record(key="topic, repository, publisher, incarnation")
class PeerPrefix(OfTopic):
    """The last message of a publisher's incarnation in the filled prefix of another repository."""

    repository: Annotated[int, "id of the other repository"]
    publisher: Annotated[int, "id of the publisher"]
    incarnation: Annotated[int, "round in which the incarnation started"]
    n: Annotated[int, "catenation number of this message"]


@record(key="topic, repository, seq")
class ForeignAck(OfTopic):
    """A sequence number of another repository whose message clients have acknowledged to the other repository.

    This repository does not know which message has that number (rule P15).
    """

    repository: Annotated[int, "the other repository, which steered the clients"]
    seq: Annotated[int, "sequence number of the message at this other repository"]
    clients: Annotated[set[int], "clients that have acknowledged the message to this other repository"]


@record(key="topic, repository, client")
class ForeignSync(OfTopic):
    """The sync of a subscriber at another repository (rule P16)."""

    repository: Annotated[int, "id of the other repository"]
    client: Annotated[int, "id of the subscriber"]
    seq: Annotated[
        int, "sequence number at the other repository up to which the subscriber has acknowledged all its messages"
    ]
    subscription_ids: Annotated[tuple[int, ...], "ids of the subscriptions that the sync covers"]
    applied: Annotated[
        int, "number of the other repository up to which this repository has recorded the acknowledgements of the sync"
    ] = 0
