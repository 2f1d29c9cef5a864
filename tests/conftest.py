"""One session of each engine for all tests of a worker process; those of `spark` and `connect` share a JVM."""

from __future__ import annotations

import gc
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.hdfs import hdfs_server
from support.jvm import JVM
from support.one_job import OneJob, Stores
from support.s3 import s3_server
from xdist.scheduler import LoadScopeScheduling

from pipelines.cli import GC_THRESHOLDS
from pipelines.engines.names import check_java
from pipelines.engines.session import Session, open_session
from pipelines.errors import EngineError

_OPEN: dict[str, Session] = {}
_ORDER = ("properties", "shipped", "spec", "store", "engines", "report", "cli", "unit")
"""The folders of tests, those with the longest first."""

_ONE_JOB = "one job"
_RUNS = "delta_runs"
ONE_JOB_SECONDS = 3600
"""Time for a test with runs in one job: the first of them makes that job, which takes many minutes."""

# No test keeps more than some 400 MB in its JVM; one that may take more does not free it before it has.
os.environ.setdefault("SPARK_DRIVER_MEMORY", "2g")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that `properties/delta/test_crashes.py` and `properties/skipring/test_oracle.py` read."""
    parser.addoption("--schedules", type=int, metavar="N", help="play N random schedules instead of a few")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks the tests that need a JVM, and gives time to those with runs in one job."""
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.spark)
    if _module_with_runs(item) is not None:
        item.add_marker(pytest.mark.timeout(ONE_JOB_SECONDS))


class ByFile(LoadScopeScheduling):
    """Hands a file at once to a worker process; those with runs in one job are as one file: the job is made once."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.split("::", 1)[0]
        return _ONE_JOB if file in _files_of_one_job() else file


@cache
def _files_of_one_job() -> frozenset[str]:
    """Returns the files with a function ``delta_runs``, as ids of tests name them; the scheduler imports none."""
    here = Path(__file__).parent
    files = (path for path in here.rglob("test_*.py") if f"\ndef {_RUNS}(" in path.read_text("utf-8"))
    return frozenset(path.relative_to(here.parent).as_posix() for path in files)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Takes the place of ``--dist loadfile``."""
    return ByFile(config, log) if config.getvalue("dist") == "loadfile" else None


def _place(item: pytest.Item) -> str:
    """Returns the test's file, as a path in this folder."""
    return item.path.relative_to(Path(__file__).parent).as_posix()


def _module_with_runs(item: pytest.Item) -> ModuleType | None:
    """Returns the test's module if it has runs that are played in one job with those of other modules."""
    module: ModuleType = item.getparent(pytest.Module).obj  # type: ignore[union-attr]
    return module if hasattr(module, _RUNS) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts what takes long first: at the end no process has much to do while another has nothing.

    What uses Spark Connect comes before all else that needs a JVM: its server, in the same JVM, loses the relations of
    its sessions when a test has opened and closed classic ones.
    """
    items.sort(
        key=lambda item: (
            "connect" not in getattr(item, "fixturenames", ()),
            _ORDER.index(_place(item).split("/")[0]),
        )
    )


def pytest_collection_finish() -> None:
    """Excludes imported objects from garbage collection, and raises its thresholds.

    Collections of imported objects take a twentieth of the time of tests. With Python's default thresholds,
    collections take a tenth of the time that tests spend in Python.
    """
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Sets PySpark's functions to the engine of the test; one that uses both has to choose itself."""
    for name in ("spark", "local", "connect"):
        if name in getattr(item, "fixturenames", ()) and name in _OPEN:
            _OPEN[name].activate()


@pytest.fixture(scope="session")
def bucket() -> Iterator[str]:
    """The address of a bucket on an S3 server of this process, which the environment names from now on."""
    with s3_server() as (address, variables), pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield address


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a folder on an HDFS server of this process."""
    with ExitStack() as closing:
        try:
            check_java()
            address = closing.enter_context(hdfs_server(tmp_path_factory.mktemp("hdfs")))
        except EngineError as error:
            pytest.skip(str(error))
        yield address


@pytest.fixture
def heeded_signals() -> Iterator[None]:
    """Heeds Ctrl-C and SIGHUP, which the parent process may ignore: ``nohup``, or a script with jobs in background."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP)}
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def sail() -> Iterator[Session]:
    """The embedded Sail."""
    with open_session("local") as session:
        _OPEN["local"] = session
        session.activate()
        yield session
    del _OPEN["local"]


@pytest.fixture(scope="session")
def one_job(request: pytest.FixtureRequest, sail: Session, tmp_path_factory: pytest.TempPathFactory) -> OneJob:
    """The runs of all modules that say which ones they have of `delta` (``delta_runs``), of those that are tested."""
    modules = {module.__name__: module for item in request.session.items if (module := _module_with_runs(item))}
    return OneJob.of([*modules.values()], sail, tmp_path_factory.mktemp("one_job"))


@pytest.fixture(scope="module")
def stores(request: pytest.FixtureRequest, one_job: OneJob, tmp_path_factory: pytest.TempPathFactory) -> Stores:
    """Returns the store of some of the module's runs, by their name."""
    return one_job.stores(request.module, tmp_path_factory.mktemp("stores"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Session]:
    """A local classic Spark.

    Its JVM writes no class archive when it exits: that takes 18 CPU seconds, after the last test.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pipelines.engines.classic._new_partial", lambda _: None)
        for name, value in JVM.items():
            patch.setenv(name, value)
        session = open_session("spark")
    with session:
        _OPEN["spark"] = session
        yield session
    del _OPEN["spark"]


@pytest.fixture(scope="session")
def connect(spark: Session) -> Iterator[Session]:
    """A session over Spark Connect; the server is in the JVM of the classic Spark."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    jvm = spark.spark._jvm  # the tests' own way to a server; the program only connects to one
    assert jvm is not None
    jvm.org.apache.spark.SparkEnv.get().conf().set("spark.connect.grpc.binding.port", str(port))
    service = jvm.org.apache.spark.sql.connect.service.SparkConnectService
    service.start(spark.spark.sparkContext._jsc.sc())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_REMOTE", f"sc://127.0.0.1:{port}")
        session = open_session("connect")
    with session:
        _OPEN["connect"] = session
        session.activate()
        yield session
    del _OPEN["connect"]
    nothing = jvm.scala.Option.empty()
    service.stop(nothing, nothing)
