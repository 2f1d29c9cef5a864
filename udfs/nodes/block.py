"""The Arrow function of several rounds: whole runs in, what their rounds leave behind out.

A run is one row: what it is given, its nodes and messages in flight after a round, and the calls up to the last round
of the block. `network` plays the rounds in between, so that they cost what plain Python costs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from udfs.nodes.arrow import (
    CARRIED,
    DONE,
    INTERNAL,
    Rows,
    as_call,
    as_lists,
    cut_lists,
    list_rows,
    lists_of,
    record_columns,
    rows_of,
    settings_of,
    structs,
)
from udfs.nodes.collection import rare_collections
from udfs.nodes.link_faults import LinkFaults
from udfs.nodes.network import Flight, Given, Network, Rows as Played, Span, Spans, Strike
from udfs.nodes.play import Play
from udfs.nodes.program import Call, NodeProgram
from udfs.nodes.world import Node

_LONG, _TEXT = pa.int64(), pa.string()
FLIGHT: Mapping[str, pa.DataType] = {
    "message_id": _LONG, "kind": _TEXT, "src": _LONG, "dst": _LONG, "sent_round": _LONG, "due_round": _LONG,
    "fate": _TEXT, **CARRIED,
}  # fmt: skip
"""The columns of a message in flight."""
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


def node_type(rows: Rows) -> Mapping[str, pa.DataType]:
    """Returns the columns of a node."""
    return {"node_id": _LONG, **INTERNAL, **rows.kept}


def block_types(rows: Rows) -> dict[str, Mapping[str, pa.DataType]]:
    """Returns the columns of each list that a block leaves behind."""
    return {
        "nodes": node_type(rows),
        "in_flight": FLIGHT,
        "handled": FLIGHT,
        "delivery": _AT | _fields(DONE["delivery"]),
        "statuses": _AT | {"status": _TEXT},
        "events": {"source": _LONG, "source_seq": _LONG, "round": _LONG, "event": _TEXT},
        **{name: {"node_id": _LONG, **_fields(kind)} for name, kind in rows.added.items()},
    }


def _fields(kind: pa.DataType) -> dict[str, pa.DataType]:
    return {field.name: field.type for field in kind.value_type}


def block_schema(rows: Rows) -> pa.Schema:
    """Returns the columns of runs after a block: the last round in which anything happened, and lists."""
    lists = {name: structs(**types) for name, types in block_types(rows).items()}
    return pa.schema([("run_id", _LONG), ("last_played", _LONG), *lists.items()])


def block_of(program: type[NodeProgram]) -> Play:
    """Returns the function that plays the rounds of a block.

    It takes one row a run: ``run_id, settings`` (JSON), ``after`` (the round that is over), ``last`` (the last round of
    the block), ``may_duplicate``, lists `GIVEN`, ``nodes`` (`node_type`, those that are down too where anything of them
    is durable), ``flights`` (`FLIGHT`) and ``calls`` (node_id, and `arrow.CALL`); it returns one row a run,
    columns of `block_schema`.
    """

    def play(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = rows_of(program)
        for batch in batches:
            given = _networks(rows, batch)
            while left := _played(rows, given):
                yield left

    return play


def _played(rows: Rows, given: Iterator[tuple[int, Network, int]]) -> pa.RecordBatch | None:
    """Plays the next runs until they leave many messages, and returns what they leave; None: no run is next."""
    networks, n_rows = list[tuple[int, Network, Played]](), 0
    with rare_collections():
        for run, network, last in given:
            networks.append((run, network, network.play(last)))
            n_rows += len(networks[-1][2].handled)
            if n_rows > _BATCH_ROWS:
                break
        left = _left(rows, networks) if networks else None
        for _, network, _ in networks:
            network.close()
        return left


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
        kept: dict[int, dict[str, Any]] = {at: {} for at in crashes.nodes_at(after)}
        for at, node in nodes[place]:
            if at in kept:
                kept[at] = {name: getattr(node.program, name) for name in rows.plan.durable}
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
    return [[_flight(rows, *row) for row in of_run] for of_run in list_rows(column)]


def _flight(
    rows: Rows, number: int, kind: str, src: int, dst: int, sent: int, due: int, fate: str | None, source: int | None,
    source_seq: int | None, body: str | None,
) -> Flight:  # fmt: skip
    return Flight(number, kind, src, dst, sent, due, fate, rows.messages.message(kind, source, source_seq, body))


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
        "delivery": [[(at, round_, *one) for at, round_, one in played.delivered] for _, _, played in networks],
        "statuses": [played.statuses for _, _, played in networks],
        "events": [played.calls for _, _, played in networks],
    }
    for name, of_runs in flat.items():
        columns[name] = as_lists(of_runs, structs(**types[name]))
    for name in rows.added:
        columns[name] = _added_lists(rows, name, [played.appended.get(name, []) for _, _, played in networks])
    schema = block_schema(rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _flight_lists(rows: Rows, of_runs: Sequence[Sequence[Flight]]) -> pa.Array:
    flat = [flight for flights in of_runs for flight in flights]
    heads: Any = list(zip(*(flight[:-1] for flight in flat), strict=True)) or [()] * (len(Flight._fields) - 1)
    columns = rows.messages.columns([flight.message for flight in flat])
    columns |= dict(zip(Flight._fields[:-1], heads, strict=True))
    return lists_of([len(flights) for flights in of_runs], columns, structs(**FLIGHT))


def _node_lists(rows: Rows, networks: Sequence[Network]) -> pa.Array:
    """Returns the nodes of runs; of those that are down what is durable, if anything is."""
    found: list[list[tuple[int, Node, bool]]] = []
    for network in networks:
        of_run = [(at, node, True) for at, node in sorted(network.nodes.items())]
        for at, kept in sorted(network.down.items()) if rows.plan.durable else ():
            program = rows.plan.program()
            for name, value in kept.items():
                setattr(program, name, value)
            of_run.append((at, Node(program), False))
        found.append(of_run)
    flat = [one for of_run in found for one in of_run]
    columns = {"node_id": pa.array([at for at, _, _ in flat], _LONG), **rows.node_columns([one for _, one, _ in flat])}
    columns["started_round"] = pa.array([node.internal.started_round if up else None for _, node, up in flat], _LONG)
    return lists_of([len(of_run) for of_run in found], columns, structs(**node_type(rows)))


def _added_lists(rows: Rows, name: str, of_runs: Sequence[Sequence[tuple[int, Any]]]) -> pa.Array:
    flat = [one for added in of_runs for one in added]
    columns = record_columns(rows.plan.appended[name], [row for _, row in flat])
    columns["node_id"] = [at for at, _ in flat]
    return lists_of([len(added) for added in of_runs], columns, structs(**block_types(rows)[name]))
