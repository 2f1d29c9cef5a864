"""Batches as binary values: an engine that converts columns row by row passes them on as they are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from udfs.nodes.block import Play

PACKED = pa.schema([("place", pa.int64()), ("batch", pa.binary())])
"""The columns of packed batches: the place of what it was made of, and a batch as an Arrow stream."""


def packed(function: Play) -> Play:
    """Returns an Arrow function that takes packed batches, and packs those that another one makes of each."""

    def of_packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for given in batches:
            for place, value in zip(given.column("place").to_pylist(), given.column("batch"), strict=True):
                yield from (_packed(place, made) for made in function(batches_of(value.as_buffer())))

    return of_packed


def pack(batches: Iterable[pa.RecordBatch]) -> pa.Table:
    """Returns batches as a table of packed ones, which remember their order."""
    return pa.Table.from_batches([_packed(place, batch) for place, batch in enumerate(batches)], PACKED)


def unpacked(rows: pa.Table) -> list[pa.RecordBatch]:
    """Returns the packed batches in the order of their inputs, for any order of arrival."""
    pairs = zip(rows.column("place").to_pylist(), rows.column("batch"), strict=True)
    ordered = sorted(pairs, key=itemgetter(0))
    return [batch for _, value in ordered for batch in batches_of(value.as_buffer())]


def stream_of(batch: pa.RecordBatch) -> pa.Buffer:
    """Returns a batch as an Arrow stream; of a slice it holds the rows of the slice only, where a pickle holds all."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def batches_of(stream: pa.Buffer) -> list[pa.RecordBatch]:
    """Returns the batches of an Arrow stream."""
    return [*pa.ipc.open_stream(stream)]


def _packed(place: int, batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [pa.array([place], pa.int64()), pa.array([stream_of(batch).to_pybytes()], pa.binary())]
    return pa.RecordBatch.from_arrays(columns, schema=PACKED)
