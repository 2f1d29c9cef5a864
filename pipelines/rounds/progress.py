"""What an observer is told of a round."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """What an observer is told after each round."""

    round: int
    n_in_flight: int
    n_handled: int
