"""Records of clients: their steering repositories, unconfirmed publications, subscriptions and deliveries."""

from __future__ import annotations

from typing import Annotated

from udfs.nodes.records import record
from udfs.repository.events import Key, OfRole, OfTopic, Publication

PUBLISHER = "publisher"
SUBSCRIBER = "subscriber"


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
    repository: Annotated[
        int | None, "the designated steering repository; null: no repository has answered a probe"
    ] = None
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
class Mark(OfTopic):
    """The last message of a publisher's incarnation that a subscriber has delivered (rule P9)."""

    publisher: Annotated[int, "id of the publisher"]
    incarnation: Annotated[int, "round in which the incarnation started"]
    n: Annotated[int, "catenation number of the last delivered message"]


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
