"""Arrow functions over frames, without a question to the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame, types as T
from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame
from pyspark.sql.connect.plan import MapPartitions
from pyspark.sql.connect.udf import UserDefinedFunction
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.util import PythonEvalType

from pipelines.engines.executors import mapped_here
from pipelines.engines.rows.evaluate import evaluated
from pipelines.engines.rows.held import Held
from pipelines.engines.rows.kinds import UnknownPlanError
from pipelines.engines.rows.reading import Source, may_wait
from udfs.nodes.block import Play


def mapped(frame: DataFrame, columns: Sequence[str], function: Play, schema: pa.Schema) -> DataFrame:
    """Returns what an Arrow function makes of some columns of a frame.

    ``mapInArrow`` returns the same. Over Spark Connect it asks the server for the columns of the frame, which plans it
    once more for that: in a small round this takes as long as the rest.

    Args:
        frame: Any frame.
        columns: SQL for each column that the function takes.
        function: Takes and returns batches of rows.
        schema: The columns that it returns.
    """
    given, kind = frame.selectExpr(*columns), from_arrow_schema(schema)
    if not isinstance(given, RemoteFrame):
        return given.mapInArrow(function, kind)
    return _planned(given, columns, function, kind, _Work(function, schema, kind))


def _planned(
    given: RemoteFrame, columns: Sequence[str], function: Play, kind: T.StructType, work: _Work | None
) -> DataFrame:  # fmt: skip
    called = UserDefinedFunction(function, returnType=kind, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    names = [column.rpartition(" as ")[2] for column in columns]
    found = RemoteFrame(_Mapped(given, called, names, work), given._session)
    found._cached_schema = kind
    return cast(DataFrame, found)


@dataclass(frozen=True)
class _Work:
    """What an Arrow function makes of rows in this process.

    Attributes:
        function: The function.
        schema: The columns that it returns.
        columns: The same, in Spark's words.
    """

    function: Play
    schema: pa.Schema
    columns: T.StructType

    def of(self, rows: Held) -> Held:
        """Returns the rows.

        Raises:
            PySparkException: The function fails, as an engine says it.
        """
        return Held.of(mapped_here(rows.table(), self.function, self.schema, 1), self.columns)


class _Mapped(Source, MapPartitions):
    def __init__(self, given: RemoteFrame, called: UserDefinedFunction, names: list[str], work: _Work | None) -> None:
        super().__init__(given._plan, called, names, False, None)
        self._given, self._work = given, work
        self._called: Held | None = None

    @property
    def held(self) -> Held:
        if self._work is None:
            raise UnknownPlanError("work for executors")
        if self._called is None:
            self._called = self._work.of(evaluated(cast(DataFrame, self._given), may_wait=may_wait()))
        return self._called

    def ready(self) -> Held | None:
        return self._called
