"""The bound of protocol ``repository``: all clients and repositories that survive stay connected."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from udfs.batches import BEYOND, as_batch, schema_of
from udfs.reach import hops, neighbours

_OUT = schema_of(BEYOND)


def cut_round(
    ends: Collection[int], links: Iterable[tuple[int, int]], gone: Sequence[tuple[int, int]]
) -> int | None:  # fmt: skip
    """Returns the first round after which two of the surviving `ends` have no path to each other.

    Returns None if all surviving ends stay connected.

    Args:
        ends: Ids of clients and repositories.
        links: Pairs of linked nodes.
        gone: Round and node of each crash without a recovery, ascending.
    """
    around = neighbours(links)
    left, down = set(ends), set[int]()
    for round_, node in gone:
        down.add(node)
        left.discard(node)
        if left and not left <= hops(min(left), around, down).keys():
            return round_
    return None


def beyond_runs(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the runs in which permanent crashes disconnect clients or repositories, as rows of `BEYOND`.

    Args:
        batches: One row per run: ``run_id``, ``ends`` (node ids), ``links`` (structs ``src, dst``), ``gone`` (structs
            ``round, node_id``).
    """
    for batch in batches:
        yield as_batch([row for run in batch.to_pylist() for row in _rows(run)], _OUT)


def _rows(run: Mapping[str, Any]) -> Iterator[tuple[int, int, str]]:
    links = [(link["src"], link["dst"]) for link in run["links"] or ()]
    gone = [(crash["round"], crash["node_id"]) for crash in run["gone"]]
    round_ = cut_round(run["ends"], links, gone)
    if round_ is not None:
        reason = "brokers crashed for good, and no path connects all clients and repositories"
        yield run["run_id"], round_, reason
