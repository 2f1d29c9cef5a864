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


def rows_of_runs(
    columns: Sequence[tuple[str, str]], as_arrow: str | None = None
) -> Callable[[Callable[[Any], Iterable[tuple[Any, ...]]]], Mapped]:
    """Returns a decorator of functions that return the result rows of one run, without ``run_id``.

    The decorated function takes batches with one row per run, or per part of a run, and column ``run_id``. It yields
    one batch of results for each batch. Their columns have the names and SQL types `columns`, ``run_id`` first. The
    function gets the list column `as_arrow` as an Arrow array, null as None, and all other columns as Python objects.
    """
    schema = pa.schema([(name, _ARROW[kind]) for name, kind in columns])

    def decorated(rows: Callable[[Any], Iterable[tuple[Any, ...]]]) -> Mapped:
        @wraps(rows)
        def mapped(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                runs = batch.drop_columns(as_arrow or []).to_pylist()
                if as_arrow is not None:
                    for run, value in zip(runs, batch.column(as_arrow), strict=True):
                        run[as_arrow] = value.values
                found = [(run["run_id"], *row) for run in runs for row in rows(run)]
                values: Iterable[Any] = zip(*found, strict=True) if found else [()] * len(schema)
                of_columns = zip(map(list, values), schema.types, strict=True)
                yield pa.RecordBatch.from_arrays([pa.array(*one) for one in of_columns], schema=schema)

        return mapped

    return decorated
