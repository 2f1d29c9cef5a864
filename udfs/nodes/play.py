"""The Arrow functions of a round: nodes with what is due at them in, what they leave behind out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from udfs.nodes.arrow import (
    DONE,
    INTERNAL,
    SENT,
    Rows,
    as_call,
    calls_by_node,
    list_rows,
    rows_of,
    settings_of,
    struct_type,
)
from udfs.nodes.collection import rare_collections
from udfs.nodes.context import Context, Internal
from udfs.nodes.program import Declared, NodeProgram
from udfs.nodes.step import step
from udfs.nodes.texts import text_lists
from udfs.nodes.world import BEFORE, Node, NodeInfo, World, begin

Play = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
_PART_BYTES = 1 << 26
HEAD = {"run_id": pa.int64(), "node_id": pa.int64(), "round": pa.int64()}


def round_schema(rows: Rows) -> pa.Schema:
    """Returns the columns of nodes after a round: their state, what they sent, added and did."""
    return pa.schema(list({**HEAD, **INTERNAL, **rows.kept, "sent": SENT, **rows.added, **DONE}.items()))


def round_of(program: type[NodeProgram]) -> Play:
    """Returns the function that has nodes handle what is due at them in a round.

    It takes one row a node: ``run_id, node_id, round, settings`` (JSON), ``is_recovered``, the columns of its state
    (null where it has been down), ``received`` and ``calls``; it returns one row a node, columns of `round_schema`.
    """

    def play(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = rows_of(program)
        for batch in batches:
            yield _after_round(rows, batch)

    return play


def _after_round(rows: Rows, batch: pa.RecordBatch) -> pa.RecordBatch:
    heads = {name: batch.column(name).to_pylist() for name in (*HEAD, "settings", "is_recovered")}
    nodes, due = rows.nodes(batch), (rows.received(batch.column("received")), list_rows(batch.column("calls")))
    contexts = []
    for place, (received, called) in enumerate(zip(*due, strict=True)):
        node, round_ = nodes[place], heads["round"][place]
        if heads["is_recovered"][place]:
            node.internal = Internal(started_round=round_)
        ctx = Context(heads["node_id"][place], round_, settings_of(heads["settings"][place]), node.internal)
        step(
            rows.plan, heads["run_id"][place], node, ctx, received, [as_call(row) for row in called],
            is_recovered=heads["is_recovered"][place],
        )  # fmt: skip
        contexts.append(ctx)
    return _batch(rows, {name: batch.column(name) for name in HEAD}, nodes, contexts)


def start_of(program: type[NodeProgram]) -> Play:
    """Returns the function that makes the nodes of runs before their first round.

    It takes one row a run: ``run_id, settings`` (JSON), ``has_crashes``, and lists ``nodes`` (node_id, name, role),
    ``links`` (src, dst, latency_rounds) and ``calls`` (node_id, and columns of `arrow.CALL`); it returns one row a
    node, columns of `round_schema`.
    """

    def play(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = rows_of(program)
        for batch in batches:
            with rare_collections():
                left = _begun(rows, batch)
            yield left

    return play


def _begun(rows: Rows, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Returns the nodes of runs as they are before the first round."""
    run, nodes, contexts = list[int](), list[Node](), list[Context]()
    for number, world in zip(batch.column("run_id").to_pylist(), _worlds(batch), strict=True):
        begin(rows.plan.program, world)
        for at, node in sorted(world.at.items()):
            run.append(number)
            nodes.append(node)
            contexts.append(world.context(at))
    head = {"run_id": run, "node_id": [ctx.node for ctx in contexts], "round": [BEFORE] * len(contexts)}
    return _batch(rows, {name: pa.array(values, HEAD[name]) for name, values in head.items()}, nodes, contexts)


def table_schema(one: Declared) -> pa.Schema:
    """Returns the columns of the table of a declaration."""
    own = {"run_id": pa.int64(), "node_id": pa.int64()} | ({"position": pa.int64()} if one.form == "ordered" else {})
    return pa.schema([*own.items(), *struct_type(one.record).value_type])


def table_of(one: Declared) -> Play:
    """Returns the function that makes the table of a declaration.

    It takes one row a node: ``run_id, node_id``, and ``text``, its rows as `texts.rows_text` writes them; it returns
    columns of `table_schema`.
    """

    def play(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema, kind = table_schema(one), struct_type(one.record)
        for batch in batches:
            for part in _parts(batch):
                rows = text_lists(part.column("text"), kind)
                node = pc.list_parent_indices(rows)
                columns = [part.column(name).take(node) for name in ("run_id", "node_id")]
                if one.form == "ordered":
                    lengths = pc.list_value_length(rows).to_pylist()
                    columns.append(pa.array([place for length in lengths for place in range(length)], pa.int64()))
                yield pa.RecordBatch.from_arrays([*columns, *rows.flatten().flatten()], schema=schema)

    return play


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yields a batch with a column of texts in parts: what is made of one is held at once."""
    n_rows = max(1, batch.num_rows * _PART_BYTES // max(1, batch.column("text").nbytes))
    yield from (batch.slice(first, n_rows) for first in range(0, batch.num_rows, n_rows))


def _worlds(batch: pa.RecordBatch) -> Iterator[World]:
    columns = [list_rows(batch.column(name)) for name in ("nodes", "links", "calls")]
    heads = [batch.column(name).to_pylist() for name in ("settings", "has_crashes")]
    for settings, has_crashes, nodes, links, called in zip(*heads, *columns, strict=True):
        yield World(
            {node: NodeInfo(node, name, role) for node, name, role in sorted(nodes)},
            {(src, dst): latency for src, dst, latency in sorted(links)}, calls_by_node(called), settings_of(settings),
            has_crashes,
        )  # fmt: skip


def _batch(rows: Rows, head: dict[str, Any], nodes: list[Node], contexts: list[Context]) -> pa.RecordBatch:
    columns = {
        **head, **rows.node_columns(nodes, rows.tables(nodes)), "sent": rows.sent_column(contexts),
        **rows.added_columns([node.program for node in nodes]), **rows.done_columns(contexts),
    }  # fmt: skip
    schema = round_schema(rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
