"""Builds Arrow record batches from Python rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

BEYOND = (("run_id", "bigint"), ("round", "bigint"), ("reason", "string"))
"""Names and SQL types of the columns of a table of runs beyond the bound: runs with faults that the protocol does not
tolerate.
"""
_ARROW = {"bigint": pa.int64(), "string": pa.string(), "boolean": pa.bool_()}


def schema_of(columns: Sequence[tuple[str, str]]) -> pa.Schema:
    """Returns the Arrow schema of `columns`: pairs of a name and a SQL type, ``bigint``, ``string`` or ``boolean``."""
    return pa.schema([(name, _ARROW[kind]) for name, kind in columns])


def as_batch(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.RecordBatch:
    """Returns `rows`, which may be empty, as a record batch."""
    columns: list[Any] = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.RecordBatch.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


def rows_of_runs(
    batches: Iterable[pa.RecordBatch], columns: Sequence[tuple[str, str]],
    rows: Callable[[Mapping[str, Any]], Iterable[tuple[Any, ...]]],
) -> Iterator[pa.RecordBatch]:  # fmt: skip
    """Applies `rows` to each run. Yields the results as one record batch for each batch of runs.

    Args:
        batches: One row per run, with column ``run_id``.
        columns: Names and SQL types of the result's columns, ``run_id`` first.
        rows: A function that returns the result rows of one run, without ``run_id``.
    """
    schema = schema_of(columns)
    for batch in batches:
        yield as_batch([(run["run_id"], *row) for run in batch.to_pylist() for row in rows(run)], schema)
