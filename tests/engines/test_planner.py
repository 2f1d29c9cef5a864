"""Plans of Spark Connect, made without a server, that classic Spark carries out."""

from __future__ import annotations

import os
from contextlib import closing
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame
from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame
from pyspark.sql.pandas.types import from_arrow_schema
from support.engines import executed_plan, history, mixed, spread

from pipelines.engines.materialise.choose import materialiser_for
from pipelines.engines.materialise.memory import MemoryMaterialiser
from pipelines.engines.planner import Planner, collected
from pipelines.engines.rows.evaluate import evaluated
from pipelines.engines.rows.kinds import UnknownPlanError
from pipelines.engines.rows.operators import Limit, limited, most_rows
from pipelines.engines.session import Session
from pipelines.errors import EngineError
from pipelines.testing import run_all, run_configs

FORWARDING = [mixed({"name": "forwarding"}, "joined", 5)]


def planned_ids(session: Session) -> DataFrame:
    assert session.planner is not None
    return session.planner.frame_of(session.planner.classic.range(10).selectExpr("id", "id % 3 as part"))


def test_a_plan_over_frames_of_spark_has_the_rows_of_spark(spark: Session) -> None:
    """One of them is read twice, and PySpark's functions build what the plan needs."""
    with spark.planned() as session:
        ids = planned_ids(session)
        found = ids.groupBy("part").agg(F.expr("sum(id) as whole")).join(ids, "part").orderBy("id")
        assert isinstance(found, RemoteFrame)
        assert found.schema.names == ["part", "whole", "id"]
        with pytest.raises(UnknownPlanError):
            evaluated(found, may_wait=True)
        native = session.native(found)
        assert isinstance(native, ClassicFrame)
        rows = collected(found)
        assert [tuple(row) for row in rows] == [tuple(row) for row in native.collect()]
        assert [row.whole for row in rows[:3]] == [18, 12, 15]
        assert found.toArrow().to_pylist() == [row.asDict() for row in rows]


def test_a_commit_may_have_many_rounds(spark: Session) -> None:
    with spark.planned() as session:
        parts = [planned_ids(session).where(f"id = {round_ % 10}") for round_ in range(120)]
        whole = reduce(DataFrame.unionByName, parts).groupBy("id").agg(F.expr("count(1) as n"))
        assert sorted(map(tuple, session.native(whole).collect())) == [(id_, 12) for id_ in range(10)]


