"""Breaks, pauses and partitions made from the seed: when, and which link or node."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pipelines.contract.run_inputs import Ints, Overlay
from pipelines.errors import FaultError, Problem
from pipelines.inputs import draws_numpy
from pipelines.inputs.faults.renewal import TooManyError, alternating
from pipelines.inputs.faults.timeline import FOR_GOOD, Outage, Timeline
from pipelines.scenario.faults import DrawnTimes

_TRIES = 64


def drawn_intervals(
    wanted: DrawnTimes, places: Ints, horizon: int, seed: int, purpose: str, at: tuple[str | int, ...]
) -> list[Outage]:
    """Returns when which of some places is struck; the times of a place are apart.

    Args:
        wanted: How many, or how often.
        places: Numbers of the links or nodes that may be struck.
        horizon: The last round.
        seed: The run's seed.
        purpose: What the draws are for.
        at: Where the generator stands in the scenario.

    Raises:
        FaultError: The rounds have no room for n intervals, or n is above the limit of a run.
    """
    rounds = wanted.rounds or (0, horizon)
    if wanted.rate is not None:
        try:
            return alternating(wanted.rate, places, rounds, seed, purpose)
        except TooManyError as error:
            message = f"{error}; give fewer rounds or places, or longer times"
            raise FaultError(Problem((*at, "rate"), message)) from error
    timeline, count = Timeline(), wanted.count or 0
    for number in range(count):
        found = next(
            (time for time in _tries(wanted, places, rounds, seed, purpose, number) if timeline.is_free(time)), None
        )
        if found is None:
            message = (
                f"{count} are wanted, and in the run of seed {seed} there is room for {number} from round {rounds[0]}"
                f" to {rounds[1]} at {len(places)} places; allowed: a smaller count, more rounds or places, or shorter"
                " times"
            )
            raise FaultError(Problem((*at, "count"), message))
        timeline.add(found)
    return timeline.outages()


def _tries(
    wanted: DrawnTimes, places: Ints, rounds: tuple[int, int], seed: int, purpose: str, number: int
) -> list[Outage]:
    attempt = np.arange(_TRIES, dtype=np.int64)
    place = places[draws_numpy.integers(seed, f"{purpose}.place", 0, len(places) - 1, number, attempt)]
    start = draws_numpy.integers(seed, f"{purpose}.start", *rounds, number, attempt)
    end = np.full(_TRIES, FOR_GOOD, dtype=np.int64)
    if wanted.down is not None:
        end = start + draws_numpy.integers(seed, f"{purpose}.down", *wanted.down, number, attempt)
    return [Outage(*row) for row in zip(place.tolist(), start.tolist(), end.tolist(), strict=True)]


def drawn_group(overlay: Overlay, share: float, seed: int, purpose: str, number: int) -> list[int]:
    """Returns a drawn node and the nodes that are nearest to it by hops, a share of all of them, but not all."""
    n_nodes = len(overlay.names)
    size = min(max(round(share * n_nodes), 1), n_nodes - 1)
    neighbours = _neighbours(overlay)
    group = [int(draws_numpy.integers(seed, f"{purpose}.centre", 0, n_nodes - 1, number))]
    seen = set(group)
    for node in group:
        for other in neighbours[node]:
            if other not in seen and len(group) < size:
                seen.add(other)
                group.append(other)
    return sorted(group)


def _neighbours(overlay: Overlay) -> Sequence[list[int]]:
    found: list[list[int]] = [[] for _ in overlay.names]
    for a, b in zip(overlay.a.tolist(), overlay.b.tolist(), strict=True):
        found[a].append(b)
        found[b].append(a)
    return found
