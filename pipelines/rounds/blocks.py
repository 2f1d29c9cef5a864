"""Several rounds in one job: a node program's runs are played whole, each by one call of an Arrow function.

Processes play them, those of the program or of Spark's executors, and the program gets what they leave behind as Arrow
tables.

What the rounds of a block leave behind is what the engine would make of them one by one: the same rows. A round costs
what plain Python costs, where a job of the engine takes tens of milliseconds; so runs of up to a few thousand nodes are
played so. A run is played by one core; where there are many, all cores play.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, functions as F

from pipelines.contract.in_flight import in_flight_schema
from pipelines.contract.nodes import NODE_DURABLE, NODE_STATE, NodeProtocol, run_settings
from pipelines.contract.round import RunTables
from pipelines.engines.mapped import played
from pipelines.engines.materialise.base import Materialiser
from pipelines.engines.workers import in_workers
from pipelines.rounds.calls import Calls
from pipelines.rounds.faults.run_faults import RunFaults
from pipelines.tables import MESSAGE
from udfs.nodes.arrow import CALL, INTERNAL, rows_of
from udfs.nodes.block import FLIGHT, GIVEN, block_of, block_schema, node_type

_NODE = ("run_id", "node_id")
_SPAN = "node_id, round, end_round"
_MANY_RUNS = 16
"""With fewer runs, processes for them take longer to start, and jobs to be planned, than they save."""


class Played:
    """What the rounds of a block leave behind, as tables of this process.

    Attributes:
        last_round: The last round in which anything happened; None: in none.
        n_handled: How many messages were due.
    """

    def __init__(self, runs: pa.Table, protocol: NodeProtocol) -> None:
        """Takes it.

        Args:
            runs: A row a run, columns of `udfs.nodes.block.block_schema`.
            protocol: The protocol.
        """
        self._runs, self._protocol = runs, protocol
        self.last_round: int | None = pc.max(runs.column("last_played")).as_py()
        self.n_handled: int = pc.sum(pc.list_value_length(runs.column("handled"))).as_py() or 0

    def state(self) -> dict[str, pa.Table]:
        """Returns the relations of the protocol; of those that grow the increments."""
        rows = rows_of(self._protocol.program)
        node = self._exploded("nodes")
        found = {NODE_STATE: node.filter(pc.field("started_round").is_valid()).select([*_NODE, *INTERNAL])}
        if rows.plan.durable:
            found[NODE_DURABLE] = node.select([*_NODE, *rows.kept])
        return found | {name: self._exploded(name) for name in rows.plan.appended}

    def in_flight(self, after: int) -> pa.Table:
        """Returns the messages that are in flight after a round."""
        found = self._exploded("in_flight").filter(pc.field("due_round") > after)
        remaining = pc.subtract(found.column("due_round"), after)
        return found.append_column("remaining_rounds", remaining).select(in_flight_schema(self._protocol.payload).names)

    def left(self, after: int) -> dict[str, pa.Table]:
        """Returns the rows of tables: messages that were due by then, deliveries, statuses, steps in calls' lives.

        Lost messages that were due when nothing else happened in their run are among those in flight.
        """
        lost = self._exploded("in_flight").filter(pc.field("due_round") <= after)
        message = pa.concat_tables([self._exploded("handled"), lost])
        fate = pc.fill_null(message.column("fate"), "delivered")
        return {
            "message": message.set_column(message.schema.get_field_index("fate"), "fate", fate).select(MESSAGE.columns),
            "delivery": self._exploded("delivery").rename_columns({"node_id": "subscriber"}),
            "node_status": self._exploded("statuses"),
            "call_event": self._exploded("events"),
        }

    def _exploded(self, name: str) -> pa.Table:
        """Returns the rows of a column of lists, with their runs; batch by batch, as one array holds 2 GiB of texts."""
        return pa.concat_tables(_exploded(batch, name) for batch in self._runs.to_batches())


def _exploded(runs: pa.RecordBatch, name: str) -> pa.Table:
    column = runs.column(name)
    run = runs.column("run_id").take(pc.list_parent_indices(column))
    values = pc.list_flatten(column)
    return pa.table([run, *values.flatten()], names=["run_id", *(field.name for field in values.type)])


class Blocks:
    """Plays the runs of a node program, several rounds a job."""

    def __init__(
        self, protocol: NodeProtocol, materialiser: Materialiser, calls: Calls, faults: RunFaults, run: RunTables,
        n_runs: int,
    ) -> None:  # fmt: skip
        """Collects what each run is given.

        Args:
            protocol: The protocol.
            materialiser: Keeps relations.
            calls: The application calls.
            faults: The faults.
            run: What the runs are given.
            n_runs: How many there are.
        """
        self._protocol = protocol
        n_workers = materialiser.session.n_python_workers if n_runs >= _MANY_RUNS else 0
        self._play = in_workers(block_of(protocol.program), n_workers)
        self._materialiser = materialiser
        is_executors = materialiser.session.engine != "sail" and n_runs >= _MANY_RUNS
        self._n_executors = materialiser.session.partitions if is_executors else 0
        self._calls = calls
        given = run_settings(run.setting).selectExpr("*", f"{str(faults.links.may_duplicate).lower()} as may_duplicate")
        lists = {
            "links": (run.link, "src, dst, latency_rounds"),
            "crashes": (faults.crashes.schedule, _SPAN),
            "pauses": (faults.pauses.schedule, _SPAN),
            "on_link": (faults.links.on_link, "src, dst, round, end_round, faults"),
            "anywhere": (faults.links.anywhere, "round, end_round, faults"),
            "sides": (faults.links.side, f"{_SPAN}, side"),
        }
        for name, (rows, columns) in lists.items():
            given = _with_list(given, name, rows, columns)
        self._given = materialiser.checkpoint({"given": given}, {})[0]["given"]

    def play(self, after: int, last: int, state: Mapping[str, DataFrame], in_flight: DataFrame) -> tuple[Played, int]:
        """Plays rounds, and returns what they leave behind and the last of them.

        Args:
            after: The round that is over.
            last: The last round to be played; fewer are played where there are very many calls.
            state: The relations of the protocol.
            in_flight: The messages in flight.
        """
        rows = rows_of(self._protocol.program)
        calls, last = self._calls.between(after, last)
        node = state[NODE_STATE]
        if rows.plan.durable:
            node = state[NODE_DURABLE].join(node.hint("shuffle_hash"), ["run_id", "node_id"], "left")
        run = _with_list(self._given.frame, "nodes", node, ", ".join(node_type(rows)))
        run = _with_list(run, "flights", in_flight, ", ".join(FLIGHT))
        run = _with_list(run, "calls", calls, f"node_id, {', '.join(CALL)}")
        given = (
            "run_id", "settings", f"cast({after} as bigint) as after", f"cast({last} as bigint) as last",
            "may_duplicate", *GIVEN, "nodes", "flights", "calls",
        )  # fmt: skip
        runs = played(run, given, self._play, block_schema(rows), n_executors=self._n_executors)
        return Played(runs, self._protocol), last


def _with_list(run: DataFrame, name: str, rows: DataFrame | None, columns: str) -> DataFrame:
    """Adds the rows of each run as a list of structs; null where it has none."""
    if rows is None:
        return run.selectExpr("*", f"cast(null as array<bigint>) as {name}")
    of_run = rows.groupBy("run_id").agg(F.expr(f"collect_list(struct({columns})) as {name}"))
    return run.join(of_run.hint("shuffle_hash"), "run_id", "left")
