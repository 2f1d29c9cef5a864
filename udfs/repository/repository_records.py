"""The tables of repositories; a crash loses the knowledge of other members, which gossip restores."""

from __future__ import annotations

from udfs.nodes.records import record
from udfs.repository.events import Interest, Publication, Upto
from udfs.repository.repository_events import Action

STORED = "stored"
RESERVED = "reserved"
VOID = "void"
ACTION = "action"


@record(key="topic")
class Log:
    """A topic that a repository serves.

    Attributes:
        topic: The topic.
        number: Its number at this node; tells timers apart.
        last_seq: The last sequence number in use.
        frontier: The last number before the first reserved one (rule P5).
        owner: The client that registers others; None: the topic is open to all.
        is_member: Whether it is, or has asked to be, in the bundle.
        is_complete: Whether it has been operational once (rule P22).
        is_leaving: Whether it is to leave.
        is_left: Whether it has left.
    """

    topic: str
    number: int
    last_seq: int = 0
    frontier: int = 0
    owner: int | None = None
    is_member: bool = True
    is_complete: bool = True
    is_leaving: bool = False
    is_left: bool = False


@record(key="topic")
class Duty:
    """The duty of a repository in its present incarnation.

    Attributes:
        topic: The topic.
        is_operational: Whether it may steer clients.
        assistant: The repository that assists its recovery; None: none has answered.
        begun_round: The round in which the incarnation began.
        asked_round: The round of the last answer, or of the last missing message that arrived.
        n_missed: Messages that were missing in that round.
    """

    topic: str
    is_operational: bool = False
    assistant: int | None = None
    begun_round: int = 0
    asked_round: int = 0
    n_missed: int = 0


@record(key="topic, seq")
class Slot:
    """A sequence number of a repository (rules P2, P5).

    Attributes:
        topic: The topic.
        seq: The number.
        status: ``stored``, ``reserved``, ``void`` or ``action``.
        publisher: The message's publisher; action: the client.
        incarnation: The round of the publisher's start.
        n: The catenation number.
        source_seq: The message's number among the publisher's calls; None: not known yet.
        publication: The message, if it is stored.
        action: The action that took the number.
    """

    topic: str
    seq: int
    status: str
    publisher: int
    incarnation: int
    n: int
    source_seq: int | None = None
    publication: Publication | None = None
    action: Action | None = None


@record(key="topic, publisher, incarnation, n")
class Orphan:
    """A message of a closed incarnation that waits for one before it (rule P2).

    Attributes:
        topic: The topic.
        publisher: Its publisher.
        incarnation: The round of the publisher's start.
        n: Its catenation number.
        publication: The message.
    """

    topic: str
    publisher: int
    incarnation: int
    n: int
    publication: Publication


@record(key="topic, publisher, incarnation")
class Incarnation:
    """A publisher's incarnation at a repository.

    Attributes:
        topic: The topic.
        publisher: The publisher.
        incarnation: The round of its start.
        last: The highest catenation number that has a slot.
        prefix: The highest one at or before the frontier: the filled prefix.
        is_closed: Whether there is a newer one, or its publisher is silent and a message is missing (rule P32).
        heard_round: Round in which the publisher, while admitted, was heard last.
    """

    topic: str
    publisher: int
    incarnation: int
    last: int = 0
    prefix: int = 0
    is_closed: bool = False
    heard_round: int = 0


@record(key="topic, client")
class Subscriber:
    """The subscriptions of a client.

    Attributes:
        topic: The topic.
        client: The client.
        number: The number of the designation that brought them.
        interests: The subscriptions.
        last_seq: The last number at or before the frontier that is for it.
        sync: The last number before the first one that it has not acknowledged.
        offered: The frontier when it was looked after last (rule P14).
    """

    topic: str
    client: int
    number: int
    interests: tuple[Interest, ...]
    last_seq: int = 0
    sync: int = 0
    offered: int = 0


@record(key="topic, client, role")
class Registration:
    """An authorisation, or its withdrawal.

    Attributes:
        topic: The topic.
        client: The client.
        role: The role: publisher or subscriber.
        number: The number of the action.
        is_registered: Whether the client is authorised.
        cut: Deregistered: messages behind it are excluded (rule P25).
        seq: The sequence number of the action here; 0: it is from the start.
    """

    topic: str
    client: int
    role: str
    number: int
    is_registered: bool
    cut: tuple[Upto, ...] = ()
    seq: int = 0


@record(key="topic, client, role")
class Confirming:
    """A registration or deregistration that its owner awaits, until all heard members have it.

    Attributes:
        topic: The topic.
        client: The client that it is about.
        role: The role of the client: publisher or subscriber.
        number: The number of the action.
        owner: The owner that waits.
    """

    topic: str
    client: int
    role: str
    number: int
    owner: int


@record(key="topic, client, role")
class Designation:
    """The designation of a client (rule P12).

    Attributes:
        topic: The topic.
        client: The client.
        role: The role of the client: publisher or subscriber.
        number: The number of the designation.
        repository: The repository.
        is_active: Whether this repository steers the client (rule P13).
    """

    topic: str
    client: int
    role: str
    number: int
    repository: int
    is_active: bool


