"""Sessions on real engines."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from support.jvm import JVM

from pipelines.api import open_store, run
from pipelines.contract.forms import AskedForm
from pipelines.engines.frames import CONNECT_MODE
from pipelines.engines.session import Session, open_session
from pipelines.errors import EngineError

QUIET = """
from pipelines.engines.session import open_session
with open_session({engine!r}) as session:
    assert session.spark.range(3).count() == 3
    session.spark.range(3).write.format("delta").save(str(session.scratch / "delta"))
    try:
        session.spark.sql("select nowhere").collect()
    except Exception:
        print(session.scratch)
"""

REFUSED = """
from pipelines.engines.session import open_session
from pipelines.errors import EngineError
try:
    open_session("spark")
except EngineError as error:
    print(error)
"""

LOST = """
import os, signal
from pipelines.engines.session import open_session
from pipelines.errors import EngineError
from pipelines.store.damage import named_damage
session = open_session("spark")
frame = session.spark.range(2)
os.kill(int(session.spark.sql("select java_method('java.lang.ProcessHandle', 'current')").head()[0]), signal.SIGKILL)
for use in (frame.count, lambda: session.spark, lambda: open_session("auto")):
    try:
        with named_damage("st"):
            use()
    except EngineError as error:
        print(error)
"""

AT_EXIT = """
from pyspark.sql.connect.client import SparkConnectClient
SparkConnectClient._cleanup_ml_cache = lambda client: print("closed:", client.is_closed)
from pipelines.engines.session import open_session
session = open_session("local")
{close}
"""


def test_sail_says_what_it_is(sail: Session) -> None:
    assert (sail.engine, sail.is_classic, sail.owns, sail.partitions) == ("local", False, True, os.cpu_count())
    assert sail.scratch.is_dir()


def test_spark_says_what_it_is(spark: Session) -> None:
    assert (spark.engine, spark.is_classic, spark.owns, spark.partitions) == ("spark", True, True, os.cpu_count())
    assert spark.spark.conf.get("spark.sql.adaptive.enabled") == "false"


def test_a_callers_session_is_recognised_and_left_running(sail: Session) -> None:
    with open_session("spark", sail.spark) as given:
        assert (given.engine, given.is_classic, given.owns) == ("local", False, False)
        assert given.spark is sail.spark
        assert given.scratch != sail.scratch
    assert not given.scratch.exists()
    assert sail.spark.range(2).count() == 2


def test_a_callers_classic_session_is_found_without_being_given(spark: Session) -> None:
    with open_session("spark") as found:
        assert (found.engine, found.owns) == ("spark", False)
    assert spark.spark.range(2).count() == 2


def test_an_exchange_of_a_callers_session_has_a_partition_for_each_core(spark: Session) -> None:
    """With Spark's default of 200 partitions, a dataflow round took seven times the CPU time."""
    key, conf = "spark.sql.shuffle.partitions", spark.spark.conf
    before, cores = conf.get(key), spark.spark.sparkContext.defaultParallelism
    try:
        for asked, n_partitions in (("200", cores), ("1", 1)):
            conf.set(key, asked)
            with open_session(spark=spark.spark) as session:
                assert session.partitions == n_partitions
                with session.suited(is_small=False):
                    assert conf.get(key) == str(n_partitions)
                assert conf.get(key) == asked
    finally:
        conf.set(key, before)


