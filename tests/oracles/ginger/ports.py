"""What a node needs of the network."""

from __future__ import annotations

from typing import Protocol

from oracles.ginger.messages import Message


class Links(Protocol):
    """The links, and timers that run out only for partners that are dead, or to try once more."""

    max_hops: int

    def send(self, src: int, dst: int, message: Message) -> None: ...

    def timer(self, node: int, partner: int, attempt: int) -> None: ...
