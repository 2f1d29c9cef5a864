"""The contract between the round engine and the dataflow form of a protocol: the input and the output of a round.

The dataflow form of a protocol declares state relations and the payload of messages. It implements a lazy function that
computes a round; input and output are DataFrames. Only `Round.keep` runs jobs. If several steps read a DataFrame, the
function passes the DataFrame to `Round.keep`, which computes it once.

Several frames have fixed columns:

- *inbox*: one row per message that is due at a node that is up: ``run_id, message_id, kind, src, dst, sent_round,
  due_round, source, source_seq`` and the columns of the protocol's payload. A node handles its messages in ascending
  order of ``message_id``.
- *call*: one row per application call that is due: ``run_id, node_id, source_seq, round, kind``. Further columns are
  ``subscription_id`` (subscribe, unsubscribe), ``join_point`` (join), ``topic`` (publish; subscribe if the predicate
  has an equality with a topic), ``guarantee``, ``keys`` and ``matches`` (publish; the ids of the matching
  subscriptions). Other calls (`contract.protocol.Protocol.calls`) use ``topic``, ``peer`` and ``role``.
- *outbox*: one row per message to send: ``run_id, trigger, rank, kind, src, dst, sent_round, source, source_seq``, the
  payload's columns and ``latency_rounds``. A node sends its messages in the order (trigger, rank, dst). The trigger
  is the id of the received message that caused the sent message; for a call it is `CALL_TRIGGER`. A null
  ``latency_rounds`` stands for the latency of the link. A message from a node to itself is a timer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, types as T

from pipelines.tables import BIGINT, CALL_LOG, STRING, Table

if TYPE_CHECKING:
    from pipelines.engines.checkpoints import Checkpoints

CALL_TRIGGER = "4611686018427387904 + source_seq"
"""SQL for the trigger of messages that an application call causes.

