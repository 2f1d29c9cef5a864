"""Bursts: a link alternates between good and bad (Gilbert and Elliott's channel), round by round."""

from __future__ import annotations

import numpy as np

from pipelines.contract.run_inputs import Ints
from pipelines.inputs import draws_numpy
from pipelines.scenario.link_faults import Burst

_CYCLES = 64


def bad_times(burst: Burst, link: Ints, rounds: tuple[int, int], seed: int, purpose: str) -> tuple[Ints, Ints, Ints]:
    """Returns the times for which links are bad.

    A link is bad in the first round with the probability that it has in the long run, bad / (good + bad); times are
    geometrically distributed, so the time it has already spent in its state does not matter.

    Args:
        burst: The mean times.
        link: A number for each directed link; the times of a link depend on its number, not on the other links.
        rounds: First round, and the round in which all is over.
        seed: The run's seed.
        purpose: What the draws are for.

    Returns:
        Link, first round, and the round after the last, of each bad time, in order of (link, first round).
    """
    first, end = rounds
    is_bad = draws_numpy.uniform(seed, f"{purpose}.begin", link) < burst.bad / (burst.good + burst.bad)
    now = np.full(len(link), first, dtype=np.int64)
    now[~is_bad] += _sojourn(burst.good, seed, f"{purpose}.first", link[~is_bad], 0)
    cycle = np.arange(_CYCLES, dtype=np.int64)
    parts: list[tuple[Ints, Ints, Ints]] = []
    while len(link):
        bad = _sojourn(burst.bad, seed, f"{purpose}.bad", link[:, None], cycle)
        good = _sojourn(burst.good, seed, f"{purpose}.good", link[:, None], cycle)
        over = now[:, None] + np.cumsum(bad + good, axis=1)
        start = over - good - bad
        row, column = np.nonzero(start < end)
        parts.append((link[row], start[row, column], np.minimum(start + bad, end)[row, column]))
        goes_on = over[:, -1] < end
        link, now, cycle = link[goes_on], over[goes_on, -1], cycle + _CYCLES
    found = [np.concatenate(column) for column in zip(*parts, strict=True)] if parts else [now, now, now]
    order = np.lexsort((found[1], found[0]))
    return found[0][order], found[1][order], found[2][order]


def _sojourn(mean: float, seed: int, purpose: str, link: Ints, cycle: draws_numpy.Key) -> Ints:
    """Returns geometrically distributed times of at least one round."""
    drawn = draws_numpy.uniform(seed, purpose, link, cycle)
    if mean <= 1.0:
        return np.ones(drawn.shape, dtype=np.int64)
    times: Ints = 1 + np.floor(np.log1p(-drawn) / np.log1p(-1.0 / mean)).astype(np.int64)
    return times
