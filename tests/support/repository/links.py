"""Links that lose, duplicate and reorder messages, by a seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from udfs.nodes.world import Flight


@dataclass
class FaultyLinks:
    """Faults of links up to a round.

    Attributes:
        seed: Decides what is hit.
        loss: The share of messages that are lost.
        duplication: The share of those that come twice.
        reordering: The share of those that are late.
        late_rounds: By how much at most.
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
        """Strikes the messages that nodes put on links in a round."""
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
