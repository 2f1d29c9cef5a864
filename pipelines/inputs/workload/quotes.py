"""What generated stock quotes and the subscriptions to them share: symbols, start prices, the spread of volumes."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from pipelines.inputs import draws_numpy
from pipelines.inputs.overlay.nodes import Ints
from pipelines.inputs.workload.distributions import Floats

TOPIC = "quotes"
LEAST_PRICE, MOST_PRICE = 0.01, 1_000_000.0
_START_LOW, _START_HIGH = 10.0, 500.0
_VOLUME_LOW, _VOLUME_HIGH = 100.0, 1_000_000.0


def symbol(rank: int) -> str:
    """Returns the symbol of a rank: AAA, AAB, ..., ZZZ, BAAA, ...; the rule does not depend on how many there are."""
    letters = ""
    while rank or len(letters) < 3:
        rank, letter = divmod(rank, 26)
        letters = chr(ord("A") + letter) + letters
    return letters


@lru_cache(maxsize=16)
def symbols(count: int) -> pa.Array:
    """Returns the symbols of the ranks 0 to count - 1."""
    return pa.array([symbol(rank) for rank in range(count)], pa.string())


def start_prices(seed: int, ranks: Ints) -> Floats:
    """Returns the price from which each symbol's walk starts, log-uniform from 10 to 500."""
    drawn = draws_numpy.uniform(seed, "workload.quotes.start", ranks)
    prices: Floats = np.round(_START_LOW * (_START_HIGH / _START_LOW) ** drawn, 2)
    return prices


def volumes(share: Floats) -> Floats:
    """Returns the quantiles of the volume of a quote: whole numbers, log-uniform from 100 to 1,000,000."""
    quantiles: Floats = np.round(_VOLUME_LOW * (_VOLUME_HIGH / _VOLUME_LOW) ** share)
    return quantiles
