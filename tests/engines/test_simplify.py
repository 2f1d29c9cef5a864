"""What is left out of a plan before it is sent: no row differs, and what has no rows is not planned."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, types as T
from pyspark.sql.connect.proto import base_pb2

from pipelines.engines.inline import inlined
from pipelines.engines.sail_plans import expressions
from pipelines.engines.sail_plans.simplify import simplify
from pipelines.engines.session import Session

SCHEMA = T.StructType([T.StructField("a", T.LongType()), T.StructField("b", T.LongType())])
SOME = pa.table({"a": [1, 1, 2, None], "b": [1, 2, None, 4]})
Plan = Callable[[DataFrame, DataFrame], DataFrame]
WITHOUT_ROWS: dict[str, Plan] = {
    "itself": lambda some, no: no,
    "projected": lambda some, no: (
        no.selectExpr("a + 1 as c", "row_number() over (partition by a order by b) as x")
        .where("c > 1")
        .drop("x")
        .distinct()
        .orderBy("c")
    ),
    "inner": lambda some, no: some.join(no, "a"),
    "inner of nothing": lambda some, no: no.join(some, "a"),
    "semi": lambda some, no: some.join(no, "a", "left_semi"),
    "anti of nothing": lambda some, no: no.join(some, "a", "left_anti"),
    "left of nothing": lambda some, no: no.join(some, "a", "left"),
    "crossed": lambda some, no: some.crossJoin(no.select("a")),
    "union": lambda some, no: no.unionByName(no.where("a = 1")),
    "grouped": lambda some, no: no.groupBy("a").count(),
}
WITH_ROWS: dict[str, Plan] = {
    "union": lambda some, no: some.unionByName(no),
    "union the other way": lambda some, no: no.unionByName(some),
    "aggregates in a selection": lambda some, no: some.crossJoin(no.selectExpr("1 + coalesce(sum(a), 0) as c")),
    "positions": lambda some, no: some.union(some.join(no, "b", "left_anti")),
    "anti": lambda some, no: some.join(no, "a", "left_anti"),
    "anti on both": lambda some, no: some.join(no.where("b = 2"), ["a", "b"], "left_anti").groupBy("a").count(),
    "left": lambda some, no: some.join(no.withColumnRenamed("b", "c"), "a", "left"),
    "right": lambda some, no: no.join(some.withColumnRenamed("b", "c"), "a", "right"),
    "full": lambda some, no: no.join(some.withColumnRenamed("b", "c"), "a", "full"),
    "counted": lambda some, no: no.selectExpr("count(1) as n", "max(a) as a"),
    "counted by itself": lambda some, no: some.crossJoin(no.selectExpr("count(1) as n")),
    "minus": lambda some, no: some.exceptAll(no),
    "nested": lambda some, no: some.unionByName(no.join(some, "a", "left_semi")).join(no, "b", "left_anti"),
}


@pytest.fixture
def frames(sail: Session) -> tuple[DataFrame, DataFrame]:
    return inlined(sail.spark, SOME, SCHEMA), inlined(sail.spark, SOME.slice(0, 0), SCHEMA)


def command(frame: DataFrame, source: str) -> base_pb2.ExecutePlanRequest:
    """The request that writes a frame."""
    request = base_pb2.ExecutePlanRequest()
    write = request.plan.command.write_operation
    write.source = source
    write.input.CopyFrom(frame._plan.to_proto(frame.sparkSession.client).root)  # type: ignore[attr-defined]
    expressions._rewrite(request)
    return request


@pytest.mark.parametrize("name", WITHOUT_ROWS)
def test_a_file_without_rows_needs_no_plan(frames: tuple[DataFrame, DataFrame], name: str) -> None:
    request = command(WITHOUT_ROWS[name](*frames), "parquet")
    simplify(request)
    assert request.plan.command.write_operation.input.WhichOneof("rel_type") == "local_relation"


@pytest.mark.parametrize("name", WITH_ROWS)
def test_files_have_the_rows_of_the_plan(frames: tuple[DataFrame, DataFrame], name: str, tmp_path: Path) -> None:
    frame = WITH_ROWS[name](*frames)
    wanted = frame.toArrow().to_pylist()
    frame.write.parquet(str(tmp_path / "part"))
    found = pq.read_table(tmp_path / "part").select(frame.columns).to_pylist()
    assert sorted(found, key=repr) == sorted(wanted, key=repr)
    assert found


def test_a_table_keeps_its_columns_without_rows(frames: tuple[DataFrame, DataFrame]) -> None:
    request = command(WITHOUT_ROWS["inner"](*frames), "delta")
    before = request.plan.command.write_operation.input.WhichOneof("rel_type")
    simplify(request)
    assert request.plan.command.write_operation.input.WhichOneof("rel_type") == before == "join"


def test_arms_and_joins_without_rows_are_left_out(frames: tuple[DataFrame, DataFrame]) -> None:
    some, no = frames
    request = command(WITH_ROWS["nested"](some, no), "parquet")
    simplify(request)
    assert request.plan.command.write_operation.input.WhichOneof("rel_type") == "local_relation"
