"""The interface of the network that nodes use."""

from __future__ import annotations

from typing import Protocol

from oracles.ginger.messages import Message


class Links(Protocol):
    """The links and timers. A timer expires only if its partner is dead, or if it is for a retry."""

    max_hops: int

    def send(self, src: int, dst: int, message: Message) -> None: ...

    def timer(self, node: int, partner: int, attempt: int) -> None: ...
