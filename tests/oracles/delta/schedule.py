"""What a run is given: a tree, application calls and crashes, as plain rows."""

from __future__ import annotations

from dataclasses import dataclass, field

from oracles.delta.view import Link


@dataclass(frozen=True)
class Call:
    """A call of the application at a node; ``number`` is a publication's seq or a subscription's identifier."""

    round: int
    node: int
    kind: str
    number: int = 0
    matches: frozenset[int] = frozenset()
    join_point: int = -1


@dataclass(frozen=True)
class Crash:
    """A node is down from a round to another, or for good."""

    node: int
    round: int
    until: int | None


@dataclass
class Schedule:
    """A whole run; the nodes that a join call names are not in the tree at first."""

    delta: int
    links: dict[Link, int]
    calls: list[Call]
    crashes: list[Crash] = field(default_factory=list)
    detection: int = 5
    low_priority: int = 1
