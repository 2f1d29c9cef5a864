"""What SQL functions mean for values of rows: null is None, arrays and structs are tuples.

Each function is Python source with a place for each argument (``{0}``), or a Python function. Where SQL would fail, so
does the engine, with its own message: `UnknownPlanError` hands the plan to it.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pipelines.engines.rows.kinds import Kind, UnknownPlanError, common, is_array, is_struct, is_whole, sort_key
from udfs.nodes.hashing import SEED, of_int, of_long, of_text, signed

KindRule = Callable[[Sequence[Kind]], Kind]
Value = Any
_ALL_BITS: Final = (1 << 64) - 1


@dataclass(frozen=True)
class Function:
    """A function that is null where an argument is null.

    Attributes:
        kind: Returns the kind of its values, for the kinds of its arguments.
        source: Python source, or the function.
        n_arguments: How many it takes; None for any number.
    """

    kind: KindRule
    source: str | Callable[..., Value]
    n_arguments: int | None = 2


def _number(kinds: Sequence[Kind]) -> Kind:
    if any(kind == "double" for kind in kinds):
        return "double"
    if not all(map(is_whole, kinds)):
        raise UnknownPlanError(f"numbers of {kinds}")
    return common(kinds)


def _always(kind: Kind) -> KindRule:
    return lambda _: kind


def _compared(kinds: Sequence[Kind]) -> Kind:
    if "double" not in kinds:
        common(kinds)
    return "boolean"


def _ordered(kinds: Sequence[Kind]) -> Kind:
    if any(is_array(kind) or is_struct(kind) for kind in kinds):
        raise UnknownPlanError(f"an order of {kinds}")
    return _compared(kinds)


def _array(kinds: Sequence[Kind]) -> Kind:
    if not is_array(kinds[0]):
        raise UnknownPlanError(f"an array of {kinds[0]}")
    return kinds[0]


def _element(kinds: Sequence[Kind]) -> Kind:
    return _array(kinds)[1]


def _arrays(kinds: Sequence[Kind]) -> Kind:
    return common([_array([kind]) for kind in kinds])


def _array_and_value(kinds: Sequence[Kind]) -> Kind:
    return ("array", common([_element(kinds[:1]), kinds[1]]))


def _holds_value(kind: Kind) -> KindRule:
    def rule(kinds: Sequence[Kind]) -> Kind:
        _array_and_value(kinds)
        return kind

    return rule


def _texts(kinds: Sequence[Kind]) -> Kind:
    if any(kind != "string" for kind in kinds):
        raise UnknownPlanError(f"texts of {kinds}")
    return "string"


def _of_texts(kinds: Sequence[Kind]) -> Kind:
    _texts(kinds)
    return "boolean"


def _flat(kinds: Sequence[Kind]) -> Kind:
    return _array([_element(kinds)])


def _bits(kinds: Sequence[Kind]) -> Kind:
    if kinds[0] != "bigint":
        raise UnknownPlanError(f"bits of {kinds}")
    return "bigint"


def _not_zero(number: float) -> float:
    if not number:
        raise UnknownPlanError("a division by zero")
    return number


def _divided(left: float, right: float) -> float:
    if not right:
        raise UnknownPlanError("a division by zero")
    return left / right


def _whole_divided(left: int, right: int) -> int:
    if not right:
        raise UnknownPlanError("a division by zero")
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def _remainder(left: float, right: float) -> float:
    if not right:
        raise UnknownPlanError("a division by zero")
    return left - right * int(left / right) if isinstance(left, float) else left - right * _whole_divided(left, right)


def _element_at(array: Sequence[Value], place: int) -> Value:
    if not 0 < abs(place) <= len(array):
        raise UnknownPlanError("a place beyond an array")
    return array[place - 1 if place > 0 else place]


def _sliced(array: Sequence[Value], start: int, length: int) -> Value:
    if not start or length < 0:
        raise UnknownPlanError("a slice that there is not")
    first = start - 1 if start > 0 else len(array) + start
    return array[first : first + length] if first >= 0 else ()


def _without(array: Sequence[Value], others: Sequence[Value]) -> Value:
    left_out = {*others}
    return tuple(dict.fromkeys(one for one in array if one not in left_out))


def _in_both(array: Sequence[Value], others: Sequence[Value]) -> Value:
    wanted = {*others}
    return tuple(dict.fromkeys(one for one in array if one in wanted))


def _contains(array: Sequence[Value], value: Value) -> Value:
    if None in array:
        raise UnknownPlanError("null in an array that is searched")
    return value in array


def _position(array: Sequence[Value], value: Value) -> int:
    return array.index(value) + 1 if value in array else 0


def _overlap(array: Sequence[Value], others: Sequence[Value]) -> Value:
    if None in array or None in others:
        raise UnknownPlanError("null in an array that is searched")
    return not {*array}.isdisjoint(others)


FUNCTIONS: Final[Mapping[str, Function]] = {
    "+": Function(_number, "{0} + {1}"),
    "-": Function(_number, "{0} - {1}"),
    "*": Function(_number, "{0} * {1}"),
    "/": Function(lambda kinds: _number(kinds) and "double", _divided),
    "div": Function(lambda kinds: _number(kinds) and "bigint", _whole_divided),
    "%": Function(_number, _remainder),
    "negative": Function(_number, "-{0}", 1),
    "abs": Function(_number, "abs({0})", 1),
    "pmod": Function(_number, lambda left, right: _remainder(left, right) if right < 0 else left % _not_zero(right)),
    "shiftrightunsigned": Function(_bits, lambda bits, by: (bits & _ALL_BITS) >> (by & 63)),
    "sequence": Function(lambda kinds: ("array", _number(kinds)), lambda first, last: (
        tuple(range(first, last + 1)) if first <= last else tuple(range(first, last - 1, -1)))),
    "floor": Function(lambda kinds: _number(kinds) and "bigint", math.floor, 1),
    "<": Function(_ordered, "{0} < {1}"),
    "<=": Function(_ordered, "{0} <= {1}"),
    ">": Function(_ordered, "{0} > {1}"),
    ">=": Function(_ordered, "{0} >= {1}"),
    "size": Function(lambda kinds: _array(kinds) and "int", "len({0})", 1),
    "get": Function(_element, lambda array, place: array[place] if 0 <= place < len(array) else None),
    "element_at": Function(_element, _element_at),
    "slice": Function(_array, _sliced, 3),
    "array_except": Function(_arrays, _without),
    "array_intersect": Function(_arrays, _in_both),
    "array_union": Function(_arrays, lambda array, others: tuple(dict.fromkeys(array + others))),
    "array_distinct": Function(_array, lambda array: tuple(dict.fromkeys(array)), 1),
    "array_contains": Function(_holds_value("boolean"), _contains),
    "array_position": Function(_holds_value("bigint"), _position),
    "arrays_overlap": Function(lambda kinds: _arrays(kinds) and "boolean", _overlap),
    "reverse": Function(_array, "{0}[::-1]", 1),
    "flatten": Function(_flat, lambda arrays: None if None in arrays else sum(arrays, ()), 1),
    "startswith": Function(_of_texts, "{0}.startswith({1})"),
    "endswith": Function(_of_texts, "{0}.endswith({1})"),
    "contains": Function(_of_texts, "{1} in {0}"),
    "regexp_like": Function(_of_texts, lambda text, pattern: re.search(pattern, text) is not None),
}  # fmt: skip
"""Null where an argument is null. Comparisons for equality, logic and what takes nulls is in `special`."""


def sorted_array(kind: Kind) -> Callable[[Value], Value]:
    """Returns what sorts arrays of a kind: nulls last, as ``array_sort`` does."""
    key = sort_key(_element([kind]))

    def sort(array: Value) -> Value:
        if array is None:
            return None
        full = [one for one in array if one is not None]
        return (*sorted(full, key=key), *(None,) * (len(array) - len(full)))

    return sort


def best(kind: Kind, *, is_least: bool) -> Callable[..., Value]:
    """Returns what finds the greatest or the least of some values, nulls left out; null of none."""
    choose, key = (min if is_least else max), sort_key(kind)

    def find(*values: Value) -> Value:
        full = [value for value in values if value is not None]
        return choose(full, key=key) if full else None

    return find


def value_at(kinds: Sequence[Kind], *, is_least: bool) -> Callable[[list[Value]], Value]:
    """Returns ``min_by`` or ``max_by`` of pairs of kinds: the value at the least or the greatest key."""
    find = best(kinds[1], is_least=is_least)

    def run(pairs: list[Value]) -> Value:
        key = find(*(key for _, key in pairs))
        values = {value for value, one in pairs if one == key and one is not None}
        if len(values) > 1:
            raise UnknownPlanError("one value of several with the same key")
        return values.pop() if values else None

    return run


def greatest_of(kind: Kind) -> Callable[[Value], Value]:
    """Returns what finds the greatest element of arrays of a kind, nulls left out."""
    find = best(_element([kind]), is_least=False)
    return lambda array: None if array is None else find(*array)


def hashed(kinds: Sequence[Kind]) -> Callable[..., int]:
    """Returns ``xxhash64`` of values of some kinds; nulls are left out.

    Raises:
        UnknownPlanError: A kind is none of whole numbers or texts.
    """
    steps: dict[Kind, Callable[[Value, int], int]] = {"bigint": of_long, "int": of_int, "string": of_text}
    if not {*kinds} <= steps.keys():
        raise UnknownPlanError(f"a hash of {kinds}")
    each = [steps[kind] for kind in kinds]

    def run(*values: Value) -> int:
        found = SEED
        for step, value in zip(each, values, strict=True):
            if value is not None:
                found = step(value, found)
        return signed(found)

    return run


def json_text(kind: Kind) -> Callable[[Value], Value]:
    """Returns what writes structs as ``to_json`` does: fields that are null are left out."""
    make = _plain(kind)
    return lambda value: None if value is None else json.dumps(make(value), separators=(",", ":"), ensure_ascii=False)


def _plain(kind: Kind) -> Callable[[Value], Value]:
    if is_array(kind):
        inner = _plain(kind[1])
        return lambda value: None if value is None else [*map(inner, value)]
    if is_struct(kind):
        inners = [(name, _plain(one)) for name, one in zip(kind[1], kind[2], strict=True)]
        return lambda value: (
            None
            if value is None
            else {name: make(one) for (name, make), one in zip(inners, value, strict=True) if one is not None}
        )
    if kind == "double":
        raise UnknownPlanError("a number with decimals as JSON")
    return lambda value: value


AGGREGATES: Final[Mapping[str, tuple[KindRule, Callable[[list[Value]], Value]]]] = {
    "count": (_always("bigint"), lambda values: sum(value is not None for value in values)),
    "count_if": (_always("bigint"), lambda values: sum(value is True for value in values)),
    "bool_and": (_always("boolean"), lambda values: _all([one for one in values if one is not None])),
    "bool_or": (_always("boolean"), lambda values: _any([one for one in values if one is not None])),
    "sum": (lambda kinds: _number(kinds) and ("double" if "double" in kinds else "bigint"),
            lambda values: _sum([one for one in values if one is not None])),
    "collect_set": (lambda kinds: ("array", kinds[0]),
                    lambda values: tuple(dict.fromkeys(one for one in values if one is not None))),
    "collect_list": (lambda kinds: ("array", kinds[0]),
                     lambda values: tuple(one for one in values if one is not None)),
}  # fmt: skip
"""Functions of a group's values of one argument; ``max`` and ``min`` are `best`."""


def _all(values: list[bool]) -> bool | None:
    return all(values) if values else None


def _any(values: list[bool]) -> bool | None:
    return any(values) if values else None


def _sum(values: list[Value]) -> Value:
    return sum(values) if values else None
