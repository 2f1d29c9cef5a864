"""Rows of dataflow steps: copies, deliveries, call events, the outbox; total orders, routing entries, draws.

A *copy* is a message that reaches a node, or a call that its own application issues there: ``run_id, node_id, source,
source_seq, kind, trigger, sender, round`` and what it carries; ``sender`` is null for a call.

Every window that decides something sorts by keys that no two of its rows share (`row_number`): engines break ties
differently, from one execution to the next. A tie stops the job (`AmbiguousOrderError`); ``ROUNDTABLE_CHECK_ORDER=0``
leaves the check out.

Routing entries change within a round: messages that a node handles before the one that changes an entry still see the
entry unchanged (`seen_entries`). That is the outcome of handling them one by one, in the order of their triggers.

A draw is a hash of a run's seed, a purpose, and the identity of what is drawn for: equal on every engine, in any order
of rows. Expressions read column ``seed`` of the run (frame ``setting``); keys are SQL for BIGINT.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, types as T
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.contract.round import CALL_TRIGGER, outbox_types
from pipelines.errors import AmbiguousOrderError

NODE = ["run_id", "node_id"]
KEY = [*NODE, "source", "source_seq"]
"""The key of a message at a node."""


def issued(calls: DataFrame) -> DataFrame:
    """Returns calls as rows of ``call_event``: they are issued in this round."""
    return calls.selectExpr("run_id", "node_id as source", "source_seq", "round", "'issued' as event")


def held(calls: DataFrame) -> DataFrame:
    """Returns calls as rows of ``call_event``: their nodes accept them in this round, and issue them later."""
    return calls.selectExpr("run_id", "node_id as source", "source_seq", "round", "'held' as event")


def received(inbox: DataFrame, *carried: str) -> DataFrame:
    """Returns the messages of an inbox as copies.

    Args:
        inbox: The due messages.
        carried: The columns of the payload that copies carry.
    """
    return inbox.selectExpr(
        "run_id", "dst as node_id", "source", "source_seq", "kind", "message_id as trigger", "src as sender",
        "due_round as round", *carried,
    )  # fmt: skip


def called(calls: DataFrame, kinds: Mapping[str, str], payload: T.StructType, **carried: str) -> DataFrame:
    """Returns calls as copies that nobody sent.

    Args:
        calls: The due calls.
        kinds: The kinds of calls to select, each with the kind of its message.
        payload: The protocol's payload.
        carried: SQL over the calls for each column of the payload that copies carry.
    """
    kind = " ".join(f"when '{call}' then '{message}'" for call, message in kinds.items())
    types = {field.name: field.dataType.simpleString() for field in payload}
    return calls.where(f"kind in ({', '.join(map(repr, kinds))})").selectExpr(
        "run_id", "node_id", "node_id as source", "source_seq", f"case kind {kind} end as kind",
        f"{CALL_TRIGGER} as trigger", "cast(null as bigint) as sender", "round",
        *(f"cast({sql} as {types[name]}) as {name}" for name, sql in carried.items()),
    )  # fmt: skip


def deliveries(copies: DataFrame) -> DataFrame:
    """Returns copies as deliveries at their nodes; they carry ``issued_round`` and ``hops``."""
    return copies.selectExpr(
        "run_id", "node_id as subscriber", "source", "source_seq", "round", "round - issued_round as latency_rounds",
        "cast(hops as bigint) as hops",
    )  # fmt: skip


def outbox(rows: DataFrame, payload: T.StructType, **columns: str) -> DataFrame:
    """Returns rows as messages to send, with all columns of the payload in one order.

    Args:
        rows: ``run_id`` and what the expressions read.
        payload: The protocol's payload.
        columns: SQL by column of `contract.round.OUTBOX` or of the payload, or ``latency_rounds``. The others are null,
            but for ``run_id``, and ``rank``, which is 0.
    """
    given = {"run_id": "run_id", "rank": "0", **columns}
    types = outbox_types(payload)
    return rows.selectExpr(*(f"cast({given.get(name, 'null')} as {type_}) as {name}" for name, type_ in types.items()))


def mapped(
    frame: DataFrame, columns: Sequence[str],
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema,
) -> DataFrame:  # fmt: skip
    """Returns the rows that an Arrow function returns.

    Args:
        frame: Any frame.
        columns: SQL for each column that the function takes.
        function: Takes and returns batches of rows, each row by itself.
        schema: The columns that it returns.
    """
    return frame.selectExpr(*columns).mapInArrow(function, from_arrow_schema(schema))


CHECK = "ROUNDTABLE_CHECK_ORDER"
_IS_CHECKED = os.environ.get(CHECK, "1") != "0"
_TIED = "ROUNDTABLE_TIED_ROWS"


def row_number(what: str, partition: str, order: str) -> str:
    """Returns SQL that numbers the rows of each partition from 1 on, in an order without ties.

    Args:
        what: What is numbered, for the error; no quotes.
        partition: Columns, as in ``partition by``.
        order: Sort keys, as in ``order by``; two rows of a partition that agree in all of them stop the job.
    """
    window = f"over (partition by {partition} order by {order})"
    if not _IS_CHECKED:
        return f"row_number() {window}"
    tied = f"cast(raise_error('{_TIED}: {what}: {order};') as int)"
    return f"case when rank() {window} = row_number() {window} then row_number() {window} else {tied} end"


@contextmanager
def ties_named() -> Iterator[None]:
    """Turns an engine's report of tied rows into an error that names the order.

    Raises:
        AmbiguousOrderError: Two rows had equal keys in a window of `row_number`.
    """
    try:
        yield
    except PySparkException as error:
        _, found, rest = str(error).partition(f"{_TIED}: ")
        if not found:
            raise
        raise AmbiguousOrderError(
            f"two rows have equal sort keys, so their order differs between executions ({rest.partition(';')[0]});"
            f" this is a fault of the protocol or the engine, please report it; {CHECK}=0 goes on without this check"
        ) from error


_KEY = ["run_id", "node_id", "subscription_id"]


@dataclass(frozen=True)
class EntryChanges:
    """The subscription entries that a round adds and removes.

    Attributes:
        added: New entries, with the ``trigger`` of the message that brings each.
        removed: ``run_id, node_id, subscription_id, removed_trigger``: the trigger of the message that removes
            an entry.
    """

    added: DataFrame
    removed: DataFrame


def remaining_entries(entry: DataFrame, changes: EntryChanges) -> DataFrame:
    """Returns the entries after a round.

    Args:
        entry: Those before: ``run_id, node_id, subscription_id`` and others.
        changes: What the round changes.
    """
    whole = entry.unionByName(changes.added.drop("trigger"))
    return whole.join(changes.removed.hint("shuffle_hash"), _KEY, "left_anti")


def seen_entries(message: DataFrame, entry: DataFrame, changes: EntryChanges | None) -> DataFrame:
    """Joins messages with the entries that they see at their node.

    Args:
        message: ``run_id, node_id, subscription_id, trigger`` and others.
        entry: The entries before the round.
        changes: What the round changes; None for nothing.

    Returns:
        The columns of both.
    """
    # The few messages come first: engines that do not know sizes build the hash table of that side.
    seen = message.hint("shuffle_hash").join(entry, _KEY)
    if changes is None:
        return seen
    fresh = changes.added.withColumnRenamed("trigger", "added_trigger")
    seen = seen.unionByName(
        message.hint("shuffle_hash").join(fresh, _KEY).where("trigger > added_trigger").drop("added_trigger")
    )
    kept = seen.join(changes.removed.hint("shuffle_hash"), _KEY, "left")
    return kept.where("removed_trigger is null or trigger < removed_trigger").drop("removed_trigger")


_LONG_BIT = 1 << 61


def drawn_bits(purpose: str, *keys: str) -> str:
    """Returns SQL for 64 hashed bits (a BIGINT), e.g. to draw by the order of the hashes.

    Args:
        purpose: What the draw is for; different purposes are independent.
        *keys: SQL of type BIGINT that name the entity and the round.
    """
    digest = int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "big")
    salt = digest % _LONG_BIT + _LONG_BIT  # large enough to be a BIGINT literal
    return f"xxhash64({', '.join(['seed', str(salt), *keys])})"


def drawn_uniform(purpose: str, *keys: str) -> str:
    """Returns SQL for a number in [0, 1) with 53 random bits; arguments as in `drawn_bits`."""
    return as_uniform(drawn_bits(purpose, *keys))


def as_uniform(bits: str) -> str:
    """Returns SQL for the number in [0, 1) that hashed bits (SQL of type BIGINT) stand for."""
    return f"(shiftrightunsigned({bits}, 11) / cast({1 << 53} as double))"
