"""All faults of the runs, as the rounds meet them."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.contract.due import CrashesDue, FaultsDue
from pipelines.rounds.faults.crashes import Crashes
from pipelines.rounds.faults.link_changes import Replacements
from pipelines.rounds.faults.link_faults import LinkFaults
from pipelines.rounds.faults.pauses import Pauses


@dataclass(frozen=True)
class RunFaults:
    """The faults of all runs.

    Attributes:
        crashes: The crash schedule.
        links: The link faults.
        pauses: The pauses of nodes.
        changes: The links that others replace.
    """

    crashes: Crashes
    links: LinkFaults
    pauses: Pauses
    changes: Replacements

    @property
    def may_duplicate(self) -> bool:
        """Whether a message may have reached a node before; after a crash nodes may send again what had arrived."""
        return self.links.may_duplicate or self.crashes.is_any

    def due(self, round_: int, crashes: CrashesDue) -> FaultsDue:
        """Returns what a protocol is told of the faults of a round.

        Args:
            round_: The round.
            crashes: What the crash schedule says of it.
        """
        return FaultsDue(
            crashes.crashed, crashes.recovered, crashes.down, self.pauses.paused(round_), self.may_duplicate,
            self.crashes.runs, crashes.disturbed,
        )  # fmt: skip

    def next_rounds(self, after: int) -> list[int]:
        """Returns the next rounds in which a fault itself happens, a kind of fault each."""
        found = (self.crashes.next_round(after), self.changes.next_round(after))
        return [round_ for round_ in found if round_ is not None]
