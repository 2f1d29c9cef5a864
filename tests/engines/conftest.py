"""One job on classic Spark, where jobs are slow, for all tests that look at it."""

from __future__ import annotations

import pytest
from support.engines import OnSpark, run_on_spark

from pipelines.engines.session import Session


@pytest.fixture(scope="session")
def on_spark(spark: Session, tmp_path_factory: pytest.TempPathFactory) -> OnSpark:
    """`run_on_spark`."""
    return run_on_spark(spark, tmp_path_factory.mktemp("on_spark"))
