"""Tables that the Delta library writes and reads, and those that an engine does: the same rows and versions."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, functions as F, types as T

from pipelines.engines.frames import arrow_of
from pipelines.engines.session import Session
from pipelines.errors import StoreError, VacuumedError
from pipelines.store.folder import check_store, new_store
from pipelines.store.store import Store
from pipelines.tables import HISTORY, Table
from pipelines.testing import rows
from udfs.nodes.processes import stream_of

PATH = T.ArrayType(T.StructType([T.StructField("via", T.LongType()), T.StructField("is_done", T.BooleanType())]))
MIXED = Table(
    "mixed",
    "a thing",
    ("run_id",),
    T.StructType([
        T.StructField("run_id", T.LongType(), False, {"comment": "the run"}),
        T.StructField("name", T.StringType(), True, {"comment": "its name"}),
        T.StructField("path", PATH, True, {"comment": "its path"}),
    ]),
)  # fmt: skip
FIRST = {"run_id": [1, 2], "name": ["a", None], "path": [[{"via": 3, "is_done": True}], None]}
SECOND = {"run_id": [3], "name": [""], "path": [[]]}


def by_library(store: Store, table: str) -> list[bool]:
    """Returns of each commit of a table but the first one whether the library wrote it."""
    logs = sorted((store.path(table) / "_delta_log").glob("*.json"))[1:]
    infos = (json.loads(line) for log in logs for line in log.read_text("utf-8").splitlines() if "commitInfo" in line)
    return ["delta-rs" in info["commitInfo"].get("engineInfo", "") for info in infos]


@pytest.fixture(params=[True, False], ids=["library", "engine"])
def is_slow(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the engine counts as one that is slow with files, so that the library takes its place."""
    monkeypatch.setattr(Store, "_is_slow", request.param)
    return bool(request.param)


def mixed(session: Session, root: Path) -> Store:
    store = Store(root, session)
    store.create([MIXED])
    return store


def test_versions_can_be_read(sail: Session, tmp_path: Path, is_slow: bool) -> None:
    store = mixed(sail, tmp_path)
    assert rows(store, "mixed") == []
    assert store.read("mixed").columns == MIXED.columns
    store.is_small = True
    store.load("mixed", pa.table(FIRST))
    store.load("mixed", pa.table(SECOND))
    store.overwrite("mixed", store.read("mixed").where("run_id = 3"))
    assert [store.read("mixed", version).count() for version in range(4)] == [0, 2, 3, 1]
    assert rows(store, "mixed") == [(3, "", ())]
    assert rows(store, "mixed", "name") == [("",)]
    assert by_library(store, "mixed") == [True, True, True]
    files = sorted(store.path("mixed").glob("*.parquet"))
    store.rewind({"mixed": 2})
    assert store.version("mixed") == 4
    assert sorted(store.path("mixed").glob("*.parquet")) == files
    assert sorted(row[:2] for row in rows(store, "mixed")) == [(1, "a"), (2, None), (3, "")]
    store.load("mixed", pa.table(FIRST))
    assert [store.read("mixed", version).count() for version in range(2, 6)] == [3, 1, 3, 5]


def test_arrays_of_the_jvm_get_their_offsets() -> None:
    """The JVM sends arrays without elements without offsets; the bytes at the position of the offset are arbitrary."""
    missing = pa.py_buffer(struct.pack("<2i", 5, 1000)).slice(0, 0)
    inner = pa.ListArray.from_buffers(pa.list_(pa.int64()), 0, [None, missing], children=[pa.array([], pa.int64())])
    lists = pa.ListArray.from_buffers(pa.list_(inner.type), 2, [None, pa.py_buffer(bytes(12))], children=[inner])
    sent = pa.table({"lists": lists})
    found = arrow_of(cast(DataFrame, SimpleNamespace(toArrow=lambda: sent)))
    wanted = pa.table({"lists": [[], []]}, sent.schema)
    assert found.equals(wanted)
    assert [stream_of(one) for one in found.to_batches()] == [stream_of(one) for one in wanted.to_batches()]


