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


BROKEN = (("run_id", "bigint"), ("node_id", "bigint"), ("detail", "string"))
"""Columns of what `broken_trees` gives, with their SQL types."""


def broken_trees(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Finds brokers that hang on no root, and roots beyond the first.

    Args:
        batches: One row a run: ``run_id``, and ``nodes``, structs ``node_id, parent``; no parent: a root.

    Yields:
        One row a broker that is wrong, columns `BROKEN`.
    """
    schema = pa.schema([(name, pa.string() if kind == "string" else pa.int64()) for name, kind in BROKEN])
    for batch in batches:
        rows: list[tuple[int, int, str]] = []
        for run in batch.to_pylist():
            parent = {node["node_id"]: node["parent"] for node in run["nodes"]}
            rows += [(run["run_id"], *found) for found in _wrong_nodes(parent)]
        columns: list[Any] = list(zip(*rows, strict=True)) or [()] * len(schema)
        yield pa.RecordBatch.from_arrays(
            [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
        )


def _wrong_nodes(parent: dict[int, int | None]) -> Iterator[tuple[int, str]]:
    roots = sorted(node for node, above in parent.items() if above is None)
    for extra in roots[1:]:
        yield extra, f"has no parent, and neither has node {roots[0]}"
    hanging = set(roots)
    for start in sorted(parent):
        way: list[int] = []
        node: int | None = start
        while node is not None and node not in hanging and node not in way and node in parent:
            way.append(node)
            node = parent[node]
        if node in hanging:
            hanging.update(way)
        else:
            yield start, f"its parents do not lead to the root: they come to node {node}"
