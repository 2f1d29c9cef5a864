"""The Arrow functions of a round: nodes with what is due at them in, what they leave behind out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from udfs.nodes.arrow import CALL, DONE, Rows, calls, list_rows, rows_of, settings_of
from udfs.nodes.context import Context, Internal
from udfs.nodes.program import Call, NodeProgram
from udfs.nodes.step import step
from udfs.nodes.world import BEFORE, Node, NodeInfo, World, begin

Play = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]
HEAD = {"run_id": pa.int64(), "node_id": pa.int64(), "round": pa.int64()}


def round_schema(rows: Rows) -> pa.Schema:
    """Returns the columns of nodes after a round: their state, what they sent, added and did."""
    sent = rows.messages.sent_type()
    return pa.schema(list({**HEAD, **rows.state, **rows.kept, "sent": sent, **rows.added, **DONE}.items()))


def round_of(program: type[NodeProgram]) -> Play:
    """Returns the function that has nodes handle what is due at them in a round.

    It takes one row a node: ``run_id, node_id, round, settings`` (JSON), ``is_recovered``, the columns of its state
    (null where it has been down), ``received`` and ``calls``; it gives one row a node, columns of `round_schema`.
    """

    def play(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = rows_of(program)
        for batch in batches:
            heads = {name: batch.column(name).to_pylist() for name in (*HEAD, "settings", "is_recovered")}
            nodes, due = rows.nodes(batch), (rows.received(batch.column("received")), calls(batch.column("calls")))
            contexts = []
            for place, (received, of_node) in enumerate(zip(*due, strict=True)):
                node, round_ = nodes[place], heads["round"][place]
                if heads["is_recovered"][place]:
                    node.internal = Internal(started_round=round_)
                ctx = Context(heads["node_id"][place], round_, settings_of(heads["settings"][place]), node.internal)
                step(
                    rows.plan, heads["run_id"][place], node, ctx, received, of_node,
                    is_recovered=heads["is_recovered"][place],
                )  # fmt: skip
                contexts.append(ctx)
            yield _batch(rows, {name: batch.column(name) for name in HEAD}, nodes, contexts)

    return play


def start_of(program: type[NodeProgram]) -> Play:
    """Returns the function that makes the nodes of runs before their first round.

    It takes one row a run: ``run_id, settings`` (JSON), and lists ``nodes`` (node_id, name, role), ``links`` (src, dst,
    latency_rounds) and ``calls`` (node_id, and columns of `arrow.CALL`); it gives one row a node, columns of
    `round_schema`.
    """

    def play(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = rows_of(program)
        for batch in batches:
            for place, world in enumerate(_worlds(batch)):
                begin(program, world)
                at = sorted(world.at)
                contexts = [world.context(node) for node in at]
                run = batch.column("run_id")[place].as_py()
                head = {"run_id": [run] * len(at), "node_id": at, "round": [BEFORE] * len(at)}
                arrays = {name: pa.array(values, HEAD[name]) for name, values in head.items()}
                yield _batch(rows, arrays, [world.at[node] for node in at], contexts)

    return play


def _worlds(batch: pa.RecordBatch) -> Iterator[World]:
    columns = [list_rows(batch.column(name)) for name in ("nodes", "links", "calls")]
    for settings, nodes, links, called in zip(batch.column("settings").to_pylist(), *columns, strict=True):
        of_node: dict[int, list[Call]] = {}
        for node, *call in sorted(called, key=lambda row: (row[0], row[2])):
            of_node.setdefault(node, []).append(as_call(call))
        yield World(
            {node: NodeInfo(node, name, role) for node, name, role in sorted(nodes)},
            {(src, dst): latency for src, dst, latency in sorted(links)}, of_node, settings_of(settings),
        )  # fmt: skip


def as_call(values: list[Any]) -> Call:
    """Returns a call of its columns, in the order of `arrow.CALL`."""
    given = dict(zip(CALL, values, strict=True))
    return Call(**{**given, "keys": tuple(given["keys"] or ()), "matches": tuple(given["matches"] or ())})


def _batch(rows: Rows, head: dict[str, Any], nodes: list[Node], contexts: list[Context]) -> pa.RecordBatch:
    columns = {
        **head, **rows.node_columns(nodes), "sent": rows.sent_column(contexts),
        **rows.added_columns([node.program for node in nodes]), **rows.done_columns(contexts),
    }  # fmt: skip
    schema = round_schema(rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)
