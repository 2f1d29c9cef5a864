"""Builds small frames for tests of single steps, and reads their rows; the types of columns are those of the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, types as T

from pipelines.contract.round import in_flight_schema
from pipelines.engines.session import Session
from pipelines.protocols.delta.tables import GUIDE, PAYLOAD, STATES

_TYPES: dict[str, T.DataType] = {
    **{field.name: field.dataType for state in STATES for field in state.table.schema},
    **{field.name: field.dataType for field in in_flight_schema(PAYLOAD)},
    **dict.fromkeys(("peer_status", "detector", "name", "role", "event"), T.StringType()),
    **dict.fromkeys(("failed", "opened", "way", "seen_path"), T.ArrayType(T.LongType())),
}
assert _TYPES["guide"].simpleString() == GUIDE


def _type(name: str) -> T.DataType:
    return T.BooleanType() if name.startswith(("is_", "was_")) else _TYPES.get(name, T.LongType())


def frame(session: Session, columns: T.StructType | Sequence[str] | str, *rows: Mapping[str, Any]) -> DataFrame:
    """Builds a frame. In a row, missing columns are null; a missing ``run_id`` is 0."""
    given = {field.name: field.dataType for field in columns} if isinstance(columns, T.StructType) else {}
    names = columns.split() if isinstance(columns, str) else list(given or columns)  # type: ignore[arg-type]
    if "run_id" not in names:
        names = ["run_id", *names]
    unknown = {name for row in rows for name in row} - set(names)
    assert not unknown, f"no such columns: {unknown}"
    schema = T.StructType([T.StructField(name, given.get(name) or _type(name)) for name in names])
    values = [tuple(row.get(name, 0 if name == "run_id" else None) for name in names) for row in rows]
    return session.spark.createDataFrame(values, schema)


def found(rows: DataFrame, columns: str) -> list[tuple[Any, ...]]:
    """Returns ``columns`` of all rows, sorted; structs are tuples."""
    chosen = rows.select(*columns.split()).toArrow().to_pylist()
    return sorted((tuple(_plain(value) for value in row.values()) for row in chosen), key=repr)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple(_plain(part) for part in value.values())
    return [_plain(part) for part in value] if isinstance(value, list) else value


def way(*path: int, responsible: int | None = -1, **others: Any) -> dict[str, Any]:
    """Returns P(N, X) as a row of relation ``path``; the first hop is responsible unless ``responsible`` is set."""
    first = path[1] if len(path) > 1 else path[0]
    row = {"node_id": path[0], "target": path[-1], "distance": len(path) - 1, "path": list(path)}
    return {**row, "responsible": first if responsible == -1 else responsible, **others}
