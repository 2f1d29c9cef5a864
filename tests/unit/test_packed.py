"""Batches as binary values: they come back whole, and in their order."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

import pyarrow as pa

from udfs.nodes.processes import pack, packed, unpacked

NUMBERS = pa.schema([("n", pa.int64())])


def _twice(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns two batches for each one."""
    for batch in batches:
        yield batch
        yield batch.slice(0, 1)


def test_batches_return_in_their_order() -> None:
    whole = pa.table({"n": range(40)}, schema=NUMBERS)
    rows = pack(whole.to_batches(4)).to_batches(3)
    random.Random(4).shuffle(rows)
    made = pa.Table.from_batches(packed(_twice)(rows))
    found = unpacked(made.take(random.Random(5).sample(range(0, len(made), 2), len(made) // 2)))
    assert pa.Table.from_batches(found).to_pydict()["n"] == [*range(40)]
    assert pa.Table.from_batches(unpacked(made)).num_rows == 50


def test_a_slice_is_packed_without_the_rows_around_it() -> None:
    (batch,) = pa.table({"n": range(100_000)}, schema=NUMBERS).to_batches()
    assert pack([batch.slice(500, 10)]).nbytes < 5_000
    assert unpacked(pack([batch.slice(500, 2)]))[0].to_pydict() == {"n": [500, 501]}
