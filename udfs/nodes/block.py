"""Arrow functions that execute a block: consecutive rounds of whole runs.

An input row is one run before the block: its overlay and faults, its nodes and messages in flight, and the calls of the
block. The result row is the run after the block: its nodes, its messages in flight, and the history rows of the block.
`network` executes the rounds in plain Python.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from udfs.batches import Mapped
from udfs.nodes.arrow import (
    CARRIED,
    COUNTED,
    EVENTS,
    FLIGHT,
    NODE,
    PLAYED,
    ProgramColumns,
    as_call,
    as_lists,
    calls_by_node,
    list_rows,
    lists_of,
    record_columns,
    rows_of,
    rows_of_value,
    structs,
    table_schema,
    values_by_node,
)
from udfs.nodes.calls import Call
from udfs.nodes.link_faults import Fault, NthFault, RunLinkFaults
from udfs.nodes.matching import COMPARISON, Matcher, values_of
from udfs.nodes.network import HistoryRows, Network, RunInput
from udfs.nodes.processes import rare_collections
from udfs.nodes.program import Declared, NodeProgram
from udfs.nodes.run import LinkReplacement, NodeInterval, NodeIntervals
from udfs.nodes.world import Flight, NodeInfo, ProgramError, program_error

_LONG = pa.int64()
_BATCH_ROWS = 20_000
GIVEN: Mapping[str, tuple[str, ...]] = {
    "links": ("src", "dst", "latency_rounds"),
    "crashes": ("node_id", "round", "end_round"),
    "pauses": ("node_id", "round", "end_round"),
    "link_faults": ("src", "dst", "round", "end_round", *Fault._fields),
    "sides": ("node_id", "round", "end_round", "side"),
    "nth": NthFault._fields,
    "subscriptions": ("subscription_id", "subscriber", "predicate"),
    "comparisons": COMPARISON,
    "replacements": LinkReplacement._fields,
}
"""The list columns of a run's input, and the struct fields of each column. A list may be null. Module `link_faults`
describes the faults.
"""
OVERLAY = ("node_id", "name", "role")
"""The struct fields of a node in the input of the first block."""
_ROWS: Mapping[str, Mapping[str, pa.DataType]] = {"nodes": NODE, **EVENTS}
_DUE = list(FLIGHT).index("due_round")


def shown_type(one: Declared) -> dict[str, pa.DataType]:
    """Returns the Arrow type of each column of the table of declaration `one`, except ``run_id``."""
    return {field.name: field.type for field in table_schema(one) if field.name != "run_id"}


def block_schema(rows: ProgramColumns) -> pa.Schema:
    """Returns the schema of the result rows of a block: columns `PLAYED`, and a list column for each kind of row."""
    tables = {name: shown_type(one) for name, one in {**rows.plan.appended, **rows.tables}.items()}
    lists = {name: structs(**types) for name, types in {**_ROWS, **tables}.items()}
    return pa.schema([*PLAYED.items(), *lists.items()])


class BlockRun(NamedTuple):
    """A run before a block, which ends with round `last`.

    Attributes:
        run: The run id.
        network: The nodes and messages in flight.
        history: The history rows of the block; before the first block, the initial statuses and appended rows.
        last: The last round of the block.
        faults: The link faults, or None if the run has no link faults.
    """

    run: int
    network: Network
    history: HistoryRows
    last: int
    faults: RunLinkFaults | None


def block_of(program: type[NodeProgram]) -> Mapped:
    """Returns the Arrow function that executes a block.

    An input row is one run, and has the columns:

    - ``run_id``, ``settings`` (JSON), ``last`` (the last round of the block), and ``may_duplicate``;
    - the list columns `GIVEN`;
    - ``calls`` of the block (node_id and `arrow.CALL`), and ``attributes`` of publications (`matching.ATTRIBUTE`).

    The rows of the first block, which starts the runs, also have the columns:

    - ``overlay`` (`OVERLAY`) and ``all_calls`` (fields of ``calls``).

    The rows of a later block also have the columns:

    - ``after``: the last round of the previous block;
    - ``nodes`` (`arrow.NODE`): the nodes that are up;
    - a list column for each table of `ProgramColumns.tables`, with the fields of its `shown_type`; only tables of
      durable state have rows of nodes that are down;
    - ``in_flight`` (`arrow.FLIGHT`): messages; those that are due up to round ``after`` are ignored;
    - ``counted`` (`arrow.COUNTED`).

    A result row has the columns of `block_schema`.
    """

    def play(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = rows_of(program)
        for batch in batches:
            upcoming = (_begun if "overlay" in batch.schema.names else _resumed)(rows, batch)
            while (result := _next_batch(rows, upcoming)) is not None:
                yield result

    return play


@rare_collections()  # the function drops the executed runs before the GC thresholds are lowered
def _next_batch(rows: ProgramColumns, upcoming: Iterator[BlockRun]) -> pa.RecordBatch | None:
    """Returns the result rows of the next runs, with `_BATCH_ROWS` messages or more; None if no runs remain."""
    runs, n_rows = list[BlockRun](), 0
    for one in upcoming:
        try:
            one.network.play(one.last, one.history)
        except Exception:
            raise
        except BaseException as error:  # a handler raised it: in workers and threads, no signal raises an exception
            raise program_error(error) from error
        runs.append(one)
        n_rows += len(one.history.handled)
        if n_rows > _BATCH_ROWS:
            break
    try:
        result = _result_rows(rows, runs) if runs else None
    except ProgramError as error:
        raise _error_of_run(rows, runs) or error from error
    for one in runs:
        one.network.close()
    return result


def _error_of_run(rows: ProgramColumns, runs: Sequence[BlockRun]) -> ProgramError | None:
    """Returns the error for the first run and node whose rows cannot be stored."""
    for one in runs:
        nodes = sorted({*one.network.nodes, *one.network.down})
        found = _refusal(rows, one, nodes)
        if found is None:
            continue
        while len(nodes) > 1:
            half = nodes[: len(nodes) // 2]
            nodes = nodes[len(nodes) // 2 :] if _refusal(rows, one, half) is None else half
        where = f"run {one.run}, node {nodes[0]}, up to round {one.network.last_played}"
        return ProgramError(f"{where}: {_refusal(rows, one, nodes) or found}")
    return None


def _refusal(rows: ProgramColumns, one: BlockRun, nodes: Collection[int]) -> ProgramError | None:
    try:
        _result_rows(rows, [one._replace(network=one.network.of_nodes(nodes), history=one.history.of_nodes(nodes))])
    except ProgramError as error:
        return error
    return None


def _begun(rows: ProgramColumns, batch: pa.RecordBatch) -> Iterator[BlockRun]:
    overlays, called = list_rows(batch.column("overlay")), list_rows(batch.column("all_calls"))
    lasts = batch.column("last").to_pylist()
    for place, (given, faults) in enumerate(_given(batch, [()] * batch.num_rows)):
        nodes = {node: NodeInfo(node, name, role) for node, name, role in sorted(overlays[place])}
        calls = calls_by_node(called[place])
        yield BlockRun(given.run, *Network.begun(rows.plan, given, nodes, calls), lasts[place], faults)


def _resumed(rows: ProgramColumns, batch: pa.RecordBatch) -> Iterator[BlockRun]:
    nodes, flights = list_rows(batch.column("nodes")), list_rows(batch.column("in_flight"))
    rounds, lasts = batch.column("after").to_pylist(), batch.column("last").to_pylist()
    values: list[defaultdict[int, dict[str, Any]]] = [defaultdict(dict) for _ in nodes]
    for name, one in rows.tables.items():
        for of_run, by_node in zip(values, values_by_node(one, batch.column(name)), strict=True):
            for at, value in by_node.items():
                of_run[at][name] = value
    empty = {name: one.empty for name, one in rows.plan.durable.items()}
    for place, (given, faults) in enumerate(_given(batch, batch.column("counted").to_pylist())):
        after, of_run = rounds[place], values[place]
        up = {at: rows.node(started, of_run[at]) for at, started, _ in nodes[place]}
        kept = {
            at: {name: of_run[at].get(name) or value() for name, value in empty.items()}
            for at in given.crashes.nodes_at(after)
        }
        in_flight = [_flight(rows, *row) for row in flights[place] if row[_DUE] > after]
        yield BlockRun(
            given.run, Network(rows.plan, given, up, in_flight, after, kept), HistoryRows(), lasts[place], faults
        )


def _given(
    batch: pa.RecordBatch, counted: Sequence[Sequence[int]]
) -> Iterator[tuple[RunInput, RunLinkFaults | None]]:  # fmt: skip
    """Yields the input and the link faults of each run in `batch`. Argument `counted` is its column ``counted``."""
    heads = (batch.column(name).to_pylist() for name in ("run_id", "settings", "may_duplicate"))
    lists = {name: list_rows(batch.column(name)) for name in (*GIVEN, "calls", "attributes")}
    for place, (run, settings, may_duplicate) in enumerate(zip(*heads, strict=True)):
        crashes, pauses = (
            NodeIntervals(NodeInterval(*row) for row in lists[name][place]) for name in ("crashes", "pauses")
        )
        on_links, sides, nth = (lists[name][place] for name in ("link_faults", "sides", "nth"))
        is_any = bool(on_links or sides or nth)
        faults = RunLinkFaults(on_links, sides, nth, counted[place] or ()) if is_any else None
        given = RunInput(
            run, json.loads(settings), {(src, dst): latency for src, dst, latency in sorted(lists["links"][place])},
            _by_round(*(lists[name][place] for name in ("calls", "attributes", "comparisons"))), crashes, pauses,
            None if faults is None else faults.strike, may_duplicate,
            {number: node for number, node, _ in lists["subscriptions"][place]},
            {number: predicate for number, _, predicate in lists["subscriptions"][place]},
            [LinkReplacement(*row) for row in lists["replacements"][place]],
        )  # fmt: skip
        yield given, faults


def _by_round(
    called: Sequence[Sequence[Any]], attributes: Sequence[tuple[Any, ...]], comparisons: Sequence[tuple[Any, ...]]
) -> dict[int, dict[int, list[Call]]]:  # fmt: skip
    matcher, values = Matcher(comparisons if attributes else ()), values_of(attributes)
    found: dict[int, dict[int, list[Call]]] = {}
    for node, kind, seq, *others in called:
        matches = matcher.matches(values[node, seq]) if kind == "publish" and (node, seq) in values else ()
        call = as_call((kind, seq, *others), matches)
        found.setdefault(call.round, {}).setdefault(node, []).append(call)
    return found


def _flight(rows: ProgramColumns, *columns: Any) -> Flight:  # noqa: ANN401
    head, carried = columns[: -len(CARRIED)], columns[-len(CARRIED) :]
    return Flight._make((*head, rows.messages.message(columns[1], *carried)))


def _result_rows(rows: ProgramColumns, runs: Sequence[BlockRun]) -> pa.RecordBatch:
    columns: dict[str, pa.Array] = {
        "run_id": pa.array([one.run for one in runs], _LONG),
        "last_played": pa.array([one.network.last_played for one in runs], _LONG),
        "counted": pa.array([None if one.faults is None else one.faults.counted for one in runs], COUNTED),
        **_table_lists(rows, runs),
        "in_flight": _flight_lists(rows, [one.network.flights for one in runs], are_whole=True),
        "handled": _flight_lists(rows, [one.history.handled for one in runs], are_whole=False),
    }
    flat: dict[str, list[list[Any]]] = {
        "delivery": [[(at, round_, *what) for at, round_, what in one.history.delivered] for one in runs],
        "statuses": [one.history.statuses for one in runs],
        "events": [one.history.calls for one in runs],
        "nodes": [_node_rows(one.network) for one in runs],
    }
    for name, of_runs in flat.items():
        columns[name] = as_lists(of_runs, structs(**_ROWS[name]))
    schema = block_schema(rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in schema.names], schema=schema)


def _node_rows(network: Network) -> list[tuple[int, int, int | None]]:
    internals = ((at, node.internal) for at, node in sorted(network.nodes.items()))
    return [(at, internal.started_round, internal.wake_round) for at, internal in internals]


def _flight_lists(rows: ProgramColumns, of_runs: Sequence[Sequence[Flight]], *, are_whole: bool) -> pa.Array:
    flat = [flight for flights in of_runs for flight in flights]
    *heads, messages = zip(*flat, strict=True) if flat else [()] * len(Flight._fields)
    columns: dict[str, Sequence[Any]] = {**rows.messages.columns(messages, are_whole=are_whole)}
    columns |= dict(zip(Flight._fields[:-1], heads, strict=True))
    return lists_of([len(flights) for flights in of_runs], columns, structs(**FLIGHT))


def _table_lists(rows: ProgramColumns, runs: Sequence[BlockRun]) -> dict[str, pa.Array]:
    """Returns a column for each table. A node that is down has rows in the tables of its durable state only."""
    found = {}
    nodes = [(sorted(one.network.nodes.items()), sorted(one.network.down.items())) for one in runs]
    for name, one in {**rows.plan.appended, **rows.tables}.items():
        of_runs = list[list[tuple[int, Sequence[Any]]]]()
        for run, (up, down) in zip(runs, nodes, strict=True):
            of_run: list[tuple[int, Sequence[Any]]]
            if one.form == "appended":
                of_run = [(at, (row,)) for at, row in run.history.appended.get(name, ())]
            else:
                of_run = [(at, rows.rows(name, node)) for at, node in up]
            if name in rows.plan.durable:
                of_run += [(at, rows_of_value(one, kept[name])) for at, kept in down]
            of_runs.append(of_run)
        full = [of_node for of_run in of_runs for of_node in of_run]
        columns = record_columns(one, [row for _, of_node in full for row in of_node])
        columns["node_id"] = [at for at, of_node in full for _ in of_node]
        if one.form == "ordered":
            columns["position"] = [position for _, of_node in full for position in range(len(of_node))]
        lengths = [sum(len(of_node) for _, of_node in of_run) for of_run in of_runs]
        found[name] = lists_of(lengths, columns, structs(**shown_type(one)))
    return found
