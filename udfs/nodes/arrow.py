"""Converts nodes, messages and application calls to Arrow columns and back.

A node is one row. Between blocks of rounds, each table of a node is one JSON document, and so is the body of a message.
A program has about a hundred fields. Without JSON an engine would plan a column for each field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache, lru_cache
from itertools import accumulate
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import pyarrow as pa

from udfs.nodes.calls import CALLS, Call, PublishCall
from udfs.nodes.context import Internal, Watch
from udfs.nodes.fields import remembered, shown_name, sql_of, written
from udfs.nodes.program import Declared, NodeProgram, Plan
from udfs.nodes.records import HEAD, hidden_of, key_of, record, spec_of
from udfs.nodes.world import ProgramError, RunningNode

_LONG, _TEXT = pa.int64(), pa.string()


def structs(**fields: pa.DataType) -> pa.DataType:
    """Returns the Arrow type of a list of structs with the fields `fields`."""
    return pa.list_(pa.struct(list(fields.items())))


INTERNAL: Mapping[str, pa.DataType] = {
    "started_round": _LONG, "wake_round": _LONG, "volatile_tables": pa.list_(_TEXT),
}  # fmt: skip
"""The columns of a node that is up, except the columns of its durable state (`KEPT`).

Column ``volatile_tables`` has one JSON document for each declaration in `ProgramColumns.volatile`.
"""
KEPT: Mapping[str, pa.DataType] = {"durable_tables": pa.list_(_TEXT)}
"""The columns of the durable state of a node.

Column ``durable_tables`` has one JSON document for each declaration in `ProgramColumns.durable`.
"""
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
"""The columns of a run after a block that are no lists of rows. ``last_played`` is the last round with an event."""
_AT = {"node_id": _LONG, "round": _LONG}
EVENTS: Mapping[str, Mapping[str, pa.DataType]] = {
    "in_flight": FLIGHT,
    "handled": FLIGHT,
    "delivery": _AT | {"source": _LONG, "source_seq": _LONG, "latency_rounds": _LONG, "hops": _LONG},
    "statuses": _AT | {"status": _TEXT},
    "events": {"source": _LONG, "source_seq": _LONG, "round": _LONG, "event": _TEXT},
}
"""The struct fields of the lists of messages and history rows that a run has after a block."""


@record(key="name,key")
class Timer:
    """A timer that a node has set."""

    name: Annotated[str, "name of the timer: its purpose"]
    key: Annotated[int, "number that distinguishes timers with equal names"]
    round: Annotated[int, "the round in which the timer expires"]


@record(key="peer")
class Watched:
    """A node that another node watches for crashes."""

    peer: Annotated[int, "the watched node"]
    latency_rounds: Annotated[int, "latency of the connection to the watched node, in rounds"]
    round: Annotated[int, "the round in which the watch started"]


OWN: Mapping[str, Declared] = {"timer": Declared("keyed", Timer, False), "watch": Declared("keyed", Watched, False)}
"""The tables of the runtime: the timers and watches of a node."""
RESERVED = frozenset({*PLAYED, "node_id", "nodes", *EVENTS, *OWN})
"""The names that a program may not declare: they are columns of a run after a block, or of a node."""
TableRows = Sequence[Sequence[Any]]
"""The rows of each table of one node, one item for each table."""


class Tables(NamedTuple):
    """The table rows of several nodes. Each attribute contains one `TableRows` for each node.

    Attributes:
        volatile: The rows of the tables that a crash empties (`ProgramColumns.volatile`).
        durable: The rows of the tables that survive a crash (`ProgramColumns.durable`).
    """

    volatile: Sequence[TableRows]
    durable: Sequence[TableRows]


class ProgramColumns:
    """Converts the nodes of a program to Arrow columns and back."""

    def __init__(self, program: type[NodeProgram]) -> None:
        """Reads the declarations of `program`.

        Raises:
            TypeError: A declaration has the name of a column or table of the runtime (`RESERVED`), or a record has a
                field with the name of a column that all its tables have.
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
        self.volatile: Mapping[str, Declared] = {**OWN, **self.plan.volatile}
        self.durable: Mapping[str, Declared] = self.plan.durable

    @property
    def kept(self) -> Mapping[str, pa.DataType]:
        """The columns of durable state. Empty if the program declares no durable state."""
        return KEPT if self.durable else {}

    def nodes(self, batch: pa.RecordBatch) -> list[RunningNode]:
        """Returns the nodes in the rows of `batch`, which has columns `INTERNAL` and `kept`.

        A node that was down starts with its durable state only.
        """
        started = batch.column("started_round").to_pylist()
        volatile = batch.column("volatile_tables").to_pylist()
        durable = batch.column("durable_tables").to_pylist() if self.durable else [None] * len(started)
        return [self._node(*row) for row in zip(started, volatile, durable, strict=True)]

    def _node(
        self, started: int | None, volatile: list[str | None] | None, durable: list[str | None] | None
    ) -> RunningNode:
        found = self._values(self.volatile, volatile) | self._values(self.durable, durable)
        timers, watched = found.pop("timer", {}), found.pop("watch", {})
        program = self.plan.program()
        program.set(found)
        return RunningNode(program, Internal(
            -1 if started is None else started,
            {key: one.round for key, one in timers.items()},
            {peer: Watch(one.latency_rounds, one.round) for peer, one in watched.items()},
        ))  # fmt: skip

    def _values(self, declared: Mapping[str, Declared], texts: list[str | None] | None) -> dict[str, Any]:
        """Parses one JSON document in `texts` for each declaration. Returns the values of the attributes by name.

        A declaration without a document is missing in the result, so its attribute keeps the initial value.
        """
        if texts is None:
            return {}
        tables = zip(declared.items(), text_rows([one.record for one in declared.values()], texts), strict=True)
        return {name: one.value(rows) for (name, one), rows in tables if rows is not None}

    def tables(self, nodes: Sequence[RunningNode]) -> Tables:
        """Returns the rows of all tables of `nodes`."""
        return Tables([*map(self._volatile_rows, nodes)], [_rows(self.durable, node) for node in nodes])

    def node_columns(self, nodes: Sequence[RunningNode], tables: Tables) -> dict[str, pa.Array]:
        """Returns the columns `INTERNAL` and `kept` of `nodes`. `tables` contains the table rows of `nodes`."""
        columns = {
            "started_round": pa.array([node.internal.started_round for node in nodes], _LONG),
            "wake_round": pa.array([node.internal.wake_round for node in nodes], _LONG),
            "volatile_tables": _texts(self.volatile, tables.volatile),
        }
        return columns | ({"durable_tables": _texts(self.durable, tables.durable)} if self.durable else {})

    def _volatile_rows(self, node: RunningNode) -> TableRows:
        internal = node.internal
        timers = [Timer(name, key, at) for (name, key), at in sorted(internal.timers.items())]
        watched = [Watched(peer, *watch) for peer, watch in sorted(internal.watched.items())]
        return [timers, watched, *_rows(self.plan.volatile, node)]


