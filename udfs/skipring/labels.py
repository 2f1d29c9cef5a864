"""Labels, their order, and the skip ring SR(n) over them (section 2.1, rule K1).

The x-th subscriber has label l(x): the binary digits of x, the leading one moved to the units place. The value r of a
label y_1 ... y_k is the sum of y_i / 2^i. Nodes are in the order of (r(label), node id).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

MAX_BITS = 62
_CACHED = 1 << 16


@dataclass(frozen=True, order=True, slots=True)
class Label:
    """A label y_1 ... y_k; labels are ordered as l generates them.

    Attributes:
        bits: Its length k.
        numerator: y_1 ... y_k read as a number: its value times 2^k.
    """

    bits: int
    numerator: int

    @property
    def value(self) -> int:
        """Its value r, times 2^62."""
        return self.numerator << (MAX_BITS - self.bits)

    @property
    def is_valid(self) -> bool:
        """Whether rule K1 allows it: at most 62 digits, and no trailing zero but that of the label 0."""
        is_number = 0 < self.bits <= MAX_BITS and 0 <= self.numerator < 1 << self.bits
        return is_number and (self.numerator & 1 == 1 or self.bits == 1)

    def __str__(self) -> str:
        """Returns its digits."""
        return f"{self.numerator:0{self.bits}b}"


_WHOLE = 1 << MAX_BITS
"""The value 1."""
ZERO = Label(1, 0)
"""The label 0, the minimum."""
Key = tuple[int, int]
"""The place of a node in the order: the value of its label, and its id."""


def label_at(value: int) -> Label:
    """Returns the label of a value modulo 1, without trailing zeros.

    Args:
        value: The value times 2^62, any whole number.
    """
    value %= _WHOLE
    if not value:
        return ZERO
    zeros = (value & -value).bit_length() - 1
    return Label(MAX_BITS - zeros, value >> zeros)


@lru_cache(_CACHED)
def label_of(index: int) -> Label:
    """Returns l(x)."""
    bits = max(1, index.bit_length())
    return Label(bits, ((index << 1) & ((1 << bits) - 1)) | (index > 0))


def index_of(label: Label) -> int | None:
    """Returns x where a label is l(x); None: there is no such x."""
    if label == ZERO:
        return 0
    return (1 << (label.bits - 1)) + (label.numerator >> 1) if label.is_valid else None


def key_of(label: Label, node: int) -> Key:
    """Returns the place of a node in the order."""
    return label.value, node


def is_between(low: Key, key: Key, high: Key) -> bool:
    """Returns whether a place lies inside the arc of the ring from one place up to another."""
    return (low < key < high) if low < high else (key > low or key < high)


def levels(n: int) -> int:
    """Returns the number of levels of SR(n): the logarithm of n to base 2, rounded up."""
    return (n - 1).bit_length()


@lru_cache(_CACHED)
def ring_neighbours(index: int, n: int) -> tuple[int, int] | None:
    """Returns the indices of the predecessor and the successor of l(x) on the ring of SR(n); None: n is 1."""
    if n == 1:
        return None
    return _beside(index, n, -1), _beside(index, n, 1)


def _beside(index: int, n: int, direction: int) -> int:
    """Returns the next node in a direction: one step of the finest level away if that label has a node, else two."""
    unit = 1 << (MAX_BITS - levels(n))
    start = label_of(index).value
    near = index_of(label_at(start + direction * unit))
    far = index_of(label_at(start + 2 * direction * unit))
    found = near if near is not None and near < n else far
    if found is None:
        raise ValueError(f"label l({index}) has no neighbour in SR({n})")
    return found


def chain(own: Label, neighbour: Label) -> list[Label]:
    """Returns the shortcut labels of a node on the side of a ring neighbour, the finest level first (3.2.2)."""
    found: list[Label] = []
    while neighbour.bits > own.bits:
        neighbour = label_at(2 * neighbour.value - own.value)
        found.append(neighbour)
    return found


def level_ring(level: int, n: int) -> list[Label]:
    """Returns the nodes of a level's ring in their order: the labels of at most `level` bits, and at the top all."""
    members = range(n if level == levels(n) else min(n, 1 << level))
    return sorted(map(label_of, members), key=lambda label: label.value)


def edges(n: int) -> Iterator[tuple[int, Label, Label]]:
    """Yields the edges of SR(n) by the definition: level, and both ends; an edge may lie in several levels."""
    for level in range(1, levels(n) + 1):
        ring = level_ring(level, n)
        pairs = [*pairwise(ring), (ring[-1], ring[0])] if len(ring) > 2 else [(ring[0], ring[1])]
        yield from ((level, one, other) for one, other in pairs)


def slots(n: int) -> dict[Label, set[Label]]:
    """Returns the shortcut labels of each node of SR(n) by the definition.

    A node has a slot for its neighbour on a side in each level below the top, unless that is its ring neighbour there.
    """
    found: dict[Label, set[Label]] = {label_of(index): set() for index in range(n)}
    beside: dict[tuple[Label, int], Label] = {}
    for level in range(levels(n), 0, -1):
        ring = level_ring(level, n)
        for place, label in enumerate(ring):
            for side in (-1, 1):
                other = ring[(place + side) % len(ring)]
                if beside.setdefault((label, side), other) != other:
                    found[label].add(other)
    return found
