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

A JSON writer is compiled for each record and message class, as ``dataclasses`` compiles ``__init__``. The writer takes
the type of each value from the annotation. An encoder that tests the type of each value takes three times as long.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain, count
from math import isfinite
from numbers import Real
from operator import attrgetter
from typing import Any

import pyarrow as pa

_PLAIN: dict[Any, pa.DataType] = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
_SQL = {pa.int64(): "bigint", pa.float64(): "double", pa.string(): "string", pa.bool_(): "boolean"}
Convert = Callable[[Any], Any]


@dataclass(frozen=True)
class FieldType:
    """The storage type of a field.

    Attributes:
        arrow: The Arrow type of the column.
        encode: The function that converts a value for JSON and Arrow. It is ``None`` if no conversion is needed.
        decode: The function that converts a stored value to Python. It is ``None`` if no conversion is needed.
        check: The function that raises a TypeError or AttributeError if any of its values does not fit the annotation.
            Arrow alone would accept some wrong values: it stores 1.5 as BIGINT 1.
        writer: The source code of the expression that writes a value as JSON.
        is_hashable: Whether values can be keys of a cache of JSON documents. Doubles cannot, because 0.0 and -0.0 are
            equal keys with different JSON.
    """

    arrow: pa.DataType
    encode: Convert | None
    decode: Convert | None
    check: Callable[[Iterable[Any]], None]
    writer: Writer
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


def field_type(annotation: Any, where: str) -> FieldType:  # noqa: ANN401 - annotations are of any type
    """Returns the storage type of a field with type `annotation`. Errors name the field as `where`.

    Raises:
        TypeError: The annotation is not supported.
    """
    if annotation in _PLAIN:
        check = _check_numbers if annotation is float else partial(_check_types, annotation)
        return FieldType(_PLAIN[annotation], None, None, check, _WRITERS[annotation], annotation is not float)
    origin, given = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union) and len(given) == 2 and type(None) in given:
        inner = field_type(next(one for one in given if one is not type(None)), where)
        convert = _unless_none(inner.encode), _unless_none(inner.decode)

        def check(values: Iterable[Any]) -> None:
            inner.check([one for one in values if one is not None])

        return FieldType(inner.arrow, *convert, check, inner.writer.or_null(), inner.is_hashable)
    if origin in (list, tuple) and (origin is list or given[1:] == (Ellipsis,)):
        return _sequence(origin, field_type(given[0], where))
    if origin in (set, frozenset):
        return _sequence(origin, field_type(given[0], where), sorted)
    if origin is dict:
        return _mapping(field_type(given[0], where), field_type(given[1], where))
    if isinstance(annotation, type) and (dataclasses.is_dataclass(annotation) or _is_named_tuple(annotation)):
        return _struct(annotation)
    raise TypeError(
        f"{where} is annotated with {annotation!r}; allowed: int, float, str, bool, a dataclass or NamedTuple of"
        " such fields, and lists, tuples, sets and dicts of these, each with `| None` or without"
    )


def remembered(types: Mapping[str, FieldType]) -> Callable[[Any], str]:
    """Returns the function that `written` returns. If all fields are hashable, the function caches its results.

    Many messages of a run have equal fields. A cache hit takes a tenth of the time of writing.
    """
    if not types or not all(kind.is_hashable for kind in types.values()):
        return written(types)
    write = lru_cache(_REMEMBERED, typed=True)(written(types, _VALUE))
    values = attrgetter(*types)
    return (lambda row: write(values(row))) if len(types) == 1 else lambda row: write(*values(row))


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


def _unless_none(convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _check_types(allowed: type, values: Iterable[Any]) -> None:
    """Raises a TypeError if a value is not an instance of class `allowed`."""
    if not all(issubclass(one, allowed) for one in set(map(type, values))):
        raise TypeError(f"a value is not of type {allowed.__name__}")


def _check_numbers(values: Iterable[Any]) -> None:
    """Raises a TypeError if a value is not a finite number."""
    for value in values:
        if type(value) is not float or not isfinite(value):
            _number_text(value)


def _sequence(origin: type, item: FieldType, order: Callable[[Any], Iterable[Any]] | None = None) -> FieldType:
    """Returns the storage type of a collection of class `origin`. Function `order` sorts the items before storage."""

    def encode(value: Any) -> list[Any]:  # noqa: ANN401
        items = value if order is None else order(value)
        return list(items) if item.encode is None else [item.encode(one) for one in items]

    def decode(value: Any) -> Any:  # noqa: ANN401
        return origin(item.decode(one) for one in value)  # type: ignore[misc]

    def check(values: Iterable[Any]) -> None:
        item.check([*chain.from_iterable(values)])

    is_same = order is None and item.encode is None
    of_items = None if origin is list else origin
    convert = None if is_same else encode, of_items if item.decode is None else decode
    is_hashable = origin in (tuple, frozenset) and item.is_hashable
    writer = item.writer.array(is_sorted=order is not None)
    return FieldType(pa.list_(item.arrow), *convert, check, writer, is_hashable)


def _mapping(key: FieldType, value: FieldType) -> FieldType:
    as_key, as_value, of_key, of_value = (
        convert or (lambda one: one) for convert in (key.encode, value.encode, key.decode, value.decode)
    )

    def encode(given: Any) -> list[dict[str, Any]]:  # noqa: ANN401
        pairs = ((as_key(one), given[one]) for one in sorted(given))
        return [{"key": key} if value is None else {"key": key, "value": as_value(value)} for key, value in pairs]

    def decode(given: Any) -> dict[Any, Any]:  # noqa: ANN401
        return {of_key(one["key"]): of_value(one.get("value")) for one in given}

    def check(values: Iterable[Any]) -> None:
        given = [*values]
        key.check([*chain.from_iterable(given)])
        value.check([one for of_row in given for one in of_row.values() if one is not None])

    kind = pa.struct([pa.field("key", key.arrow), pa.field("value", value.arrow)])
    return FieldType(pa.list_(kind), encode, decode, check, pairs(key.writer, value.writer))


def _struct(record: type) -> FieldType:
    kinds = types_of(record)
    fields = [(name, shown_name(name), kind.encode, kind.decode) for name, kind in kinds.items()]

    def encode(value: Any) -> dict[str, Any]:  # noqa: ANN401
        given = ((shown, convert, getattr(value, name)) for name, shown, convert, _ in fields)
        return {shown: one if convert is None else convert(one) for shown, convert, one in given if one is not None}

    def decode(value: Any) -> Any:  # noqa: ANN401
        given = ((convert, value.get(shown)) for _, shown, _, convert in fields)
        return record(*(one if convert is None else convert(one) for convert, one in given))

    def check(values: Iterable[Any]) -> None:
        given = [*values]
        for name, kind in kinds.items():
            kind.check([getattr(one, name) for one in given])

    arrow = pa.struct([pa.field(shown_name(name), kind.arrow) for name, kind in kinds.items()])
    is_hashable = _is_named_tuple(record) and all(kind.is_hashable for kind in kinds.values())
    return FieldType(arrow, encode, decode, check, called(written(kinds)), is_hashable)


to_text = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":")).encode
_number = count()
_VALUE = "value_{}"
"""The pattern of the parameter names in a writer that takes field values instead of an object."""
_REMEMBERED = 4096
"""The maximum number of cached JSON documents of a message class."""


