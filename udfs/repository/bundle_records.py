"""What repositories know of the others in their bundle; a crash loses it, and gossip brings it back."""

from __future__ import annotations

from udfs.nodes.records import record
from udfs.repository.events import Upto


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
        holders: Who has it.
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
    """What is known of another repository.

    Attributes:
        topic: The topic.
        repository: Its id.
        seen: Its entries up to this number have come.
        told: It has had entries up to this number.
        beyond: What it has stored behind its frontier.
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
class Held:
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
        clients: Who has acknowledged.
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
