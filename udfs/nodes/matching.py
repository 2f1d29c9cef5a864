"""Matches publications with subscriptions in plain Python. View ``matching`` computes the same pairs by joins."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import eq, ge, gt, le, lt, ne
from typing import Any, NamedTuple

LEVEL, REST, SEPARATOR = "+", "#", "/"
"""The wildcards of topic filters, and the separator of levels."""
COMPARISON = ("subscription_id", "attribute", "op", "number", "whole", "text")
"""The columns of one comparison of a predicate."""
ATTRIBUTE = ("source", "source_seq", "attribute", "number", "whole", "text")
"""The columns of one attribute of a publication."""


class Value(NamedTuple):
    """The value of an attribute or a comparison: a number or a string.

    Attributes:
        number: A numeric value; None for a string.
        whole: `number` as an integer; None unless it is a whole number that fits in 64 bits. Integers above 2^53 are
            not exact as doubles.
        text: A string value; None for a number.
    """

    number: float | None
    whole: int | None
    text: str | None


_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def holds(op: str, value: Value, given: Value) -> bool:
    """Returns whether ``value op given`` is true.

    A string and a number are unequal, and neither is less than the other.
    """
    if op in _OF_STRINGS:
        return value.text is not None and given.text is not None and _OF_STRINGS[op](value.text, given.text)
    if (value.number is None) != (given.number is None):
        return op == "!="
    if given.number is None:
        return _ORDERS[op](value.text, given.text)
    if given.whole is not None and value.whole is not None:
        return _ORDERS[op](value.whole, given.whole)
    return _ORDERS[op](value.number, given.number)


@cache
def pattern_of(text: str) -> re.Pattern[str]:
    """Returns the regular expression of MQTT topic filter `text`. The caller appends a slash to each topic.

    The slash lets ``a/#`` match topic ``a``, and prevents ``$`` from matching before a line break at the end of a
    topic.
    """
    *parents, last = text.split(SEPARATOR)
    named = parents if last == REST else [*parents, last]
    below = "(?s:.*)" if last == REST else ""
    if not named:
        return re.compile(f"^[^$]{below}$")
    levels = [_level_pattern(level, is_first=place == 0) for place, level in enumerate(named)]
    return re.compile(f"^{''.join(f'{level}{SEPARATOR}' for level in levels)}{below}$")


def _level_pattern(level: str, *, is_first: bool) -> str:
    if level != LEVEL:
        return re.escape(level)
    return "(?:[^/$][^/]*)?" if is_first else "[^/]*"


_OF_STRINGS: Mapping[str, Callable[[str, str], bool]] = {
    "prefix": str.startswith,
    "suffix": str.endswith,
    "contains": str.__contains__,
    "filter": lambda topic, text: pattern_of(text).search(f"{topic}{SEPARATOR}") is not None,
}


class Matcher:
    """The predicates of a run's subscriptions, with an index that finds the candidates for a publication.

    A predicate is a conjunction of comparisons. Its index key is the attribute and the value of its first equality. If
    a predicate contains no equality, its index key is its first attribute.
    """

    def __init__(self, comparisons: Iterable[tuple[Any, ...]]) -> None:
        """Builds the index from rows with the columns `COMPARISON`."""
        self._predicates: dict[int, dict[str, list[tuple[str, Value]]]] = defaultdict(lambda: defaultdict(list))
        for subscription, attribute, op, *value in comparisons:
            self._predicates[subscription][attribute].append((op, Value(*value)))
        self._equal: dict[tuple[str, float | str | None], list[int]] = defaultdict(list)
        self._others: dict[str, list[int]] = defaultdict(list)
        for subscription, predicate in self._predicates.items():
            equals = ((name, value) for name, of in predicate.items() for op, value in of if op == "=")
            if (equal := next(equals, None)) is None:
                self._others[next(iter(predicate))].append(subscription)
            else:
                self._equal[equal[0], _key(equal[1])].append(subscription)

    def matches(self, values: Mapping[str, Value]) -> tuple[int, ...]:
        """Returns the ids of the subscriptions that a publication with the attributes `values` satisfies, ascending."""
        candidates = [
            one for name, value in values.items()
            for one in (*self._equal.get((name, _key(value)), ()), *self._others.get(name, ()))
        ]  # fmt: skip
        return tuple(sorted(one for one in candidates if self._is_satisfied(one, values)))

    def _is_satisfied(self, subscription: int, values: Mapping[str, Value]) -> bool:
        return all(
            attribute in values and all(holds(op, values[attribute], value) for op, value in comparisons)
            for attribute, comparisons in self._predicates[subscription].items()
        )


def _key(value: Value) -> float | str | None:
    return value.text if value.number is None else value.number


def values_of(attributes: Iterable[tuple[Any, ...]]) -> dict[tuple[int, int], dict[str, Value]]:
    """Returns the attributes of each publication by (source, source_seq), from rows with the columns `ATTRIBUTE`."""
    found: dict[tuple[int, int], dict[str, Value]] = defaultdict(dict)
    for source, source_seq, attribute, *value in attributes:
        found[source, source_seq][attribute] = Value(*value)
    return found
