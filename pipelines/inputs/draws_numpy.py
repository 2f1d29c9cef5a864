"""Random draws as hashes: equal seed, purpose and keys give equal numbers on every engine and machine.

The hash is the finaliser of SplitMix64 (Steele, Lea, Flood 2014), chained over the keys. All functions are vectorised
over arrays of keys, which numpy broadcasts.
"""

from __future__ import annotations

import hashlib
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Key: TypeAlias = "int | npt.NDArray[np.int64]"
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def _mix(z: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        z = z + _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def bits(seed: int, purpose: str, *keys: Key) -> npt.NDArray[np.uint64]:
    """Returns 64 hashed bits for each combination of `keys`, in the broadcast shape of the keys.

    `purpose` names the draw, for example ``"overlay.parent"``; draws of different purposes are independent. The keys
    are integers or integer arrays, for example the id of a node and a round.
    """
    salt = int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "big")
    state = _mix(np.asarray([(seed ^ salt) & 0xFFFFFFFFFFFFFFFF], dtype=np.uint64))
    shape = np.broadcast_shapes(*(np.shape(key) for key in keys)) if keys else ()
    state = np.broadcast_to(state.reshape((1,) * max(len(shape), 1)), shape or (1,))
    for key in keys:
        state = _mix(state ^ np.asarray(key, dtype=np.int64).astype(np.uint64))
    return state.reshape(shape)


def uniform(seed: int, purpose: str, *keys: Key) -> npt.NDArray[np.float64]:
    """Returns numbers in [0, 1) with 53 random bits; arguments and shape as in `bits`."""
    drawn: npt.NDArray[np.float64] = (bits(seed, purpose, *keys) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return drawn


def integers(seed: int, purpose: str, low: Key, high: Key, *keys: Key) -> npt.NDArray[np.int64]:
    """Returns uniform integers from `low` to `high`, both included; other arguments and shape as in `bits`."""
    span = np.asarray(high, dtype=np.int64) - np.asarray(low, dtype=np.int64) + 1
    offset = np.floor(uniform(seed, purpose, *keys) * span).astype(np.int64)
    drawn: npt.NDArray[np.int64] = np.asarray(low, dtype=np.int64) + np.minimum(offset, span - 1)
    return drawn


def normal(seed: int, purpose: str, *keys: Key) -> npt.NDArray[np.float64]:
    """Returns standard normal numbers (Box and Muller); arguments and shape as in `bits`."""
    radius = np.sqrt(-2.0 * np.log1p(-uniform(seed, purpose + ".radius", *keys)))
    drawn: npt.NDArray[np.float64] = radius * np.cos(2.0 * np.pi * uniform(seed, purpose + ".angle", *keys))
    return drawn
