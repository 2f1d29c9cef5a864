"""What all events have in common, and the values that they carry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Catenated(Protocol):
    """What names a message by its catenation."""

    @property
    def publisher(self) -> int:
        """The publisher."""

    @property
    def incarnation(self) -> int:
        """The round of its start."""

    @property
    def n(self) -> int:
        """The message's number in it."""


class Key(NamedTuple):
    """Identifies a message: its catenation (rule P1)."""

    publisher: int
    incarnation: int
    n: int

    @classmethod
    def of(cls, row: Catenated) -> Key:
        """Returns the key of the message that a row is about."""
        return cls(row.publisher, row.incarnation, row.n)


@dataclass(frozen=True, slots=True)
class Upto:
    """All messages of a publisher's incarnation up to a number.

    Attributes:
        publisher: The publisher.
        incarnation: The round of its start.
        n: The number of the last message; 0: none.
    """

    publisher: int
    incarnation: int
    n: int


@dataclass(frozen=True, slots=True)
class Publication:
    """A message as its publisher issued it.

    Attributes:
        source: The publisher.
        source_seq: Its number among the calls there; with ``source`` the message's identifier.
        issued_round: The round of the call.
        matches: Ids of the subscriptions whose predicate it satisfies.
    """

    source: int
    source_seq: int
    issued_round: int
    matches: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Interest:
    """A subscription as repositories know it.

    Attributes:
        subscription_id: The subscription.
        cut: Up to where it does not ask for messages (rule P10).
    """

    subscription_id: int
    cut: tuple[Upto, ...]


@dataclass(frozen=True, slots=True)
class Addressed:
    """An event on a link.

    Attributes:
        to: Who is to get it; a broker sends one copy a link on.
        origin: Who sent it first.
        hops: Links that it has travelled over.
        topic: The topic that it is about.
    """

    to: tuple[int, ...]
    origin: int
    hops: int
    topic: str


@dataclass(frozen=True, slots=True)
class Identified(Addressed):
    """An event about one message.

    Attributes:
        source: The message's publisher.
        source_seq: Its number among the calls there.
    """

    source: int
    source_seq: int


@dataclass(frozen=True, slots=True)
class Carrying(Identified):
    """An event that carries a message.

    Attributes:
        issued_round: The round in which it was published.
        matches: Ids of the subscriptions whose predicate it satisfies.
    """

    issued_round: int
    matches: tuple[int, ...]

    @property
    def publication(self) -> Publication:
        """The message."""
        return Publication(self.source, self.source_seq, self.issued_round, self.matches)


@dataclass(frozen=True, slots=True)
class Designated(Addressed):
    """An event between a client and repositories.

    Attributes:
        designation: The number of the client's designation (rule P12).
        steering: The repository that it designates.
    """

    designation: int
    steering: int
