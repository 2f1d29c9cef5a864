"""Converts the tables of nodes, messages and application calls to Arrow columns and back.

The body of a message is a JSON document, because the message classes of a program have different fields.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from itertools import accumulate
from operator import attrgetter
from typing import Annotated, Any

import pyarrow as pa

from udfs.nodes.calls import CALLS, Call, PublishCall
from udfs.nodes.context import Internal, Watched
from udfs.nodes.fields import decoder_of, json_writer, sql_of
from udfs.nodes.program import Declared, NodeProgram, Plan
from udfs.nodes.records import HEAD, hidden_of, key_of, record, spec_of
from udfs.nodes.world import ProgramError, RunningNode

_LONG, _TEXT = pa.int64(), pa.string()


def structs(**fields: pa.DataType) -> pa.DataType:
    """Returns the Arrow type of a list of structs with the fields `fields`."""
    return pa.list_(pa.struct(list(fields.items())))


NODE: Mapping[str, pa.DataType] = {"node_id": _LONG, "started_round": _LONG, "wake_round": _LONG}
"""The columns of a node that is up, except its tables."""
CALL: Mapping[str, pa.DataType] = {
    "kind": _TEXT, "source_seq": _LONG, "round": _LONG, "subscription_id": _LONG, "join_point": _LONG, "topic": _TEXT,
    "guarantee": _TEXT, "keys": pa.list_(_TEXT), "peer": _LONG, "role": _TEXT,
}  # fmt: skip
CARRIED: Mapping[str, pa.DataType] = {"source": _LONG, "source_seq": _LONG, "body": _TEXT, "hidden": _TEXT}
"""The content columns of a message: the call that caused it, and its body and hidden fields as JSON."""
FLIGHT: Mapping[str, pa.DataType] = {
    "message_id": _LONG, "kind": _TEXT, "src": _LONG, "dst": _LONG, "sent_round": _LONG, "due_round": _LONG,
    "fate": _TEXT, **CARRIED,
}  # fmt: skip
"""The columns of a message in flight."""
COUNTED = pa.list_(_LONG)
"""The type of column ``counted``: for each `NthFault` of the run, the number of messages that have matched it."""
PLAYED: Mapping[str, pa.DataType] = {"run_id": _LONG, "last_played": _LONG, "counted": COUNTED}
"""The columns of a run after a block, except lists of rows. ``last_played`` is the last round with an event."""
_AT = {"node_id": _LONG, "round": _LONG}
EVENTS: Mapping[str, Mapping[str, pa.DataType]] = {
    "in_flight": FLIGHT,
    "handled": FLIGHT,
    "delivery": _AT | {"source": _LONG, "source_seq": _LONG, "latency_rounds": _LONG, "hops": _LONG},
    "statuses": _AT | {"status": _TEXT},
    "events": {"source": _LONG, "source_seq": _LONG, "round": _LONG, "event": _TEXT},
}
"""The list columns of messages and history rows of a run after a block, and the struct fields of each column."""


@record(key="name,key")
class Timer:
    """A timer that a node has set."""

    name: Annotated[str, "name of the timer: its purpose"]
    key: Annotated[int, "number that distinguishes timers with equal names"]
    round: Annotated[int, "the round in which the timer expires"]


OWN: Mapping[str, Declared] = {"timer": Declared("keyed", Timer, False), "watch": Declared("keyed", Watched, False)}
"""The tables of the runtime: the timers and watches of a node."""
RESERVED = frozenset({*PLAYED, "node_id", "nodes", *EVENTS, *OWN})
"""The names that a program may not declare: they are columns of a run after a block, or of a node."""


class ProgramColumns:
    """Converts the nodes of a program to Arrow columns and back."""

    def __init__(self, program: type[NodeProgram]) -> None:
        """Reads the declarations of `program`.

        Raises:
            TypeError: A declaration has a name in `RESERVED`, or a field of a record has the name of another column of
                its table (``run_id``, ``node_id`` or ``position``).
        """
        self.plan = Plan.of(program)
        for name, one in program.declared.items():
            if name in RESERVED:
                raise TypeError(f"{program.__name__}.{name} needs another name; taken: {', '.join(sorted(RESERVED))}")
            own = _own_columns(one)
            if taken := own.keys() & spec_of(one.record).types.keys():
                field = f"{one.record.__name__}.{min(taken)}"
                raise TypeError(f"{field} needs another name; taken in table {name}: {', '.join(own)}")
        self.messages = Messages(self.plan)
        self.tables: Mapping[str, Declared] = {**OWN, **self.plan.volatile, **self.plan.durable}

    def rows(self, name: str, node: RunningNode) -> Sequence[Any]:
        """Returns the rows of table `name` of a node that is up, in stored order."""
        if name == "timer":
            return [Timer(*timer, at) for timer, at in sorted(node.internal.timers.items())]
        if name == "watch":
            return [watch for _, watch in sorted(node.internal.watched.items())]
        return rows_of_value(self.tables[name], getattr(node.program, name))

    def node(self, started_round: int, values: dict[str, Any]) -> RunningNode:
        """Returns a running node with the tables `values`, including `OWN`. An attribute without a value is initial."""
        timers, watched = values.pop("timer", {}), values.pop("watch", {})
        program = self.plan.program()
        program.set(values)
        expiries = {key: one.round for key, one in timers.items()}
        return RunningNode(program, Internal(started_round, expiries, dict(watched.items())))


def rows_of_value(declared: Declared, value: Any) -> Sequence[Any]:  # noqa: ANN401 - of any declaration
    """Returns the rows of `value`, a value of attribute `declared`, in stored order.

    Raises:
        ProgramError: A keyed attribute maps a key to a record with another key. The store keeps the records only, so
            the key would change in the next block of rounds.
    """
    rows = declared.rows(value) if value else ()
    if declared.form == "keyed" and rows:
        try:
            keys = [*map(key_of(declared.record), rows)]
        except AttributeError:
            return rows  # a value of another class, which `record_columns` rejects
        if keys != [*value]:
            key, own, row = next(one for one in zip(value, keys, rows, strict=True) if one[0] != one[1])
            raise ProgramError(f"the program keeps {row!r} under the key {key!r}; allowed: its key {own!r}")
    return rows


def values_by_node(declared: Declared, column: pa.Array) -> list[dict[int, Any]]:
    """Decodes attribute `declared`: returns, for each run, a dict from node id to value.

    `column` has one list of rows per run, in the schema of the attribute's table (`table_schema`) without ``run_id``.
    Rows of an ordered table are sorted by position. Nodes without rows have no entry.
    """
    values, types = column.flatten(), spec_of(declared.record).types
    if not len(values):
        return [{} for _ in range(len(column))]
    columns = [values.field(name).to_pylist() for name in ("node_id", *types)]
    for index, kind in enumerate(types.values(), 1):
        if kind.decode is not None:
            columns[index] = [*map(kind.decode, columns[index])]
    rows = [*zip(columns[0], map(declared.record, *columns[1:]), strict=True)]
    found = []
    for of_run in cut_lists(column, rows):
        by_node: dict[int, list[Any]] = {}
        for node, row in of_run:
            by_node.setdefault(node, []).append(row)
        found.append({node: declared.value(of_node) for node, of_node in by_node.items()})
    return found


_COLUMNS: dict[type[NodeProgram], ProgramColumns] = {}


def rows_of(program: type[NodeProgram]) -> ProgramColumns:
    """Returns the `ProgramColumns` of `program`. The result is cached."""
    if program not in _COLUMNS:
        _COLUMNS[program] = ProgramColumns(program)
    return _COLUMNS[program]


def as_call(values: Sequence[Any], matches: tuple[int, ...] = ()) -> Call:
    """Converts a row, the values of columns `CALL`, to a call.

    A publication gets `matches`, the subscriptions that it satisfies. Calls of other kinds ignore `matches`.
    """
    given = dict(zip(CALL, values, strict=True)) | {"matches": matches}
    cls = CALLS[given["kind"]]
    if cls is PublishCall:
        given["keys"] = tuple(given["keys"] or ())
    return cls(**{one.name: given[one.name] for one in fields(cls)})


def calls_by_node(rows: Iterable[Sequence[Any]]) -> dict[int, list[Call]]:
    """Returns the calls of each node in order of issue, from rows with column ``node_id`` and columns `CALL`."""
    found: dict[int, list[Call]] = {}
    for node, *values in sorted(rows, key=lambda row: (row[0], row[2])):
        found.setdefault(node, []).append(as_call(values))
    return found


def list_rows(column: pa.Array) -> list[list[tuple[Any, ...]]]:
    """Returns each list of a list-of-structs column as a list of tuples; a null becomes an empty list."""
    values = column.flatten()
    rows = list(zip(*(values.field(place).to_pylist() for place in range(values.type.num_fields)), strict=True))
    return cut_lists(column, rows)


def cut_lists(column: pa.Array, rows: list[Any]) -> list[list[Any]]:
    """Splits `rows` into consecutive lists with the lengths of the lists in `column`. A null has length 0."""
    found, start = [], 0
    for n_rows in column.value_lengths().to_pylist():
        end = start + (n_rows or 0)
        found.append(rows[start:end])
        start = end
    return found


def as_lists(of_nodes: Iterable[Sequence[Any]], kind: pa.DataType) -> pa.Array:
    """Returns lists of tuples, in the order of the struct fields, as a column of type `kind`, a list of structs."""
    lists = list(of_nodes)
    flat = [row for rows in lists for row in rows]
    columns: Any = list(zip(*flat, strict=True)) or [()] * kind.value_type.num_fields
    names = [field.name for field in kind.value_type]
    return lists_of([len(rows) for rows in lists], dict(zip(names, columns, strict=True)), kind)


def lists_of(lengths: Sequence[int], columns: Mapping[str, Sequence[Any] | pa.Array], kind: pa.DataType) -> pa.Array:
    """Returns a column of lists of structs from flat columns.

    Args:
        lengths: The length of each list.
        columns: The values of each field, concatenated over all lists: Python values or an Arrow array.
        kind: The Arrow type of the column.

    Raises:
        ProgramError: A value does not have the type of its field.
    """
    fields = list(kind.value_type)
    arrays = [_array(columns[field.name], field) for field in fields]
    values = pa.StructArray.from_arrays(arrays, fields=fields)
    offsets = pa.array([0, *accumulate(lengths)], pa.int32())
    return pa.ListArray.from_arrays(offsets, values, type=kind)


def _array(values: Sequence[Any] | pa.Array, field: pa.Field) -> pa.Array:
    try:
        return values if isinstance(values, pa.Array) else pa.array(values, field.type)
    except (pa.ArrowException, OverflowError, TypeError, UnicodeEncodeError) as error:
        raise ProgramError(f"a value of {field.name} is not of type {sql_of(field.type)}: {error}") from error


def record_columns(one: Declared, records: Sequence[Any]) -> dict[str, list[Any]]:
    """Returns the values of each field of `records`, which belong to declaration `one`, by field name.

    Raises:
        ProgramError: A record or a value does not have the declared type.
    """
    found = {}
    try:
        for name, kind in spec_of(one.record).types.items():
            found[name] = [*map(kind.encode, map(attrgetter(name), records))]
    except (TypeError, AttributeError) as error:
        raise _unfit(records, error, (one.record,)) from error
    return found


def _own_columns(one: Declared) -> dict[str, pa.DataType]:
    return {"run_id": pa.int64(), "node_id": pa.int64()} | ({"position": pa.int64()} if one.form == "ordered" else {})


def table_schema(one: Declared) -> pa.Schema:
    """Returns the Arrow schema of the table of declaration `one`."""
    return pa.schema(
        [*_own_columns(one).items(), *((name, kind.arrow) for name, kind in spec_of(one.record).types.items())]
    )


_Text = Callable[[Any], str | None]
_of_text = json.JSONDecoder().decode


class Messages:
    """Converts the messages of a program to columns `CARRIED` and back."""

    def __init__(self, plan: Plan) -> None:
        """Compiles a JSON writer and a reader for each message class."""
        self._body, self._hidden = dict[type, _Text](), dict[type, _Text]()
        for cls in plan.kinds.values():
            types, hidden = spec_of(cls).types, hidden_of(cls)
            body = {name: kind for name, kind in types.items() if name not in {*HEAD, *hidden}}
            apart = {name: kind for name, kind in types.items() if name in hidden}
            self._body[cls] = json_writer(body) if body else _nothing
            self._hidden[cls] = json_writer(apart) if apart else _nothing
        self._classes = {kind: decoder_of(cls) for kind, cls in plan.kinds.items()}

    def columns(self, messages: Sequence[Any], *, are_whole: bool = True) -> dict[str, Sequence[Any]]:
        """Returns `messages` as columns `CARRIED`. If not `are_whole`, column ``hidden`` is null, as in the history.

        Raises:
            ProgramError: A value does not have the type of its field.
        """
        source, source_seq = ([getattr(one, name, None) for one in messages] for name in HEAD)
        try:
            body = [self._body[type(one)](one) for one in messages]
            hidden = [self._hidden[type(one)](one) if are_whole else None for one in messages]
        except (TypeError, AttributeError) as error:
            raise _unfit(messages, error, tuple(self._body)) from error
        return {"source": source, "source_seq": source_seq, "body": body, "hidden": hidden}

    def message(
        self, kind: str, source: int | None, source_seq: int | None, body: str | None, hidden: str | None
    ) -> Any:  # noqa: ANN401 - any message class
        """Returns the message of kind `kind`. The other parameters are its columns `CARRIED`."""
        given = {} if body is None else _of_text(body)
        if hidden is not None:
            given |= _of_text(hidden)
        given["source"], given["source_seq"] = source, source_seq
        return self._classes[kind](given)


def _nothing(_: object) -> None:
    """Returns None: the value of ``body`` or ``hidden`` if the message class has no fields for this column."""


def _unfit(rows: Iterable[Any], error: Exception, classes: tuple[type, ...]) -> ProgramError:
    """Returns the error for the value in `rows` that caused `error`. The error message names the field or the class."""
    for row in rows:
        if not isinstance(row, classes):
            return ProgramError(f"the program keeps {row!r}; allowed: {', '.join(one.__name__ for one in classes)}")
        cls: Any = type(row)
        for name, kind in spec_of(cls).types.items():
            try:
                kind.encode(getattr(row, name))
            except (TypeError, AttributeError):
                return ProgramError(f"{cls.__name__}.{name} is {getattr(row, name)!r}; allowed: {kind.sql}")
    return ProgramError(str(error))
