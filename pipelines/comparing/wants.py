"""Parses and evaluates the criteria of a comparison, such as ``exactly_once, per_source_order, p95 < 500 ms``.

A criterion is the name of a guarantee, or a measure with a limit. Each criterion is evaluated for each run. A measure
is a numeric column of view `comparison`, or a short name in `_TIMES` or `_MEASURES`. The limit of a short name in
`_TIMES` is a duration and needs a unit.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.errors import QueryError, nearest

_RELATIONS = {"<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "=": operator.eq}
_CONDITION = re.compile(r"(\w+)\s*(<=|>=|<|>|=)\s*(\d+(?:\.\d+)?)\s*(%|[a-z]+)?")
_TIMES = {
    "median": "latency_{}_median", "p50": "latency_{}_median", "p95": "latency_{}_p95", "p99": "latency_{}_p99",
    "max": "latency_{}_max", "settling": "settling_{}",
}  # fmt: skip
_MEASURES = {
    "delivered": "wanted_ratio", "duplicates": "n_duplicates", "messages": "messages_per_delivery",
    "bytes": "bytes_per_delivery", "state": "held_rows_per_node", "storage": "durable_bytes_per_node",
}  # fmt: skip
_UNITS = {"rounds": ("rounds", 1.0), "ms": ("ms", 1.0), "s": ("ms", 1000.0)}


@dataclass(frozen=True)
class Condition:
    """A limit for column ``measure`` of view `comparison`, in the unit of this column."""

    measure: str
    relation: str
    limit: float

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Returns whether ``row``, a row of view `comparison`, satisfies the limit.

        If the measure is null in ``row``, returns whether all wanted deliveries of the run happened (view
        `wanted_delivery`). For example, latencies are null in a run without deliveries.
        """
        value = row[self.measure]
        if value is None:
            return bool(row["n_wanted_delivered"] == row["n_wanted"])
        return bool(_RELATIONS[self.relation](value, self.limit))


_ONCE = Condition("n_duplicates", "=", 0)
_ALL = Condition("wanted_ratio", "=", 1)
_NAMED = {
    "at_most_once": (_ONCE,),
    "at_least_once": (_ALL,),
    "exactly_once": (_ONCE, _ALL),
    "per_source_order": (Condition("n_source_order_broken", "=", 0),),
    "causal_order": (Condition("n_causal_order_broken", "=", 0),),
    "total_order": (Condition("n_total_order_broken", "=", 0),),
    "asked_order": (Condition("n_asked_causal_broken", "=", 0), Condition("n_asked_total_broken", "=", 0)),
}


@dataclass(frozen=True)
class Want:
    """A criterion: the string that the user wrote, and the conditions that it stands for. All of them must hold."""

    text: str
    conditions: tuple[Condition, ...]

    def holds(self, row: Mapping[str, Any]) -> bool:
        """Returns whether ``row``, a row of view `comparison`, satisfies all conditions."""
        return all(condition.holds(row) for condition in self.conditions)


def parse_wants(text: str, columns: Sequence[str], *, has_ms: bool) -> list[Want]:
    """Parses criteria, separated by commas.

    ``columns`` are the numeric columns of view `comparison`. ``has_ms`` is true if rounds have a duration in ms.

    Raises:
        QueryError: A criterion is invalid, or its unit or measure is unavailable.
    """
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise QueryError(f"the wants {text!r} have an empty one; write e.g. 'exactly_once, p95 < 500 ms'")
    return [Want(part, _conditions(part, columns, has_ms=has_ms)) for part in parts]


def _conditions(part: str, columns: Sequence[str], *, has_ms: bool) -> tuple[Condition, ...]:
    if part in _NAMED:
        return _NAMED[part]
    found = _CONDITION.fullmatch(part)
    if found is None:
        hint = nearest(part, list(_NAMED))
        allowed = f"a guarantee ({', '.join(_NAMED)}) nor a limit such as 'p95 < 500 ms'"
        raise QueryError(f"the want {part!r} is neither {allowed}{hint and ';' + hint}")
    name, relation, number, unit = found.groups()
    if name in _TIMES:
        if unit not in _UNITS:
            raise QueryError(f"the want {part!r} is a time without a unit; write {', '.join(_UNITS)}")
        of, factor = _UNITS[unit]
        if of == "ms" and not has_ms:
            raise QueryError(f"the want {part!r} is in {unit}, and the scenario has no time.round_ms; write rounds")
        return (Condition(_TIMES[name].format(of), relation, float(number) * factor),)
    if unit is not None and (unit != "%" or measure_of(name, columns) != "wanted_ratio"):
        raise QueryError(f"the want {part!r} has the unit {unit!r}, which {name} has not; leave it out")
    limit = float(number) / (100 if unit == "%" else 1)
    return (Condition(measure_of(name, columns), relation, limit),)


def measure_of(name: str, columns: Sequence[str]) -> str:
    """Returns the column of view `comparison` for a measure.

    ``name`` is the column itself, or a short name in `_MEASURES`.

    Raises:
        QueryError: The measure is unknown.
    """
    if name in columns:
        return name
    if name in _MEASURES:
        return _MEASURES[name]
    known = [*_MEASURES, *columns]
    raise QueryError(
        f"{name!r} is no measure;{nearest(name, [*known, *_TIMES])} known are {', '.join([*_TIMES, *_MEASURES])}"
        " and the columns of view comparison"
    )


def measure_named(name: str, columns: Sequence[str], *, has_ms: bool) -> str:
    """Returns the column of view `comparison` for the measure to minimise.

    Durations are in ms if rounds have a duration in ms (``has_ms``), else in rounds.

    Raises:
        QueryError: The measure is unknown.
    """
    if name in _TIMES:
        return _TIMES[name].format("ms" if has_ms else "rounds")
    return measure_of(name, columns)