def _rows(declared: Mapping[str, Declared], node: RunningNode) -> TableRows:
    given = ((one, getattr(node.program, name)) for name, one in declared.items())
    return [_rows_of(one, value) if value else () for one, value in given]


def _rows_of(declared: Declared, value: Any) -> Sequence[Any]:  # noqa: ANN401 - of any declaration
    """Returns the rows of `value`, a value of attribute `declared`, in stored order.

    Raises:
        ProgramError: A keyed attribute has a record under another key than that of the record. The store keeps no keys,
            so the record would have its own key in the next block of rounds.
    """
    rows = declared.rows(value)
    if declared.form == "keyed":
        try:
            keys = [*map(key_of(declared.record), rows)]
        except AttributeError:
            return rows  # a value of another class, which `rows_text` rejects
        if keys != [*value]:
            key, own, row = next(one for one in zip(value, keys, rows, strict=True) if one[0] != one[1])
            raise ProgramError(f"the program keeps {row!r} under the key {key!r}; allowed: its key {own!r}")
    return rows


def _texts(declared: Mapping[str, Declared], of_nodes: Iterable[TableRows]) -> pa.Array:
    """Returns a column with a list of JSON documents for each node: one document for each declaration in `declared`."""
    records = [one.record for one in declared.values()]
    documents = [
        [rows_text(record, rows) if rows else None for record, rows in zip(records, tables, strict=True)]
        for tables in of_nodes
    ]
    return pa.array(documents, pa.list_(_TEXT))


_COLUMNS: dict[type[NodeProgram], ProgramColumns] = {}


def rows_of(program: type[NodeProgram]) -> ProgramColumns:
    """Returns the `ProgramColumns` of `program`. The result is cached."""
    if program not in _COLUMNS:
        _COLUMNS[program] = ProgramColumns(program)
    return _COLUMNS[program]


@lru_cache(maxsize=1024)
def settings_of(text: str) -> Mapping[str, Any]:
    """Parses the JSON of a run's settings."""
    found: Mapping[str, Any] = json.loads(text)
    return found


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
    """Returns lists of tuples as a column of type `kind`, a list of structs.

    The values of each tuple are in the order of the struct fields.
    """
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
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise ProgramError(f"a value of {field.name} is not of type {sql_of(field.type)}: {error}") from error


def record_columns(one: Declared, records: Sequence[Any]) -> dict[str, list[Any]]:
    """Returns the values of each field of `records`, which belong to declaration `one`, by field name.

    Raises:
        ProgramError: A row is no record of the declared class.
    """
    try:
        return {
            name: [getattr(row, name) if encode is None else encode(getattr(row, name)) for row in records]
            for name, encode in encoders(one.record)
        }
    except (TypeError, AttributeError) as error:
        raise _unfit(records, error, (one.record,)) from error


