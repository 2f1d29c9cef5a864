"""Duplicates by visited lists (section 5) as an Arrow function: the copies of a node are decided in their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from udfs.batches import as_batch, schema_of

ACCEPTED = schema_of((("run_id", "bigint"), ("node_id", "bigint"), ("trigger", "bigint")))
"""Columns of `accepted_copies`: an accepted copy by its node and trigger."""


def accepted_copies(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Returns the copies that no earlier accepted copy opposes.

    A copy opposes a later one if it brings the same or a higher MsgId of a node that both visited.

    Args:
        batches: One row a node: ``run_id, node_id`` and ``copies``, structs ``trigger, visited``; ``visited`` has
            structs ``node, msg_id``.

    Yields:
        Rows of `ACCEPTED`.
    """
    for batch in batches:
        rows = [(row["run_id"], row["node_id"], one) for row in batch.to_pylist() for one in _accepted(row["copies"])]
        yield as_batch(rows, ACCEPTED)


def _accepted(copies: Iterable[Mapping[str, Any]]) -> Iterator[int]:
    newest: dict[int, int] = {}
    for copy in sorted(copies, key=lambda one: int(one["trigger"])):
        pairs = [(one["node"], one["msg_id"]) for one in copy["visited"] if one["msg_id"] is not None]
        if all(msg_id > newest.get(node, msg_id - 1) for node, msg_id in pairs):
            for node, msg_id in pairs:
                newest[node] = max(newest.get(node, msg_id), msg_id)
            yield copy["trigger"]
