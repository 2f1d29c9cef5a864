"""What a block is given and what its rounds leave behind, as Arrow tables: lists of each run, and rows of all runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.contract.nodes import NODE_DURABLE, NODE_STATE, ProgramForm
from pipelines.contract.round import in_flight_schema
from pipelines.tables import MESSAGE
from udfs.nodes.arrow import INTERNAL, rows_of

_NODE = ("run_id", "node_id")
_MOST_BYTES = 1 << 30
"""An array holds 2 GiB of texts at most."""


class Played:
    """What the rounds of a block leave behind, as tables of this process.

    Attributes:
        runs: A row a run, columns of `udfs.nodes.block.block_schema`.
        last_round: The last round in which anything happened; None: in none.
        n_handled: How many messages were due.
    """

    def __init__(self, runs: pa.Table, protocol: ProgramForm) -> None:
        """Takes it.

        Args:
            runs: As the attribute.
            protocol: The protocol.
        """
        self.runs, self._protocol = runs, protocol
        self.last_round: int | None = pc.max(runs.column("last_played")).as_py()
        self.n_handled: int = pc.sum(pc.list_value_length(runs.column("handled"))).as_py() or 0

    def left(self, after: int) -> dict[str, pa.Table]:
        """Returns the rows of tables: messages that were due by then, deliveries, statuses, steps in calls' lives.

        Lost messages that were due when nothing else happened in their run are among those in flight.
        """
        lost = exploded(self.runs, "in_flight").filter(pc.field("due_round") <= after)
        message = pa.concat_tables([exploded(self.runs, "handled"), lost])
        return {
            "message": with_fate(message, "delivered"),
            "delivery": exploded(self.runs, "delivery").rename_columns({"node_id": "subscriber"}),
            "node_status": exploded(self.runs, "statuses"),
            "call_event": exploded(self.runs, "events"),
        }

    def grown(self) -> dict[str, pa.Table]:
        """Returns what relations grow by that only grow; as copies, since a view keeps all that its block left."""
        return {name: _copied(exploded(self.runs, name)) for name in rows_of(self._protocol.program).plan.appended}


class Between:
    """The nodes of all runs between two blocks, and what is in flight.

    Attributes:
        runs: A row a run.
    """

    def __init__(self, runs: pa.Table, protocol: ProgramForm, after: int) -> None:
        """Takes it.

        Args:
            runs: ``run_id``, lists ``nodes`` (`udfs.nodes.block.node_type`), ``in_flight``
                (`udfs.nodes.block.FLIGHT`; what was due by then is passed over) and ``counted``
                (`udfs.nodes.block.COUNTED`), and where a block has left them the rows of declarations, a list each.
            protocol: The protocol.
            after: The round that is over.
        """
        rows = rows_of(protocol.program)
        self._shown = [name for name in (*rows.volatile, *rows.durable) if name in runs.column_names]
        self.runs = runs.select(["run_id", "nodes", "in_flight", "counted", *self._shown])
        self._protocol, self._after = protocol, after
        self._flight = exploded(self.runs, "in_flight").filter(pc.field("due_round") > after)

    @property
    def n_in_flight(self) -> int:
        """Messages in flight."""
        return len(self._flight)

    @property
    def next_rounds(self) -> list[int]:
        """The rounds in which the next message is due, and in which a timer runs out, as far as there are any."""
        wakes = [pc.min(pc.list_flatten(one).field("wake_round")).as_py() for one in self.runs["nodes"].chunks]
        awake = [max(wake, self._after + 1) for wake in wakes if wake is not None]
        due: int | None = pc.min(self._flight["due_round"]).as_py()
        return awake if due is None else [*awake, due]

    def state(self) -> dict[str, pa.Table]:
        """Returns the relations of nodes, and the tables of declarations."""
        rows = rows_of(self._protocol.program)
        node = exploded(self.runs, "nodes")
        found = {NODE_STATE: node.filter(pc.field("started_round").is_valid()).select([*_NODE, *INTERNAL])}
        if rows.plan.durable:
            found[NODE_DURABLE] = node.select([*_NODE, *rows.kept])
        return found | {name: exploded(self.runs, name) for name in self._shown}

    def messages(self) -> pa.Table:
        """Returns the messages in flight."""
        remaining = pc.subtract(self._flight["due_round"], self._after)
        found = self._flight.append_column("remaining_rounds", remaining)
        return found.select(in_flight_schema(self._protocol.payload).names)


def with_fate(message: pa.Table, fate: str) -> pa.Table:
    """Returns messages as rows of table ``message``; ``fate`` is that of those that have none."""
    fates = pc.fill_null(message["fate"], fate)
    return message.set_column(message.schema.get_field_index("fate"), "fate", fates).select(MESSAGE.columns)


def without(rows: pa.Table, node: pa.Table) -> pa.Table:
    """Returns the rows that belong to other nodes than the given ones (``run_id, node_id``)."""
    place = pa.array(range(len(rows)), pa.int64())
    kept = rows.select(_NODE).append_column("place", place).join(node, list(_NODE), join_type="left anti")
    return rows.take(kept["place"].sort())


def exploded(runs: pa.Table, name: str) -> pa.Table:
    """Returns the rows of a column of lists, with their runs; batch by batch, as one array holds 2 GiB of texts."""
    return pa.concat_tables(_exploded(batch, name) for batch in runs.to_batches())


def _exploded(runs: pa.RecordBatch, name: str) -> pa.Table:
    column = runs.column(name)
    run = runs.column("run_id").take(pc.list_parent_indices(column))
    values = pc.list_flatten(column)
    return pa.table([run, *values.flatten()], names=["run_id", *(field.name for field in values.type)])


def _copied(rows: pa.Table) -> pa.Table:
    parts = [batch.take(pa.array(np.arange(batch.num_rows))) for batch in rows.to_batches()]
    return pa.Table.from_batches(parts, rows.schema)


def listed(rows: pa.Table | None, columns: Sequence[str], run: pa.Array) -> pa.ChunkedArray:
    """Returns the rows of each run as a list of structs; what `exploded` takes apart.

    Args:
        rows: Columns ``run_id``, and those that are named; None: no run has any.
        columns: The columns of the structs.
        run: The runs, ascending; no row is of any other.
    """
    if rows is None:
        return pa.chunked_array([pa.nulls(len(run), pa.list_(pa.int64()))])
    if rows.nbytes > _MOST_BYTES and len(run) > 1:
        half = len(run) // 2
        is_before = pc.less(rows["run_id"], run[half])
        parts = (rows.filter(is_before), run[:half]), (rows.filter(pc.invert(is_before)), run[half:])
        return pa.chunked_array([chunk for part in parts for chunk in listed(part[0], columns, part[1]).chunks])
    ordered = rows.sort_by("run_id").select(["run_id", *columns]).combine_chunks()
    offsets = np.append(np.searchsorted(ordered["run_id"].to_numpy(), run.to_numpy()), len(ordered))
    values = ordered.select(columns).to_struct_array().combine_chunks()
    return pa.chunked_array([pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)])
