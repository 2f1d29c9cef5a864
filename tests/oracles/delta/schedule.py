"""The inputs of a run: a tree, application calls and crashes, as plain records."""

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
    """A crash: a node is down from ``round`` to ``until``; None means that it does not recover."""

    node: int
    round: int
    until: int | None


@dataclass
class Schedule:
    """The inputs of a run. Nodes that issue a join call are not in the tree at the start."""

    delta: int
    links: dict[Link, int]
    calls: list[Call]
    crashes: list[Crash] = field(default_factory=list)
    detection: int = 5
    low_priority: int = 1
