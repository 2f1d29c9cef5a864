"""The tables of clients."""

from __future__ import annotations

from udfs.nodes.records import record
from udfs.repository.events import Publication, Upto

PUBLISHER = "publisher"
SUBSCRIBER = "subscriber"


@record(key="topic")
class Bundle:
    """A topic that a client uses.

    Attributes:
        topic: The topic.
        number: Its number at this node; tells timers apart.
        members: The repositories that serve it, as far as is known.
        is_publisher: Whether the client publishes on it.
        registered: The registered subscribers, as far as is known; None: the topic is open to all.
    """

    topic: str
    number: int
    members: tuple[int, ...]
    is_publisher: bool
    registered: tuple[int, ...] | None = None


@record(key="topic, role")
class Steering:
    """The steering of a client.

    Attributes:
        topic: The topic.
        role: Its role: publisher or subscriber.
        repository: The steering repository; None: not found yet.
        designation: The number of the designation (rule P12).
        is_seeking: Whether it waits for answers to probes.
        is_changing: Whether it designates again at the end of the round.
        is_established: Whether the steering repository has answered.
        is_refused: Whether it has been refused.
        tries: Requests without an answer.
        heard_round: The round of the last event from the steering repository.
        answers: Repositories that have answered a probe in this round.
    """

    topic: str
    role: str
    repository: int | None = None
    designation: int = -1
    is_seeking: bool = False
    is_changing: bool = False
    is_established: bool = False
    is_refused: bool = False
    tries: int = 0
    heard_round: int = -1
    answers: tuple[int, ...] = ()


@record(key="topic")
class Publishing:
    """A publisher's catenation (rule P1).

    Attributes:
        topic: The topic.
        incarnation: The round in which the publisher started.
        n: The number of the last message.
        confirmed: Up to this number calls are confirmed.
    """

    topic: str
    incarnation: int
    n: int = 0
    confirmed: int = 0


@record()
class Queued:
    """A message that waits until its publisher is ready.

    Attributes:
        topic: The topic.
        publication: The message.
    """

    topic: str
    publication: Publication


@record(key="topic, n")
class Unstable:
    """A message in a publisher's local buffer.

    Attributes:
        topic: The topic.
        n: Its catenation number.
        publication: The message.
        sent_round: When it was announced last.
        is_acknowledged: Whether the steering repository has it.
    """

    topic: str
    n: int
    publication: Publication
    sent_round: int
    is_acknowledged: bool = False


@record(key="topic, client, role")
class Registering:
    """A registration or deregistration that is not confirmed yet, at the owner of a topic.

    Attributes:
        topic: The topic.
        client: The client.
        role: The role of the client.
        number: The number of the action: the round of the last try.
        tries: The number of tries.
        is_registered: Whether it is a registration.
        source_seq: The call.
    """

    topic: str
    client: int
    role: str
    number: int
    tries: int
    is_registered: bool
    source_seq: int


@record(key="topic, subscription_id")
class Subscribed:
    """A subscription of a client.

    Attributes:
        topic: The topic.
        subscription_id: The subscription.
        source_seq: The call that waits for a confirmation; None: none does.
        cut: Where it starts (rule P10); None: that is not known yet.
        is_ended: Whether it has been taken back.
    """

    topic: str
    subscription_id: int
    source_seq: int | None
    cut: tuple[Upto, ...] | None = None
    is_ended: bool = False


@record(key="topic, publisher, incarnation")
class Mark:
    """The last message of a publisher's incarnation that a subscriber has delivered (rule P9).

    Attributes:
        topic: The topic.
        publisher: The publisher.
        incarnation: The round of its start.
        n: The message's catenation number.
    """

    topic: str
    publisher: int
    incarnation: int
    n: int


@record(key="topic")
class Reading:
    """How far a subscriber is, in its steering repository's numbers.

    Attributes:
        topic: The topic.
        position: All up to this number is delivered.
        sync: All up to this number is acknowledged, and the repository knows.
        unacknowledged: Deliveries since the last acknowledgement.
    """

    topic: str
    position: int = 0
    sync: int = 0
    unacknowledged: int = 0


@record(key="topic, source, source_seq")
class Buffered:
    """A message in a temporary buffer.

    Attributes:
        topic: The topic.
        source: Its publisher.
        source_seq: Its number among the calls there.
        publication: The message.
        hops: Links that it has travelled over.
        round: When it came.
    """

    topic: str
    source: int
    source_seq: int
    publication: Publication
    hops: int
    round: int


@record(key="topic, seq")
class Expected:
    """A sequence number that a subscriber knows of and has not passed.

    Attributes:
        topic: The topic.
        seq: The number at the steering repository.
        prev: The number that has to be passed before it.
        source: The message's publisher; -1: a marker without a message.
        source_seq: Its number among the calls there.
        incarnation: The round of the publisher's start.
        n: Its catenation number.
        round: Since when it is expected.
    """

    topic: str
    seq: int
    prev: int
    source: int
    source_seq: int
    incarnation: int
    n: int
    round: int


@record(key="topic, seq")
class Unsynced:
    """A number that a subscriber has passed and the repository has not synced.

    Attributes:
        topic: The topic.
        seq: The number at the steering repository.
    """

    topic: str
    seq: int


@record(key="position")
class OrderedDelivery:
    """A delivery at a subscriber, in order.

    Attributes:
        position: Ascending in the order of deliveries, also within a round.
        topic: The topic.
        source: The publisher.
        source_seq: Number of the publication at its publisher.
    """

    position: int
    topic: str
    source: int
    source_seq: int
