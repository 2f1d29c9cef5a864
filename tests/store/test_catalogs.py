"""Stores named ``catalog.schema``: the schema says where the store lies, and has its tables when the runs are over."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.commands import SMALL, cli, stop
from support.jvm import JVM
from support.kills import killed, program

import pipelines as rt
from pipelines.engines.session import Session
from pipelines.errors import StoreError
from pipelines.experiment.manifest import Manifest
from pipelines.rounds.progress import Progress
from pipelines.store.catalog import check_no_store, located, new_place, register
from pipelines.store.folder import locked
from pipelines.store.roots import Schema, place_of
from pipelines.store.store import Store
from pipelines.tables import HISTORY, MESSAGE
from pipelines.testing import rows

SCENARIO = f"{SMALL}engine: spark\n"
HIVE = """
spark.sql.catalogImplementation hive
spark.sql.warehouse.dir {folder}/warehouse
spark.hadoop.javax.jdo.option.ConnectionURL jdbc:derby:;databaseName={folder}/metastore_db;create=true
"""
COMPARED = ("message", "delivery", "publication", "subscription", "run", "state_routing_entry", "violation")


def tables(session: Session, schema: str) -> list[str]:
    return sorted(row.tableName for row in session.spark.sql(f"SHOW TABLES IN {schema}").collect() if row.namespace)


@pytest.fixture
def scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A scenario file, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SCENARIO)
    return tmp_path / "s.yaml"


@pytest.fixture
def schema(spark: Session) -> Iterator[str]:
    """The name of a schema that is not there."""
    name = "spark_catalog.studies"
    yield name
    spark.spark.sql(f"DROP SCHEMA IF EXISTS {name} CASCADE")


def test_what_names_a_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert place_of("main.studies") == Schema("main", "studies")
    for folder in ("runs", "./main.studies", "runs/main.studies", "a.b.c", "runs.2024", "runs.", "my-runs.old"):
        assert place_of(folder) == Path(folder)
    assert place_of(Path("main.studies")) == Path("main.studies")
    Path("main.studies").mkdir()
    assert place_of("main.studies") == Path("main.studies")


def test_sail_has_no_catalog_that_is_kept(sail: Session, scenario: Path) -> None:
    told = cli("run", scenario, "--engine", "local", "--store", "main.studies")
    assert told.exit_code == 64
    assert "whose catalog ends with its process; take --engine spark or connect, name a folder" in told.stderr
    for ask in (
        lambda: rt.run(scenario, sail.spark, "main.studies"),
        lambda: rt.open_store("main.studies", sail.spark),
    ):
        with pytest.raises(StoreError, match=r"or \./main\.studies for a folder of this name"):
            ask()
    assert [path.name for path in scenario.parent.iterdir()] == ["s.yaml"]


def test_a_store_in_a_schema_is_resumed_and_asked(
    spark: Session, sail: Session, schema: str, scenario: Path, tmp_path: Path
) -> None:
    spark.activate()
    with pytest.raises(KeyboardInterrupt) as caught:
        rt.run(scenario, spark.spark, schema, commit_every=2, observe=stop)
    root = located(schema, spark.spark)
    assert caught.value.__notes__ == [f"to resume: roundtable resume {root}"]
    assert (tables(spark, schema), Manifest.read(root).schema) == ([], schema)
    assert "it contains a store" in cli("run", scenario, "--store", schema).stderr
    resumed = cli("resume", schema)
    assert (resumed.exit_code, resumed.stdout.splitlines()[-1]) == (
        0, f"valid: 1 run, all guarantees hold; history in {root}"
    )  # fmt: skip
    assert "resuming after round 3" in resumed.stderr
    assert f"tables in {schema}" in resumed.stderr
    assert "has tables already" in cli("run", scenario, "--store", schema).stderr

    there = Store(root, spark)
    assert tables(spark, schema) == there.tables()
    before = {name: there.version(name) for name in there.tables()}
    assert spark.spark.sql(f"select count(1) from {schema}.delivery").first() == (2,)
    told = {row.col_name: row.comment for row in spark.spark.sql(f"DESCRIBE TABLE {schema}.message").collect()}
    assert told == {field.name: field.metadata["comment"] for field in MESSAGE.schema}
    again = there.reopened()
    assert {name: again.version(name) for name in again.tables()} == before

    asked = cli("sql", schema, "select count(1) as n from delivery", "--json")
    assert asked.stdout == '[\n{"n": 2}\n]\n', asked.stderr
    audited = cli("audit", "--engine", "spark", schema)
    assert audited.exit_code == 0, audited.stderr
    assert "over 2 hops" in cli("why", schema, "--subscriber", "C", "--source", "A", "--seq", "1").stdout
    assert str(root) in cli("runs", schema, "--json").stdout
    with rt.resume(schema, spark.spark) as result, pytest.raises(StoreError, match="has the tables of a store"):
        result.publish(schema)
    spark.spark.sql("create or replace temporary view round_commit as select 1")
    check_no_store("default", spark)
    spark.spark.catalog.dropTempView("round_commit")
    sail.activate()
    rt.run(scenario, sail.spark, tmp_path / "folder")
    here, other = (Store(place, sail) for place in (root.absolute(), tmp_path / "folder"))
    for name in COMPARED:
        columns = [column for column in other.read(name).columns if column != "engine"]
        assert rows(here, name, *columns) == rows(other, name, *columns)


def test_what_fails_leaves_the_catalog_as_it_was(spark: Session, schema: str, scenario: Path, tmp_path: Path) -> None:
    def fail(progress: Progress) -> None:
        raise RuntimeError

    spark.activate()
    with pytest.raises(RuntimeError):
        rt.run(scenario, spark.spark, schema, observe=fail)
    assert not spark.spark.catalog.databaseExists(schema)
    spark.spark.sql(f"CREATE SCHEMA {schema} LOCATION '{tmp_path}/mine'")
    with pytest.raises(RuntimeError):
        rt.run(scenario, spark.spark, schema, observe=fail)
    assert spark.spark.catalog.databaseExists(schema)
    assert [*(tmp_path / "mine").iterdir()] == []


def test_schemas_that_cannot_have_a_store(spark: Session, schema: str, scenario: Path, tmp_path: Path) -> None:
    def refused(told: str, name: str = schema) -> None:
        with pytest.raises(StoreError, match=told):
            rt.run(scenario, spark.spark, name)

    spark.activate()
    refused(r"cannot be looked up: .*; the session needs a catalog of this name", "nowhere.studies")
    with pytest.raises(StoreError, match="in memory and loses its schemas when the process of Spark ends, and"):
        rt.open_store(schema, spark.spark)
    own = new_place(Schema("spark_catalog", "studies"), replace(spark, owns=True), "small", print)
    with pytest.raises(StoreError, match=r"loses its schemas .*conf/spark/README.md"), own:
        pass
    assert not spark.spark.catalog.databaseExists(schema)

    spark.spark.sql(f"CREATE SCHEMA {schema}")
    own = new_place(Schema("spark_catalog", "studies"), replace(spark, owns=True), "small", print)
    with pytest.raises(StoreError, match=r"is removed with this session: set spark.sql.warehouse.dir"), own:
        pass
    spark.spark.sql(f"DROP SCHEMA {schema}")

    spark.spark.sql(f"CREATE SCHEMA {schema} LOCATION '{tmp_path}/__unitystorage/schemas/1'")
    refused(r"create the schema with an external location: CREATE SCHEMA spark_catalog.studies WITH")
    spark.spark.sql(f"DROP SCHEMA {schema}")

    place = tmp_path / "it's here"
    spark.spark.sql(f"CREATE SCHEMA {schema} WITH DBPROPERTIES ('a' = 'b', 'roundtable.store' = \"{place}\")")
    assert located(schema, spark.spark) == place
    place.mkdir()
    with locked(place):
        refused("is writing the store")
    rt.run(scenario, spark.spark, schema)
    assert {table.name for table in HISTORY} < {*tables(spark, schema)}


def test_tables_of_others_are_left_alone(spark: Session, schema: str, scenario: Path, tmp_path: Path) -> None:
    def meddle(progress: Progress) -> None:
        spark.spark.sql(f"CREATE TABLE IF NOT EXISTS {schema}.message (a INT) USING DELTA LOCATION '{tmp_path}/other'")

    spark.activate()
    with pytest.raises(StoreError, match=r"has another table 'message', at file:.*/other: drop or rename it"):
        rt.run(scenario, spark.spark, schema, observe=meddle)
    assert tables(spark, schema) == ["message"]
    spark.spark.sql(f"DROP TABLE {schema}.message")
    root = located(schema, spark.spark)
    assert not rt.open_store(root, spark.spark).is_audited
    assert rt.resume(root, spark.spark).verdict == "valid"  # the store knows the schema
    assert len(tables(spark, schema)) > 10


def test_a_server_of_spark_connect_has_a_catalog(
    connect: Session, sail: Session, scenario: Path, tmp_path: Path
) -> None:
    name, root = "spark_catalog.connected", tmp_path / "connected"
    sail.activate()
    rt.run(scenario, sail.spark, root)
    connect.activate()
    with pytest.raises(StoreError, match=r"schema 'spark_catalog.connected' does not exist"):
        located(name, connect.spark)
    said: list[str] = []
    register(name, Store(root, connect), said.append)
    assert said == [f"the tables are not registered in {name}: the session's catalog does not have it for this store"]
    connect.spark.sql(f"CREATE SCHEMA {name} LOCATION '{root}'").collect()
    assert located(name, connect.spark) == root
    register(name, Store(root, connect), said.append)
    assert connect.spark.sql(f"select count(1) from {name}.delivery").collect() == [(2,)]
    for table in tables(connect, name):
        connect.spark.sql(f"DROP TABLE {name}.{table}").collect()
    connect.spark.sql(f"DROP SCHEMA {name}").collect()


@pytest.mark.spark
@pytest.mark.slow
def test_another_process_finds_the_schema_in_a_catalog_that_is_kept(
    sail: Session, scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process is killed in the middle; the next one finds the store by the name alone."""
    for name, value in JVM.items():
        monkeypatch.setenv(name, value)
    shipped = (Path(rt.__file__).parents[1] / "conf" / "spark" / "local.conf").read_text()
    kept = [line for line in shipped.splitlines() if "catalogImplementation" not in line]
    (tmp_path / "conf" / "spark").mkdir(parents=True)
    (tmp_path / "conf" / "spark" / "local.conf").write_text("\n".join(kept) + HIVE.format(folder=tmp_path))
    name, root = "spark_catalog.studies", tmp_path / "warehouse" / "studies.db"
    command = [*program("run", scenario, "--store", name), "--commit-every", "1"]
    assert killed(command, root, 40, random.Random(1))
    commands = [["resume", name], ["sql", name, "select count(1) as n from delivery", "--json"]]
    second = "from typer.testing import CliRunner; from pipelines.cli.app import app\n" + "\n".join(
        f"done = CliRunner().invoke(app, {one!r}); print(done.stdout, done.stderr); assert done.exit_code == 0"
        for one in commands
    )
    told = subprocess.run([sys.executable, "-c", second], env=os.environ, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stdout + told.stderr[-3000:]
    assert "resuming after round" in told.stdout
    assert f"tables in {name}" in told.stdout
    assert f"valid: 1 run, all guarantees hold; history in {root}" in told.stdout
    assert '{"n": 2}' in told.stdout
    sail.activate()
    rt.run(scenario, sail.spark, tmp_path / "folder")
    for table in ("message", "delivery", "state_routing_entry"):
        assert rows(Store(root, sail), table) == rows(Store(tmp_path / "folder", sail), table)
