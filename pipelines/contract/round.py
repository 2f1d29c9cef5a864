"""The contract between the round engine and a protocol: what a round may read, and what it returns.

A protocol declares its state relations, message kinds and payload, and one function that makes a round. The function
is lazy: it takes DataFrames and returns DataFrames. If several steps read a frame, pass it to `Round.keep`: the engine
computes it once. Nothing else in a protocol may run a job.

Columns that frames share:

- *inbox*: one row a message that is due at a node that is up: ``run_id, message_id, kind, src, dst, sent_round,
  due_round, source, source_seq`` and the protocol's payload columns. ``message_id`` ascends in the order in which
  a node handles its messages.
- *call*: one row an application call that is due: ``run_id, node_id, source_seq, round, kind`` (join, subscribe,
  unsubscribe, publish), ``subscription_id`` (subscribe and unsubscribe), ``join_point`` (join), ``topic`` (publish; of
  a subscription if it asks for one, alone or with more), ``guarantee`` and ``keys`` (publish), ``matches`` (publish:
  ids of the subscriptions whose predicate the publication satisfies). Protocols that take other calls
  (`contract.protocol.Protocol.calls`) read what these are about in ``topic``, ``peer`` and ``role``.
- *outbox*: one row a message to send: ``run_id, trigger, rank, kind, src, dst, sent_round, source, source_seq``, the
  payload's columns and ``latency_rounds``. A node's messages of a round leave in the order (trigger, rank, dst);
  ``trigger`` is the id of the message that caused it, or `CALL_TRIGGER`. Where no link is, or not its latency is meant,
  ``latency_rounds`` is not null; a message from a node to itself is a timer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol as Structural

from pyspark.sql import DataFrame, functions as F, types as T

from pipelines.tables import BIGINT, STRING, Table

CALL_TRIGGER = "4611686018427387904 + source_seq"
"""SQL for the trigger of what an application call causes: after every message of the round, in the node's order."""

OUTBOX = ("run_id", "trigger", "rank", "kind", "src", "dst", "sent_round", "source", "source_seq")


def outbox_types(payload: T.StructType) -> dict[str, str]:
    """Returns the SQL type of each column of an outbox."""
    head = {name: "string" if name == "kind" else "bigint" for name in OUTBOX}
    return {**head, **{field.name: field.dataType.simpleString() for field in payload}, "latency_rounds": "bigint"}


DELIVERY = ("run_id", "subscriber", "source", "source_seq", "round", "latency_rounds", "hops")
CALL_EVENT = ("run_id", "source", "source_seq", "round", "event")
NODE_STATUS = ("run_id", "node_id", "round", "status")


@dataclass(frozen=True)
class StateRelation:
    """A state relation of a protocol; in the store it is table ``state_<name>``.

    Attributes:
        table: Its schema; the name is without the prefix.
        facts: Counters that the next rounds may ask for: name to the SQL condition of the rows that are counted.
        compact: For a relation that grows by increments: takes the union of the increments (schema of the
            table) and returns the relation. None where every round that changes the relation returns all of it.
        is_durable: Whether a node's rows survive its crash. They are committed before the crash takes effect, and the
            node reads them back from there when it recovers: as of any commit since, so that nothing may follow from
            what a round changes in the rows of a node that is down. The rows of other relations go with their node.
        derived_from: The relation that this one shows in another form; rounds neither read nor write it, it is written
            at a commit. None: rounds read and write this one.
    """

    table: Table
    facts: Mapping[str, str] = field(default_factory=dict)
    compact: Callable[[DataFrame], DataFrame] | None = None
    is_durable: bool = False
    derived_from: str | None = None


def grown(increments: DataFrame) -> DataFrame:
    """Returns the increments as they are: what ``State.compact`` is for a relation whose rows stay."""
    return increments


class Keeper(Structural):
    """Materialises what several steps of a round read."""

    def __call__(self, name: str, frame: DataFrame) -> DataFrame:
        """Computes the rows of a frame once, and returns a frame that reads them.

        Args:
            name: The name of the frame; frames of one name have equal columns in all rounds.
            frame: The frame.
        """
        ...

    def is_empty(self, frame: DataFrame) -> bool:
        """Returns whether a kept frame is known to be empty, so that steps can be skipped.

        An engine that would need a job for the answer returns False.
        """
        ...


