"""The columns of messages in flight."""

from __future__ import annotations

from pyspark.sql import types as T

from pipelines.tables import BIGINT, STRING


def in_flight_schema(payload: T.StructType) -> T.StructType:
    """Returns the columns of messages in flight."""
    names = ["run_id", "message_id", "src", "dst", "sent_round", "due_round", "remaining_rounds"]
    keys = [T.StructField(name, BIGINT, False) for name in names]
    keys.insert(2, T.StructField("kind", STRING, False))
    call = [T.StructField("source", BIGINT), T.StructField("source_seq", BIGINT)]
    return T.StructType([*keys, *call, T.StructField("fate", STRING), *payload.fields])
