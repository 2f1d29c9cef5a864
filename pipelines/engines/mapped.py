"""Arrow functions over frames, without a question to the server."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import cast

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame
from pyspark.sql.connect.plan import MapPartitions
from pyspark.sql.connect.udf import UserDefinedFunction
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.util import PythonEvalType


def mapped(
    frame: DataFrame, columns: Sequence[str], function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: pa.Schema,
) -> DataFrame:  # fmt: skip
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
    called = UserDefinedFunction(function, returnType=kind, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    names = [column.rpartition(" as ")[2] for column in columns]
    found = RemoteFrame(MapPartitions(given._plan, called, names, False, None), given._session)
    found._cached_schema = kind
    return cast(DataFrame, found)
