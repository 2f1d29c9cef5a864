"""Protocols that are node programs (`udfs.nodes`): what the engine needs of them follows from the declarations.

A round of all runs is one Arrow function: every node at which something is due is a row with its state, and what comes
back are relations again. A program adds what SQL says better: audits, a bound, why publications wait.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import pyarrow as pa
from pyspark.sql import DataFrame, functions as F, types as T
from pyspark.sql.pandas.types import from_arrow_schema, from_arrow_type

from pipelines.contract.assumptions import Assumption
from pipelines.contract.audit import Audit
from pipelines.contract.due import ANY_KIND
from pipelines.contract.round import (
    NO_RUN,
    Bound,
    Derived,
    MadeView,
    Protocol,
    Round,
    RoundResult,
    Start,
    State,
    grown,
)
from pipelines.contract.rows import NODE, issued, outbox
from pipelines.contract.spec import SETTINGS_JSON
from pipelines.engines.mapped import mapped
from pipelines.errors import NodeProgramError
from pipelines.tables import Table
from udfs.nodes.arrow import CALL, INTERNAL, RECEIVED, Rows, rows_of
from udfs.nodes.play import round_of, round_schema, start_of, table_of, table_schema
from udfs.nodes.program import Declared, NodeProgram
from udfs.nodes.records import spec_of
from udfs.nodes.step import ProgramError

NODE_STATE = "node"
NODE_DURABLE = "node_durable"
_COMMENTS = {
    "run_id": "the run, see table run",
    "node_id": "the node",
    "position": "place among the rows of the node, from 0",
    "started_round": "round in which this incarnation started; -1: before the first round",
    "wake_round": "round in which its next timer runs out; null: no timer is set",
}
_PAYLOAD = T.StructType([T.StructField("body", T.StringType()), T.StructField("hidden", T.StringType())])
_LATE = str(1 << 40)
"""Reports of failure detectors are numbered apart from what nodes send: before it those of crashes, after it those of
connections to nodes that are down."""
_NEVER = str((1 << 63) - 1)


@dataclass(frozen=True)
class Shown:
    """A table that follows from that of a declaration.

    Attributes:
        table: Its schema; the name is without the prefix.
        of: The declaration.
        make: Makes its rows of those of the declaration's table.
    """

    table: Table
    of: str
    make: Callable[[DataFrame], DataFrame]


class NodeProtocol(Protocol):
    """A node program as the engine sees it."""

    def __init__(
        self, program: type[NodeProgram], *, audits: Sequence[Audit] = (), bound: Bound = NO_RUN,
        undecided: Bound = NO_RUN, assumes: frozenset[Assumption] = frozenset(), waits: Mapping[str, str] | None = None,
        views: Mapping[str, MadeView] | None = None, shown: Sequence[Shown] = (),
    ) -> None:  # fmt: skip
        """Makes the relations of a program's declarations.

        Args:
            program: The class of the nodes.
            audits: As in `Protocol`.
            bound: As in `Protocol`.
            undecided: As in `Protocol`.
            assumes: As in `Protocol`.
            waits: By declaration: SQL for the publications that wait in it, as in `State.waits`.
            views: As in `Protocol`.
            shown: More tables that follow from declarations.
        """
        self.program = program
        self._rows = rows_of(program)
        self.kinds = tuple(self._rows.plan.kinds)
        self.payload = _PAYLOAD
        self.body = "body"
        self.shown = shown
        self.states = [*_states(self._rows, waits or {}), *(_also_shown(self._rows, one) for one in shown)]
        self.audits = audits
        self.bound = bound
        self.undecided = undecided
        self.assumes = assumes
        self.views = views or {}

    @property
    def is_whole(self) -> bool:
        """Whether nodes take a round as a whole, which needs the run as a whole: runs are played in blocks only."""
        return self._rows.plan.is_whole

    @property
    def told_apart(self) -> Sequence[str]:
        """None: all messages go the same way."""
        return (ANY_KIND,)

    def start(self, start: Start) -> dict[str, DataFrame]:
        """Returns the nodes, and what is in flight before the first round."""
        run = start.crashing.marked(run_settings(start.run.setting), "has_crashes")
        for name, rows, columns in (
            ("nodes", start.run.node, "node_id, name, role"),
            ("links", start.run.link, "src, dst, latency_rounds"),
            ("calls", start.calls.selectExpr("*", "cast(null as array<bigint>) as matches"),
             f"node_id, {', '.join(CALL)}"),
        ):  # fmt: skip
            of_run = rows.groupBy("run_id").agg(F.expr(f"array_sort(collect_list(struct({columns}))) as {name}"))
            run = run.join(of_run, "run_id", "left")
        given = ("run_id", "settings", "has_crashes", "nodes", "links", "calls")
        begun = start.keep("played", mapped(run, given, start_of(self.program), round_schema(self._rows)))
        return {**self._kept(begun), "outbox": self._sent(begun), "node_status": _statuses(begun)}

    def round(self, round_: Round) -> RoundResult:
        """Makes one round: what is due at nodes, handled by them, and what the failure detectors report."""
        result, out = RoundResult(), list[DataFrame]()
        if round_.faults.crashed is not None and self.program.detection is not None:
            out.append(self._crash_reports(round_, round_.faults.crashed))
        if round_.due.calls is not None:
            result.call_event = issued(round_.due.calls)
        due = self._due(round_)
        if due is not None:
            played = round_.keep("played", self._played(round_, due))
            out.append(self._sent(played))
            if round_.faults.down is not None and self.program.detection is not None:
                out.append(self._connection_reports(played, round_, round_.faults.down))
            self._take(round_, played, result)
        if out:
            result.outbox = reduce(DataFrame.unionByName, out)
        return result

    def _due(self, round_: Round) -> DataFrame | None:
        """Returns what is due: a row for each message, call, timer or recovery; None: nothing."""
        received = from_arrow_type(RECEIVED.value_type).simpleString()
        call = from_arrow_type(pa.struct(list(CALL.items()))).simpleString()

        def item(rows: DataFrame, node: str, **given: str) -> DataFrame:
            columns = {"received": f"cast(null as {received})", "call": f"cast(null as {call})", **given}
            shown = [f"{sql} as {name}" for name, sql in {"is_recovered": "false", **columns}.items()]
            return rows.selectExpr("run_id", f"{node} as node_id", *shown)

        names = [field.name for field in RECEIVED.value_type]
        items = []
        if ANY_KIND in round_.due.kinds:
            items.append(item(round_.due.inbox, "dst", received=_struct(names, received)))
        if round_.due.calls is not None:
            items.append(item(round_.due.calls, "node_id", call=_struct(list(CALL), call)))
        if round_.faults.recovered is not None:
            items.append(item(round_.faults.recovered, "node_id", is_recovered="true"))
        if round_.facts[NODE_STATE]["next_wake"] <= round_.number:
            awake = round_.state[NODE_STATE].where(f"wake_round <= {round_.number}")
            if round_.faults.paused is not None:
                awake = awake.join(round_.faults.paused.hint("shuffle_hash"), NODE, "left_anti")
            items.append(item(awake, "node_id"))
        if not items:
            return None
        lists = "collect_list(received) as received", "collect_list(call) as calls"
        whole = reduce(DataFrame.unionByName, items).groupBy(NODE)
        return whole.agg(F.expr("max(is_recovered) as is_recovered"), *map(F.expr, lists))

    def _played(self, round_: Round, due: DataFrame) -> DataFrame:
        """Has nodes handle what is due: columns of `udfs.nodes.play.round_schema`."""
        node = round_.state[NODE_STATE]
        if round_.faults.recovered is None:
            found = node.join(due.hint("shuffle_hash"), NODE)
        else:
            found = due.join(node.hint("shuffle_hash"), NODE, "left")
        if self._rows.plan.durable:
            found = found.join(round_.state[NODE_DURABLE], NODE, "left")
        given = (
            *NODE, f"cast({round_.number} as bigint) as round", "settings", "is_recovered", *INTERNAL,
            *self._rows.kept, "received", "calls",
        )  # fmt: skip
        found = found.join(run_settings(round_.run.setting), "run_id")
        return mapped(found, given, round_of(self.program), round_schema(self._rows))

    def _take(self, round_: Round, played: DataFrame, result: RoundResult) -> None:
        """Takes what nodes leave behind, but for their messages."""
        touched = played.select(NODE).hint("shuffle_hash")
        for name, changed in self._kept(played).items():
            state = round_.state[name]
            is_grown = name in self._rows.plan.appended
            result.state[name] = changed if is_grown else state.join(touched, NODE, "left_anti").unionByName(changed)
        result.delivery = _exploded(played, "delivery", "node_id as subscriber", "round").select(
            "run_id", "subscriber", "source", "source_seq", "round", "latency_rounds", "hops"
        )
        result.node_status = _statuses(played)
        confirmed = played.selectExpr("run_id", "node_id as source", "explode(confirmed) as source_seq", "round")
        events = confirmed.selectExpr("*", "'confirmed' as event")
        result.call_event = events if result.call_event is None else result.call_event.unionByName(events)
        result.fate = _exploded(played, "fates").select("run_id", "message_id", "fate")

    def _kept(self, played: DataFrame) -> dict[str, DataFrame]:
        """Returns the relations of nodes that were played."""
        found = {NODE_STATE: played.select(*NODE, *INTERNAL)}
        if self._rows.plan.durable:
            found[NODE_DURABLE] = played.select(*NODE, *self._rows.kept)
        return found | {name: _exploded(played, name, "node_id") for name in self._rows.plan.appended}

    def _sent(self, played: DataFrame) -> DataFrame:
        """Returns what nodes send: the outbox."""
        sent = _exploded(played, "sent", "node_id", "round as sent_round")
        names = ("kind", "dst", "source", "source_seq", "latency_rounds", "sent_round", *self.payload.names)
        given = {name: name for name in names}
        return outbox(sent, self.payload, src="node_id", trigger="position", **given)

    def _crash_reports(self, round_: Round, crashed: DataFrame) -> DataFrame:
        """Returns the reports of the nodes that watch a node which crashes: the outbox."""
        node = round_.state[NODE_STATE]
        watched = _derived(self._rows, "watch").make(node).drop("round")
        down = crashed.selectExpr("run_id", "node_id as peer", "round").hint("shuffle_hash")
        return self._reports(watched.join(down, ["run_id", "peer"]), round_.run.setting, f"peer - {_LATE}")

    def _connection_reports(self, played: DataFrame, round_: Round, down: DataFrame) -> DataFrame:
        """Returns the reports of the nodes that begin to watch a node which is down: the outbox."""
        connected = _exploded(played, "connected", "node_id")
        gone = down.selectExpr("run_id", "node_id as peer").hint("shuffle_hash")
        return self._reports(connected.join(gone, ["run_id", "peer"]), round_.run.setting, f"peer + {_LATE}")

    def _reports(self, noticed: DataFrame, setting: DataFrame, trigger: str) -> DataFrame:
        detection = str(self.program.detection)
        delay = setting.select("run_id", detection)
        return outbox(
            noticed.join(delay, "run_id"), self.payload, kind=f"'{self.program.down_kind}'", src="node_id",
            dst="node_id", trigger=trigger, sent_round="round", body="to_json(named_struct('peer', peer))",
            latency_rounds=f"latency_rounds + {detection}",
        )  # fmt: skip


def program_error(error: Exception) -> NodeProgramError | None:
    """Returns what an engine says of a handler that has failed; None where it is about anything else."""
    _, found, rest = str(error).partition(f"{ProgramError.__name__}: ")
    if not found:
        return None
    told = rest.partition("\n")[0]
    return NodeProgramError(f"{told}; what is committed stays: mend the program and resume, or run the scenario again")


def _struct(names: Sequence[str], kind: str) -> str:
    return f"cast(struct({', '.join(names)}) as {kind})"


def run_settings(setting: DataFrame) -> DataFrame:
    """Returns the settings of runs as JSON: ``run_id, settings``."""
    return setting.selectExpr("run_id", f"{SETTINGS_JSON} as settings")


def _exploded(rows: DataFrame, name: str, *others: str) -> DataFrame:
    """Returns the rows of a column of lists of structs, with ``run_id`` and other columns: names, or SQL ``as`` a name.

    Nothing asks the engine for a schema here: each question takes as long as a small job.
    """
    one = rows.selectExpr("run_id", *others, f"explode({name}) as one")
    return one.select("run_id", *(other.rpartition(" as ")[2] for other in others), "one.*")


def _statuses(played: DataFrame) -> DataFrame:
    return played.selectExpr(*NODE, "greatest(round, 0L) as round", "explode(statuses) as status")


def _states(rows: Rows, waits: Mapping[str, str]) -> list[State]:
    """Returns all relations: nodes, what of them survives crashes, what grows, and the tables that these stand for."""
    fact = {"next_wake": f"coalesce(min(wake_round), {_NEVER})"}
    node = _table(NODE_STATE, "a node that is up, with what it keeps between rounds", INTERNAL, rows.volatile)
    found = [State(node, facts=fact, wake="min(wake_round)")]
    if rows.durable:
        durable = _table(NODE_DURABLE, "a node, with what it keeps over crashes", rows.kept, rows.durable)
        found.append(State(durable, is_durable=True))
    for name, one in rows.plan.appended.items():
        found.append(State(_shown(name, one), compact=grown, is_durable=one.is_durable))
    for name, one in {**rows.volatile, **rows.durable}.items():
        found.append(State(_shown(name, one), derived=_derived(rows, name), waits=waits.get(name)))
    return found


def _also_shown(rows: Rows, shown: Shown) -> State:
    derived = _derived(rows, shown.of)
    return State(shown.table, derived=replace(derived, make=lambda node: shown.make(derived.make(node))))


def _table(name: str, grain: str, columns: Mapping[str, pa.DataType], declared: Mapping[str, Declared]) -> Table:
    tables = ", ".join(f"state_{of}" for of in declared)
    text = f"what the round after reads: as JSON its rows in {tables}, a text each; null: none"
    comments = {**_COMMENTS, "volatile_tables": text, "durable_tables": text}
    kinds = {"run_id": pa.int64(), "node_id": pa.int64(), **columns}
    schema = from_arrow_schema(pa.schema(list(kinds.items())))
    return Table(name, grain, tuple(NODE), _commented(schema, comments))


def _shown(name: str, one: Declared) -> Table:
    """Returns the table that shows a declaration."""
    spec, schema = spec_of(one.record), from_arrow_schema(table_schema(one))
    position = ["position"] if one.form == "ordered" else []
    return Table(name, spec.grain, (*NODE, *position, *spec.key), _commented(schema, {**_COMMENTS, **spec.comments}))


def _derived(rows: Rows, name: str) -> Derived:
    """Returns how the table of a declaration follows from the texts of nodes."""
    is_durable = name in rows.durable
    declared = rows.durable if is_durable else rows.volatile
    column = "durable_tables" if is_durable else "volatile_tables"
    text, schema = f"get({column}, {list(declared).index(name)})", table_schema(declared[name])

    def make(node: DataFrame) -> DataFrame:
        given = (*NODE, f"{text} as text")
        return mapped(node.where(f"{text} is not null"), given, table_of(declared[name]), schema)

    return Derived(NODE_DURABLE if is_durable else NODE_STATE, make, text)


def _commented(schema: T.StructType, comments: Mapping[str, str]) -> T.StructType:
    return T.StructType([
        T.StructField(field.name, field.dataType, True, {"comment": comments[field.name]}) for field in schema
    ])  # fmt: skip
