"""The hash function ``xxhash64`` of Spark SQL, and the pseudorandom numbers of node programs and link faults."""

from __future__ import annotations

import hashlib
from functools import lru_cache

_ALL = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
SEED = 42
_LONG_BIT = 1 << 61
_TWO_53 = float(1 << 53)


def xxhash64(*values: int | str) -> int:
    """Returns the BIGINT that ``xxhash64(values...)`` returns in SQL for BIGINT and STRING values."""
    found = SEED
    for value in values:
        found = _of_bytes(value.encode(), found) if isinstance(value, str) else _of_long(value, found)
    return signed(found)


@lru_cache(maxsize=1 << 16)
def drawn_bits(seed: int, purpose: str, *keys: int) -> int:
    """Returns 64 pseudorandom bits (a BIGINT), which depend on the arguments alone.

    Args:
        seed: The seed of the run.
        purpose: The purpose of the draw; draws with different purposes are independent.
        *keys: The ids of the entity and the round.
    """
    return xxhash64(seed, _salt(purpose), *keys)


def drawn_uniform(seed: int, purpose: str, *keys: int) -> float:
    """Returns a pseudorandom number in [0, 1) with 53 random bits. The arguments are those of `drawn_bits`."""
    return uniform(drawn_bits(seed, purpose, *keys))


@lru_cache
def _salt(purpose: str) -> int:
    digest = int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "big")
    return digest % _LONG_BIT + _LONG_BIT


def signed(bits: int) -> int:
    """Converts an unsigned number of 64 bits to the BIGINT with the same bits."""
    return bits - (1 << 64) if bits >> 63 else bits


def uniform(bits: int) -> float:
    """Maps 64 hash bits (a BIGINT) to a number in [0, 1)."""
    return ((bits & _ALL) >> 11) / _TWO_53


def of_int(value: int, seed: int) -> int:
    """Returns the unsigned hash of an INT.

    `seed` is 42 for the first hashed value, else the unsigned hash of the previous values.
    """
    return _mixed(_int(value & 0xFFFFFFFF, (seed + _P5 + 4) & _ALL))


def _of_long(value: int, seed: int) -> int:
    return _mixed(_long(value & _ALL, (seed + _P5 + 8) & _ALL))


def _rotated(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _ALL


def _long(value: int, found: int) -> int:
    found ^= _rotated(value * _P2 & _ALL, 31) * _P1 & _ALL
    return (_rotated(found, 27) * _P1 + _P4) & _ALL


def _int(value: int, found: int) -> int:
    found ^= value * _P1 & _ALL
    return (_rotated(found, 23) * _P2 + _P3) & _ALL


def _mixed(found: int) -> int:
    found = (found ^ found >> 33) * _P2 & _ALL
    found = (found ^ found >> 29) * _P3 & _ALL
    return found ^ found >> 32


def _of_bytes(value: bytes, seed: int) -> int:
    end = len(value) - len(value) % 32
    found = _of_stripes(value[:end], seed) if end else (seed + _P5) & _ALL
    found, place = (found + len(value)) & _ALL, end
    while place + 8 <= len(value):
        found = _long(int.from_bytes(value[place : place + 8], "little"), found)
        place += 8
    if place + 4 <= len(value):
        found = _int(int.from_bytes(value[place : place + 4], "little"), found)
        place += 4
    for byte in value[place:]:
        found = _rotated(found ^ byte * _P5 & _ALL, 11) * _P1 & _ALL
    return _mixed(found)


def _of_stripes(value: bytes, seed: int) -> int:
    lanes = [(seed + start) & _ALL for start in (_P1 + _P2, _P2, 0, -_P1)]
    for place in range(0, len(value), 8):
        lane = place // 8 % 4
        word = int.from_bytes(value[place : place + 8], "little")
        lanes[lane] = _rotated((lanes[lane] + word * _P2) & _ALL, 31) * _P1 & _ALL
    found = sum(_rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _ALL
    for lane in lanes:
        found = ((found ^ _rotated(lane * _P2 & _ALL, 31) * _P1 & _ALL) * _P1 + _P4) & _ALL
    return found
