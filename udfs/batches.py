"""Rows of the Arrow functions as batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

BEYOND = (("run_id", "bigint"), ("round", "bigint"), ("reason", "string"))
"""Columns of runs beyond the bound of a protocol, with their SQL types."""
_ARROW = {"bigint": pa.int64(), "string": pa.string(), "boolean": pa.bool_()}


def schema_of(columns: Sequence[tuple[str, str]]) -> pa.Schema:
    """Returns the Arrow schema of columns with their SQL types: ``bigint``, ``string`` or ``boolean``."""
    return pa.schema([(name, _ARROW[kind]) for name, kind in columns])


def as_batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Returns rows, which may be none, as one batch with the columns of a schema."""
    columns: list[Any] = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )
