"""A dict that is read in the order of its keys, not of insertion.

What a node sends follows the order in which it goes through what it keeps. Rows come back from a store in the order of
their keys, so a node that has been kept in memory has to go through them in that order, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView
from operator import itemgetter
from typing import Self, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Keyed(dict[K, V]):
    """Rows by key, in the order of keys; the keys of one are of one type.

    Rows may be set and dropped while it is gone through: what is gone through is what was there at the beginning.
    """

    __slots__ = ("_is_sorted",)

    def __init__(self, rows: dict[K, V] | None = None) -> None:
        """Starts with some rows."""
        if rows:
            super().__init__(rows)
        self._is_sorted = not rows

    @classmethod
    def in_order(cls, rows: Iterable[tuple[K, V]]) -> Self:
        """Returns rows that come in the order of keys."""
        found = cls()
        dict.update(found, rows)
        return found

    def _sort(self) -> None:
        """Puts the rows into their order, where a key was added since this was done last."""
        if not self._is_sorted:
            rows = sorted(super().items(), key=_key)
            super().clear()
            super().update(rows)
            self._is_sorted = True

    def __iter__(self) -> Iterator[K]:
        """Returns the keys in their order, as of now."""
        self._sort()
        return iter(list(super().__iter__()))

    def __setitem__(self, key: K, value: V) -> None:
        """Sets a row."""
        if key not in self:
            self._is_sorted = self._is_sorted and (not self or next(super().__reversed__()) < key)  # type: ignore[operator]
        super().__setitem__(key, value)

    def popitem(self) -> tuple[K, V]:
        """Drops the row with the last key and returns it."""
        self._sort()
        return super().popitem()

    def setdefault(self, key: K, default: V) -> V:
        """Returns a row, which is set if it is not there."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, rows: dict[K, V]) -> None:  # type: ignore[override]
        """Sets rows."""
        super().update(rows)
        self._is_sorted = False

    def keys(self) -> KeysView[K]:  # type: ignore[override]
        """Returns the keys in their order."""
        return KeysView(self)

    def values(self) -> list[V]:  # type: ignore[override]
        """Returns the rows in the order of their keys, as of now."""
        if not self:
            return []
        self._sort()
        return list(super().values())

    def items(self) -> list[tuple[K, V]]:  # type: ignore[override]
        """Returns keys and rows in the order of keys, as of now."""
        self._sort()
        return list(super().items())


_key = itemgetter(0)
