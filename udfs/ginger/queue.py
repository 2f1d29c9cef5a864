"""The blocked-keys pass over the queue of messages that clients have brought to a broker."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple


class Id(NamedTuple):
    """What identifies a message within its run.

    Attributes:
        source: The client that published it.
        source_seq: Its number among the client's calls.
    """

    source: int
    source_seq: int


class Message(NamedTuple):
    """A message of a client, as brokers pass it on.

    Attributes:
        topic: Its topic.
        source: The client.
        source_seq: Its number among the client's calls.
        guarantee: ``eventual``, ``causal`` or ``total``; nothing where only the id is known.
        keys: Its key items, sorted.
        issued_round: The round in which the client issued it.
    """

    topic: str
    source: int
    source_seq: int
    guarantee: str
    keys: tuple[str, ...]
    issued_round: int

    @property
    def id(self) -> Id:
        """Identifies it within its run."""
        return Id(self.source, self.source_seq)

    @property
    def has_body(self) -> bool:
        """Whether more than the id is known of it."""
        return self.guarantee != ""

    @property
    def is_total(self) -> bool:
        """Whether it is delivered in total order."""
        return self.guarantee == "total"


def next_admitted(queue: Sequence[Message], locked: Collection[str]) -> int | None:
    """Finds the first message that may enter, in one pass that carries the set of blocked keys.

    A message waits while one before it in the queue waits for one of its keys; an eventual or causal one also while one
    of its keys is locked.

    Args:
        queue: The queue of a topic, in the order of arrival.
        locked: The locked key items of the topic.

    Returns:
        The position of the message, or None.
    """
    blocked: set[str] = set()
    for position, message in enumerate(queue):
        is_free = message.is_total or not any(key in locked for key in message.keys)
        if is_free and blocked.isdisjoint(message.keys):
            return position
        blocked.update(message.keys)
    return None
