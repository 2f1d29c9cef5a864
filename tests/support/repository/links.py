"""Links that lose, duplicate and reorder messages at random."""

from __future__ import annotations

import random
from dataclasses import dataclass

from udfs.nodes.world import Flight


@dataclass
class FaultyLinks:
    """Random link faults up to a round.

    Attributes:
        seed: The seed of the random choices.
        loss: The share of messages that are lost.
        duplication: The share of messages that are duplicated.
        reordering: The share of messages that are delayed.
        late_rounds: The maximum delay in rounds.
        end_round: The first round without faults.
    """

    seed: int
    loss: float
    duplication: float
    reordering: float
    late_rounds: int
    end_round: int

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def __call__(self, flights: list[Flight]) -> list[Flight]:
        """Returns the messages of a round after the faults."""
        if not flights or flights[0].sent_round >= self.end_round:
            return flights
        return [copy for one in flights for copy in self._struck(one)]

    def _struck(self, one: Flight) -> list[Flight]:
        if one.src == one.dst:  # a report of the node's own failure detector
            return [one]
        copies = [one] * (2 if self._random.random() < self.duplication else 1)
        return [self._copy(copy) for copy in copies]

    def _copy(self, one: Flight) -> Flight:
        if self._random.random() < self.loss:
            return one._replace(fate="lost_link")
        if self._random.random() < self.reordering:
            return one._replace(due_round=one.due_round + self._random.randint(1, self.late_rounds))
        return one