@dataclass(frozen=True)
class Writer:
    """The source code of a Python expression that writes values of one type as JSON.

    Attributes:
        source: The source code. ``{}`` stands for the value.
        names: The functions that the expression calls, by name.
        is_optional: Whether the value may be None; the JSON object then omits the field.
    """

    source: str
    names: Mapping[str, Any] = field(default_factory=dict)
    is_optional: bool = False

    def of(self, value: str) -> str:
        """Returns the expression that writes the Python expression `value` as JSON."""
        return self.source.replace("{}", value)

    def or_null(self) -> Writer:
        """Returns a writer that writes None as ``null``, and all other values like this writer."""
        return replace(self, source=f"('null' if {{}} is None else {self.source})", is_optional=True)

    def array(self, *, is_sorted: bool) -> Writer:
        """Returns a writer of JSON arrays whose items this writer writes. With `is_sorted`, it sorts the items."""
        items = "sorted({})" if is_sorted else "{}"
        return Writer(f"'[' + ','.join([{self.of('one')} for one in {items}]) + ']'", self.names)


def called(write: Callable[[Any], str]) -> Writer:
    """Returns a writer whose expression calls the function `write`."""
    name = f"write_{next(_number)}"
    return Writer(f"{name}({{}})", {name: write})


def pairs(key: Writer, value: Writer) -> Writer:
    """Returns the writer of a dict: a JSON array of objects with ``key`` and ``value``, ascending by key."""
    shown = (
        f"""'{{"key":' + {key.of("one[0]")} + ('' if one[1] is None else ',"value":' + {value.of("one[1]")}) + '}}'"""
    )
    return Writer(f"'[' + ','.join([{shown} for one in sorted({{}}.items())]) + ']'", {**key.names, **value.names})


def shown_name(name: str) -> str:
    """Returns the JSON name of a field: `name` without trailing underscores, for example ``from`` for ``from_``."""
    return name.rstrip("_")


def written(types: Mapping[str, FieldType], given: str = "row.{}") -> Callable[..., str]:
    """Returns a function that writes the fields `types` of a record as a JSON object, and omits fields that are None.

    The function raises a TypeError if the type of a value differs from its annotation.

    Args:
        types: The storage type of each field.
        given: The expression for the value of a field. With ``row.{}`` the parameter of the function is an object. With
            `_VALUE` its parameters are the values of the fields.
    """
    if not types:
        return lambda row: "{}"
    template, values, names = "", list[str](), dict[str, Any]()
    for name, kind in types.items():
        writer, head, value = kind.writer, f",{to_text(shown_name(name))}:", given.format(name)
        text = writer.of(value)
        template += "%s" if writer.is_optional else f"{head}%s"
        values.append(f"('' if {value} is None else {head!r} + {text})" if writer.is_optional else text)
        names |= writer.names
    parameters = "row" if given != _VALUE else ", ".join(map(_VALUE.format, types))
    source = f"lambda {parameters}: '{{' + ({template!r} % ({', '.join(values)},))[1:] + '}}'"
    found: Callable[..., str] = eval(source, names)  # noqa: S307 - built from field names only
    return found


@lru_cache(4096, typed=True)
def _text(value: str) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return to_text(value)


def _truth(value: bool) -> str:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is not a boolean")
    return "true" if value else "false"


def _number_text(value: float) -> str:
    with suppress(OverflowError):  # raised for an integer beyond the range of doubles
        if isinstance(value, Real) and not isinstance(value, bool) and isfinite(number := float(value)):
            return float.__repr__(number)
    raise TypeError(f"{value!r} is not a finite number")


_WRITERS = {int: called(int.__repr__), float: called(_number_text), str: called(_text), bool: called(_truth)}
