"""Nodes, messages and what nodes do as Arrow columns, and back.

A node is one row: what the harness keeps of it, and for each declaration of its program a list of structs. What it does
in a round are lists of that row, too, so that nothing is collected, sorted or exploded but what is due.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from typing import Any

import pyarrow as pa

from udfs.nodes.context import Context, Internal, Watch
from udfs.nodes.fields import FieldType
from udfs.nodes.program import Call, Declared, NodeProgram, Plan
from udfs.nodes.records import HEAD, kind_of, spec_of
from udfs.nodes.step import NodeDown, Received
from udfs.nodes.world import Node

_LONG, _TEXT = pa.int64(), pa.string()


def _structs(**fields: pa.DataType) -> pa.DataType:
    return pa.list_(pa.struct([pa.field(name, kind) for name, kind in fields.items()]))


TIMERS = _structs(name=_TEXT, key=_LONG, round=_LONG)
WATCHED = _structs(peer=_LONG, latency_rounds=_LONG, round=_LONG)
INTERNAL: Mapping[str, pa.DataType] = {
    "started_round": _LONG, "wake_round": _LONG, "timers": TIMERS, "watched": WATCHED,
}  # fmt: skip
"""What the harness keeps of a node that is up."""
CALL: Mapping[str, pa.DataType] = {
    "kind": _TEXT, "source_seq": _LONG, "round": _LONG, "subscription_id": _LONG, "join_point": _LONG, "topic": _TEXT,
    "guarantee": _TEXT, "keys": pa.list_(_TEXT), "matches": pa.list_(_LONG),
}  # fmt: skip
DONE: Mapping[str, pa.DataType] = {
    "delivered": _structs(source=_LONG, source_seq=_LONG, latency_rounds=_LONG, hops=_LONG),
    "statuses": pa.list_(_TEXT), "confirmed": pa.list_(_LONG), "connected": WATCHED,
    "fates": _structs(message_id=_LONG, fate=_TEXT),
}  # fmt: skip
"""What a node does in a round, beside what it sends and adds."""
_OF_CALL = {"source": _LONG, "source_seq": _LONG}
_SENT = {"position": _LONG, "kind": _TEXT, "dst": _LONG, **_OF_CALL, "latency_rounds": _LONG}
_RECEIVED = {"message_id": _LONG, "kind": _TEXT, "src": _LONG, "sent_round": _LONG, **_OF_CALL}


class Messages:
    """The messages of a program as columns: what all have in common, and the payload that any of them has."""

    def __init__(self, plan: Plan) -> None:
        """Joins the fields of all messages by name.

        Raises:
            TypeError: Two messages have a field of one name with different types.
        """
        classes = {**plan.kinds, plan.program.down_kind: NodeDown}
        self._fields: dict[str, dict[str, FieldType]] = {kind: spec_of(cls).types for kind, cls in classes.items()}
        self._classes = classes
        self._encoders = {cls: _encoders(cls) for cls in classes.values()}
        self.comments: dict[str, str] = {}
        self.payload: dict[str, FieldType] = {}
        for kind, types in self._fields.items():
            for name, type_ in types.items():
                known = self.payload.get(name, type_)
                if known.arrow != type_.arrow:
                    raise TypeError(
                        f"field {name!r} of message {kind} is {type_.sql}, and {known.sql} elsewhere; allowed: one type"
                    )
                if name not in HEAD:
                    self.payload[name] = type_

    def shown(self, kind: str) -> list[str]:
        """Returns the fields of a kind that its body shows."""
        return [name for name in self._fields[kind] if name not in HEAD]

    def sent_type(self) -> pa.DataType:
        """Returns the type of what a node sends in a round."""
        return _structs(**_SENT, **{name: kind.arrow for name, kind in self.payload.items()})

    def received_type(self) -> pa.DataType:
        """Returns the type of what is due at a node in a round."""
        return _structs(**_RECEIVED, **{name: kind.arrow for name, kind in self.payload.items()})

    def columns(self, messages: Sequence[Any]) -> dict[str, list[Any]]:
        """Returns messages as columns: the call that each serves, and the payload."""
        found: dict[str, list[Any]] = {name: [None] * len(messages) for name in (*HEAD, *self.payload)}
        for place, message in enumerate(messages):
            for name, encode in self._encoders[type(message)]:
                value = getattr(message, name)
                found[name][place] = value if encode is None else encode(value)
        return found

    def kind(self, message: Any) -> str:  # noqa: ANN401 - any message class
        """Returns the kind of a message."""
        return self._down if type(message) is NodeDown else kind_of(type(message))

    @property
    def _down(self) -> str:
        return next(kind for kind, cls in self._classes.items() if cls is NodeDown)

    def messages(self, kinds: Sequence[str], columns: Mapping[str, Sequence[Any]]) -> list[Any]:
        """Returns the messages that columns stand for."""
        readers = {kind: self._reader(kind, columns) for kind in set(kinds)}
        return [readers[kind](place) for place, kind in enumerate(kinds)]

    def _reader(self, kind: str, columns: Mapping[str, Sequence[Any]]) -> Any:  # noqa: ANN401
        cls, given = self._classes[kind], [(columns[name], type_.decode) for name, type_ in self._fields[kind].items()]
        if all(decode is None for _, decode in given):
            plain = [values for values, _ in given]
            return lambda place: cls(*(values[place] for values in plain))
        return lambda place: cls(
            *(values[place] if decode is None else decode(values[place]) for values, decode in given)
        )


@cache
def _encoders(cls: Any) -> list[tuple[str, Any]]:  # noqa: ANN401 - a class
    return [(name, kind.encode) for name, kind in spec_of(cls).types.items()]


@cache
def struct_type(cls: type) -> pa.DataType:
    """Returns the type of a record's rows at a node."""
    return _structs(**{name: kind.arrow for name, kind in spec_of(cls).types.items()})


