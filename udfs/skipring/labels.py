"""Labels, their order, and the skip ring SR(n) over them (section 2.1, rule K1).

The x-th subscriber has label l(x): the binary digits of x with the leading digit moved to the end. A label y_1 ... y_k
has the value r, the sum of y_i / 2^i. Nodes are ordered by (r(label), node id).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

MAX_BITS = 62
_CACHED = 1 << 16


@dataclass(frozen=True, order=True, slots=True)
class Label:
    """A label y_1 ... y_k; labels compare in the order of x.

    Attributes:
        bits: The length k.
        numerator: The digits y_1 ... y_k as a binary number: r times 2^k.
    """

    bits: int
    numerator: int

    @property
    def value(self) -> int:
        """The value r times 2^62."""
        return self.numerator << (MAX_BITS - self.bits)

    @property
    def is_valid(self) -> bool:
        """Whether rule K1 allows the label: at most 62 digits, and a trailing zero in the label 0 only."""
        is_number = 0 < self.bits <= MAX_BITS and 0 <= self.numerator < 1 << self.bits
        return is_number and (self.numerator & 1 == 1 or self.bits == 1)

    def __str__(self) -> str:
        """Returns the digits."""
        return f"{self.numerator:0{self.bits}b}"


_WHOLE = 1 << MAX_BITS
"""The value 1, times 2^62."""
ZERO = Label(1, 0)
"""The label 0, the smallest one."""
Key = tuple[int, int]
"""The position of a node in the order: the value of its label, and its id."""


def label_at(value: int) -> Label:
    """Returns the label with a value modulo 1.

    Args:
        value: The value times 2^62; any integer.
    """
    value %= _WHOLE
    if not value:
        return ZERO
    zeros = (value & -value).bit_length() - 1
    return Label(MAX_BITS - zeros, value >> zeros)


@lru_cache(_CACHED)
def label_of(index: int) -> Label:
    """Returns l(x) for `index` x."""
    bits = max(1, index.bit_length())
    return Label(bits, ((index << 1) & ((1 << bits) - 1)) | (index > 0))


def index_of(label: Label) -> int | None:
    """Returns the x with l(x) = `label`; None: no such x exists."""
    if label == ZERO:
        return 0
    return (1 << (label.bits - 1)) + (label.numerator >> 1) if label.is_valid else None


def key_of(label: Label, node: int) -> Key:
    """Returns the position of a node in the order."""
    return label.value, node


def is_between(low: Key, key: Key, high: Key) -> bool:
    """Returns whether `key` lies inside the arc of the ring that starts at `low` and ends at `high`."""
    return (low < key < high) if low < high else (key > low or key < high)


def levels(n: int) -> int:
    """Returns the number of levels of SR(n): the logarithm of `n` to base 2, rounded up."""
    return (n - 1).bit_length()


@lru_cache(_CACHED)
def ring_neighbours(index: int, n: int) -> tuple[int, int] | None:
    """Returns the indices of the predecessor and the successor of l(index) in SR(n); None: n is 1."""
    if n == 1:
        return None
    return _beside(index, n, -1), _beside(index, n, 1)


def _beside(index: int, n: int, direction: int) -> int:
    """Returns the index of the neighbour: one step of the finest level away if SR(n) has that label, else two."""
    unit = 1 << (MAX_BITS - levels(n))
    start = label_of(index).value
    near = index_of(label_at(start + direction * unit))
    far = index_of(label_at(start + 2 * direction * unit))
    found = near if near is not None and near < n else far
    if found is None:
        raise ValueError(f"label l({index}) has no neighbour in SR({n})")
    return found


def chain(own: Label, neighbour: Label) -> list[Label]:
    """Returns the shortcut labels of `own` on the side of a ring neighbour, the finest level first (3.2.2)."""
    found: list[Label] = []
    while neighbour.bits > own.bits:
        neighbour = label_at(2 * neighbour.value - own.value)
        found.append(neighbour)
    return found


def level_ring(level: int, n: int) -> list[Label]:
    """Returns the labels on the ring of a level in their order: those of at most `level` bits; at the top all."""
    members = range(n if level == levels(n) else min(n, 1 << level))
    return sorted(map(label_of, members), key=lambda label: label.value)


def slots(n: int) -> dict[Label, set[Label]]:
    """Returns the shortcut labels of each node of SR(n).

    In each level below the top a node has two neighbours. Each of them has a slot, unless it is the ring neighbour on
    that side.
    """
    found: dict[Label, set[Label]] = {label_of(index): set() for index in range(n)}
    beside: dict[tuple[Label, int], Label] = {}
    for level in range(levels(n), 0, -1):
        ring = level_ring(level, n)
        for position, label in enumerate(ring):
            for side in (-1, 1):
                other = ring[(position + side) % len(ring)]
                if beside.setdefault((label, side), other) != other:
                    found[label].add(other)
    return found
