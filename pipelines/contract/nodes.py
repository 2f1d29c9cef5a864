"""Derives the tables of a protocol's form ``program`` from the declarations of its node program (`udfs.nodes`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.contract import protocol as declaration
from pipelines.contract.round import ProtocolForm, StateRelation
from pipelines.errors import NodeProgramError
from pipelines.tables import Table
from udfs.nodes.arrow import NODE, ProgramColumns, rows_of, table_schema
from udfs.nodes.program import Declared
from udfs.nodes.records import spec_of
from udfs.nodes.world import ProgramError

NODE_STATE = "node"
_COMMENTS = {
    "run_id": "the run, see table run",
    "node_id": "the node",
    "position": "index of the row among the rows of the node in this table, from 0",
    "started_round": "round in which the node started or recovered; -1: before the first round",
    "wake_round": "round in which the node's next timer expires; null: no timer is set",
}
_PAYLOAD = T.StructType([T.StructField("body", T.StringType()), T.StructField("hidden", T.StringType())])
_NODE = ("run_id", "node_id")


class ProgramForm(ProtocolForm):
    """The state relations and the message payload of a node program."""

    payload = _PAYLOAD
    body = "body"

    def __init__(self, protocol: declaration.Protocol) -> None:
        """Derives the state relations from the declarations of the protocol's program."""
        self.name, self.program = protocol.name, protocol.program
        self.shown = protocol.shown
        rows = rows_of(protocol.program)
        derived = ((record_table(one.name, one.record), one.of) for one in protocol.shown)
        self.states = [*_states(rows), *(StateRelation(table, derived_from=of) for table, of in derived)]


def program_states(protocol: declaration.Protocol) -> list[StateRelation]:
    """Returns the tables of a program as relations for dataflow steps.

    A crash deletes the rows of its node in all of these relations.
    """
    found = [one for one in ProgramForm(protocol).states if one.table.name != NODE_STATE]
    return [replace(one, derived_from=None, is_durable=False) for one in found]


def program_error(error: Exception, protocol: str) -> NodeProgramError | None:
    """Returns the failure of a handler that the engine's exception `error` reports, or None if no handler failed.

    The message names `protocol`.
    """
    _, found, rest = str(error).partition(f"{ProgramError.__name__}: ")
    return NodeProgramError(f"protocol {protocol}, " + rest.partition("\n")[0]) if found else None


def _states(rows: ProgramColumns) -> list[StateRelation]:
    schema = from_arrow_schema(pa.schema([("run_id", pa.int64()), *NODE.items()]))
    found = [StateRelation(Table(NODE_STATE, "a node that is up", _NODE, _commented(schema, _COMMENTS)))]
    declared = {**rows.plan.appended, **rows.tables}
    return [*found, *(StateRelation(_shown(name, one), is_durable=one.is_durable) for name, one in declared.items())]


def record_table(name: str, record: type) -> Table:
    """Returns the schema of a table that has one row for each key of a node; `record` is the class of the rows."""
    return _shown(name, Declared("keyed", record, is_durable=False))


def _shown(name: str, one: Declared) -> Table:
    spec, schema = spec_of(one.record), from_arrow_schema(table_schema(one))
    position = ["position"] if one.form == "ordered" else []
    return Table(name, spec.grain, (*_NODE, *position, *spec.key), _commented(schema, {**_COMMENTS, **spec.comments}))


def _commented(schema: T.StructType, comments: Mapping[str, str]) -> T.StructType:
    return T.StructType([
        T.StructField(field.name, field.dataType, True, {"comment": comments[field.name]}) for field in schema
    ])  # fmt: skip
