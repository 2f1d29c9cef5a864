"""The bound of protocol ``repository``: a path between all nodes that recover, from faults and overlay alone."""

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
    """Returns the round from which on two ends have no way to each other; None: all have one.

    Args:
        ends: Clients and repositories.
        links: Pairs of nodes.
        gone: Round and node of the crashes for good, ascending; of an end that is gone no way is asked.
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
    """Returns the runs that brokers which are gone for good cut in two.

    Args:
        batches: One row a run: ``run_id``, ``ends`` (ids of nodes), ``links`` (structs ``src, dst``), and ``gone``
            (``round, node_id``).

    Yields:
        Rows of `BEYOND`: one a run.
    """
    for batch in batches:
        yield as_batch([row for run in batch.to_pylist() for row in _rows(run)], _OUT)


def _rows(run: Mapping[str, Any]) -> Iterator[tuple[int, int, str]]:
    links = [(link["src"], link["dst"]) for link in run["links"] or ()]
    gone = [(crash["round"], crash["node_id"]) for crash in run["gone"]]
    round_ = cut_round(run["ends"], links, gone)
    if round_ is not None:
        reason = "brokers are gone for good, and clients or repositories have no way to one another past them"
        yield run["run_id"], round_, reason
