"""All faults of the runs of a node program, as its blocks meet them."""

from __future__ import annotations

from dataclasses import dataclass

from pipelines.rounds.faults.crashes import Crashes
from pipelines.rounds.faults.link_changes import Replacements
from pipelines.rounds.faults.link_faults import LinkFaults


@dataclass(frozen=True)
class RunFaults:
    """The faults of all runs.

    Attributes:
        crashes: The crash schedule.
        links: The link faults.
        changes: The links that others replace.
    """

    crashes: Crashes
    links: LinkFaults
    changes: Replacements

    def next_rounds(self, after: int) -> list[int]:
        """Returns the next rounds in which a fault itself happens, a kind of fault each."""
        found = (self.crashes.next_round(after), self.changes.next_round(after))
        return [round_ for round_ in found if round_ is not None]
