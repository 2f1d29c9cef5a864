"""Checkpoints: frames without the plans that computed them, and what the driver reads with them."""

from __future__ import annotations

import gc
from contextlib import closing
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F, types as T
from support.cluster import wait_for
from support.engines import spread

from pipelines.engines import checkpoints
from pipelines.engines.checkpoints import Checkpoints, Part, SparkCheckpoints, checkpoints_for
from pipelines.engines.frames import frame_of
from pipelines.engines.session import Session
from pipelines.engines.settings import shipped_settings

LONG, STRING = T.LongType(), T.StringType()
ENTRY = T.StructType([
    T.StructField("run_id", LONG), T.StructField("node_id", LONG), T.StructField("path", T.ArrayType(LONG)),
])  # fmt: skip
EVENT = T.StructType([T.StructField("run_id", LONG), T.StructField("kind", STRING), T.StructField("source", LONG)])
RUNS = T.StructType([T.StructField("run_id", LONG)])
ENTRIES = [(0, 1, [2, 3]), (1, 5, None), (1, 6, [])]
EVENTS = [(0, "a", None), (1, "b", 7), (1, "b", 8)]


def check(found: Checkpoints) -> None:
    """Checkpoints two relations, one of which the driver reads, and one without rows."""
    spark = found.session.spark
    rows = pa.table({
        "run_id": [0, 1, 1], "node_id": [1, 5, 6], "path": pa.array([[2, 3], None, []], pa.list_(pa.int64())),
        "kind": ["a", "b", "b"], "source": pa.array([None, 7, 8], pa.int64()),
    })  # fmt: skip
    loaded = found.load(rows)
    kept = found("kept", loaded.where("run_id >= 0"))
    parts = {
        "entry": Part(kept.select(ENTRY.names), ENTRY, "cast(size(path) > 0 as string)"),
        "event": Part(kept.select(EVENT.names), EVENT),
        "none": Part(spark.createDataFrame([], RUNS), RUNS),
    }
    cut = found.checkpoint(parts, ["event"])
    assert sorted(cut.counts["entry"].values()) == [1, 2] or cut.counts["entry"] == {"true": 1, "false": 1, None: 1}
    assert cut.counts["event"] == {"": 3}
    assert cut.counts["none"] == {}
    assert sorted(map(tuple, cut.frames["entry"].collect())) == ENTRIES
    assert cut.frames["none"].collect() == []
    assert cut.frames.keys() == {"entry", "none"}
    events = [tuple(row.values()) for row in cut.tables["event"].to_pylist()]
    assert sorted(events, key=repr) == sorted(EVENTS, key=repr)
    again = found.checkpoint({"entry": Part(cut.frames["entry"].where("run_id = 1"), ENTRY)})
    found.end_round([again.frames["entry"]])
    assert sorted(map(tuple, again.frames["entry"].collect())) == ENTRIES[1:]


@pytest.mark.parametrize("few_bytes", [1024**2, 0], ids=["few", "many"])
def test_sail_has_rows_in_plans_or_in_files(sail: Session, monkeypatch: pytest.MonkeyPatch, few_bytes: int) -> None:
    monkeypatch.setattr(checkpoints, "_FEW_BYTES", few_bytes)
    with closing(checkpoints_for(sail)) as found:
        check(found)
        empty = found("none", found.load(pa.table({"run_id": [1]})).where("run_id > 1"))
        assert found.is_empty(empty)
        files = [*sail.scratch.glob(f"{id(found)}-*.parquet")]
        assert bool(files) == (few_bytes == 0)
        found.end_round([])
        assert len([*sail.scratch.glob(f"{id(found)}-*.parquet")]) == (2 if files else 0), "what was loaded"


@pytest.mark.parametrize(("n_runs", "is_small"), [(None, False), (1, False), (None, True)])
def test_spark_has_rows_in_executors_or_in_plans(spark: Session, n_runs: int | None, is_small: bool) -> None:
    with spread(spark, 3) as session, closing(checkpoints_for(session, n_runs, is_small=is_small)) as found:
        check(found)


def test_a_server_has_rows_in_executors(connect: Session) -> None:
    with closing(checkpoints_for(connect)) as found:
        check(found)


@pytest.mark.parametrize("n_runs", [None, 1], ids=["by run", "by node"])
def test_joins_of_a_round_need_no_exchange(
    spark: Session, capsys: pytest.CaptureFixture[str], n_runs: int | None
) -> None:
    """A second checkpoint of a frame, a union of frames, and a table with one row per run keep the partitioning."""
    on = ENTRY.names[:2]
    rows = pa.table({"run_id": [0, 0, 0], "node_id": [4, 5, 6], "path": [[1], [2], [3]]})
    with (
        spread(spark, 3) as session, session.suited(is_small=False),
        closing(checkpoints_for(session, n_runs)) as found,
    ):  # fmt: skip
        setting = found.load(pa.table({"run_id": [0], "delta": [1]}))
        link = found.load(pa.table({"run_id": [0], "src": [5], "dst": [4]}), "src").withColumnRenamed("src", "node_id")
        loaded = found.load(rows)
        cut = found.checkpoint({name: Part(loaded, ENTRY) for name in ("one", "other")}).frames
        short = found("short", cut["one"].where("node_id < 6"))
        counted = found("counted", short.groupBy(on).count().join(setting.select("run_id", "delta"), "run_id"))
        both = found("both", counted.unionByName(counted)).distinct()
        joined = both.join(cut["other"].hint("shuffle_hash"), on).join(link.hint("shuffle_hash"), on, "left")
        again = found.checkpoint({"entry": Part(joined, ENTRY)}).frames["entry"]
        capsys.readouterr()
        for frame in (joined, again.hint("shuffle_hash").join(cut["other"], on)):
            frame.explain()
            assert frame.count() == 2
    assert "Exchange" not in capsys.readouterr().out.replace("BroadcastExchange", "")


