"""What joins, groups and windows do with rows."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pipelines.engines.rows.kinds import Row
from pipelines.errors import EngineError

_ROWS_VARIABLE: Final = "ROUNDTABLE_DRIVER_ROWS"


@dataclass(frozen=True)
class Limit:
    """Up to where a plan is worked out in this process: beyond that an engine is faster.

    Attributes:
        n_rows: How many rows it may read.
        seconds: How many CPU seconds it may take, by how long it took before.
    """

    n_rows: int
    seconds: float


_ON_SAIL: Final = Limit(80_000, 0.025)
ON_SPARK: Final = Limit(1_000_000, math.inf)
"""Of classic Spark: a job of its own for each relation takes longer than many rows here."""
Key = Callable[[Row], Any]
_LIMITS = [_ON_SAIL]
"""Those that were in force, and the one that is."""


@contextmanager
def limited(limit: Limit) -> Iterator[None]:
    """Sets the limit meanwhile."""
    _LIMITS.append(limit)
    try:
        yield
    finally:
        _LIMITS.pop()


def most_rows() -> int:
    """Returns how many rows a plan may read that is worked out in this process: beyond that an engine is faster.

    Raises:
        EngineError: ROUNDTABLE_DRIVER_ROWS, which may say so, is no number.
    """
    given = os.environ.get(_ROWS_VARIABLE)
    if given is None:
        return _LIMITS[-1].n_rows
    if not given.isdecimal():
        raise EngineError(f"{_ROWS_VARIABLE} is {given!r}; it may be a whole number, 0 for none, or unset")
    return int(given)


def longest() -> float:
    """Returns how many CPU seconds a plan may take that is worked out in this process."""
    return _LIMITS[-1].seconds


class Rows:
    """Rows of a relation, and where to find those with a key: what stays for several rounds is not sorted anew."""

    __slots__ = ("_asked", "_found", "_keys", "rows")

    def __init__(self, rows: list[Row]) -> None:
        self.rows = rows
        self._found: dict[tuple[int, ...], Found] = {}
        self._keys: dict[tuple[int, ...], set[Row]] = {}
        self._asked: set[tuple[int, ...]] = set()

    def found(self, index: Index) -> Found:
        """Returns the rows by the values of some columns; those with a null among them are left out."""
        known = self._found.get(index.places)
        if known is None:
            known = self._found[index.places] = index.found(self.rows)
        return known

    def found_again(self, index: Index) -> Found | None:
        """Returns the same, if it is known or was asked for before: then it will be asked for again."""
        if index.places in self._found or index.places in self._asked:
            return self.found(index)
        self._asked.add(index.places)
        return None

    def keys(self, index: Index) -> set[Row]:
        """Returns the values of some columns, without those with a null among them."""
        known = self._keys.get(index.places)
        if known is None:
            known = self._keys[index.places] = index.keys(self.rows)
        return known


Found = Mapping[Row, list[Row]]


@dataclass(frozen=True)
class Index:
    """How rows are found by the values of some columns.

    Attributes:
        places: The columns.
        found: Returns rows by these values.
        keys: Returns the values.
        found_of: Returns rows by those of the values that are wanted.
    """

    places: tuple[int, ...]
    found: Callable[[list[Row]], Found]
    keys: Callable[[list[Row]], set[Row]]
    found_of: Callable[[list[Row], set[Row]], Found]


def sorted_places(keys: Sequence[Row], places: list[int], falling: Sequence[bool]) -> list[int]:
    """Returns places sorted by their keys.

    Args:
        keys: What sorts, by place.
        places: Which places.
        falling: Whether the greatest comes first, for each part of the keys.
    """
    if not any(falling):
        return sorted(places, key=keys.__getitem__)
    for part in reversed(range(len(falling))):
        places = sorted(places, key=lambda place: keys[place][part], reverse=falling[part])
    return places


def numbered(
    rows: Sequence[Row], key: Key, order: Key, falling: Sequence[bool], name: str
) -> list[int]:  # fmt: skip
    """Returns the number of each row in its partition, from 1 on.

    Args:
        rows: The rows.
        key: Returns the values of the partition's columns.
        order: Returns what sorts.
        falling: Whether the greatest comes first, for each part of that.
        name: The function of SQL: ``row_number``, or one by which rows that tie have the number of the first of them,
            ``rank`` or ``dense_rank``.
    """
    keys, found = [*map(order, rows)], [0] * len(rows)
    partitions: dict[Any, list[int]] = {}
    for place, row in enumerate(rows):
        partitions.setdefault(key(row), []).append(place)
    for places in partitions.values():
        number, before = 0, None
        for count, place in enumerate(sorted_places(keys, places, falling), 1):
            if name == "row_number" or count == 1 or keys[place] != before:
                number = number + 1 if name == "dense_rank" else count
            before = keys[place]
            found[place] = number
    return found
