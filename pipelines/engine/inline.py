"""A few rows as a part of the plans that read them."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, types as T
from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame
from pyspark.sql.connect.plan import LocalRelation
from pyspark.sql.connect.session import SparkSession as RemoteSession
from pyspark.sql.pandas.types import from_arrow_schema


def inlined(session: SparkSession, rows: pa.Table, schema: T.StructType) -> DataFrame:
    """Gives rows as a frame of a Spark Connect session: for a few, planning and reading takes half of a scan's time.

    ``createDataFrame`` gives the same after it has asked the server for several of its settings.
    """
    # Where rows are, they tell their types themselves.
    relation = LocalRelation(rows, None if rows.num_rows else schema.json())
    return cast(DataFrame, RemoteFrame(relation, cast(RemoteSession, session)))


def frame_of(session: SparkSession, rows: pa.Table) -> DataFrame:
    """Gives rows as a frame; any engine knows when it plans that there are none."""
    schema = from_arrow_schema(rows.schema)
    if isinstance(session, RemoteSession):
        return inlined(session, rows, schema)
    return session.createDataFrame(rows, schema)
