"""What an observer is told of a round."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Progress:
    """What an observer is told after each round.

    Attributes:
        round: The round that was made.
        n_in_flight: Messages in flight after it.
        n_handled: Messages handled in it.
        scheduled_round: The last round with a call or a fault; after it the runs end as soon as nothing can happen.
    """

    round: int
    n_in_flight: int
    n_handled: int
    scheduled_round: int
