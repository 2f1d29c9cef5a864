"""A dict that is read in the order of its keys, whatever was added when.

What a node sends follows the order in which it goes through what it keeps. Rows come back from a store in the order of
their keys, so a node that has been kept in memory has to go through them in that order, too.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, ValuesView
from typing import Any, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Keyed(dict[K, V]):
    """Rows by key, in the order of keys; the keys of one are of one type."""

    __slots__ = ("_order",)

    def __init__(self, rows: dict[K, V] | None = None) -> None:
        """Starts with some rows."""
        super().__init__(rows or {})
        self._order: list[K] | None = None

    def __iter__(self) -> Iterator[K]:
        """Returns the keys in their order, as of now."""
        if self._order is None or len(self._order) != len(self):
            self._order = sorted(super().__iter__())  # type: ignore[type-var]
        return iter(self._order)

    def __setitem__(self, key: K, value: V) -> None:
        """Sets a row."""
        if key not in self:
            self._order = None
        super().__setitem__(key, value)

    def __delitem__(self, key: K) -> None:
        """Drops a row."""
        super().__delitem__(key)
        self._order = None

    def pop(self, key: K, *default: Any) -> Any:  # noqa: ANN401
        """Drops a row and returns it, or the default."""
        self._order = None
        return super().pop(key, *default)

    def popitem(self) -> tuple[K, V]:
        """Drops the row with the last key and returns it."""
        key = list(self)[-1]
        return key, self.pop(key)

    def setdefault(self, key: K, default: V) -> V:
        """Returns a row, which is set if it is not there."""
        if key not in self:
            self[key] = default
        return self[key]

    def update(self, rows: dict[K, V]) -> None:  # type: ignore[override]
        """Sets rows."""
        super().update(rows)
        self._order = None

    def clear(self) -> None:
        """Drops all rows."""
        super().clear()
        self._order = None

    def keys(self) -> KeysView[K]:  # type: ignore[override]
        """Returns the keys in their order."""
        return KeysView(self)

    def values(self) -> ValuesView[V]:  # type: ignore[override]
        """Returns the rows in the order of their keys."""
        return ValuesView(self)

    def items(self) -> ItemsView[K, V]:  # type: ignore[override]
        """Returns keys and rows in the order of keys."""
        return ItemsView(self)
