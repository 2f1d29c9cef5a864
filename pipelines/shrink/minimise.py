"""Delta debugging: the items of a list without which a test still fails are taken out, until each one left is needed.

Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", IEEE Transactions on Software Engineering
28 (2), 2002. Here many candidates are tested together, so all sizes of chunks are tried at once, and then what can go
alone is taken out together, as much of it as is possible.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import accumulate
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)
Fails = Callable[[Sequence[frozenset[Item]]], Sequence[bool]]
"""Tests several candidates at once: whether the test still fails without these items."""


def minimise(items: Sequence[Item], fails: Fails[Item], at_once: int) -> frozenset[Item]:
    """Returns items without which the test still fails, such that without any other one it does not.

    Args:
        items: All that may be taken out; the test fails with them.
        fails: Tests candidates.
        at_once: Most candidates to be tested together.
    """
    removed: frozenset[Item] = frozenset()
    while found := _removable(items, removed, fails, at_once):
        unions = [*accumulate(found, lambda one, other: one | other)][:at_once]
        failing = fails([removed | union for union in unions[1:]])
        together = [unions[0], *(union for union, is_failing in zip(unions[1:], failing, strict=True) if is_failing)]
        removed |= max(together, key=len)
    return removed


def _removable(
    items: Sequence[Item], removed: frozenset[Item], fails: Fails[Item], at_once: int
) -> list[frozenset[Item]]:  # fmt: skip
    """Returns chunks that can be taken out beside the others, each alone, the largest first and none in another."""
    left = [item for item in items if item not in removed]
    chunks = [*_chunks(left)]
    for first in range(0, len(chunks), at_once):
        tried = chunks[first : first + at_once]
        failing = fails([removed | chunk for chunk in tried])
        found: list[frozenset[Item]] = []
        for chunk, is_failing in zip(tried, failing, strict=True):
            if is_failing and not any(chunk & other for other in found):
                found.append(chunk)
        if found:
            return found
    return []


def _chunks(items: Sequence[Item]) -> Iterator[frozenset[Item]]:
    """Yields all items, then halves, quarters and so on, down to single items."""
    size = len(items)
    while size:
        yield from (frozenset(items[first : first + size]) for first in range(0, len(items), size))
        size = 0 if size == 1 else (size + 1) // 2
