"""Labels as strings of digits, values as fractions, and the skip ring SR(n) by its definition (section 2.1)."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

Key = tuple[Fraction, int]


class Place(NamedTuple):
    """The place of a label in SR(n): its neighbours on the ring, and its shortcuts."""

    before: str | None
    after: str | None
    shortcuts: frozenset[str]


def nth(x: int) -> str:
    """Returns l(x): the leading binary digit of x moves to the units place."""
    digits = f"{x:b}"
    return digits[1:] + digits[0]


def is_label(label: str | None) -> bool:
    """Returns whether ``label`` is a valid label or None (K1)."""
    return label is None or (len(label) <= 62 and (label == "0" or label.endswith("1")))


def index(label: str) -> int | None:
    """Returns x if the label is l(x), else None."""
    if label == "0":
        return 0
    return int("1" + label[:-1], 2) if is_label(label) else None


@lru_cache(None)
def value(label: str) -> Fraction:
    """Returns r(y_1 ... y_k), the sum of y_i / 2^i."""
    return sum((Fraction(int(digit), 1 << place) for place, digit in enumerate(label, 1)), Fraction(0))


def key(node: int, label: str) -> Key:
    """Returns the key by which nodes are ordered (K1)."""
    return value(label), node


@lru_cache(None)
def shortcut_labels(own: str, neighbour: str) -> tuple[str, ...]:
    """Returns the shortcut labels on the side of a ring neighbour, the finest level first (3.2.2)."""
    found = []
    while len(neighbour) > len(own):
        neighbour = _label((2 * value(neighbour) - value(own)) % 1)
        found.append(neighbour)
    return tuple(found)


def _label(of: Fraction) -> str:
    bits = max(1, of.denominator.bit_length() - 1)
    return f"{of.numerator:0{bits}b}"


@lru_cache(None)
def skip_ring(n: int) -> dict[str, Place]:
    """Returns SR(n): the ring of all labels, and for each level k the ring of the labels with up to k bits."""
    labels = [nth(x) for x in range(n)]
    beside = _ring(labels)
    top = 0
    while 1 << top < n:
        top += 1
    shortcuts: dict[str, set[str]] = {label: set() for label in labels}
    for level in range(1, top):
        for label, others in _ring([one for one in labels if len(one) <= level]).items():
            shortcuts[label] |= {one for one, nearest in zip(others, beside[label], strict=True) if one != nearest}
    if n == 1:
        return {"0": Place(None, None, frozenset())}
    return {label: Place(*beside[label], frozenset(shortcuts[label])) for label in labels}


def _ring(labels: list[str]) -> dict[str, tuple[str, str]]:
    """Returns the two neighbours of each label on the ring of ``labels``."""
    order = sorted(labels, key=value)
    return {label: (order[at - 1], order[(at + 1) % len(order)]) for at, label in enumerate(order)}