def test_a_version_without_its_files_cannot_be_restored(sail: Session, tmp_path: Path) -> None:
    store = mixed(sail, tmp_path)
    store.load("mixed", pa.table(FIRST))
    [file] = store.path("mixed").glob("*.parquet")
    store.load("mixed", pa.table(SECOND), "overwrite")
    file.unlink()
    with pytest.raises(VacuumedError, match=r"version 1 of table .mixed. of the store .* is gone"):
        store.rewind({"mixed": 1})


def test_large_tables_are_the_engines(sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Store, "_is_slow", True)
    store = mixed(sail, tmp_path)
    store.load("mixed", pa.table(FIRST))
    before = rows(store, "mixed")
    monkeypatch.setattr("pipelines.store.store._FEW_BYTES", 10)
    assert rows(store, "mixed") == before


@pytest.mark.parametrize(
    ("damaged", "told"),
    [
        ("*.parquet", r"the store .* is damaged: its file mixed/part-.*\.parquet cannot be read; restore it"),
        ("_delta_log/*1.json", r"table 'mixed' of the store .* is damaged: .*; put its files back, or run"),
    ],
)
def test_a_damaged_table_is_named(
    sail: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damaged: str, told: str
) -> None:
    monkeypatch.setattr(Store, "_is_slow", True)
    store = mixed(sail, tmp_path)
    store.load("mixed", pa.table(FIRST))
    [file] = store.path("mixed").glob(damaged)
    file.write_bytes(b"garbage")
    with pytest.raises(StoreError, match=told):
        store.read("mixed")


def test_comments_are_in_the_table(sail: Session, tmp_path: Path) -> None:
    store = Store(tmp_path, sail)
    store.create(HISTORY)
    for table in HISTORY:
        made = DeltaTable(store.path(table.name))
        assert str(made.metadata().description).startswith(f"a row is {table.grain}; key ")
        assert all(field.metadata["comment"] for field in made.schema().fields)


def unusual(session: Session, root: Path) -> None:
    """Creates a store in a folder, and writes and reads it by library and engine, now and as of a version."""
    root.mkdir()
    store = mixed(session, root)
    store.load("mixed", pa.table(FIRST, schema=store.read("mixed").toArrow().schema))
    store.overwrite("mixed", store.read("mixed").withColumn("run_id", F.expr("run_id + 4")))
    assert rows(store, "mixed", "run_id") == [(5,), (6,)]
    assert rows(Store(root, session), "mixed", "run_id") == [(5,), (6,)]
    assert sorted(store.read("mixed", 1).toArrow()["run_id"].to_pylist()) == [1, 2]
    assert [folder.name for folder in root.parent.iterdir()] == [root.name]


@pytest.mark.parametrize("name", ["a store", "größe", "100%", "#1 (new)", "what?", "a~b"])
def test_a_folder_may_have_any_name(sail: Session, tmp_path: Path, name: str) -> None:
    sail.activate()
    unusual(sail, tmp_path / name)


def test_a_folder_may_have_any_name_on_classic_spark(spark: Session, tmp_path: Path) -> None:
    spark.activate()
    unusual(spark, tmp_path / "größe #1 (100%)")


@pytest.mark.parametrize(
    ("name", "refused"), [("[x]", "["), ("a%20b", "%20"), ("a|b", "|"), ("a\nb", "\\n"), ("a\udcff", "\\udcff")]
)
def test_a_name_that_the_library_does_not_take_is_refused(tmp_path: Path, name: str, refused: str) -> None:
    for work in (lambda: check_store(tmp_path / name), lambda: new_store(tmp_path / name, "s").__enter__()):
        with pytest.raises(StoreError, match=rf"does not take '{re.escape(refused)}' in the name of a folder; name an"):
            work()
    assert not list(tmp_path.iterdir())


def test_what_spark_writes_is_one_file_made_by_all_tasks(spark: Session, tmp_path: Path) -> None:
    spark.activate()
    store = mixed(spark, tmp_path)
    wide = spark.spark.range(0, 4000, 1, 4).selectExpr("id as run_id", "concat('n', id) as name")
    made = wide.selectExpr("*", "array(named_struct('via', run_id, 'is_done', false)) as path")
    assert made.rdd.getNumPartitions() == 4
    store.overwrite("mixed", made)
    assert len(list(store.path("mixed").glob("*.parquet"))) == 1
    assert {(row.run_id, row.name) for row in store.read("mixed").collect()} == {(n, f"n{n}") for n in range(4000)}
