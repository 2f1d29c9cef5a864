"""Batches as binary values: an engine that converts columns row by row passes them on as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from udfs.nodes.play import Play

PACKED = pa.schema([("batch", pa.binary())])
"""The columns of packed batches: each a row, as an Arrow stream."""


def packed(function: Play) -> Play:
    """Returns an Arrow function that takes packed batches, and packs those that another one makes of them."""

    def of_packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from map(_packed, function(unpacked(batch)))

    return of_packed


def pack(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Returns batches as a table of packed ones."""
    return pa.Table.from_batches(map(_packed, batches), PACKED)


def unpacked(rows: pa.Table | pa.RecordBatch) -> list[pa.RecordBatch]:
    """Returns the batches that were packed."""
    values = (value.as_buffer() for value in rows.column("batch"))
    return [batch for value in values for batch in pa.ipc.open_stream(value)]


def _packed(batch: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return pa.RecordBatch.from_arrays([pa.array([sink.getvalue().to_pybytes()], pa.binary())], schema=PACKED)
