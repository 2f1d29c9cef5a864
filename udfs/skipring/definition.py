"""The skip ring by its definition (section 2.1), for the detector of legitimate states and for audits.

It shares no code with the program: labels are digits, SR(n) is built level by level, and a topic's supervisor follows
from the names. The program computes labels as numbers and shortcuts from ring neighbours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple


class Place(NamedTuple):
    """A label in SR(n).

    Attributes:
        before: The label before it on the ring; None: n is 1.
        after: The label after it on the ring; None: n is 1.
        shortcuts: The labels of its shortcuts.
    """

    before: str | None
    after: str | None
    shortcuts: frozenset[str]

    def sides(self, label: str) -> tuple[str | None, str | None, str | None]:
        """Returns the labels at ``left``, ``right`` and ``ring`` of the node with the label."""
        if self.before is None or self.after is None:
            return None, None, None
        is_minimum, is_maximum = label == nth(0), self.after == nth(0)
        left = None if is_minimum else self.before
        right = None if is_maximum else self.after
        ring = self.before if is_minimum else self.after if is_maximum else None
        return left, right, ring


def nth(x: int) -> str:
    """Returns l(x): the leading binary digit of x moves to the units place."""
    digits = f"{x:b}"
    return digits[1:] + digits[0]


def n_levels(n: int) -> int:
    """Returns the number of levels of SR(n): the logarithm of n to base 2, rounded up."""
    top = 0
    while 1 << top < n:
        top += 1
    return top


@lru_cache(16)
def skip_ring(n: int) -> dict[str, Place]:
    """Returns SR(n), by label: the ring of all labels, and a ring of the labels of at most 1, 2, ... digits."""
    labels = [nth(x) for x in range(n)]
    if n <= 1:
        return {label: Place(None, None, frozenset()) for label in labels}
    beside = _ring(labels)
    shortcuts: dict[str, set[str]] = {label: set() for label in labels}
    for level in range(1, n_levels(n)):
        for label, others in _ring([one for one in labels if len(one) <= level]).items():
            shortcuts[label] |= {one for one, nearest in zip(others, beside[label], strict=True) if one != nearest}
    return {label: Place(*beside[label], frozenset(shortcuts[label])) for label in labels}


def _ring(labels: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Returns the neighbours of each label on the ring of some labels, sorted by their values."""
    order = sorted(labels, key=lambda label: label.ljust(64, "0"))
    return {label: (order[at - 1], order[(at + 1) % len(order)]) for at, label in enumerate(order)}


def point_of(name: str) -> float:
    """Returns the place of a topic or a supervisor on [0, 1): the first 53 bits of SHA-256 of its name."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:16], 16) // 2**11 / 2**53


def supervisor_of(topic: str, points: Mapping[int, float]) -> int | None:
    """Returns the supervisor of a topic, the first one clockwise of its place (rule K14).

    Args:
        topic: The topic.
        points: The places of the supervisors, by node; none: None is returned.
    """
    place = point_of(topic)
    return min(points, key=lambda node: ((points[node] - place) % 1, node), default=None)