def test_few_rows_need_no_spark(spark: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    with spark.planned() as session:
        monkeypatch.setattr(Planner, "carried_out", None)
        few = session.spark.range(4).selectExpr("id", "id * 2 as twice").where("id > 1")
        assert [row.asDict() for row in collected(few)] == [{"id": 2, "twice": 4}, {"id": 3, "twice": 6}]


def test_functions_build_classic_columns_again_afterwards(spark: Session) -> None:
    spark.activate()
    with spark.planned() as session:
        assert "SPARK_CONNECT_MODE_ENABLED" in os.environ
        with pytest.raises(PySparkException, match="nowhere"):
            session.native(planned_ids(session).select("nowhere"))
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ
    assert spark.spark.range(2).select(F.lit(1)).count() == 2


@pytest.mark.parametrize(("n_runs", "n_used"), [(1, 4), (4, 1)])
def test_one_run_is_spread_by_its_nodes(spark: Session, n_runs: int, n_used: int) -> None:
    """All partitions have rows of it where there are fewer runs, and joins of a node's rows need no exchange."""
    rows = {
        "node": pa.table({"run_id": [0] * 400, "node_id": range(400)}),
        "message": pa.table({"run_id": [0] * 400, "src": [7] * 400, "dst": range(400)}),
    }
    with (
        spread(spark, 4) as session, session.planned() as planned,
        closing(materialiser_for(planned, n_runs=n_runs)) as materialiser,
    ):  # fmt: skip
        frames = {
            name: materialiser.load(name, table, from_arrow_schema(table.schema)).frame for name, table in rows.items()
        }
        joined = frames["node"].join(frames["message"].withColumnRenamed("dst", "node_id"), ["run_id", "node_id"])
        native = planned.native(joined)
        assert "Exchange" not in executed_plan(native)
        assert len(native.collect()) == 400
        for frame in frames.values():
            assert planned.native(frame.selectExpr("spark_partition_id()")).distinct().count() == n_used


def test_a_jvm_without_spark_connect_gives_the_same_rows(
    spark: Session, sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = run_configs(FORWARDING)
    on_sail = history(run_all(runs, sail, tmp_path / "local", form="dataflow"))
    monkeypatch.setattr("pipelines.engines.planner.Planner._java", property(lambda self: self._jvm.org.nowhere))
    spark.activate()
    assert Planner.of(spark.spark) is None
    with spread(spark, 2) as session, session.planned() as same:
        assert same is session
    assert history(run_all(runs, spark, tmp_path / "spark", form="dataflow")) == on_sail
    assert on_sail["delivery"]


@pytest.mark.parametrize(("given", "found"), [(None, 80_000), ("0", 0), ("70", 70)])
def test_how_many_rows_are_few(given: str | None, found: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ROUNDTABLE_DRIVER_ROWS", raising=False)
    if given is not None:
        monkeypatch.setenv("ROUNDTABLE_DRIVER_ROWS", given)
    assert most_rows() == found
    with limited(Limit(7, 1)):
        assert most_rows() == (7 if given is None else found)
    assert most_rows() == found


def test_a_number_of_rows_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROUNDTABLE_DRIVER_ROWS", "-1")
    with pytest.raises(EngineError, match="ROUNDTABLE_DRIVER_ROWS is '-1'; it may be a whole number, 0 for none"):
        most_rows()


@pytest.mark.parametrize("is_known", [True, False])
def test_a_checkpoint_is_made_whatever_the_plans_of_a_jvm(
    spark: Session, monkeypatch: pytest.MonkeyPatch, is_known: bool
) -> None:
    """Spark of another version may have other plans; a job that fails is told either way."""
    with spread(spark, 2) as session, closing(MemoryMaterialiser(session)) as materialiser:
        if not is_known:
            monkeypatch.setattr("pipelines.engines.materialise.memory._best", lambda plan, wanted: plan.nowhere())
        numbers = session.spark.range(10).selectExpr("id as run_id")
        relation, facts = materialiser.checkpointed(numbers, {"n": "count(1)"})
        assert (relation.frame.count(), facts) == (10, {"n": 10})
        assert materialiser.cache("", relation.frame.where("run_id > 3")).frame.count() == 6
        assert materialiser._knows_plans == is_known
        with pytest.raises(PySparkException, match="planted"):
            materialiser.checkpointed(numbers.selectExpr("raise_error('planted') as run_id"), {})


def test_a_checkpoint_is_partitioned_by_its_own_columns(spark: Session) -> None:
    """A join is partitioned by its right side's ``node_id``, too: it returns another column of that name."""
    with spread(spark, 4) as session, closing(MemoryMaterialiser(session, is_by_node=True)) as materialiser:
        own = pa.table({"run_id": [0] * 60, "node_id": range(60), "peer": [(7 * node) % 60 for node in range(60)]})
        of_peer = pa.table({"run_id": [0] * 60, "node_id": range(60), "x": range(60)})
        left, right = (materialiser.load("", one, from_arrow_schema(one.schema)).frame for one in (own, of_peer))
        right = right.selectExpr("run_id as other_run", "node_id as other", "x")
        meets = "run_id = other_run and peer = other"
        joined = left.join(right.hint("shuffle_hash"), F.expr(meets)).select("run_id", "node_id", "x")
        (relation, _) = materialiser.checkpointed(joined, {})
        once = relation.frame.groupBy("run_id", "node_id").agg(F.expr("count(1) as n"))
        assert sorted((row.node_id, row.n) for row in once.collect()) == [(node, 1) for node in range(60)]
        again = relation.frame.join(left, ["run_id", "node_id"])
        assert sorted((row.node_id, row.x) for row in again.collect()) == [(n, (7 * n) % 60) for n in range(60)]
