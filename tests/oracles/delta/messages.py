"""What travels: multicast messages, their unicast companions, and the envelope around each."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from oracles.delta.view import Path

Stamp = tuple[int, int]
Key = tuple[int, Stamp]


@dataclass(frozen=True)
class Multicast:
    """A copy of a J, SUB, UNSUB, PUB or REJOIN message, with the fields that its kind needs.

    ``to`` is None unless the copy is Guided: the paths to Γ, each with whether all behind its end is done.
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
        """The message's identity, the same in all its copies: source and the source's MsgId."""
        return self.source, self.stamp

    def copy(self, **changes: Any) -> Multicast:
        """Returns a copy with some fields changed."""
        return replace(self, **changes)


@dataclass
class Recipient:
    """A member of Γ_N^m: its path, the member of Out that is responsible for it, and whether that one has confirmed.

    ``is_reopened``: an earlier incarnation had confirmed, and what lies behind it with it; only the node lacks m.
    """

    path: Path
    responsible: int | None = None
    is_confirmed: bool = False
    is_reopened: bool = False


@dataclass
class Item:
    """An entry of ProcessingList_N: a message with its Γ and senders; ``unsent`` waits for a pending connection."""

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
        """Out_N^m: who still has to confirm."""
        return {r.responsible for r in self.gamma.values() if r.responsible is not None and not r.is_confirmed}

    def through(self, peer: int) -> list[Path]:
        """Returns the paths to the recipients that the peer still has to confirm, nearest first."""
        found = [r.path for r in self.gamma.values() if r.responsible == peer and not r.is_confirmed]
        return sorted(found, key=lambda path: (len(path), path))


@dataclass(frozen=True)
class Envelope:
    """A message on a link; ``dst_incarnation`` is None where the sender cannot know it."""

    kind: str
    src: int
    dst: int
    src_incarnation: int
    dst_incarnation: int | None
    body: Any
    is_low: bool
    order: int
