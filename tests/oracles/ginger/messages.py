"""The messages between brokers and clients of the sequential program."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

APPLICATION = frozenset({"publish", "metadata", "total_ack", "total_processed", "failed"})
"""The message kinds that wait in a FIFO queue during the reconfiguration of a broker; repair messages do not wait."""

Id = tuple[int, int]


class Publication(NamedTuple):
    """A publication of a client; ``keys`` are its key items."""

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
    """An entry of a broker's buffer: a message was forwarded (``passed``), or, in total order, ``processed``."""

    what: str
    m: Publication


@dataclass(frozen=True)
class Message:
    """A message on a link; ``covered`` is used in metadata and total_ack, ``body`` in repair messages."""

    kind: str
    m: Publication | None = None
    covered: frozenset[int] = frozenset()
    body: Any = None
