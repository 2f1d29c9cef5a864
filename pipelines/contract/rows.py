"""Rows that protocols read and write in the same form: copies of messages, deliveries, call events, the outbox.

A *copy* is a message that reaches a node, or a call that its own application issues there: ``run_id, node_id, source,
source_seq, kind, trigger, sender, round`` and what it carries; ``sender`` is null for a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, types as T
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.contract.round import CALL_TRIGGER, outbox_types

NODE = ["run_id", "node_id"]
KEY = [*NODE, "source", "source_seq"]
"""What identifies a message at a node."""


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
        kinds: The message kind of each kind of call that is meant.
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
