"""Random draws in SQL: hashes of a run's seed, a purpose, and the identity of what is drawn for.

The same on every engine, whatever the order and the place of rows. `draws_numpy` is the counterpart for what the driver
draws. Every expression reads column ``seed`` of the run (frame ``setting``); keys are SQL for BIGINT.
"""

from __future__ import annotations

import hashlib

_LONG_BIT = 1 << 61


def bits(purpose: str, *keys: str) -> str:
    """Returns SQL for 64 hashed bits (a BIGINT), e.g. to draw by the order of the hashes.

    Args:
        purpose: What the draw is for; different purposes are independent.
        *keys: SQL of type BIGINT that name the entity and the round.
    """
    digest = int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "big")
    salt = digest % _LONG_BIT + _LONG_BIT  # large enough to be a BIGINT literal
    return f"xxhash64({', '.join(['seed', str(salt), *keys])})"


def uniform(purpose: str, *keys: str) -> str:
    """Returns SQL for a number in [0, 1) with 53 random bits; arguments as in `bits`."""
    return as_uniform(bits(purpose, *keys))


def as_uniform(bits: str) -> str:
    """Returns SQL for the number in [0, 1) that hashed bits (SQL of type BIGINT) stand for."""
    return f"(shiftrightunsigned({bits}, 11) / cast({1 << 53} as double))"
