"""Types of columns, and rows as tuples: arrays and structs are tuples, too, so that rows can be keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.connect.proto import types_pb2 as proto
from pyspark.sql.pandas.types import to_arrow_type

Kind = Any
"""The name of a plain type in SQL, ``("array", kind)``, or ``("struct", names, kinds)``."""
Row = tuple[Any, ...]

VOID: Final = "void"
_WHOLE: Final = ("int", "bigint")
_PLAIN: Final = {
    T.LongType: "bigint", T.IntegerType: "int", T.DoubleType: "double", T.StringType: "string",
    T.BooleanType: "boolean", T.NullType: VOID,
}  # fmt: skip
_TYPES: Final = {kind: of() for of, kind in _PLAIN.items()}
_SENT: Final = {
    "long": "bigint", "integer": "int", "double": "double", "string": "string", "boolean": "boolean", "null": VOID,
}  # fmt: skip


class UnknownPlanError(Exception):
    """A plan has something that only an engine can do."""


class UnfinishedError(UnknownPlanError):
    """What a plan reads is not there yet."""


def kind_of(of: T.DataType) -> Kind:
    """Returns the kind of a Spark type.

    Raises:
        UnknownPlanError: No rows here have it.
    """
    if isinstance(of, T.ArrayType):
        return ("array", kind_of(of.elementType))
    if isinstance(of, T.StructType):
        return ("struct", tuple(of.names), kinds_of(of))
    if type(of) not in _PLAIN:
        raise UnknownPlanError(of.simpleString())
    return _PLAIN[type(of)]


def kinds_of(schema: T.StructType) -> tuple[Kind, ...]:
    """Returns the kinds of columns.

    Raises:
        UnknownPlanError: No rows here have one of them.
    """
    return tuple(kind_of(field.dataType) for field in schema)


def type_of(kind: Kind) -> T.DataType:
    """Returns the Spark type of a kind, with nulls allowed everywhere.

    Raises:
        UnknownPlanError: Nothing is known of it, as of the literal null's.
    """
    if is_array(kind):
        return T.ArrayType(type_of(kind[1]), True)
    if is_struct(kind):
        return T.StructType([*map(T.StructField, kind[1], map(type_of, kind[2]))])
    if kind == VOID:
        raise UnknownPlanError("a column of nulls")
    plain: T.DataType = _TYPES[kind]
    return plain


def arrow_of(kind: Kind) -> pa.DataType:
    """Returns the Arrow type of a kind."""
    return pa.null() if kind == VOID else to_arrow_type(type_of(kind))


def kind_sent(of: proto.DataType) -> Kind:
    """Returns the kind of a type in a plan.

    Raises:
        UnknownPlanError: No rows here have it.
    """
    name = of.WhichOneof("kind")
    if name == "array":
        return ("array", kind_sent(of.array.element_type))
    if name == "struct":
        fields = of.struct.fields
        return ("struct", tuple(one.name for one in fields), tuple(kind_sent(one.data_type) for one in fields))
    if name not in _SENT:
        raise UnknownPlanError(str(of))
    return _SENT[name]


def is_array(kind: Kind) -> bool:
    """Returns whether values are arrays."""
    return isinstance(kind, tuple) and kind[0] == "array"


def is_struct(kind: Kind) -> bool:
    """Returns whether values are structs."""
    return isinstance(kind, tuple) and kind[0] == "struct"


def is_whole(kind: Kind) -> bool:
    """Returns whether values are whole numbers."""
    return kind in _WHOLE


def holds(kind: Kind, other: Kind) -> bool:
    """Returns whether values of another kind are values of this one as they are."""
    if kind == other or other == VOID:
        return True
    if is_array(kind) and is_array(other):
        return holds(kind[1], other[1])
    if is_struct(kind) and is_struct(other):
        return len(kind[2]) == len(other[2]) and all(map(holds, kind[2], other[2]))
    return is_whole(kind) and is_whole(other)


@lru_cache(maxsize=10_000)
def fits(kind: Kind, other: Kind) -> bool:
    """Returns whether values of another kind are values of this one, with the same names of fields."""
    return holds(kind, other) and _fields(kind, other)


def _fields(kind: Kind, other: Kind) -> bool:
    if other == VOID:
        return True
    if is_array(kind):
        return _fields(kind[1], other[1])
    return not is_struct(kind) or (kind[1] == other[1] and all(map(_fields, kind[2], other[2])))


def common(kinds: Sequence[Kind]) -> Kind:
    """Returns the kind that has the values of all.

    Raises:
        UnknownPlanError: Some would have to be converted.
    """
    known = [kind for kind in kinds if kind != VOID]
    if not known:
        return VOID
    found = "bigint" if "bigint" in known else known[0]
    for kind in known:
        if found != kind and holds(kind, found) and not holds(found, kind):
            found = kind
    if not all(holds(found, kind) for kind in known):
        raise UnknownPlanError(f"values of {kinds}")
    return found


def ordered(kind: Kind) -> bool:
    """Returns whether Python orders values as SQL does, nulls apart."""
    return not isinstance(kind, tuple)


def sort_key(kind: Kind) -> Callable[[Any], Any]:
    """Returns what sorts values, nulls among them and in them before all others."""
    if is_array(kind):
        inner = sort_key(kind[1])
        return lambda value: (0,) if value is None else (1, tuple(map(inner, value)))
    if is_struct(kind):
        inners = tuple(map(sort_key, kind[2]))
        return lambda value: (
            (0,) if value is None else (1, tuple(key(one) for key, one in zip(inners, value, strict=True)))
        )
    return lambda value: (0,) if value is None else (1, value)


def _taken(kind: Kind) -> Callable[[Any], Any] | None:
    """Returns what makes rows' values of what Arrow returns; None where they are the same."""
    if is_array(kind):
        inner = _taken(kind[1])
        if inner is None:
            return lambda value: None if value is None else tuple(value)
        return lambda value: None if value is None else tuple(map(inner, value))
    if is_struct(kind):
        names = kind[1]
        inners = [_taken(one) or (lambda value: value) for one in kind[2]]
        return lambda value: (
            None if value is None else tuple(make(value[name]) for name, make in zip(names, inners, strict=True))
        )
    return None


def rows_of(table: pa.Table, kinds: Sequence[Kind]) -> list[Row]:
    """Returns the rows of a table."""
    columns = []
    for column, kind in zip(table.columns, kinds, strict=True):
        make, values = _taken(kind), column.to_pylist()
        columns.append(values if make is None else [make(value) for value in values])
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def table_of(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Returns rows as a table."""
    columns = zip(*rows, strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)
