"""Functions that hide the differences between DataFrames of classic Spark and of Spark Connect."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

CONNECT_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
"""The environment variable that makes PySpark's functions build columns for Spark Connect."""


def set_functions(*, is_classic: bool) -> None:
    """Selects whether PySpark's functions (``F.expr`` ...) build columns for classic Spark or for Spark Connect."""
    if is_classic:
        os.environ.pop(CONNECT_MODE, None)
    else:
        os.environ[CONNECT_MODE] = "1"


def builds_classic() -> bool:
    """Returns whether PySpark's functions build columns for classic Spark."""
    return CONNECT_MODE not in os.environ


def union(frames: Iterable[DataFrame]) -> DataFrame:
    """Returns the union of frames that have equal column names."""
    return reduce(lambda one, other: one.unionByName(other), frames)


def json_object(columns: Iterable[str]) -> str:
    """Returns SQL for a JSON object with the values of `columns`, whose names may be reserved words (``left``)."""
    quoted = ", ".join(f"`{column}`" for column in columns)
    return f"to_json(struct({quoted}))" if quoted else "'{}'"


def without_comments(rows: DataFrame) -> DataFrame:
    """Returns ``rows`` without the comments of Delta columns. Sail 0.7 fails to plan nested unions of such columns.

    An alias keeps the comment; the result of a function has none. The function hides the columns from Delta's file
    statistics.
    """
    types = {field.name: field.dataType.simpleString() for field in rows.schema}
    return rows.selectExpr(*(f"nullif({name}, cast(null as {type_})) as {name}" for name, type_ in types.items()))


def arrow_of(frame: DataFrame) -> pa.Table:
    """Returns the rows of a DataFrame as an Arrow table, in which all strings and lists have offsets.

    The JVM sends an array of strings or lists without offsets if the array has no element. Arrow 26 reads offset 0 when
    it computes ``nbytes``, or when it writes a list of lists as a stream; the process can end with SIGSEGV.
    """
    rows = frame.toArrow()
    if not len(rows):
        return rows.schema.empty_table()
    return pa.Table.from_batches([_with_offsets(batch) for batch in rows.to_batches()], rows.schema)


def _with_offsets(batch: pa.RecordBatch) -> pa.RecordBatch:
    is_complete = all(buffer is None or buffer.size for column in batch.columns for buffer in column.buffers())
    return batch if is_complete else batch.take(pa.array(np.arange(batch.num_rows)))


def frame_of(spark: SparkSession, rows: pa.Table) -> DataFrame:
    """Returns a DataFrame with the rows of an Arrow table."""
    schema = from_arrow_schema(rows.schema)
    if isinstance(spark, SparkSession):  # classic Spark, which prunes plans that read an empty table
        return spark.createDataFrame(rows.combine_chunks() if len(rows) else rows.schema.empty_table(), schema)
    # Spark Connect rejects a table without chunks, and Sail's from_json rejects a chunk without rows.
    return spark.createDataFrame(rows.combine_chunks(), schema) if len(rows) else spark.createDataFrame([], schema)