def test_the_settings_of_a_caller_are_restored(spark: Session) -> None:
    """Rules that the caller excludes stay excluded while rows are in executors."""
    rules, own = "spark.sql.optimizer.excludedRules", "org.apache.spark.sql.catalyst.optimizer.CombineFilters"
    conf = spark.spark.conf
    wanted = {key: shipped_settings()[key] for key in checkpoints._SHIPPED} | {checkpoints._CUT_ALL: "true"}
    before = {key: conf.get(key, None) for key in wanted}
    with spark.configured({rules: own, "spark.sql.adaptive.enabled": "true"}):
        with closing(checkpoints_for(spark)):
            assert own in (conf.get(rules) or "").split(",")
            assert {key: conf.get(key, None) for key in wanted} == wanted
        assert conf.get(rules) == own
        assert conf.get("spark.sql.adaptive.enabled") == "true"
    assert before == {key: conf.get(key, None) for key in wanted}


def check_sizes(given: Session, capsys: pytest.CaptureFixture[str]) -> None:
    """Joins a frame with itself 12 times, each time in two parts of a checkpoint; reads the estimate of its size."""
    with spread(given, 2) as session, closing(SparkCheckpoints(session)) as found:
        frame = frame_of(session.spark, pa.table({"run_id": [0, 1]}))
        for _ in range(12):
            kept = found("kept", frame.join(frame, "run_id").distinct())
            parts = {"run": Part(kept, RUNS), "last": Part(kept.where("run_id = 1"), RUNS)}
            frame = found.checkpoint(parts, ["last"]).frames["run"]
        assert frame.count() == 2
        frame.explain(mode="cost")
    sizes = [
        line.partition("sizeInBytes=")[2] for line in capsys.readouterr().out.splitlines() if "sizeInBytes" in line
    ]
    assert sizes
    assert all(len(size) < 40 for size in sizes)
    assert not [size for size in sizes if "E+" in size]


def check_memory(given: Session, jvm: Any) -> None:
    """The rows in executors need as much memory after 8 rounds as after 2, and none after the last round."""

    def used() -> int:
        gc.collect()
        jvm.System.gc()
        return int(jvm.org.apache.spark.SparkEnv.get().memoryManager().storageMemoryUsed())

    before, n_rows = used(), 20_000
    with spread(given, 2) as session, closing(SparkCheckpoints(session)) as found:
        session.activate()
        frame = frame_of(session.spark, pa.table({"run_id": range(n_rows)}))
        for n_rounds in (2, 6):
            for _ in range(n_rounds):
                kept = found("kept", frame.selectExpr("run_id + 1 as run_id"))
                parts = {"run": Part(kept, RUNS), "last": Part(kept.where("run_id = 8"), RUNS)}
                cut = found.checkpoint(parts, ["last"])
                frame = cut.frames["run"]
            if n_rounds == 2:
                first = used() - before
        assert frame.count() == n_rows
        wait_for(lambda: used() - before < 1.5 * first, "free memory", 30)
    assert first > 8 * n_rows
    del frame, kept, parts, cut
    wait_for(lambda: used() - before < 8 * n_rows, "free memory", 30)


def test_the_rows_of_past_rounds_are_freed(spark: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "_CUT_EVERY", 2)
    check_memory(spark, spark.spark._jvm)  # no public function returns the memory of all rows


def test_a_server_frees_the_rows_of_past_rounds(
    spark: Session, connect: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is in the JVM of ``spark``."""
    monkeypatch.setattr(checkpoints, "_CUT_EVERY", 2)
    check_memory(connect, spark.spark._jvm)


def test_sizes_do_not_multiply(spark: Session, capsys: pytest.CaptureFixture[str]) -> None:
    """The planner's estimate of a join is the product of its sides; those of 12 joins of each other take minutes."""
    check_sizes(spark, capsys)


def test_sizes_do_not_multiply_on_a_server(connect: Session, capsys: pytest.CaptureFixture[str]) -> None:
    check_sizes(connect, capsys)


def test_a_kept_frame_joins_with_its_source(spark: Session) -> None:
    """Without expression ids of their own, the columns of the kept frame conflict with those of its source."""
    with spread(spark, 2) as session, closing(SparkCheckpoints(session)) as found:
        rows = pa.table({"run_id": [0, 1, 1], "node_id": [4, 5, 6], "path": [[1], [2], [3]]})
        source = found.checkpoint({"entry": Part(found.load(rows), ENTRY)}).frames["entry"]
        number = found("number", source.withColumn("n_links", F.size("path")).where("run_id = 1"))
        joined = source.join(
            number.select("run_id", "node_id", "n_links").hint("shuffle_hash"), ENTRY.names[:2], "left"
        )
        assert sorted(map(tuple, joined.select("node_id", "n_links").collect())) == [(4, None), (5, 1), (6, 1)]
