"""What a hunt found, and how far it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import plural
from pipelines.experiment.listed import Parts
from pipelines.hunting.coverage import reached


@dataclass(frozen=True)
class Finding:
    """A way in which schedules break a guarantee.

    Attributes:
        guarantee: The guarantee.
        cause: Why a delivery is missing, late or doubled in the smallest scenario, as `why` tells it; else the detail
            of the violation.
        aims: What the schedule aimed at that broke it first.
        n_played: Schedules that were played up to that one.
        n_schedules: Schedules that broke the guarantee in this way.
        scenario: The smallest scenario that breaks it.
        sizes: The numbers of faults, calls and nodes in it and in the schedule that was found, in words.
        file: Where the scenario is kept; None: nowhere.
    """

    guarantee: str
    cause: str
    aims: tuple[str, ...]
    n_played: int
    n_schedules: int
    scenario: Parts
    sizes: str
    file: Path | None


@dataclass(frozen=True)
class Standing:
    """How far a hunt is.

    Attributes:
        n_played: Schedules played.
        n_features: Features reached.
        n_findings: Findings by guarantee.
        seconds: Seconds since it began.
    """

    n_played: int
    n_features: int
    n_findings: Mapping[str, int]
    seconds: float


@dataclass(frozen=True)
class Hunt:
    """What a hunt found.

    Attributes:
        scenario: The name of the scenario.
        protocol: Its protocol.
        strategy: How schedules were chosen.
        findings: Each way in which a guarantee was broken.
        broken_again: Files of the corpus that still break a guarantee, with the guarantees.
        n_replayed: Scenarios of the corpus that were replayed.
        n_played: Schedules that were played.
        n_beyond: Those of them that went beyond the protocol's bound.
        n_undecided: Those within the bound whose verdict is unknown.
        n_refused: Schedules that the scenario's protocol refuses.
        features: Every feature that was reached, see `coverage.features`.
        kinds: The kinds of messages of the protocol.
        seconds: How long it took.
    """

    scenario: str
    protocol: str
    strategy: str
    findings: Sequence[Finding]
    broken_again: Mapping[Path, Sequence[str]]
    n_replayed: int
    n_played: int
    n_beyond: int
    n_undecided: int
    n_refused: int
    features: frozenset[str]
    kinds: Sequence[str]
    seconds: float

    @property
    def unreached(self) -> list[str]:
        """The kinds of messages that no run sent."""
        _, table = reached(self.features, self.kinds)
        return [kind for kind, row in table.items() if not row]

    def __repr__(self) -> str:
        """Returns the counts, and a line for each finding."""
        head = f"{plural(self.n_played, 'schedule')} of {self.protocol}: {plural(len(self.findings), 'finding')}"
        return "\n".join([head, *(f"{one.guarantee}: {one.cause}" for one in self.findings)])
