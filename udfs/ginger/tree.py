"""Which way is up: a tree of brokers seen from its root."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

NEIGHBOURS = (("run_id", "bigint"), ("node_id", "bigint"), ("neighbour", "bigint"), ("relationship", "string"))
"""Columns of what `rooted` gives, with their SQL types."""
_OUT = pa.schema([(name, pa.string() if kind == "string" else pa.int64()) for name, kind in NEIGHBOURS])


def rooted(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Tells every broker its parent and its children.

    Args:
        batches: One row a run: ``run_id``, the ``root``, and ``links``, structs ``src, dst``, both directions of each.

    Yields:
        One row a broker and neighbour, columns `NEIGHBOURS`.
    """
    for batch in batches:
        rows: list[tuple[int, int, int, str]] = []
        for run in batch.to_pylist():
            rows += [(run["run_id"], *row) for row in _neighbours(run["root"], run["links"])]
        columns: list[Any] = list(zip(*rows, strict=True)) or [()] * len(_OUT)
        yield pa.RecordBatch.from_arrays(
            [pa.array(list(column), field.type) for column, field in zip(columns, _OUT, strict=True)], schema=_OUT
        )


def _neighbours(root: int, links: list[dict[str, int]]) -> Iterator[tuple[int, int, str]]:
    around: dict[int, list[int]] = {}
    for link in links:
        around.setdefault(link["src"], []).append(link["dst"])
    parent = {root: root}
    order = [root]
    for node in order:
        for other in around.get(node, ()):
            if other not in parent:
                parent[other] = node
                order.append(other)
                yield node, other, "child"
                yield other, node, "parent"
