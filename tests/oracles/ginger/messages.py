"""What the sequential program's brokers and clients tell each other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

APPLICATION = frozenset({"publish", "metadata", "total_ack", "total_processed", "failed"})
"""Kinds that wait in one FIFO queue while a broker is reconfigured; repair messages pass."""

Id = tuple[int, int]


class Publication(NamedTuple):
    """A message of a client; ``keys`` are its key items."""

    client: int
    seq: int
    topic: str
    keys: frozenset[str]
    guarantee: str

    @property
    def id(self) -> Id:
        return (self.client, self.seq)

    @property
    def is_total(self) -> bool:
        return self.guarantee == "total"

    def shares(self, other: Publication) -> bool:
        return self.topic == other.topic and not self.keys.isdisjoint(other.keys)


class Event(NamedTuple):
    """An entry of a broker's buffer: a message ``passed`` here, or a total-order one was ``processed``."""

    what: str
    m: Publication


@dataclass(frozen=True)
class Message:
    """A message on a link; ``covered`` goes with metadata and total_ack, ``body`` with repair messages."""

    kind: str
    m: Publication | None = None
    covered: frozenset[int] = frozenset()
    body: Any = None
