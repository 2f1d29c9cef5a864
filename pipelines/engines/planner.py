"""Plans for Spark Connect, made without a server, that the classic Spark of this process carries out.

Rounds build their frames with Spark Connect's client: a plan is a message, made without a question to a JVM. What reads
few rows is worked out in this process (`engines.rows`). The rest is given to Spark whole, and analysed once; a classic
frame is analysed again at each of its steps.
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import reduce
from threading import local
from typing import Any, ClassVar, Final, cast

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, Row, SparkSession, types as T
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame
from pyspark.sql.connect.proto import base_pb2, relations_pb2 as proto
from pyspark.sql.connect.session import SparkSession as RemoteSession

from pipelines.engines.rows.evaluate import evaluated
from pipelines.engines.rows.held import Held
from pipelines.engines.rows.kinds import UnknownPlanError
from pipelines.engines.rows.reading import Source

CONNECT_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
"""The environment variable that has PySpark's functions build columns for Spark Connect."""

_DEEPEST: Final = 10_000
"""Messages within messages: a commit puts the rows of its rounds together, one union in the other."""


@contextmanager
def functions_for(*, is_classic: bool) -> Iterator[None]:
    """Has PySpark's functions build columns for classic Spark, or for Spark Connect, meanwhile."""
    was_classic = not is_planning()
    set_functions(is_classic=is_classic)
    try:
        yield
    finally:
        set_functions(is_classic=was_classic)


def set_functions(*, is_classic: bool) -> None:
    """Has PySpark's functions build columns for classic Spark, or for Spark Connect, from now on."""
    if is_classic:
        os.environ.pop(CONNECT_MODE, None)
    else:
        os.environ[CONNECT_MODE] = "1"


def is_planning() -> bool:
    """Returns whether PySpark's functions build columns for Spark Connect now."""
    return CONNECT_MODE in os.environ


def union(frames: Iterable[DataFrame]) -> DataFrame:
    """Puts frames of one kind together, whichever kind PySpark's functions build columns for now.

    A method that is called on the class goes by the functions, and takes no frame of the other kind.
    """
    return reduce(lambda one, other: one.unionByName(other), frames)


class Planner:
    """Makes frames of Spark Connect, and has a classic Spark carry them out.

    Attributes:
        classic: The Spark.
        session: The session of the frames; it has no server.
    """

    def __init__(self, classic: SparkSession) -> None:
        """Takes a session whose JVM has the server's part of Spark Connect.

        Raises:
            Py4JError: It has not, or another version of it.
        """
        self.classic = classic
        java = self._java
        self._holder = java.connect.service.SessionHolder("roundtable", "rounds", classic._jsparkSession)
        self._planner = java.connect.planner.SparkConnectPlanner(self._holder, self._jvm.scala.Option.apply(None))
        self._reading = _Reading()
        self.session = cast(SparkSession, _Session(_Client(self)))

    @classmethod
    def of(cls, classic: SparkSession) -> Planner | None:
        """Returns the planner of a session; None where its JVM lacks Spark Connect, or has another version of it."""
        try:
            planner = cls(classic)
            planner.carried_out(planner.session.range(1))
        except (Py4JError, TypeError):  # a class that is not there is taken for a package, which nobody can call
            return None
        return planner

    @property
    def _jvm(self) -> Any:  # noqa: ANN401 - Py4J finds names when they are used
        return cast(Any, self.classic)._jvm

    @property
    def _java(self) -> Any:  # noqa: ANN401 - as above
        return self._jvm.org.apache.spark.sql

    def frame_of(self, frame: DataFrame) -> DataFrame:
        """Returns what reads a classic frame as a frame of `session`."""
        return cast(DataFrame, RemoteFrame(_Classic(frame), cast(RemoteSession, self.session)))

    def carried_out(self, frame: DataFrame) -> DataFrame:
        """Returns a frame of `session` as a classic one."""
        remote = cast(RemoteFrame, frame)
        if isinstance(remote._plan, _Classic):
            return remote._plan.frame
        with self._reading.classic() as read:
            return self._analysed(remote._plan.plan(remote._session.client), read)

    def of_message(self, plan: proto.Relation) -> DataFrame:
        """Returns a plan that a method of a frame of `session` has just made, as a classic frame."""
        return self._analysed(plan, self._reading.taken())

    def _analysed(self, plan: proto.Relation, read: dict[str, DataFrame]) -> DataFrame:
        for name, frame in read.items():
            self._holder.cacheDataFrameById(name, cast(ClassicFrame, frame)._jdf)
        try:
            text = self._jvm.org.sparkproject.connect.protobuf.CodedInputStream.newInstance(plan.SerializeToString())
            text.setRecursionLimit(_DEEPEST)
            relation = self._jvm.org.apache.spark.connect.proto.Relation.parseFrom(text)
            analysed = self._java.classic.Dataset.ofRows(
                cast(Any, self.classic)._jsparkSession, self._planner.transformRelation(relation)
            )
        finally:
            for name in read:
                self._holder.removeCachedDataFrame(name)
        return ClassicFrame(analysed, self.classic)

    def name_of(self, frame: DataFrame) -> str:
        """Returns what a classic frame is called in the plan that this thread makes."""
        return self._reading.name_of(frame)


