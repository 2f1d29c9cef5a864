"""What plans for Spark Connect read: a few rows as a part of them, and frames that are made meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, types as T
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame
from pyspark.sql.connect.plan import LocalRelation, LogicalPlan
from pyspark.sql.connect.proto import relations_pb2 as proto
from pyspark.sql.connect.session import SparkSession as RemoteSession
from pyspark.sql.pandas.types import from_arrow_schema


def inlined(session: SparkSession, rows: pa.Table, schema: T.StructType) -> DataFrame:
    """Returns rows as a frame of a Spark Connect session: for a few, planning and reading takes half of a scan's time.

    ``createDataFrame`` returns the same after it has asked the server for several of its settings.
    """
    # Where rows are, they tell their types themselves.
    relation = LocalRelation(rows, None if rows.num_rows else schema.json())
    return cast(DataFrame, RemoteFrame(relation, cast(RemoteSession, session)))


def later(session: SparkSession, made: Callable[[], DataFrame]) -> DataFrame:
    """Returns a frame for another one that is there when plans with it are sent.

    Args:
        session: A session of Spark Connect.
        made: Returns the frame of that session; waits for it.
    """
    return cast(DataFrame, RemoteFrame(_Later(made), cast(RemoteSession, session)))


class _Later(LogicalPlan):
    def __init__(self, made: Callable[[], DataFrame]) -> None:
        super().__init__(None)
        self._made = made

    def plan(self, session: SparkConnectClient) -> proto.Relation:
        return cast(RemoteFrame, self._made())._plan.plan(session)


def frame_of(session: SparkSession, rows: pa.Table) -> DataFrame:
    """Returns rows as a frame; any engine knows when it plans that there are none."""
    schema = from_arrow_schema(rows.schema)
    if isinstance(session, RemoteSession):
        return inlined(session, rows, schema)
    return session.createDataFrame(rows, schema)
