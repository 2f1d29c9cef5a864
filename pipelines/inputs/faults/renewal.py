"""Alternating up and down times, drawn from distributions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pipelines.contract.run_inputs import Ints
from pipelines.inputs import draws_numpy
from pipelines.inputs.faults.timeline import FOR_GOOD, Outage
from pipelines.scenario.faults import CrashRate, Exponential, LogNormal, Pareto, Times, Weibull

Floats: TypeAlias = npt.NDArray[np.float64]

MAX_OUTAGES = 1_000_000
_LONGEST = 2**31
_CYCLES = 32


class TooManyError(ValueError):
    """There are more crashes than a run can have."""


def renewal_times(times: Times, seed: int, purpose: str, *keys: draws_numpy.Key) -> Ints:
    """Returns times in whole rounds, at least 1; shape of the broadcast keys."""
    drawn: Floats
    match times:
        case Exponential(mean=mean):
            drawn = -mean * np.log1p(-draws_numpy.uniform(seed, purpose, *keys))
        case Weibull(shape=shape, scale=scale):
            drawn = scale * (-np.log1p(-draws_numpy.uniform(seed, purpose, *keys))) ** (1.0 / shape)
        case Pareto(shape=shape, scale=scale):
            with np.errstate(over="ignore"):
                drawn = scale * (1.0 - draws_numpy.uniform(seed, purpose, *keys)) ** (-1.0 / shape)
        case LogNormal(mu=mu, sigma=sigma):
            drawn = np.exp(np.minimum(mu + sigma * draws_numpy.normal(seed, purpose, *keys), np.log(_LONGEST)))
    return np.rint(np.clip(drawn, 1.0, _LONGEST)).astype(np.int64)


def alternating(rate: CrashRate, nodes: Ints, rounds: tuple[int, int], seed: int, purpose: str) -> list[Outage]:
    """Returns the outages of nodes that alternate between up and down, all up before the first round.

    A node's times depend on its id, not on which other nodes take part.

    Args:
        rate: Distributions of up and down times.
        nodes: The nodes that may crash.
        rounds: First and last round in which a node may crash.
        seed: The run's seed.
        purpose: What the draws are for.

    Raises:
        TooManyError: More than `MAX_OUTAGES` crashes.
    """
    found: list[Outage] = []
    for some in _cycles(rate, nodes, rounds, seed, purpose):
        found += some
        if len(found) > MAX_OUTAGES:
            raise TooManyError(f"it makes more than {MAX_OUTAGES} crashes")
    return found


def _cycles(rate: CrashRate, nodes: Ints, rounds: tuple[int, int], seed: int, purpose: str) -> Iterator[list[Outage]]:
    """Yields some outages of each node at a time, until every node is past the last round."""
    first, last = rounds
    now, cycle = np.full(len(nodes), first, dtype=np.int64), np.arange(_CYCLES, dtype=np.int64)
    while len(nodes):
        up = renewal_times(rate.up, seed, f"{purpose}.up", nodes[:, None], cycle)
        down = np.full_like(up, FOR_GOOD)
        if rate.down is not None:
            down = renewal_times(rate.down, seed, f"{purpose}.down", nodes[:, None], cycle)
        end = now[:, None] + np.cumsum(up + down, axis=1)
        row, column = np.nonzero(end - down <= last)
        yield [
            Outage(*values)
            for values in zip(
                nodes[row].tolist(), (end - down)[row, column].tolist(), end[row, column].tolist(), strict=True
            )
        ]
        goes_on = end[:, -1] < last
        nodes, now, cycle = nodes[goes_on], end[goes_on, -1], cycle + _CYCLES
