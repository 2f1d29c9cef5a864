"""Functions for dataflow steps: copies, deliveries, call events, the outbox, total orders and routing entries.

A *copy* is a message that reaches a node, or a call that the node's own application issues: ``run_id, node_id, source,
source_seq, kind, trigger, sender, round`` and further columns. Column ``sender`` is null for a call.

Windows sort by keys that are unique in a partition (`row_number`), because engines break ties differently from one
execution to the next. A tie stops the job with an `AmbiguousOrderError`; ``ROUNDTABLE_CHECK_ORDER=0`` disables the
check.

A node handles the copies of a round in the order of column ``trigger``. The trigger of a message is its id. The trigger
of a call is `CALL_TRIGGER`, which is greater than all message ids. Routing entries change within a round.
`seen_entries` joins a message with the entries that exist after the changes by messages with lower triggers. The result
excludes the entries that the message itself adds or removes.
"""

from __future__ import annotations

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
    """Returns one ``call_event`` row with event ``issued`` for each row of `calls`."""
    return calls.selectExpr("run_id", "node_id as source", "source_seq", "round", "'issued' as event")


def held(calls: DataFrame) -> DataFrame:
    """Returns one ``call_event`` row with event ``held`` for each row of `calls`.

    The node accepts a held call in this round and issues it later.
    """
    return calls.selectExpr("run_id", "node_id as source", "source_seq", "round", "'held' as event")


def received(inbox: DataFrame, *carried: str) -> DataFrame:
    """Returns the messages of `inbox` as copies with the payload columns `carried`."""
    return inbox.selectExpr(
        "run_id", "dst as node_id", "source", "source_seq", "kind", "message_id as trigger", "src as sender",
        "due_round as round", *carried,
    )  # fmt: skip


def called(calls: DataFrame, kinds: Mapping[str, str], payload: T.StructType, **carried: str) -> DataFrame:
    """Returns a copy for each of `calls` whose kind is in `kinds`, at the node that issues the call.

    Args:
        calls: The due calls.
        kinds: Maps the kind of a call to the message kind of its copy.
        payload: The protocol's payload.
        carried: SQL over the calls for each payload column of the copies.
    """
    kind = " ".join(f"when '{call}' then '{message}'" for call, message in kinds.items())
    types = {field.name: field.dataType.simpleString() for field in payload}
    return calls.where(f"kind in ({', '.join(map(repr, kinds))})").selectExpr(
        "run_id", "node_id", "node_id as source", "source_seq", f"case kind {kind} end as kind",
        f"{CALL_TRIGGER} as trigger", "cast(null as bigint) as sender", "round",
        *(f"cast({sql} as {types[name]}) as {name}" for name, sql in carried.items()),
    )  # fmt: skip


def deliveries(copies: DataFrame) -> DataFrame:
    """Returns a delivery for each of `copies`, at the node of the copy.

    `copies` has columns ``issued_round`` and ``hops``.
    """
    return copies.selectExpr(
        "run_id", "node_id as subscriber", "source", "source_seq", "round", "round - issued_round as latency_rounds",
        "cast(hops as bigint) as hops",
    )  # fmt: skip


def outbox(rows: DataFrame, payload: T.StructType, **columns: str) -> DataFrame:
    """Returns `rows` as messages to send, with all columns of the payload in schema order.

    Args:
        rows: ``run_id`` and the columns that the expressions read.
        payload: The protocol's payload.
        columns: SQL for columns of `contract.round.OUTBOX`, of the payload, or ``latency_rounds``. By default ``rank``
            is 0, and all other columns except ``run_id`` are null.
    """
    given = {"run_id": "run_id", "rank": "0", **columns}
    types = outbox_types(payload)
    return rows.selectExpr(*(f"cast({given.get(name, 'null')} as {type_}) as {name}" for name, type_ in types.items()))


def mapped(
    frame: DataFrame, columns: Sequence[str],
    function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]], schema: pa.Schema,
) -> DataFrame:  # fmt: skip
    """Returns the result of an Arrow function for the rows of a frame.

    Args:
        frame: Any frame.
        columns: SQL for each input column of the function.
        function: Maps batches to batches. Each output row depends on a single input row.
        schema: The output columns of the function.
    """
    return frame.selectExpr(*columns).mapInArrow(function, from_arrow_schema(schema))


CHECK = "ROUNDTABLE_CHECK_ORDER"
_IS_CHECKED = os.environ.get(CHECK, "1") != "0"
_TIED = "ROUNDTABLE_TIED_ROWS"


def row_number(what: str, partition: str, order: str) -> str:
    """Returns SQL that numbers the rows of each partition from 1, in an order without ties.

    Args:
        what: The name of the numbered rows, for the error message; without quotes.
        partition: The columns of ``partition by``.
        order: The sort keys of ``order by``; two rows of a partition with equal keys stop the job.
    """
    window = f"over (partition by {partition} order by {order})"
    if not _IS_CHECKED:
        return f"row_number() {window}"
    tied = f"cast(raise_error('{_TIED}: {what}: {order};') as int)"
    return f"case when rank() {window} = row_number() {window} then row_number() {window} else {tied} end"


@contextmanager
def ties_named() -> Iterator[None]:
    """Inside the block, converts an engine's error about tied rows to an error that names the sort keys.

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
            f" this is a bug of the protocol or the engine, please report it; {CHECK}=0 disables this check"
        ) from error


_KEY = ["run_id", "node_id", "subscription_id"]


@dataclass(frozen=True)
class EntryChanges:
    """The routing entries that a round adds and removes.

    Attributes:
        added: The new entries, each with the ``trigger`` of the message that adds it.
        removed: The removed entries: ``run_id, node_id, subscription_id`` and ``removed_trigger``, the trigger of the
            message that removes the entry. None if no message of the round removes entries.
    """

    added: DataFrame
    removed: DataFrame | None


def remaining_entries(entry: DataFrame, changes: EntryChanges) -> DataFrame:
    """Returns the entries after the changes of a round: ``run_id, node_id, subscription_id`` and further columns."""
    whole = entry.unionByName(changes.added.drop("trigger"))
    return whole if changes.removed is None else whole.join(changes.removed.hint("shuffle_hash"), _KEY, "left_anti")


def seen_entries(message: DataFrame, entry: DataFrame, changes: EntryChanges | None) -> DataFrame:
    """Joins each message with the routing entries that its node has when it handles the message.

    Args:
        message: ``run_id, node_id, subscription_id, trigger`` and further columns.
        entry: The entries before the round.
        changes: The changes of the round, or None if no entry changes.

    Returns:
        The columns of both frames.
    """
    # The few messages are the left side, because engines without size estimates build the hash table of the left side.
    seen = message.hint("shuffle_hash").join(entry, _KEY)
    if changes is None:
        return seen
    fresh = changes.added.withColumnRenamed("trigger", "added_trigger")
    seen = seen.unionByName(
        message.hint("shuffle_hash").join(fresh, _KEY).where("trigger > added_trigger").drop("added_trigger")
    )
    if changes.removed is None:
        return seen
    kept = seen.join(changes.removed.hint("shuffle_hash"), _KEY, "left")
    return kept.where("removed_trigger is null or trigger < removed_trigger").drop("removed_trigger")
