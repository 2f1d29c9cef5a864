"""One session of each engine for all tests of a worker process."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from pipelines.session import Session, open_session

_OPEN: dict[str, Session] = {}

# No test keeps more than some 400 MB in its JVM; one that may take more does not free it before it has.
os.environ.setdefault("SPARK_DRIVER_MEMORY", "2g")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks the tests that need a JVM."""
    if "spark" in getattr(item, "fixturenames", ()):
        item.add_marker(pytest.mark.spark)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Sets PySpark's functions to the engine of the test; one that uses both has to choose itself."""
    for name in ("spark", "sail"):
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
        # Tests are over before a thorough compiler has earned its time back.
        patch.setenv("JAVA_TOOL_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        session = open_session("spark")
    with session:
        _OPEN["spark"] = session
        yield session
    del _OPEN["spark"]