class Rows:
    """The nodes of a program as columns."""

    def __init__(self, program: type[NodeProgram]) -> None:
        """Reads the declarations."""
        self.plan = Plan.of(program)
        self.messages = Messages(self.plan)
        declared = program.declared
        self.volatile = {n: one for n, one in declared.items() if one.form != "appended" and not one.is_durable}
        self.durable = {n: one for n, one in declared.items() if one.form != "appended" and one.is_durable}
        self.appended = {n: one for n, one in declared.items() if one.form == "appended"}

    @property
    def state(self) -> dict[str, pa.DataType]:
        """The columns of a node that is up: what the harness keeps, and what does not survive a crash."""
        return {**INTERNAL, **{name: struct_type(one.record) for name, one in self.volatile.items()}}

    @property
    def kept(self) -> dict[str, pa.DataType]:
        """The columns of what survives a crash."""
        return {name: struct_type(one.record) for name, one in self.durable.items()}

    @property
    def added(self) -> dict[str, pa.DataType]:
        """The columns of what nodes add in a round."""
        return {name: struct_type(one.record) for name, one in self.appended.items()}

    def nodes(self, batch: pa.RecordBatch) -> list[Node]:
        """Returns the nodes of rows with columns `state` and `kept`; all but `kept` is null where one has been down."""
        started = batch.column("started_round").to_pylist()
        timers, watched = (list_rows(batch.column(name)) for name in ("timers", "watched"))
        declared = {**self.volatile, **self.durable}
        states = {name: _records(one, batch.column(name)) for name, one in declared.items()}
        found: list[Node] = []
        for place, start in enumerate(started):
            program = self.plan.program()
            for name, values in states.items():
                setattr(program, name, declared[name].value(values[place]))
            found.append(Node(program, Internal(
                -1 if start is None else start,
                {(name, key): round_ for name, key, round_ in timers[place]},
                {peer: Watch(latency, round_) for peer, latency, round_ in watched[place]},
            )))  # fmt: skip
        return found

    def node_columns(self, nodes: Sequence[Node]) -> dict[str, pa.Array]:
        """Returns nodes as columns `state` and `kept`."""
        internal = [node.internal for node in nodes]
        columns = {
            "started_round": pa.array([one.started_round for one in internal], _LONG),
            "wake_round": pa.array([one.wake_round for one in internal], _LONG),
            "timers": as_lists(
                [[(name, key, at) for (name, key), at in sorted(one.timers.items())] for one in internal], TIMERS
            ),
            "watched": as_lists(
                [[(peer, *watch) for peer, watch in sorted(one.watched.items())] for one in internal], WATCHED
            ),
        }
        for name, one in {**self.volatile, **self.durable}.items():
            columns[name] = _column(one, [one.rows(getattr(node.program, name)) for node in nodes])
        return columns

    def sent_column(self, contexts: Sequence[Context]) -> pa.Array:
        """Returns what nodes send, one list a node."""
        sent = [one for ctx in contexts for one in ctx.sent]
        columns: dict[str, Sequence[Any]] = {
            "position": [place for ctx in contexts for place in range(len(ctx.sent))],
            "kind": [self.messages.kind(one.message) for one in sent],
            "dst": [one.dst for one in sent],
            "latency_rounds": [one.latency_rounds for one in sent],
            **self.messages.columns([one.message for one in sent]),
        }
        return lists_of([len(ctx.sent) for ctx in contexts], columns, self.messages.sent_type())

    def done_columns(self, contexts: Sequence[Context]) -> dict[str, pa.Array]:
        """Returns what nodes do in a round, one list a node."""
        watches = [[(peer, *ctx.watched[peer]) for peer in ctx.connected if peer in ctx.watched] for ctx in contexts]
        return {
            "delivered": as_lists([ctx.deliveries for ctx in contexts], DONE["delivered"]),
            "statuses": pa.array([ctx.statuses for ctx in contexts], DONE["statuses"]),
            "confirmed": pa.array([ctx.confirmed for ctx in contexts], DONE["confirmed"]),
            "connected": as_lists(watches, WATCHED),
            "fates": as_lists([ctx.fates for ctx in contexts], DONE["fates"]),
        }

    def added_columns(self, programs: Sequence[NodeProgram]) -> dict[str, pa.Array]:
        """Returns what nodes have added in a round, one list a node."""
        return {
            name: _column(one, [getattr(program, name) for program in programs]) for name, one in self.appended.items()
        }

    def record_column(self, one: Declared, records: Sequence[Any]) -> pa.StructArray:
        """Returns records of a declaration as structs."""
        return _column(one, [records]).flatten()

    def received(self, column: pa.Array) -> list[list[Received]]:
        """Returns what is due at nodes."""
        values = column.flatten()
        heads = {name: values.field(name).to_pylist() for name in _RECEIVED}
        payload = {name: values.field(name).to_pylist() for name in self.messages.payload}
        messages = self.messages.messages(heads["kind"], {**heads, **payload})
        rows = [
            Received(*row) for row in zip(
                heads["message_id"], heads["kind"], heads["src"], heads["sent_round"], messages, strict=True
            )
        ]  # fmt: skip
        return cut_lists(column, rows)


