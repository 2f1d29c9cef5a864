"""The random draws of `contract.rows` in Python: Spark's chained 64-bit xxHash of integers."""

from __future__ import annotations

import hashlib

_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def _rotate(value: int, by: int) -> int:
    return ((value << by) | (value >> (64 - by))) & _MASK


def _hash_long(value: int, seed: int) -> int:
    mixed = (seed + _P5 + 8) & _MASK
    mixed ^= (_rotate((value & _MASK) * _P2 & _MASK, 31) * _P1) & _MASK
    mixed = (_rotate(mixed, 27) * _P1 + _P4) & _MASK
    mixed = ((mixed ^ (mixed >> 33)) * _P2) & _MASK
    mixed = ((mixed ^ (mixed >> 29)) * _P3) & _MASK
    return mixed ^ (mixed >> 32)


def bits(seed: int, purpose: str, *keys: int) -> int:
    """Returns the hash as a signed 64-bit integer, like SQL."""
    salt = int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "big") % (1 << 61) + (1 << 61)
    state = 42
    for key in (seed, salt, *keys):
        state = _hash_long(key, state)
    return state - (1 << 64) if state >> 63 else state


def uniform(seed: int, purpose: str, *keys: int) -> float:
    """Returns the draw as a number in [0, 1)."""
    return ((bits(seed, purpose, *keys) & _MASK) >> 11) / (1 << 53)
