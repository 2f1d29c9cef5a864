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

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for made in function(unpacked(batch)):
                yield pa.RecordBatch.from_arrays([pa.array([_bytes(made)], pa.binary())], schema=PACKED)

    return pack


def pack(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Returns batches as a table of packed ones."""
    return pa.table([pa.array([_bytes(batch) for batch in batches], pa.binary())], schema=PACKED)


def unpacked(rows: pa.Table | pa.RecordBatch) -> list[pa.RecordBatch]:
    """Returns the batches that were packed."""
    values = (value.as_buffer() for value in rows.column("batch"))
    return [batch for value in values for batch in pa.ipc.open_stream(value)]


def _bytes(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    packed_batch: bytes = sink.getvalue().to_pybytes()
    return packed_batch