@dataclass(frozen=True)
class RunTables:
    """The constant input of the runs.

    Attributes:
        node: As table ``node``.
        link: As table ``link``, the links at the start.
        setting: ``run_id, seed``, one column a setting of the protocol that has no parts, and all of them as JSON
            (`spec.SETTINGS_JSON`); one row a run.
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
        number: Its number.
        due: The due messages and calls.
        state: The protocol's relations; for those with increments the union of the increments.
        facts: The counters that the states declare, by relation and name, as of the end of the last round.
        run: What does not change.
        settings: The distinct settings objects of the runs.
        faults: The faults.
        keep: Materialises a frame that several steps read. Nothing else in a protocol may run a job.
    """

    number: int
    due: Due
    state: Mapping[str, DataFrame]
    facts: Mapping[str, Mapping[str, int]]
    run: RunTables
    settings: Sequence[Any]
    faults: FaultsDue
    keep: Keeper


@dataclass
class RoundResult:
    """The output of a round; None and missing names mean no change.

    Attributes:
        state: Changed relations, whole, or the new increment where the relation has increments.
        outbox: Messages to send.
        sent_fields: Which of the payload's columns and ``latency_rounds`` the outbox has, where it lacks some: these
            are null then. Rows with fewer columns are numbered and sorted faster.
        delivery: Deliveries, columns of table ``delivery``.
        call_event: One row a step in the life of a call: event ``held`` (its node accepts it and issues it later),
            ``issued`` or ``confirmed``.
        node_status: Changes of nodes' states, columns of table ``node_status``. A node that recovers after a crash
            and is not at once what it was says RECOVERING in that round, and later OPERATIONAL.
        fate: Due messages that were dropped: ``run_id, message_id, fate`` (``duplicate``, ``lost_crash`` where the
            sender meant an earlier incarnation of the receiver, or ``lost_link`` where a channel of the protocol's own
            lost them); the others are delivered.
    """

    state: dict[str, DataFrame] = field(default_factory=dict)
    outbox: DataFrame | None = None
    sent_fields: Collection[str] | None = None
    delivery: DataFrame | None = None
    call_event: DataFrame | None = None
    node_status: DataFrame | None = None
    fate: DataFrame | None = None


class ProtocolForm:
    """The tables and messages of one form of a protocol; what it declares of itself is `contract.protocol.Protocol`.

    Attributes:
        payload: What a message carries beside its head.
        body: SQL over the payload for column ``body`` of table ``message``; null shows nothing.
        states: Its state relations.
    """

    payload: T.StructType = T.StructType([])
    body: str = "cast(null as string)"
    states: Sequence[StateRelation] = ()


class DataflowForm(ProtocolForm, ABC):
    """Dataflow steps of a protocol, as the module that `contract.protocol.Protocol.steps` names has them: ``STEPS``.

    Attributes:
        kinds: The kinds of messages that its rounds send, named as in the paper.
    """

    kinds: Sequence[str] = ()

    @property
    def told_apart(self) -> Sequence[str]:
        """The kinds of messages that `Due.kinds` tells apart; `ANY_KIND` where rounds only ask whether any is due."""
        return self.kinds

    def start(self, start: Start) -> dict[str, DataFrame]:
        """Returns the relations that have rows before the first round; by default there are none.

        With them, by these names: ``node_status`` rows if nodes have a state, and an ``outbox`` of the messages that
        are on links at the start, sent in round -1.
        """
        return {}

    @abstractmethod
    def round(self, round_: Round) -> RoundResult:
        """Makes one round."""


@dataclass(frozen=True)
class Start:
    """The input from which a protocol computes its first state.

    Attributes:
        run: As in `Round`.
        calls: All application calls of the runs (without ``matches``).
        paths: Returns δ-paths of the overlay between nodes that are in it at the start, up to n hops.
        settings: The distinct settings objects of the runs.
        crashing: The runs in which a node crashes at some time.
        keep: As in `Round`.
    """

    run: RunTables
    calls: DataFrame
    paths: Callable[[int], DataFrame]
    settings: Sequence[Any]
    crashing: RunSet
    keep: Keeper


ANY_KIND = "*"
"""In `Due.kinds`, for protocols that do not tell kinds apart: some message is due."""


