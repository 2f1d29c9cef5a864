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

from pyspark.sql import DataFrame, types as T

from pipelines.contract.due import Due, FaultsDue, RunSet
from pipelines.tables import Table

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
class State:
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
        """Returns a frame of the same rows, which are computed once; the name says what they are."""
        ...

    def is_empty(self, frame: DataFrame) -> bool:
        """Returns whether a kept frame is known to have no rows, so that steps may be left out.

        Engines that would have to run a job for that say no.
        """
        ...


@dataclass(frozen=True)
class RunTables:
    """What the runs are given and does not change.

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
    """What a round may read.

    Attributes:
        number: Its number.
        due: The due messages and calls.
        state: The protocol's relations; for those with increments the union of the increments.
        facts: The counters that the states declare, by relation and name, as of the end of the last round.
        run: What does not change.
        settings: The distinct settings objects of the runs.
        faults: The faults.
        keep: Materialises what several steps read, so that the engine computes it once. Nothing else in a protocol may
            run a job.
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
    """What a round returns; None and missing names mean: nothing new.

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
    states: Sequence[State] = ()


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
    """What a protocol may read to make its first state.

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
