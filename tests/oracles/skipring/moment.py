"""A node in a round: its sent messages, its deliveries, and its random draws."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple

BEFORE = -1
"""The round before the first round."""
Contact = tuple[int, str]
"""A node and its label."""


class Message(NamedTuple):
    """A message; its body is the topic, followed by the arguments in the order of the protocol's page."""

    sent_round: int
    src: int
    number: int
    kind: str
    dst: int
    due_round: int
    body: tuple[Any, ...]


class Publication(NamedTuple):
    """A publication, and the number of links on its path."""

    key: str
    source: int
    number: int
    issued_round: int
    hops: int


class Delivery(NamedTuple):
    """A delivery to the application of a node."""

    node: int
    source: int
    number: int
    latency_rounds: int
    hops: int


def share(bits: bytes) -> float:
    """Returns the number in [0, 1) whose binary digits are the first 53 bits."""
    return (int.from_bytes(bits[:8], "big") >> 11) / (1 << 53)


class Moment:
    """The activity of a node in a round."""

    def __init__(self, node: int, round_: int, settings: Mapping[str, Any]) -> None:
        self.node, self.round, self.settings = node, round_, settings
        self.sent: list[Message] = []
        self.delivered: list[Delivery] = []

    def draw(self, purpose: str, *keys: int) -> float:
        """Returns a pseudo-random number in [0, 1) that depends on seed, node, round, purpose and keys."""
        what = (self.settings["seed"], self.node, self.round, purpose, keys)
        return share(hashlib.blake2b(repr(what).encode(), digest_size=8).digest())

    def send(self, dst: int, kind: str, *body: Any) -> None:
        """Sends a message; its delay is drawn by its number among the node's messages of the round (K15)."""
        least, most = self.settings["min_delay"], self.settings["max_delay"]
        number = len(self.sent)
        delay = least + int(self.draw("delay", number) * (most - least + 1))
        self.sent.append(Message(self.round, self.node, number, kind, dst, self.round + delay, body))

    def deliver(self, one: Publication) -> None:
        """Delivers a publication."""
        self.delivered.append(Delivery(self.node, one.source, one.number, self.round - one.issued_round, one.hops))
