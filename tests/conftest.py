"""One session of each engine for all tests of a worker process; those of `spark` and `connect` share a JVM."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.jvm import JVM

from pipelines.engines.session import Session, open_session

_OPEN: dict[str, Session] = {}
_ORDER = ("properties", "shipped", "spec", "store", "engines", "cli", "unit")
"""The folders of tests, those with the longest first."""

# No test keeps more than some 400 MB in its JVM; one that may take more does not free it before it has.
os.environ.setdefault("SPARK_DRIVER_MEMORY", "2g")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds the option that `tests/properties/delta/test_crashes.py` reads."""
    parser.addoption(
        "--schedules", type=int, metavar="N", help="play N random crash schedules instead of a few eventful ones"
    )


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks the tests that need a JVM."""
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.spark)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts what takes long first: at the end no process has much to do while another has nothing.

    What uses Spark Connect comes before all else that needs a JVM: its server, in the same JVM, loses the relations of
    its sessions when a test has opened and closed classic ones.
    """
    items.sort(
        key=lambda item: (
            "connect" not in getattr(item, "fixturenames", ()),
            _ORDER.index(item.path.relative_to(Path(__file__).parent).parts[0]),
        )
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Sets PySpark's functions to the engine of the test; one that uses both has to choose itself."""
    for name in ("spark", "sail", "connect"):
        if name in getattr(item, "fixturenames", ()) and name in _OPEN:
            _OPEN[name].activate()


@pytest.fixture(scope="session")
def sail() -> Iterator[Session]:
    """The embedded Sail."""
    with open_session("sail") as session:
        _OPEN["sail"] = session
        yield session
    del _OPEN["sail"]


@pytest.fixture(scope="session")
def spark() -> Iterator[Session]:
    """A local classic Spark."""
    with pytest.MonkeyPatch.context() as patch:
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
        yield session
    del _OPEN["connect"]
    nothing = jvm.scala.Option.empty()
    service.stop(nothing, nothing)