@dataclass(frozen=True)
class Due:
    """The messages and calls that nodes handle in a round.

    Attributes:
        inbox: The due messages of nodes that are up.
        calls: The due application calls; None: none.
        kinds: Kinds of the due messages (see `Protocol.told_apart`), and of the due calls in lower case: what is absent
            needs no step.
    """

    inbox: DataFrame
    calls: DataFrame | None
    kinds: frozenset[str]


@dataclass(frozen=True)
class CrashesDue:
    """The crashes and recoveries of a round; None: no node.

    Attributes:
        crashed: Nodes that crash in the round: ``run_id, node_id, incarnation, round``.
        recovered: Nodes that recover in it, with the incarnation that they have from now on.
        down: Nodes that are down after it, with the incarnation that crashed, and ``end_round``: null for good.
        disturbed: The runs in which a node has crashed by now.
    """

    crashed: DataFrame | None
    recovered: DataFrame | None
    down: DataFrame | None
    disturbed: RunSet


@dataclass(frozen=True)
class RunSet:
    """Some of the runs.

    Attributes:
        is_all: Whether they are all runs of the job.
        run: ``run_id``, where they are some of them; None: all or none.
    """

    is_all: bool
    run: DataFrame | None = None

    def of(self, rows: DataFrame) -> DataFrame:
        """Returns the rows of these runs."""
        if self.is_all:
            return rows
        if self.run is None:
            # A filter that is not known to be false keeps the placement of the rows, of which there are none.
            return rows.where("run_id < 0")
        return rows.join(self.run.hint("shuffle_hash"), "run_id", "left_semi")

    def marked(self, rows: DataFrame, name: str) -> DataFrame:
        """Returns the rows with a BOOLEAN column that says whether they are of these runs."""
        if self.run is None:
            return rows.selectExpr("*", f"{str(self.is_all).lower()} as {name}")
        flag = self.run.selectExpr("run_id", f"true as {name}").hint("shuffle_hash")
        marked = rows.join(flag, "run_id", "left")
        return marked.selectExpr(*rows.columns, f"coalesce({name}, false) as {name}")


@dataclass(frozen=True)
class FaultsDue:
    """The faults of a round; None: nobody.

    Attributes:
        crashed: Nodes that crash in the round: ``run_id, node_id, incarnation, round``. Their state is prepared: they
            have no rows in relations that are not durable.
        recovered: Nodes that recover in it, with the incarnation that they have from now on; they have the durable
            rows that the store has of them.
        down: Nodes that are down after it, with the incarnation that crashed, and ``end_round``: null for good.
        may_duplicate: Whether a message may have reached a node before, as nodes send again after a crash. Without it
            no duplicate exists, and no step needs to look for one.
        crashing: The runs in which a node crashes at some time. What a step remembers for a crash it remembers in these
            runs only, so that the rows of a run do not depend on others.
        disturbed: The runs in which a node has crashed by now.
    """

    crashed: DataFrame | None
    recovered: DataFrame | None
    down: DataFrame | None
    may_duplicate: bool
    crashing: RunSet
    disturbed: RunSet

    @property
    def may_crash(self) -> bool:
        """Whether a node of any run crashes at some time."""
        return self.crashing.is_all or self.crashing.run is not None

    def in_crashing_runs(self, rows: DataFrame) -> DataFrame:
        """Returns the rows of the runs in which a node crashes at some time."""
        return self.crashing.of(rows)

    def in_disturbed_runs(self, rows: DataFrame) -> DataFrame:
        """Returns the rows of the runs in which a node has crashed by now."""
        return self.disturbed.of(rows)

    def null_elsewhere(self, rows: DataFrame, column: str) -> DataFrame:
        """Returns the rows with a column that is null but in runs in which a node crashes at some time."""
        if self.crashing.is_all:
            return rows
        marked = self.crashing.marked(rows, "is_crashing")
        return marked.withColumn(column, F.expr(f"case when is_crashing then {column} end")).drop("is_crashing")


def in_flight_schema(payload: T.StructType) -> T.StructType:
    """Returns the columns of messages in flight."""
    names = ["run_id", "message_id", "src", "dst", "sent_round", "due_round", "remaining_rounds"]
    keys = [T.StructField(name, BIGINT, False) for name in names]
    keys.insert(2, T.StructField("kind", STRING, False))
    call = [T.StructField("source", BIGINT), T.StructField("source_seq", BIGINT)]
    return T.StructType([*keys, *call, T.StructField("fate", STRING), *payload.fields])
