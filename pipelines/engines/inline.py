"""What plans for Spark Connect read: a few rows as a part of them, and frames that are made meanwhile."""

from __future__ import annotations

from concurrent.futures import Future
from functools import cached_property
from typing import Generic, Protocol, TypeVar, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, types as T
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame
from pyspark.sql.connect.plan import LocalRelation
from pyspark.sql.connect.proto import relations_pb2 as proto
from pyspark.sql.connect.session import SparkSession as RemoteSession
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.engines.rows.held import Held
from pipelines.engines.rows.kinds import UnfinishedError
from pipelines.engines.rows.reading import Source, may_wait


def inlined(session: SparkSession, rows: pa.Table, schema: T.StructType) -> DataFrame:
    """Returns rows as a frame of a Spark Connect session: for a few, planning and reading takes half of a scan's time.

    ``createDataFrame`` returns the same after it has asked the server for several of its settings.
    """
    return cast(DataFrame, RemoteFrame(_Inlined(rows, schema), cast(RemoteSession, session)))


class _Inlined(Source, LocalRelation):
    def __init__(self, rows: pa.Table, schema: T.StructType) -> None:
        # Where rows are, they tell their types themselves.
        super().__init__(rows, None if rows.num_rows else schema.json())
        self._rows, self._columns = rows, schema

    @cached_property
    def held(self) -> Held:
        return Held.of(self._rows, self._columns)


class Readable(Protocol):
    """A relation that is there."""

    @property
    def frame(self) -> DataFrame:
        """Reads it."""

    @property
    def held(self) -> Held:
        """Its rows, if they are few."""


Made = TypeVar("Made", bound=Readable)


def later(session: SparkSession, made: Future[Made], schema: T.StructType) -> DataFrame:
    """Returns a frame of a relation that is there when plans with it are sent.

    Args:
        session: A session of Spark Connect.
        made: The relation.
        schema: Its columns: who asks for them does not wait for its rows.
    """
    frame = RemoteFrame(_Later(made), cast(RemoteSession, session))
    frame._cached_schema = schema
    return cast(DataFrame, frame)


class _Later(Source, Generic[Made]):
    def __init__(self, made: Future[Made]) -> None:
        super().__init__(None)
        self._made = made

    @property
    def held(self) -> Held:
        if not (may_wait() or self._made.done()):
            raise UnfinishedError
        return self._made.result().held

    def sent(self, session: SparkConnectClient) -> proto.Relation:
        return cast(RemoteFrame, self._made.result().frame)._plan.plan(session)


def frame_of(session: SparkSession, rows: pa.Table) -> DataFrame:
    """Returns rows as a frame; any engine knows when it plans that there are none."""
    schema = from_arrow_schema(rows.schema)
    if isinstance(session, RemoteSession):
        return inlined(session, rows, schema)
    return session.createDataFrame(rows, schema)
