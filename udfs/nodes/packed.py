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
    """Returns an Arrow function that packs the batches of another one."""

    def pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in function(batches):
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            yield pa.RecordBatch.from_arrays([pa.array([sink.getvalue()], pa.binary())], schema=PACKED)

    return pack


def unpacked(table: pa.Table) -> list[pa.RecordBatch]:
    """Returns the batches that were packed."""
    values = (value.as_buffer() for value in table.column("batch"))
    return [batch for value in values for batch in pa.ipc.open_stream(value)]
