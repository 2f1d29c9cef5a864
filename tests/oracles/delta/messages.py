"""Multicast messages, the state of their processing, and the envelopes of messages on links."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from oracles.delta.view import Path

Stamp = tuple[int, int]
Key = tuple[int, Stamp]


@dataclass(frozen=True)
class Multicast:
    """A copy of a J, SUB, UNSUB, PUB or REJOIN message, with the fields that its kind needs.

    If the copy is Guided, ``to`` contains the paths to the members of Γ, each with a flag: whether all nodes behind its
    end have confirmed. Otherwise ``to`` has the value None.
    """

    kind: str
    source: int
    stamp: Stamp
    seq: int = -1
    subscription: int = -1
    join_point: int = -1
    matches: frozenset[int] = frozenset()
    origin: int | None = None
    visited: tuple[tuple[int, Stamp | None], ...] = ()
    to: tuple[tuple[Path, bool], ...] | None = None
    origin_path: Path = ()

    @property
    def key(self) -> Key:
        """The identity of the message, which is equal in all its copies: the source and the source's MsgId."""
        return self.source, self.stamp

    def copy(self, **changes: Any) -> Multicast:
        """Returns a copy with some fields changed."""
        return replace(self, **changes)


@dataclass
class Recipient:
    """A member of Γ_N^m: its path, the member of Out responsible for it, and whether that member has confirmed.

    ``is_reopened`` means that an earlier incarnation of the node had confirmed m for all nodes behind it, so that only
    the node itself lacks m.
    """

    path: Path
    responsible: int | None = None
    is_confirmed: bool = False
    is_reopened: bool = False


@dataclass
class Item:
    """An entry of ProcessingList_N: a message, its Γ and its senders; ``unsent`` contains peers with unsent copies."""

    message: Multicast
    msg_id: Stamp
    toward: int | None
    senders: set[tuple[int, int]]
    origin_path: Path
    is_guided: bool
    gamma: dict[int, Recipient] = field(default_factory=dict)
    unsent: set[int] = field(default_factory=set)

    @property
    def out(self) -> set[int]:
        """Out_N^m: the responsible nodes that have not confirmed yet."""
        return {r.responsible for r in self.gamma.values() if r.responsible is not None and not r.is_confirmed}

    def through(self, peer: int) -> list[Path]:
        """Returns the paths to the recipients that the peer has not confirmed yet, shortest first."""
        found = [r.path for r in self.gamma.values() if r.responsible == peer and not r.is_confirmed]
        return sorted(found, key=lambda path: (len(path), path))


@dataclass(frozen=True)
class Envelope:
    """A message on a link; ``dst_incarnation`` None: the sender cannot know the incarnation of the receiver."""

    kind: str
    src: int
    dst: int
    src_incarnation: int
    dst_incarnation: int | None
    body: Any
    is_low: bool
    order: int
