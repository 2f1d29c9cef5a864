"""Labels, their order, and the skip ring SR(n) of n labels (section 2.1, rule K1).

The x-th subscriber has label l(x): the binary digits of x with the leading digit moved to the end. Label y_1 ... y_k
has value r, the sum of y_i / 2^i. Nodes are ordered by the value of their labels, then by id.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

MAX_BITS = 62
"""The maximum number of digits of a label (rule K1)."""
_CACHED = 1 << 16


@dataclass(frozen=True, order=True, slots=True)
class Label:
    """A binary label y_1 ... y_k. Labels are ordered like x in l(x): by length, then by value.

    Attributes:
        bits: The length k.
        numerator: The digits y_1 ... y_k as a binary number: the value r times 2^k.
    """

    bits: int
    numerator: int

    @property
    def value(self) -> int:
        """The value r of the label, times 2^62."""
        return self.numerator << (MAX_BITS - self.bits)

    @property
    def is_valid(self) -> bool:
        """Whether rule K1 allows the label. It has at most 62 digits, and only the label 0 ends with zero."""
        is_number = 0 < self.bits <= MAX_BITS and 0 <= self.numerator < 1 << self.bits
        return is_number and (self.numerator & 1 == 1 or self.bits == 1)

    def __str__(self) -> str:
        """Returns the digits y_1 ... y_k."""
        return f"{self.numerator:0{self.bits}b}"


_WHOLE = 1 << MAX_BITS
"""The number 1 in the unit of `Label.value`."""
ZERO = Label(1, 0)
"""The label 0, which has the smallest value."""
Key = tuple[int, int]
"""The sort key of a node: the value of its label, then its id."""


def label_at(value: int) -> Label:
    """Returns the label whose value, in units of 2^-62, is `value` modulo 2^62, for any integer `value`."""
    value %= _WHOLE
    if not value:
        return ZERO
    zeros = (value & -value).bit_length() - 1
    return Label(MAX_BITS - zeros, value >> zeros)


@lru_cache(_CACHED)
def label_of(index: int) -> Label:
    """Returns label l(x) of subscriber x = `index`."""
    bits = max(1, index.bit_length())
    return Label(bits, ((index << 1) & ((1 << bits) - 1)) | (index > 0))


def index_of(label: Label) -> int | None:
    """Returns the x with l(x) = `label`, or None if the label is invalid."""
    if label == ZERO:
        return 0
    return (1 << (label.bits - 1)) + (label.numerator >> 1) if label.is_valid else None


def is_between(low: Key, key: Key, high: Key) -> bool:
    """Returns whether `key` lies on the arc of the ring from `low` upward to `high`."""
    return (low < key < high) if low < high else (key > low or key < high)


def levels(n: int) -> int:
    """Returns the number of levels of SR(n): the logarithm of `n` to base 2, rounded up."""
    return (n - 1).bit_length()


@lru_cache(_CACHED)
def ring_neighbours(index: int, n: int) -> tuple[int, int] | None:
    """Returns the indexes of the predecessor and the successor of l(index) in SR(n), or None if `n` is 1."""
    if n == 1:
        return None
    return _beside(index, n, -1), _beside(index, n, 1)


def _beside(index: int, n: int, direction: int) -> int:
    """Returns the index of the predecessor (`direction` -1) or successor (`direction` 1) of l(index) in SR(n).

    The neighbour differs from l(index) by 1 / 2^levels(n) in value, or by twice this difference if SR(n) lacks the
    nearer label.
    """
    unit = 1 << (MAX_BITS - levels(n))
    start = label_of(index).value
    near = index_of(label_at(start + direction * unit))
    far = index_of(label_at(start + 2 * direction * unit))
    found = near if near is not None and near < n else far
    if found is None:
        raise ValueError(f"label l({index}) has no neighbour in SR({n})")
    return found


def chain(own: Label, neighbour: Label) -> list[Label]:
    """Returns the labels of the shortcuts of `own` on the side of its ring neighbour `neighbour` (section 3.2.2).

    The labels are ordered by level, the finest level first.
    """
    found: list[Label] = []
    while neighbour.bits > own.bits:
        neighbour = label_at(2 * neighbour.value - own.value)
        found.append(neighbour)
    return found