def test_a_session_that_its_caller_has_stopped_is_refused(spark: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    running = spark.spark
    with open_session("spark", running) as given:
        with monkeypatch.context() as stopped:
            stopped.setattr(running.sparkContext, "_jsc", None)
            for use in (lambda: given.spark, lambda: open_session("spark", running)):
                with pytest.raises(EngineError, match="the Spark session was stopped, or its JVM has ended"):
                    use()
        assert given.spark.range(2).count() == 2


def test_an_interruption_spares_the_jobs_of_another_run_in_the_same_session(spark: Session, connect: Session) -> None:
    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        time.sleep(4)
        yield from batches

    def played(session: Session) -> int:
        with session.tagged("a block"):
            return session.spark.range(3, numPartitions=1).mapInArrow(slow, "id bigint").count()

    with (
        open_session("connect", connect.spark) as one,
        open_session("connect", connect.spark) as other,
        ThreadPoolExecutor(2) as pool,
    ):
        jobs = [pool.submit(played, session) for session in (one, other)]
        while not jobs[0].done():
            one.end_tagged()
            time.sleep(0.2)
        assert jobs[0].exception() is not None
        assert jobs[1].result() == 3


def test_jobs_after_a_block_have_the_description_of_the_caller(spark: Session) -> None:
    context = spark.spark.sparkContext
    for described in ("of the caller", None):
        context.setLocalProperty("spark.job.description", described)
        with spark.tagged("a block"):
            assert context.getLocalProperty("spark.job.description") == "a block"
        assert context.getLocalProperty("spark.job.description") == described


def test_overlapping_blocks_of_two_threads_restore_the_settings_of_the_caller(sail: Session) -> None:
    """Two runs of one session: the first to begin is also the first to end."""
    key, unset, conf = "spark.sql.shuffle.partitions", "spark.roundtable.test", sail.spark.conf
    before, first, second = conf.get(key), ExitStack(), ExitStack()
    with open_session(spark=sail.spark) as other:
        first.enter_context(sail.configured({key: "3", unset: "1"}))
        second.enter_context(other.configured({key: "5", unset: "2"}))
        first.close()
        assert (conf.get(key), conf.get(unset)) == ("5", "2")
        second.close()
    assert (conf.get(key), conf.get(unset, None)) == (before, None)


def test_several_sails_live_side_by_side(sail: Session) -> None:
    sail.spark.sql("create or replace temp view mine as select 1 as x")
    with open_session("local") as other:
        assert "mine" not in [table.name for table in other.spark.catalog.listTables()]
        assert other.spark.range(5).count() == 5
    assert sail.spark.table("mine").count() == 1


def test_functions_follow_the_active_session(sail: Session, spark: Session) -> None:
    for session in (sail, spark, sail):
        session.activate()
        assert session.spark.range(3).select(F.expr("id + 1").alias("x")).agg(F.sum("x")).collect()[0][0] == 6


def test_functions_of_a_program_with_a_classic_session_stay_classic(spark: Session, tmp_path: Path) -> None:
    """A notebook with a classic session opens a store with its default engine, ``local``."""
    spark.activate()
    form: AskedForm
    for form in ("program", "dataflow"):
        with run("figure1", engine="local", form=form, store=tmp_path / form) as result:
            assert result.session.engine == "local"
            assert result.sql("describe delivery").count() > 0
    with open_store(tmp_path / "program") as result:
        assert spark.spark.range(3).select(F.col("id") + 1).count() == 3
        assert result.table("delivery").count() > 0
        assert result.report().is_file()
        assert type(spark.spark).builder.getOrCreate() is spark.spark
    assert spark.spark.range(3).select(F.col("id") + 1).count() == 3


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_an_engine_is_quiet_and_leaves_nothing_behind(engine: str, tmp_path: Path) -> None:
    """Not a line of noise, not even for a wrong query, and no file in the working directory."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-c", QUIET.format(engine=engine)]
    ran = subprocess.run(
        command, cwd=tmp_path, env=os.environ | JVM | {"PYTHONPATH": str(root)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    scratch = Path(ran.stdout.strip())
    assert scratch.name.startswith("roundtable-")
    assert not scratch.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("close", ["session.close()", ""])
def test_a_client_is_closed_before_its_request_at_exit(tmp_path: Path, close: str) -> None:
    """A request of PySpark at exit would block if Ctrl-C had interrupted a call; a closed client sends none."""
    root = Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", AT_EXIT.format(close=close)], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(root)},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout == "closed: True\n"


CONTEXT_ALONE = """
from pyspark import SparkConf, SparkContext
context = SparkContext(conf=SparkConf().setMaster("local[1]").set("spark.ui.enabled", "false"))
from pipelines.engines.session import open_session
from pipelines.errors import EngineError
try:
    open_session("spark")
except EngineError as error:
    print(error)
print(context.parallelize([1]).count())
from pyspark.sql import SparkSession
with open_session("spark", SparkSession(context)) as session:
    print(session.owns)
context.stop()
with open_session("spark") as session:
    print(session.owns, session.spark.range(2).count())
"""


@pytest.mark.spark
def test_a_context_without_a_session_is_named_and_left_running(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != CONNECT_MODE}
    ran = subprocess.run(
        [sys.executable, "-c", CONTEXT_ALONE], cwd=tmp_path, capture_output=True, text=True, check=True,
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
    )  # fmt: skip
    told, *answers = ran.stdout.splitlines()
    assert "Cannot run multiple SparkContexts at once" in told
    assert told.endswith("pass a session of the existing context: spark=SparkSession(context)")
    assert answers == ["1", "False", "True 2"]


def test_an_answer_of_sail_may_be_large(sail: Session) -> None:
    """A batch of it has some thousand rows, whatever their size, and gRPC takes 128 MiB by default."""
    sail.activate()
    wide = sail.spark.range(4000).selectExpr("id", "repeat(cast(id % 10 as string), 40000) as text")
    table = wide.toArrow()
    assert table.num_rows == 4000
    assert table.nbytes > 128 * 1024**2


@pytest.mark.spark
def test_a_jvm_that_ends_after_its_launch_is_an_error_of_the_engine(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    root = Path(__file__).parents[2]
    own = {"PYTHONPATH": str(root), "SPARK_LOCAL_DIRS": str(tmp_path / "file" / "x")}
    ran = subprocess.run(
        [sys.executable, "-c", REFUSED], env=os.environ | JVM | own, capture_output=True, text=True, check=True
    )
    assert (ran.stdout.count("\n"), ran.stderr) == (1, "")
    assert ran.stdout.startswith("Spark does not start: ")
    assert str(tmp_path / "file") in ran.stdout


@pytest.mark.spark
def test_a_jvm_that_is_killed_is_an_error_of_the_engine(tmp_path: Path) -> None:
    own = {"PYTHONPATH": str(Path(__file__).parents[2])}
    ran = subprocess.run(
        [sys.executable, "-c", LOST], cwd=tmp_path, env=os.environ | JVM | own, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    assert ran.stderr == ""
    frame, session, started = ran.stdout.splitlines()
    assert frame.startswith("the JVM of Spark has ended: it was killed, or its memory was exhausted; SPARK_DRIVER_MEM")
    assert session == frame
    assert started == "the JVM of Spark has ended; start a new Python process (in a notebook: restart it)"
