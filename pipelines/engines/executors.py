"""Arrow functions over rows that are independent of each other: on Spark's executors, or in this process."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

import udfs
from udfs.nodes.processes import PACKED, Play, pack, packed, unpacked

_SLICES_PER_CORE = 4
"""Slices of rows a core: no core waits long for the last slice, and none holds all of its share at once."""


def slices_of(rows: pa.Table, n_cores: int) -> list[pa.RecordBatch]:
    """Returns rows cut into slices of equal length, `_SLICES_PER_CORE` a core at most."""
    n_rows = -(-len(rows) // (max(n_cores, 1) * _SLICES_PER_CORE)) or 1
    parts = (rows.slice(first, n_rows).combine_chunks() for first in range(0, len(rows), n_rows))
    return [batch for part in parts for batch in part.to_batches()]


def mapped_here(rows: pa.Table, function: Play, schema: pa.Schema, n_cores: int) -> pa.Table:
    """Returns the rows that an Arrow function makes of rows, called in this process.

    Args:
        rows: The rows.
        function: Takes and returns batches of rows, each row by itself; it may have processes of its own.
        schema: The columns that it returns.
        n_cores: The cores that work on them.

    Raises:
        PySparkException: The function fails.
    """
    try:
        return pa.Table.from_batches(function(slices_of(rows, n_cores)), schema)
    except Exception as error:
        raise PySparkException(f"{type(error).__name__}: {error}") from error


def mapped_on_executors(
    spark: SparkSession, rows: pa.Table, function: Play, schema: pa.Schema, n_cores: int
) -> pa.Table:  # fmt: skip
    """Returns the rows that an Arrow function makes of rows, called by Spark's executors in one job.

    A slice of rows is one binary value, as is each batch that comes back: Spark would convert each value of each row.
    Slices are dealt out in turn from one partition, so that tasks have equal numbers of them (within one).

    Args:
        spark: A session of Spark, classic or Connect.
        rows: The rows.
        function: As in `mapped_here`.
        schema: The columns that it returns.
        n_cores: The cores of all executors.

    Raises:
        PySparkException: The function fails, or executors are lost too often.
    """
    packs = pack(slices_of(rows, n_cores))
    tasks = spark.createDataFrame(packs).coalesce(1).repartition(min(len(packs), n_cores))
    found = tasks.mapInArrow(packed(function), from_arrow_schema(PACKED)).toArrow()
    return pa.Table.from_batches(unpacked(found), schema)


def ship_udfs(spark: SparkSession, scratch: Path) -> None:
    """Sends package `udfs`, all that executors import, to the Python workers of a Spark Connect session.

    Args:
        spark: The session.
        scratch: A folder for the archive.
    """
    package = Path(udfs.__file__).parent
    archive = scratch / "udfs.zip"
    with ZipFile(archive, "w") as zipped:
        for path in sorted(package.rglob("*.py")):
            zipped.write(path, path.relative_to(package.parent))
    spark.addArtifacts(str(archive), pyfile=True)