def _own_columns(one: Declared) -> dict[str, pa.DataType]:
    return {"run_id": pa.int64(), "node_id": pa.int64()} | ({"position": pa.int64()} if one.form == "ordered" else {})


def table_schema(one: Declared) -> pa.Schema:
    """Returns the Arrow schema of the table of declaration `one`."""
    return pa.schema(
        [*_own_columns(one).items(), *((name, kind.arrow) for name, kind in spec_of(one.record).types.items())]
    )


_Convert = Callable[[Any], Any] | None
_Head = Callable[[Any], tuple[int | None, int | None]]
_Text = Callable[[Any], str | None]
_of_text = json.JSONDecoder().decode


def rows_text(record: type, rows: Iterable[Any]) -> str:
    """Returns records as a JSON array of objects.

    Raises:
        ProgramError: A value does not have the type of its field.
    """
    try:
        return f"[{','.join(map(_text(record), rows))}]"
    except (TypeError, AttributeError) as error:
        raise _unfit(rows, error, (record,)) from error


def text_rows(records: Sequence[type], texts: Sequence[str | None]) -> list[list[Any] | None]:
    """Parses one JSON document of `rows_text` for each table. Returns the records of each table.

    A document of ``None`` stands for an empty table. Its result is ``None``, too.
    """
    tables = _of_text(f"[{','.join([text or 'null' for text in texts])}]")
    return [None if rows is None else [*map(_made(cls), rows)] for cls, rows in zip(records, tables, strict=True)]


class Messages:
    """Converts the messages of a program to columns `CARRIED` and back."""

    def __init__(self, plan: Plan) -> None:
        """Compiles a JSON writer and a reader for each message class."""
        self._head, self._body, self._hidden = dict[type, _Head](), dict[type, _Text](), dict[type, _Text]()
        for cls in plan.kinds.values():
            types, hidden = spec_of(cls).types, hidden_of(cls)
            body = {name: kind for name, kind in types.items() if name not in {*HEAD, *hidden}}
            self._head[cls] = _head(*(name in types for name in HEAD))
            self._body[cls] = remembered(body) if body else _nothing
            self._hidden[cls] = written({name: types[name] for name in types if name in hidden}) if hidden else _nothing
        self._classes = {kind: _made(cls) for kind, cls in plan.kinds.items()}

    def columns(self, messages: Sequence[Any], *, are_whole: bool = True) -> dict[str, Sequence[Any]]:
        """Returns `messages` as columns `CARRIED`.

        Args:
            messages: The messages to convert.
            are_whole: Whether to fill column ``hidden``. Messages in flight need this column; the history omits it.

        Raises:
            ProgramError: A value does not have the type of its field.
        """
        heads = [self._head[type(one)](one) for one in messages]
        source, source_seq = map(list, zip(*heads, strict=True)) if heads else ([], [])
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


def _head(has_source: bool, has_seq: bool) -> _Head:
    """Returns a function that reads (source, source_seq) of a message, or ``None`` for a field that it lacks."""
    if has_source and has_seq:
        return attrgetter(*HEAD)
    return lambda one: (one.source if has_source else None, one.source_seq if has_seq else None)


def _nothing(_: object) -> None:
    """Returns None: the value of ``body`` or ``hidden`` if the message class has no fields for this column."""


@cache
def encoders(cls: type) -> list[tuple[str, _Convert]]:
    """Returns (field, encode function) for each field of a record or message class."""
    return [(name, kind.encode) for name, kind in spec_of(cls).types.items()]


def _unfit(rows: Iterable[Any], error: Exception, classes: tuple[type, ...]) -> ProgramError:
    """Returns the error for the value in `rows` that caused `error`. The error message names the field or the class."""
    for row in rows:
        if not isinstance(row, classes):
            return ProgramError(f"the program keeps {row!r}; allowed: {', '.join(one.__name__ for one in classes)}")
        cls: Any = type(row)
        for name, kind in spec_of(cls).types.items():
            try:
                written({name: kind})(row)
            except (TypeError, AttributeError):
                return ProgramError(f"{cls.__name__}.{name} is {getattr(row, name)!r}; allowed: {kind.sql}")
    return ProgramError(str(error))


@cache
def _text(cls: type) -> Callable[[Any], str]:
    return written(spec_of(cls).types)


@cache
def _made(cls: type) -> Callable[[dict[str, Any]], Any]:
    """Returns a function that constructs an object of class `cls` from a JSON object. Missing fields become None."""
    names = [shown_name(name) for name in spec_of(cls).types]
    decoded = [(shown_name(name), kind.decode) for name, kind in spec_of(cls).types.items() if kind.decode is not None]

    def made(given: dict[str, Any]) -> Any:  # noqa: ANN401
        for name, decode in decoded:
            given[name] = decode(given.get(name))
        return cls(*map(given.get, names))

    return made
