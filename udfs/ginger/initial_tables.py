"""The rows of nodes before the first round, as the tables of the dataflow form start with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from udfs.ginger.program import Ginger
from udfs.nodes.arrow import encoders, settings_of, table_schema
from udfs.nodes.calls import Call, PublishCall, SubscribeCall
from udfs.nodes.program import Declared
from udfs.nodes.world import NodeInfo, World, begin

INITIAL: Final = ("neighbour", "tree_view", "contact", "client_topic", "repair", "election")
"""The declarations that have rows before the first round."""


def _rows_type(name: str) -> pa.DataType:
    fields = [field for field in table_schema(Ginger.declared[name]) if field.name not in ("run_id", "node_id")]
    return pa.list_(pa.struct(fields))


def initial_schema() -> pa.Schema:
    """Returns the columns of `initial_rows`: ``run_id, node_id``, and for each of `INITIAL` a list of its rows."""
    return pa.schema([("run_id", pa.int64()), ("node_id", pa.int64()), *((name, _rows_type(name)) for name in INITIAL)])


def initial_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Computes the tree of each run, and what its nodes see of it.

    Args:
        batches: One row a run: ``run_id, settings`` (JSON), and lists of structs ``nodes`` (node_id, name, role),
            ``links`` (src, dst, latency_rounds) and ``calls`` (node_id, kind, topic; null: none).

    Yields:
        One row a node, columns `initial_schema`.
    """
    schema = initial_schema()
    for batch in batches:
        rows = [row for run in batch.to_pylist() for row in _nodes_of(run)]
        yield pa.RecordBatch.from_pylist(rows, schema)


def _nodes_of(run: dict[str, Any]) -> Iterator[dict[str, Any]]:
    calls: dict[int, list[Call]] = {}
    for call in run["calls"] or ():
        is_publish = call["kind"] == "publish"
        one = PublishCall(0, 0, call["topic"]) if is_publish else SubscribeCall(0, 0, call["topic"], subscription_id=0)
        calls.setdefault(call["node_id"], []).append(one)
    nodes = {one["node_id"]: NodeInfo(one["node_id"], one["name"], one["role"]) for one in run["nodes"]}
    links = {(one["src"], one["dst"]): one["latency_rounds"] for one in run["links"]}
    world = begin(Ginger, World(nodes, links, calls, settings_of(run["settings"])))
    for node in sorted(nodes):
        tables = {name: _rows(Ginger.declared[name], getattr(world.program(node), name)) for name in INITIAL}
        yield {"run_id": run["run_id"], "node_id": node, **tables}


def _rows(declared: Declared, value: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - the rows of any declaration
    records = [value] if declared.form == "one" else value.values()
    encoded = encoders(declared.record)
    return [
        {name: getattr(one, name) if encode is None else encode(getattr(one, name)) for name, encode in encoded}
        for one in records
    ]
