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
    return [batch for value in rows.column("batch") for batch in batches_of(value.as_buffer())]


def stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    """Returns a batch as an Arrow stream; of a slice it holds the rows of the slice only, where a pickle holds all."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def batches_of(stream: pa.Buffer) -> list[pa.RecordBatch]:
    """Returns the batches of an Arrow stream."""
    return [*pa.ipc.open_stream(stream)]


def _packed(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([stream_of(batch).to_pybytes()], pa.binary())], schema=PACKED)