This trigger is greater than all message ids. The triggers of a node's calls ascend in the order of the calls.
"""

OUTBOX = ("run_id", "trigger", "rank", "kind", "src", "dst", "sent_round", "source", "source_seq")


def outbox_types(payload: T.StructType) -> dict[str, str]:
    """Returns the SQL type of each column of an outbox."""
    head = {name: "string" if name == "kind" else "bigint" for name in OUTBOX}
    return {**head, **{field.name: field.dataType.simpleString() for field in payload}, "latency_rounds": "bigint"}


CALL_EVENT_COLUMNS = ("run_id", "source", "source_seq", "round", "event")


@dataclass(frozen=True)
class StateRelation:
    """A state relation of a protocol, stored as table ``state_<name>``.

    Attributes:
        table: The schema. Its name has no prefix ``state_``.
        facts: The counters of the relation, which later rounds may read. Maps the name of a counter to the SQL
            condition of the counted rows.
        compact: A function that merges the rows that rounds have added. By default, it returns its argument.
        is_durable: Whether the rows of a node survive its crash; other rows are deleted. Durable rows are committed
            before the crash takes effect, and the node reads them from the store when it recovers.
        derived_from: The relation from which each commit derives this relation, or None if rounds read and write this
            relation.
    """

    table: Table
    facts: Mapping[str, str] = field(default_factory=dict)
    compact: Callable[[DataFrame], DataFrame] = lambda rows: rows
    is_durable: bool = False
    derived_from: str | None = None


@dataclass(frozen=True)
class RunTables:
    """The tables of the runs that stay constant over all rounds.

    Attributes:
        node: Table ``node``.
        link: Table ``link``, with the links that exist before the first round.
        setting: One row per run: ``run_id``, ``seed``, a column for each scalar setting of the protocol, and all
            settings as JSON (`contract.protocol.SETTINGS_JSON`).
        subscription: ``run_id, subscription_id, subscriber, predicate``.
    """

    node: DataFrame
    link: DataFrame
    setting: DataFrame
    subscription: DataFrame


@dataclass(frozen=True)
class Round:
    """The input of a round.

    Attributes:
        number: The number of the round.
        inbox: The due messages of nodes that are up.
        calls: The due application calls, or None if no call is due.
        kinds: The kinds of the due messages and calls; kinds of calls are in lower case. A round skips the steps of
            kinds that are not due.
        state: The relations of the protocol. Rows that rounds have added may not be merged (`StateRelation.compact`).
        facts: The counters of `StateRelation.facts` at the end of the previous round, by relation and name.
        run: The constant tables of the runs.
        settings: The distinct settings objects of the runs.
        faults: The faults of the round.
        keep: Computes a frame that several steps read. Only this function may run a job.
    """

    number: int
    inbox: DataFrame
    calls: DataFrame | None
    kinds: frozenset[str]
    state: Mapping[str, DataFrame]
    facts: Mapping[str, Mapping[str, int]]
    run: RunTables
    settings: Sequence[Any]
    faults: FaultsDue
    keep: Checkpoints


@dataclass
class RoundResult:
    """The output of a round. A frame of None stands for no rows.

    Attributes:
        state: The relations whose rows the round replaces, by name.
        added: The rows that the round adds to other relations, by name.
        outbox: The messages to send.
        delivery: The deliveries, columns of table ``delivery``.
        call_event: One row per event of a call: ``held`` (the node will issue the call later), ``issued`` or
            ``confirmed``.
        node_status: The status changes of nodes, columns of table ``node_status``. A node whose recovery takes rounds
            reports RECOVERING first and OPERATIONAL later.
        fate: The due messages that nodes drop: ``run_id, message_id, fate``. The fate is ``duplicate``, ``lost_crash``
            (sent to an earlier incarnation of the receiver) or ``lost_link`` (lost on a channel that the protocol
            itself simulates). All other due messages are delivered.
    """

    state: dict[str, DataFrame] = field(default_factory=dict)
    added: dict[str, DataFrame] = field(default_factory=dict)
    outbox: DataFrame | None = None
    delivery: DataFrame | None = None
    call_event: DataFrame | None = None
    node_status: DataFrame | None = None
    fate: DataFrame | None = None


class ProtocolForm:
    """The tables and messages of one form of a protocol. `contract.protocol.Protocol` contains all other declarations.

    Attributes:
        payload: The columns of a message, in addition to the columns that every message has.
        body: SQL over the payload for column ``body`` of table ``message``. By default the column is null.
        states: The state relations.
    """

    payload: T.StructType = T.StructType([])
    body: str = "cast(null as string)"
    states: Sequence[StateRelation] = ()


class DataflowForm(ProtocolForm, ABC):
    """The dataflow steps of a protocol. The module `Protocol.steps` contains an instance with the name ``STEPS``."""

    def start(self, start: Start) -> RoundResult:
        """Returns the rows of relations and history tables before the first round, by default no rows."""
        return RoundResult()

    @abstractmethod
    def round(self, round_: Round) -> RoundResult:
        """Returns the output of round `round_`."""


@dataclass(frozen=True)
class Start:
    """The input from which `DataflowForm.start` computes the initial state.

    Attributes:
        run: The constant tables of the runs.
        calls: All application calls of the runs, without column ``matches``.
        paths: A function that takes a number n. It returns the paths of at most n hops between the nodes that are in
            the overlay before the first round, as in `engines.paths.delta_paths`.
        settings: The distinct settings objects of the runs.
        keep: As in `Round`.
    """

    run: RunTables
    calls: DataFrame
    paths: Callable[[int], DataFrame]
    settings: Sequence[Any]
    keep: Checkpoints


@dataclass(frozen=True)
class RunSet:
    """A subset of the runs of a job.

    Attributes:
        is_all: Whether the subset contains all runs.
        run: The ``run_id`` of each run of a proper subset. It is ``None`` if the subset contains all runs or no run.
    """

    is_all: bool
    run: DataFrame | None = None

    def of(self, rows: DataFrame) -> DataFrame:
        """Returns the rows of `rows` that belong to runs in this set."""
        if self.is_all:
            return rows
        if self.run is None:
            # Spark replaces a filter that is always false by an empty relation, which loses the partitioning of `rows`.
            return rows.where("run_id < 0")
        return rows.join(self.run, "run_id", "left_semi")


@dataclass(frozen=True)
class FaultsDue:
    """The crashes and recoveries of a round. A frame of None stands for no rows.

    Before the steps of a round, the engine deletes the rows of crashed nodes that are not durable. It also restores the
    durable rows of recovered nodes.

    Attributes:
        crashed: The nodes that crash: ``run_id, node_id, incarnation, round``.
        recovered: The nodes that recover, with their new incarnation.
        down: The nodes that are down after the round, with the crashed incarnation and ``end_round``, which is null if
            the node never recovers.
        disturbed: The runs in which a node has crashed in this round or before.
        crashing: The runs with a scheduled crash. Only for these runs, steps store the state that crash handling needs.
            The rows of a run thus do not depend on crashes in other runs of the job.
    """

    crashed: DataFrame | None
    recovered: DataFrame | None
    down: DataFrame | None
    disturbed: RunSet
    crashing: RunSet

    @property
    def may_crash(self) -> bool:
        """Whether any run has a scheduled crash. Otherwise no message reaches a node twice: nodes never resend."""
        return self.crashing.is_all or self.crashing.run is not None

    def null_elsewhere(self, rows: DataFrame, column: str) -> DataFrame:
        """Returns `rows` with `column` set to null in runs without a scheduled crash."""
        run, names = self.crashing.run, rows.columns
        if self.crashing.is_all:
            return rows
        if run is not None:
            rows = rows.join(run.selectExpr("run_id", "true as is_crashing"), "run_id", "left")
        value = f"case when {'false' if run is None else 'is_crashing'} then {column} end as {column}"
        return rows.selectExpr(*(value if name == column else name for name in names))


def in_flight_schema(payload: T.StructType) -> T.StructType:
    """Returns the columns of messages in flight: the columns that every message has, then the payload."""
    names = ["run_id", "message_id", "kind", "src", "dst", "sent_round", "due_round", "remaining_rounds"]
    keys = [T.StructField(name, STRING if name == "kind" else BIGINT, False) for name in names]
    call = [T.StructField("source", BIGINT), T.StructField("source_seq", BIGINT)]
    return T.StructType([*keys, *call, T.StructField("fate", STRING), *payload.fields])


STATE = "state_"
"""The prefix of the names of state tables."""
IN_FLIGHT = f"{STATE}message"


def state_tables(protocols: Mapping[str, ProtocolForm]) -> dict[str, dict[str, Table]]:
    """Returns the state tables of a store, by protocol and by the name that the protocol's SQL uses.

    The SQL of a protocol calls a table ``state_<name>``. The table has the same name in the store, unless two protocols
    of the store declare ``name`` with different columns. Then its name in the store is ``state_<protocol>_<name>``. In
    a store of several protocols, each protocol has its own table of messages in flight.
    """
    own = {name: _own_tables(protocol) for name, protocol in protocols.items()}
    if len(own) == 1:
        return own
    forms: dict[str, set[str]] = defaultdict(set)
    for tables in own.values():
        for name, table in tables.items():
            forms[name].add(table.schema.simpleString())
    apart = {name for name, found in forms.items() if len(found) > 1 or name == IN_FLIGHT}
    return {
        protocol: {
            name: replace(table, name=f"{STATE}{protocol}_{name.removeprefix(STATE)}") if name in apart else table
            for name, table in tables.items()
        }
        for protocol, tables in own.items()
    }


def stored_tables(protocols: Mapping[str, ProtocolForm]) -> list[Table]:
    """Returns the distinct state tables of a store."""
    found = {table.name: table for tables in state_tables(protocols).values() for table in tables.values()}
    return list(found.values())


def _own_tables(protocol: ProtocolForm) -> dict[str, Table]:
    message = Table(IN_FLIGHT, "a message in flight", ("run_id", "message_id"), in_flight_schema(protocol.payload))
    named = [
        Table(f"{STATE}{state.table.name}", state.table.grain, state.table.key, state.table.schema)
        for state in protocol.states
    ]
    return {table.name: table for table in (*named, message, CALL_LOG)}