_ROWS: dict[type[NodeProgram], Rows] = {}


def rows_of(program: type[NodeProgram]) -> Rows:
    """Returns the columns of a program."""
    if program not in _ROWS:
        _ROWS[program] = Rows(program)
    return _ROWS[program]


@lru_cache(maxsize=1024)
def settings_of(text: str) -> Mapping[str, Any]:
    """Returns the settings of a run, which come as JSON."""
    found: Mapping[str, Any] = json.loads(text)
    return found


def calls(column: pa.Array) -> list[list[Call]]:
    """Returns the calls at nodes."""
    columns = {name: column.flatten().field(name).to_pylist() for name in CALL}
    for name in ("keys", "matches"):
        columns[name] = [tuple(value or ()) for value in columns[name]]
    return cut_lists(column, [Call(*row) for row in zip(*columns.values(), strict=True)])


def list_rows(column: pa.Array) -> list[list[tuple[Any, ...]]]:
    """Returns the rows of a column of lists of structs as tuples; nothing where the list is null."""
    values = column.flatten()
    rows = list(zip(*(values.field(place).to_pylist() for place in range(values.type.num_fields)), strict=True))
    return cut_lists(column, rows)


def cut_lists(column: pa.Array, rows: list[Any]) -> list[list[Any]]:
    """Cuts rows into those of each list of a column."""
    found, start = [], 0
    for n_rows in column.value_lengths().to_pylist():
        end = start + (n_rows or 0)
        found.append(rows[start:end])
        start = end
    return found


def as_lists(of_nodes: Iterable[Sequence[Any]], kind: pa.DataType) -> pa.Array:
    """Returns rows, as tuples in the order of the type's fields, as a column of lists of structs."""
    lists = list(of_nodes)
    flat = [row for rows in lists for row in rows]
    columns: Any = list(zip(*flat, strict=True)) or [()] * kind.value_type.num_fields
    names = [field.name for field in kind.value_type]
    return lists_of([len(rows) for rows in lists], dict(zip(names, columns, strict=True)), kind)


def lists_of(lengths: Sequence[int], columns: Mapping[str, Sequence[Any]], kind: pa.DataType) -> pa.Array:
    """Returns columns, cut into lists of some lengths, as a column of lists of structs."""
    fields = list(kind.value_type)
    arrays = [pa.array(list(columns[field.name]), field.type) for field in fields]
    values = pa.StructArray.from_arrays(arrays, fields=fields)
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values).cast(kind)


def _column(one: Declared, of_nodes: Sequence[Sequence[Any]]) -> pa.Array:
    """Returns the rows of a declaration, a list for each node, as a column."""
    flat = [row for rows in of_nodes for row in rows]
    columns = {
        name: [getattr(row, name) if encode is None else encode(getattr(row, name)) for row in flat]
        for name, encode in _encoders(one.record)
    }
    return lists_of([len(rows) for rows in of_nodes], columns, struct_type(one.record))


def _records(one: Declared, column: pa.Array) -> list[list[Any]]:
    """Returns the records of a declaration, a list for each node."""
    values, types = column.flatten(), spec_of(one.record).types
    columns = []
    for name, kind in types.items():
        read = values.field(name).to_pylist()
        columns.append(read if kind.decode is None else [kind.decode(value) for value in read])
    return cut_lists(column, [one.record(*row) for row in zip(*columns, strict=True)])
