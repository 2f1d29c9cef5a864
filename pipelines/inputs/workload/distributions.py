"""Random draws for several workload generators: Zipf popularity, distinct choices, rounds of publications."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from pipelines.contract.run_inputs import Floats, Ints, index_in_group
from pipelines.inputs import draws_numpy

_RACE_CELLS = 4_000_000
_RACE_SHARE = 16
_SLOT_CELLS = 4_000_000
_ATTEMPTS = 64


class RepetitionError(ValueError):
    """A node needs more distinct draws than there are values."""


def decimals(low: float, high: float) -> int:
    """Returns the number of decimal places for about six significant digits of numbers from `low` to `high`."""
    return int(np.clip(6 - np.ceil(np.log10(high - low)), 0, 300))


@lru_cache(maxsize=8)
def _masses(size: int, exponent: float) -> Floats:
    # Summed from the least popular rank up, so that small weights are not lost in rounding.
    return np.cumsum(np.arange(size, 0, -1, dtype=np.float64) ** -exponent)


def topic_path(rank: int, levels: Sequence[int] | None) -> list[str]:
    """Returns the parts of the name of topic `rank`, one for each level.

    `levels` contains the number of values of each level; if it is `None`, the name has one level.
    """
    digits: list[int] = []
    for size in reversed(levels or ()):
        digits.append(rank % size)
        rank //= size
    numbers = [digit + 1 for digit in reversed(digits)] or [rank + 1]
    return [f"topic{numbers[0]}", *map(str, numbers[1:])]


def topic_name(rank: int, levels: Sequence[int] | None) -> str:
    """Returns the name of topic `rank`, for example ``topic3``, or ``topic3/1/7`` if `levels` has three entries."""
    return "/".join(topic_path(rank, levels))


def zipf(uniform: Floats, size: int, exponent: float, first: Ints | int = 0) -> Ints:
    """Returns ranks from `first` to ``size - 1``, drawn with weights ``(rank + 1) ** -exponent``.

    `uniform` contains a number in [0, 1) for each draw; inversion maps this number to a rank. `first` is one rank for
    all draws, or an array with a rank for each draw.
    """
    masses = _masses(size, exponent)
    wanted = (1.0 - uniform) * masses[size - 1 - first]
    ranks: Ints = (size - 1 - np.searchsorted(masses, wanted, side="left")).astype(np.int64)
    return ranks


def distinct_ranks(nodes: Ints, per_node: int, size: int, exponent: float, seed: int, purpose: str) -> Ints:
    """Returns ranks for each node, drawn by Zipf popularity without replacement.

    If `per_node` is at least a sixteenth of `size`, the ranks of a node are the first arrivals in an exponential race
    of all ranks. Otherwise ranks that a node draws repeatedly are drawn again. Both methods give the same distribution.

    Returns:
        Shape (nodes, per_node).

    Raises:
        RepetitionError: `per_node` exceeds `size`.
    """
    if per_node > size:
        raise RepetitionError(f"{per_node} different ranks of {size}")
    if per_node > 1 and size <= _RACE_SHARE * per_node:
        chunk = max(1, _RACE_CELLS // size)
        parts = [
            _race(nodes[i : i + chunk], per_node, size, exponent, seed, purpose) for i in range(0, len(nodes), chunk)
        ]
        return np.concatenate(parts) if parts else np.empty((0, per_node), dtype=np.int64)
    return _draw_again(nodes, per_node, size, exponent, seed, purpose)


def _race(nodes: Ints, per_node: int, size: int, exponent: float, seed: int, purpose: str) -> Ints:
    ranks = np.arange(size, dtype=np.int64)
    arrival = (
        -np.log1p(-draws_numpy.uniform(seed, purpose + ".race", nodes[:, None], ranks)) * (ranks + 1.0) ** exponent
    )
    return np.argsort(arrival, axis=1, kind="stable")[:, :per_node].astype(np.int64)


def _draw_again(nodes: Ints, per_node: int, size: int, exponent: float, seed: int, purpose: str) -> Ints:
    # Repeated ranks are drawn again. Draws exclude the ranks below the lowest free rank of the node.
    ranks = np.zeros(len(nodes) * per_node, dtype=np.int64)
    owner = np.repeat(np.arange(len(nodes), dtype=np.int64), per_node)
    index = np.tile(np.arange(per_node, dtype=np.int64), len(nodes))
    taken = np.empty(0, dtype=np.int64)
    pending, attempt = np.arange(len(ranks)), 0
    while len(pending):
        free = _first_free(taken, len(nodes), size)[owner[pending]]
        drawn = zipf(
            draws_numpy.uniform(seed, purpose, nodes[owner[pending]], index[pending], attempt), size, exponent, free
        )
        code = owner[pending] * size + drawn
        _, first = np.unique(code, return_index=True)
        accepted = first[~np.isin(code[first], taken, assume_unique=True)]
        ranks[pending[accepted]] = drawn[accepted]
        taken = np.sort(np.concatenate([taken, code[accepted]]))
        pending, attempt = np.delete(pending, accepted), attempt + 1
    return ranks.reshape(len(nodes), per_node)


def _first_free(taken: Ints, owners: int, size: int) -> Ints:
    # `taken` holds owner * size + rank, ascending.
    owner, rank = np.divmod(taken, size)
    return np.bincount(owner[rank == index_in_group(owner)], minlength=owners).astype(np.int64)


def distinct_rows(owner: Ints, draw: Callable[[Ints, int], list[Floats]]) -> list[Floats]:
    """Draws rows until no owner has two equal rows. Returns the columns of the rows.

    `owner` is the owner of each row, shape (rows,). `draw` takes the indexes of rows and the index of the attempt, and
    returns the columns of these rows.

    Raises:
        RepetitionError: Repeated rows remain after 64 attempts.
    """
    columns = draw(np.arange(len(owner), dtype=np.int64), 0)
    for attempt in range(1, _ATTEMPTS):
        order = np.lexsort((*columns, owner))
        same = np.ones(max(len(owner) - 1, 0), dtype=np.bool_)
        for column in (owner, *columns):
            same &= column[order][1:] == column[order][:-1]
        repeated = order[1:][same]
        if not len(repeated):
            return columns
        for column, again in zip(columns, draw(repeated, attempt), strict=True):
            column[repeated] = again
    raise RepetitionError("too few different rows")


def publication_slots(nodes: Ints, rounds: tuple[int, int], rate: float, seed: int) -> tuple[Ints, Ints, Ints]:
    """Returns three columns with a row for each publication: its node, its round, and its index.

    The index counts the publications of a node in a round. In each round of `rounds`, both ends included, a node
    publishes ``floor(rate)`` times, and once more with probability ``rate - floor(rate)``. Rows are in the order of
    (round, index of the node in `nodes`, index).
    """
    chunk = max(1, _SLOT_CELLS // max(len(nodes), 1))
    first, last = rounds
    parts = [_slots(nodes, np.arange(i, min(i + chunk, last + 1)), rate, seed) for i in range(first, last + 1, chunk)]
    node, round_, index = (np.concatenate(column) for column in zip(*parts, strict=True))
    return node, round_, index


def _slots(nodes: Ints, rounds: Ints, rate: float, seed: int) -> tuple[Ints, Ints, Ints]:
    whole = int(rate)
    counts = np.full((len(rounds), len(nodes)), whole, dtype=np.int64)
    if rate > whole:
        chance = draws_numpy.uniform(seed, "workload.publications.rate", nodes, rounds[:, None])
        counts += chance < rate - whole
    flat = counts.ravel()
    index = np.arange(flat.sum(), dtype=np.int64) - np.repeat(np.cumsum(flat) - flat, flat)
    return np.repeat(np.tile(nodes, len(rounds)), flat), np.repeat(np.repeat(rounds, len(nodes)), flat), index
