"""Builds Arrow record batches from Python rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any

import pyarrow as pa

BEYOND = (("run_id", "bigint"), ("round", "bigint"), ("reason", "string"))
"""Names and SQL types of the columns of a table of runs beyond the bound: runs with faults that the protocol does not
tolerate.
"""
Mapped = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function from Arrow batches to Arrow batches."""
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
    columns: Sequence[tuple[str, str]], as_arrow: str | None = None
) -> Callable[[Callable[[Any], Iterable[tuple[Any, ...]]]], Mapped]:
    """Returns a decorator of functions that return the result rows of one run, without ``run_id``.

    The decorated function takes batches with one row per run, or per part of a run, and column ``run_id``. It yields
    one batch of results for each batch. Their columns have the names and SQL types `columns`, ``run_id`` first. The
    function gets the list column `as_arrow` as an Arrow array, and all other columns as Python objects.
    """
    schema = schema_of(columns)

    def decorated(rows: Callable[[Any], Iterable[tuple[Any, ...]]]) -> Mapped:
        @wraps(rows)
        def mapped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                runs = batch.drop_columns(as_arrow or []).to_pylist()
                if as_arrow is not None:
                    for run, value in zip(runs, batch.column(as_arrow), strict=True):
                        run[as_arrow] = value.values
                yield as_batch([(run["run_id"], *row) for run in runs for row in rows(run)], schema)

        return mapped

    return decorated
