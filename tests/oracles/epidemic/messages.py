"""Events and messages as plain values."""

from __future__ import annotations

from dataclasses import dataclass

CALL_TRIGGER = 1 << 62
TIMER_TRIGGER = 3 << 61
Entry = tuple[int | None, int | None, int]


@dataclass(frozen=True)
class Event:
    """A published event; ``tags``, pairs of a pattern and a counter, are its identifier."""

    source: int
    seq: int
    issued_round: int
    matches: tuple[int, ...]
    tags: tuple[tuple[int, int], ...]

    @property
    def key(self) -> tuple[int, int]:
        return self.source, self.seq

    def number(self, pattern: int) -> int | None:
        return dict(self.tags).get(pattern)


@dataclass(frozen=True)
class Message:
    """A message; ``latency`` is set if the message is sent by unicast."""

    trigger: int
    rank: int
    kind: str
    src: int
    dst: int
    sent_round: int
    event: Event | None = None
    hops: int = 0
    path: tuple[int, ...] = ()
    pattern: int | None = None
    style: str | None = None
    initiator: int | None = None
    digest: tuple[Entry, ...] = ()
    latency: int | None = None
    message_id: int = 0

    @property
    def order(self) -> tuple[object, ...]:
        source, seq = self.event.key if self.event else (-1, -1)
        return self.trigger, self.rank, self.dst, source, seq, self.kind

    @property
    def what(self) -> tuple[object, ...]:
        """The columns of the message in the history, except its fate."""
        source, seq = self.event.key if self.event else (None, None)
        return self.kind, self.src, self.dst, self.sent_round, source, seq, self.message_id