@record(key="topic, repository")
class Member:
    """Another repository of the bundle.

    Attributes:
        topic: The topic.
        repository: Its id.
        is_leaving: Whether it is to leave.
        is_left: Whether it has left.
    """

    topic: str
    repository: int
    is_leaving: bool = False
    is_left: bool = False


@record(key="topic, client, publisher, incarnation, n")
class Acknowledged:
    """A message that a subscriber has acknowledged.

    Attributes:
        topic: The topic.
        client: The subscriber.
        publisher: The message's publisher.
        incarnation: The round of the publisher's start.
        n: The catenation number.
    """

    topic: str
    client: int
    publisher: int
    incarnation: int
    n: int


@record(key="topic, publisher, incarnation, n")
class Numbered:
    """The repository-table, this repository's part: the number of a message here.

    Attributes:
        topic: The topic.
        publisher: The message's publisher.
        incarnation: The round of the publisher's start.
        n: The catenation number.
        seq: Its sequence number here.
    """

    topic: str
    publisher: int
    incarnation: int
    n: int
    seq: int


@record(key="topic, source, source_seq")
class Identity:
    """The catenation of a message, by its identifier.

    Attributes:
        topic: The topic.
        source: Its publisher.
        source_seq: Its number among the calls there.
        incarnation: The round of the publisher's start.
        n: The catenation number.
    """

    topic: str
    source: int
    source_seq: int
    incarnation: int
    n: int


@record(key="topic, due_round, publisher, incarnation, n")
class Storing:
    """A message on its way to the disk.

    Attributes:
        topic: The topic.
        due_round: Round in which it is on the disk.
        publisher: Its publisher.
        incarnation: The round of the publisher's start.
        n: The catenation number.
        publication: The message.
    """

    topic: str
    due_round: int
    publisher: int
    incarnation: int
    n: int
    publication: Publication


@record(key="topic, repository, seq")
class Located:
    """The repository-table, the other repositories' part: the message at a number there.

    Attributes:
        topic: The topic.
        repository: The other repository.
        seq: The number there.
        publisher: The message's publisher.
        incarnation: The round of the publisher's start.
        n: The catenation number.
    """

    topic: str
    repository: int
    seq: int
    publisher: int
    incarnation: int
    n: int


@record(key="topic, publisher, incarnation, n")
class Lacking:
    """A message that others have stored.

    Attributes:
        topic: The topic.
        publisher: Its publisher.
        incarnation: The round of the publisher's start.
        n: The catenation number.
        holders: The repositories that have it.
    """

    topic: str
    publisher: int
    incarnation: int
    n: int
    holders: set[int]


@record(key="topic, publisher, incarnation, n")
class Missed:
    """A message that a recovery waits for (rule P21).

    Attributes:
        topic: The topic.
        publisher: Its publisher.
        incarnation: The round of the publisher's start.
        n: The catenation number.
    """

    topic: str
    publisher: int
    incarnation: int
    n: int


@record(key="topic, publisher")
class Live:
    """A publisher that was heard of during the recovery.

    Attributes:
        topic: The topic.
        publisher: The publisher.
    """

    topic: str
    publisher: int


@record(key="topic, repository")
class Peer:
    """The knowledge of another repository.

    Attributes:
        topic: The topic.
        repository: Its id.
        seen: Its entries up to this number have arrived.
        told: It has had entries up to this number.
        beyond: Its messages stored behind its frontier.
        knows_leaving: Whether it knows that this repository is to leave.
        is_complete: Whether it has been operational once.
        heard_round: Round of its newest event; before the first: in which it became a member here.
    """

    topic: str
    repository: int
    seen: int = 0
    told: int = 0
    beyond: tuple[Upto, ...] = ()
    knows_leaving: bool = False
    is_complete: bool = False
    heard_round: int = 0


@record(key="topic, repository, publisher, incarnation")
class PeerPrefix:
    """The filled prefix of an incarnation at another repository.

    Attributes:
        topic: The topic.
        repository: The other repository.
        publisher: The publisher.
        incarnation: The round of its start.
        n: The last catenation number of the prefix.
    """

    topic: str
    repository: int
    publisher: int
    incarnation: int
    n: int


@record(key="topic, repository, seq")
class ForeignAck:
    """Acknowledgements of a message whose number at another repository is not known yet (rule P15).

    Attributes:
        topic: The topic.
        repository: The steering repository.
        seq: The number there.
        clients: The clients that have acknowledged.
    """

    topic: str
    repository: int
    seq: int
    clients: set[int]


@record(key="topic, repository, client")
class ForeignSync:
    """How far a subscriber has acknowledged at another repository (rule P16).

    Attributes:
        topic: The topic.
        repository: The other repository.
        client: The subscriber.
        seq: All up to this number there.
        subscription_ids: The subscriptions that this is about.
        applied: Rows up to this number there are marked.
    """

    topic: str
    repository: int
    client: int
    seq: int
    subscription_ids: tuple[int, ...]
    applied: int = 0
