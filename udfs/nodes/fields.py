"""Storage types of fields: maps a Python annotation to an Arrow column and to JSON.

=====================================  =====================================
annotation                             column, and the value in JSON
=====================================  =====================================
``int``, ``float``, ``str``, ``bool``  BIGINT, DOUBLE, STRING, BOOLEAN
``X | None``                           as ``X``
``list[X]``, ``tuple[X, ...]``         ARRAY of X
``set[X]``, ``frozenset[X]``           ARRAY of X, ascending
``dict[K, V]``                         ARRAY of STRUCT(key, value), ascending
a dataclass, a NamedTuple              STRUCT of its fields; JSON omits fields that are None
=====================================  =====================================
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite
from numbers import Real
from operator import attrgetter
from typing import Any

import pyarrow as pa

_SQL = {pa.int64(): "bigint", pa.float64(): "double", pa.string(): "string", pa.bool_(): "boolean"}
_REMEMBERED = 4096
"""The maximum number of cached JSON documents of a message class."""
Convert = Callable[[Any], Any]
to_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode


@dataclass(frozen=True)
class FieldType:
    """The storage type of a field.

    Attributes:
        arrow: The Arrow type of the column.
        encode: The function that converts a value for JSON and Arrow. It raises a TypeError or AttributeError if the
            value does not fit the annotation. Arrow alone would accept some wrong values: it stores 1.5 as BIGINT 1.
        decode: The function that converts a stored value to Python. It is ``None`` if no conversion is needed.
        is_hashable: Whether values can be keys of a cache of JSON documents. Doubles cannot, because 0.0 and -0.0 are
            equal keys with different JSON.
    """

    arrow: pa.DataType
    encode: Convert
    decode: Convert | None = None
    is_hashable: bool = False

    @property
    def sql(self) -> str:
        """The SQL name of the column type."""
        return sql_of(self.arrow)


def sql_of(kind: pa.DataType) -> str:
    """Returns the SQL name of an Arrow type."""
    if pa.types.is_list(kind):
        return f"array<{sql_of(kind.value_type)}>"
    if pa.types.is_struct(kind):
        return f"struct<{','.join(f'{field.name}:{sql_of(field.type)}' for field in kind)}>"
    return _SQL[kind]


def _finite(value: object) -> float:
    if isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:  # raised for an integer beyond the range of doubles
            number = float("inf")
        if isfinite(number):
            return number
    raise TypeError(f"{value!r} is not a finite number")


def _long(value: int) -> int:
    if -_MOST <= (number := int.__index__(value)) < _MOST:
        return number
    raise TypeError(f"{value!r} is not an integer of 64 bits")


_MOST = 1 << 63
# The methods of the classes raise a TypeError for an object of another class, and convert True in an int field to 1.
_PLAIN: Mapping[Any, FieldType] = {
    int: FieldType(pa.int64(), _long, is_hashable=True),
    float: FieldType(pa.float64(), _finite),
    str: FieldType(pa.string(), str.__str__, is_hashable=True),
    bool: FieldType(pa.bool_(), lambda value: bool.__and__(value, True), is_hashable=True),
}


def field_type(annotation: Any, where: str) -> FieldType:  # noqa: ANN401 - annotations are of any type
    """Returns the storage type of a field with type `annotation`. Errors name the field as `where`.

    Raises:
        TypeError: The annotation is not supported.
    """
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, given = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union) and len(given) == 2 and type(None) in given:
        inner = field_type(next(one for one in given if one is not type(None)), where)
        decode = None if inner.decode is None else _unless_none(inner.decode)
        return FieldType(inner.arrow, _unless_none(inner.encode), decode, inner.is_hashable)
    if origin in (list, tuple) and (origin is list or given[1:] == (Ellipsis,)):
        return _sequence(origin, field_type(given[0], where), origin)
    if origin in (set, frozenset):
        return _sequence(origin, field_type(given[0], where), list, sorted)
    if origin is dict:
        return _mapping(field_type(given[0], where), field_type(given[1], where))
    if isinstance(annotation, type) and (dataclasses.is_dataclass(annotation) or _is_named_tuple(annotation)):
        return _struct(annotation)
    raise TypeError(
        f"{where} is annotated with {annotation!r}; allowed: int, float, str, bool, a dataclass or NamedTuple of"
        " such fields, and lists, tuples, sets and dicts of these, each with `| None` or without"
    )


def types_of(record: type) -> dict[str, FieldType]:
    """Returns the storage type of each field of a dataclass or NamedTuple.

    Raises:
        TypeError: The annotation of a field is not supported.
    """
    hints = typing.get_type_hints(record)
    return {name: field_type(hints[name], f"{record.__name__}.{name}") for name in _names(record)}


def _names(record: Any) -> Sequence[str]:  # noqa: ANN401 - a class
    return record._fields if _is_named_tuple(record) else [field.name for field in dataclasses.fields(record)]


def _is_named_tuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def _unless_none(convert: Convert) -> Convert:
    return lambda value: None if value is None else convert(value)


def _sequence(origin: Any, item: FieldType, stored: Any, order: Convert = iter) -> FieldType:  # noqa: ANN401 - classes
    """Returns the storage type of a collection of class `origin`, which is stored as a `stored` in order `order`."""
    decode = item.decode
    return FieldType(
        pa.list_(item.arrow), lambda value: stored(map(item.encode, order(value))),
        (None if origin is list else origin) if decode is None else lambda value: origin(map(decode, value)),
        origin in (tuple, frozenset) and item.is_hashable,
    )  # fmt: skip


def _mapping(key: FieldType, value: FieldType) -> FieldType:
    def encode(given: Any) -> list[dict[str, Any]]:  # noqa: ANN401
        pairs = ((key.encode(one), given[one]) for one in sorted(given))
        return [{"key": key} if one is None else {"key": key, "value": value.encode(one)} for key, one in pairs]

    def decode(given: Any) -> dict[Any, Any]:  # noqa: ANN401
        of_key, of_value = (kind.decode or (lambda one: one) for kind in (key, value))
        return {of_key(one["key"]): of_value(one.get("value")) for one in given}

    kind = pa.struct([pa.field("key", key.arrow), pa.field("value", value.arrow)])
    return FieldType(pa.list_(kind), encode, decode)


def _struct(record: type) -> FieldType:
    kinds = types_of(record)
    values, encode = _values_of([*kinds]), _object(kinds)
    arrow = pa.struct([pa.field(shown_name(name), kind.arrow) for name, kind in kinds.items()])
    is_hashable = _is_named_tuple(record) and all(kind.is_hashable for kind in kinds.values())
    return FieldType(arrow, lambda value: encode(*values(value)), decoder_of(record), is_hashable)


def decoder_of(record: type) -> Convert:
    """Returns a function that constructs an object of class `record` from a JSON object. Missing fields become None."""
    fields = [(shown_name(name), kind.decode) for name, kind in types_of(record).items()]

    def decode(value: Any) -> Any:  # noqa: ANN401
        given = ((convert, value.get(shown)) for shown, convert in fields)
        return record(*(one if convert is None else convert(one) for convert, one in given))

    return decode


def shown_name(name: str) -> str:
    """Returns the JSON name of a field: `name` without trailing underscores, for example ``from`` for ``from_``."""
    return name.rstrip("_")


def _values_of(names: Sequence[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Returns a function that returns the attributes `names` of an object as a tuple."""
    return attrgetter(*names) if len(names) > 1 else lambda row: tuple(getattr(row, name) for name in names)


def _object(types: Mapping[str, FieldType]) -> Callable[..., dict[str, Any]]:
    """Returns a function that converts the values of the fields `types` to a dict, and omits values that are None."""
    fields = [(shown_name(name), kind.encode) for name, kind in types.items()]

    def encode(*values: Any) -> dict[str, Any]:  # noqa: ANN401
        given = zip(fields, values, strict=True)
        return {name: one for (name, convert), value in given if (one := convert(value)) is not None}

    return encode


def json_writer(types: Mapping[str, FieldType]) -> Callable[[Any], str]:
    """Returns a function that writes the fields `types` of a record as a JSON object, and omits fields that are None.

    If all fields are hashable, the function caches its results: many messages of a run have equal fields. The function
    raises a TypeError or AttributeError if a value does not fit the annotation of its field.
    """
    values, encode = _values_of([*types]), _object(types)

    def write(*given: Any) -> str:  # noqa: ANN401
        return to_text(encode(*given))

    if all(kind.is_hashable for kind in types.values()):
        write = lru_cache(_REMEMBERED, typed=True)(write)
    return lambda row: write(*values(row))