def collected(frame: DataFrame) -> list[Row]:
    """Returns the rows of any frame, worked out in this process where they are made of few."""
    try:
        return evaluated(frame, may_wait=True).collected()
    except UnknownPlanError:
        return _native(frame).collect()


def fetched(frame: DataFrame) -> pa.Table:
    """Returns the rows of any frame as a table; see `collected`."""
    try:
        return evaluated(frame, may_wait=True).table()
    except UnknownPlanError:
        return _native(frame).toArrow()


def _native(frame: DataFrame) -> DataFrame:
    session = frame.sparkSession
    return session.planner.carried_out(frame) if isinstance(session, _Session) else frame


class _Reading(local):
    """The classic frames that the plan reads that this thread makes, by a name of each."""

    _NUMBER: ClassVar = itertools.count()

    def __init__(self) -> None:
        self._read: dict[str, DataFrame] = {}

    def name_of(self, frame: DataFrame) -> str:
        name = f"{next(self._NUMBER)}"
        self._read[name] = frame
        return name

    def taken(self) -> dict[str, DataFrame]:
        read, self._read = self._read, {}
        return read

    @contextmanager
    def classic(self) -> Iterator[dict[str, DataFrame]]:
        """Collects what one plan reads; a plan within it is made by itself."""
        before, self._read = self._read, {}
        try:
            yield self._read
        finally:
            self._read = before


class _Classic(Source):
    """Reads a classic frame."""

    def __init__(self, frame: DataFrame) -> None:
        super().__init__(None)
        self.frame = frame

    @property
    def held(self) -> Held:
        raise UnknownPlanError("rows of an engine")

    def sent(self, session: SparkConnectClient) -> proto.Relation:
        plan = self._create_proto_relation()
        plan.cached_remote_relation.relation_id = cast("_Client", session).planner.name_of(self.frame)
        return plan


class _Session(RemoteSession):
    """A session that only makes frames."""

    def __init__(self, client: _Client) -> None:
        self._client = cast(SparkConnectClient, client)
        self._session_id = client.session_id
        self.planner = client.planner
        self.release_session_on_close = False

    def _parse_ddl(self, ddl: str) -> T.DataType:
        """Returns the columns that a text names: those of what a function makes of rows."""
        columns = self.planner._jvm.org.apache.spark.sql.types.StructType.fromDDL(ddl)
        return T.StructType.fromJson(json.loads(columns.json()))


class _Client:
    """Answers what frames ask a server: for their columns, and for their rows."""

    session_id: Final = "rounds"

    def __init__(self, planner: Planner) -> None:
        self.planner = planner

    def _set_relation_in_plan(self, plan: base_pb2.Plan, relation: proto.Relation) -> None:
        plan.root.CopyFrom(relation)

    def schema(self, plan: base_pb2.Plan) -> T.StructType:
        """Returns the columns of a plan."""
        return self.planner.of_message(plan.root).schema

    def to_table(self, plan: base_pb2.Plan, _observations: object) -> tuple[pa.Table, T.StructType, None]:
        """Returns the rows of a plan."""
        frame = self.planner.of_message(plan.root)
        return frame.toArrow(), frame.schema, None
