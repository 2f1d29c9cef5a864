"""The Arrow function of several rounds: whole runs in, what their rounds leave behind out.

A run is one row: what it is given, its nodes and messages in flight after a round, and the calls up to the last round
of the block. `network` plays the rounds in between, so that they cost what plain Python costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from udfs.nodes.arrow import DONE, Rows, cut_lists, list_rows, lists_of, rows_of, settings_of
from udfs.nodes.link_faults import LinkFaults
from udfs.nodes.network import Flight, Given, Network, Rows as Played, Span, Spans, Strike, durable
from udfs.nodes.play import Play, as_call
from udfs.nodes.program import Call, NodeProgram
from udfs.nodes.world import Node

_LONG, _TEXT = pa.int64(), pa.string()
_HEAD = {
    "message_id": _LONG, "kind": _TEXT, "src": _LONG, "dst": _LONG, "sent_round": _LONG, "due_round": _LONG,
    "source": _LONG, "source_seq": _LONG, "fate": _TEXT,
}  # fmt: skip
_AT = {"node_id": _LONG, "round": _LONG}
_BATCH_ROWS = 200_000
GIVEN: Mapping[str, tuple[str, ...]] = {
    "links": ("src", "dst", "latency_rounds"),
    "crashes": ("node_id", "round", "end_round"),
    "pauses": ("node_id", "round", "end_round"),
    "on_link": ("src", "dst", "round", "end_round", "faults"),
    "anywhere": ("round", "end_round", "faults"),
    "sides": ("node_id", "round", "end_round", "side"),
}
"""What a run is given, beside its calls: lists of structs, which may be null; for the last three see `link_faults`."""


def _structs(fields: Mapping[str, pa.DataType]) -> pa.DataType:
    return pa.list_(pa.struct(list(fields.items())))


def flight_type(rows: Rows) -> dict[str, pa.DataType]:
    """Returns the columns of a message in flight."""
    return _HEAD | {name: kind.arrow for name, kind in rows.messages.payload.items()}


def node_type(rows: Rows) -> dict[str, pa.DataType]:
    """Returns the columns of a node."""
    return {"node_id": _LONG, **rows.state, **rows.kept}


def block_types(rows: Rows) -> dict[str, dict[str, pa.DataType]]:
    """Returns the columns of each list that a block leaves behind."""
    return {
        "nodes": node_type(rows),
        "in_flight": flight_type(rows),
        "handled": flight_type(rows),
        "delivered": _AT | _fields(DONE["delivered"]),
        "statuses": _AT | {"status": _TEXT},
        "events": {"source": _LONG, "source_seq": _LONG, "round": _LONG, "event": _TEXT},
        **{name: {"node_id": _LONG, **_fields(kind)} for name, kind in rows.added.items()},
    }


def _fields(kind: pa.DataType) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in kind.value_type}


def block_schema(rows: Rows) -> pa.Schema:
    """Returns the columns of runs after a block: the last round in which anything happened, and lists."""
    lists = {name: _structs(types) for name, types in block_types(rows).items()}
    return pa.schema([("run_id", _LONG), ("last_played", _LONG), *lists.items()])


def block_of(program: type[NodeProgram]) -> Play:
    """Returns the function that plays the rounds of a block.

    It takes one row a run: ``run_id, settings`` (JSON), ``after`` (the round that is over), ``last`` (the last round of
    the block), ``may_duplicate``, lists `GIVEN`, ``nodes`` (`node_type`, those that are down too where anything of them
    is durable), ``flights`` (`flight_type`) and ``calls`` (node_id, and `arrow.CALL`); it returns one row a run,
    columns of `block_schema`.
    """

    def play(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = rows_of(program)
        for batch in batches:
            networks: list[tuple[int, Network, Played]] = []
            n_rows = 0
            for run, network, last in _networks(rows, batch):
                networks.append((run, network, network.play(last)))
                n_rows += len(networks[-1][2].handled)
                if n_rows > _BATCH_ROWS:
                    yield _left(rows, networks)
                    networks, n_rows = [], 0
            yield _left(rows, networks)

    return play


def _networks(rows: Rows, batch: pa.RecordBatch) -> Iterator[tuple[int, Network, int]]:
    """Yields runs, as they are after the round before the block, and the last round of the block."""
    heads = {name: batch.column(name).to_pylist() for name in ("run_id", "settings", "after", "last", "may_duplicate")}
    lists = {name: list_rows(batch.column(name)) for name in (*GIVEN, "calls")}
    nodes, flights = _nodes(rows, batch.column("nodes")), _flights(rows, batch.column("flights"))
    for place, run in enumerate(heads["run_id"]):
        crashes = Spans(Span(*row) for row in lists["crashes"][place])
        given = Given(
            run, settings_of(heads["settings"][place]),
            {(src, dst): latency for src, dst, latency in lists["links"][place]}, _by_round(lists["calls"][place]),
            crashes, Spans(Span(*row) for row in lists["pauses"][place]),
            _strike(*(lists[name][place] for name in ("on_link", "anywhere", "sides"))), heads["may_duplicate"][place],
        )  # fmt: skip
        after = heads["after"][place]
        up = {at: node for at, node in nodes[place] if crashes.at(at, after) is None}
        kept: dict[int, dict[str, Any]] = {at: {} for at in crashes.down_at(after)}
        for at, node in nodes[place]:
            if at in kept:
                kept[at] = {name: getattr(node.program, name) for name in durable(rows.plan.program)}
        yield run, Network(rows.plan, given, up, flights[place], after, kept), heads["last"][place]


def _strike(*faults: Sequence[Any]) -> Strike | None:
    return LinkFaults(*faults).strike if any(faults) else None


def _by_round(called: Sequence[Sequence[Any]]) -> dict[int, dict[int, list[Call]]]:
    found: dict[int, dict[int, list[Call]]] = {}
    for node, *values in called:
        call = as_call(values)
        found.setdefault(call.round, {}).setdefault(node, []).append(call)
    return found


def _nodes(rows: Rows, column: pa.Array) -> list[list[tuple[int, Node]]]:
    batch = pa.RecordBatch.from_struct_array(column.flatten())
    pairs = list(zip(batch.column("node_id").to_pylist(), rows.nodes(batch), strict=True))
    return cut_lists(column, pairs)


def _flights(rows: Rows, column: pa.Array) -> list[list[Flight]]:
    values = column.flatten()
    columns = {name: values.field(name).to_pylist() for name in flight_type(rows)}
    messages = rows.messages.messages(columns["kind"], columns)
    heads = [columns[name] for name in Flight._fields[:-1]]
    return cut_lists(column, [Flight(*row) for row in zip(*heads, messages, strict=True)])


def _left(rows: Rows, networks: Sequence[tuple[int, Network, Played]]) -> pa.RecordBatch:
    """Returns what runs have left behind, one row a run."""
    types = block_types(rows)
    columns: dict[str, pa.Array] = {
        "run_id": pa.array([run for run, _, _ in networks], _LONG),
        "last_played": pa.array([network.last_played for _, network, _ in networks], _LONG),
        "nodes": _node_lists(rows, [network for _, network, _ in networks]),
        "in_flight": _flight_lists(rows, [network.flights for _, network, _ in networks]),
        "handled": _flight_lists(rows, [played.handled for _, _, played in networks]),
    }
    flat: dict[str, list[list[Any]]] = {
        "delivered": [[(at, round_, *one) for at, round_, one in played.delivered] for _, _, played in networks],
        "statuses": [played.statuses for _, _, played in networks],
        "events": [played.calls for _, _, played in networks],
    }
    for name, of_runs in flat.items():
        columns[name] = _tuple_lists(of_runs, types[name])
    for name in rows.added:
        columns[name] = _added_lists(rows, name, [played.appended.get(name, []) for _, _, played in networks])
    schema = block_schema(rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _tuple_lists(of_runs: Sequence[Sequence[tuple[Any, ...]]], types: Mapping[str, pa.DataType]) -> pa.Array:
    flat = [row for rows in of_runs for row in rows]
    columns: Any = list(zip(*flat, strict=True)) or [()] * len(types)
    return lists_of([len(rows) for rows in of_runs], dict(zip(types, columns, strict=True)), _structs(types))


def _flight_lists(rows: Rows, of_runs: Sequence[Sequence[Flight]]) -> pa.Array:
    flat = [flight for flights in of_runs for flight in flights]
    heads: Any = list(zip(*(flight[:-1] for flight in flat), strict=True)) or [()] * (len(Flight._fields) - 1)
    columns = rows.messages.columns([flight.message for flight in flat])
    columns |= dict(zip(Flight._fields[:-1], heads, strict=True))
    return lists_of([len(flights) for flights in of_runs], columns, _structs(flight_type(rows)))


def _node_lists(rows: Rows, networks: Sequence[Network]) -> pa.Array:
    """Returns the nodes of runs; of those that are down what is durable, if anything is."""
    keeps = durable(rows.plan.program)
    found: list[list[tuple[int, Node, bool]]] = []
    for network in networks:
        of_run = [(at, node, True) for at, node in sorted(network.nodes.items())]
        for at, kept in sorted(network.down.items()) if keeps else ():
            program = rows.plan.program()
            for name, value in kept.items():
                setattr(program, name, value)
            of_run.append((at, Node(program), False))
        found.append(of_run)
    flat = [one for of_run in found for one in of_run]
    columns = {"node_id": pa.array([at for at, _, _ in flat], _LONG)}
    columns |= rows.node_columns([node for _, node, _ in flat])
    columns["started_round"] = pa.array([node.internal.started_round if up else None for _, node, up in flat], _LONG)
    types = node_type(rows)
    return _lists([len(of_run) for of_run in found], {name: columns[name] for name in types}, types)


def _added_lists(rows: Rows, name: str, of_runs: Sequence[Sequence[tuple[int, Any]]]) -> pa.Array:
    flat = [one for added in of_runs for one in added]
    inner = rows.record_column(rows.appended[name], [row for _, row in flat])
    types = block_types(rows)[name]
    columns = {"node_id": pa.array([at for at, _ in flat], _LONG)}
    columns |= {field.name: inner.field(field.name) for field in inner.type}
    return _lists([len(added) for added in of_runs], columns, types)


def _lists(lengths: Sequence[int], columns: Mapping[str, pa.Array], types: Mapping[str, pa.DataType]) -> pa.Array:
    fields = [pa.field(name, kind) for name, kind in types.items()]
    values = pa.StructArray.from_arrays([columns[name] for name in types], fields=fields)
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values).cast(_structs(types))
