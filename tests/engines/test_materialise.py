"""How relations are kept on Sail: written in the background, and which go into the plans that read them."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.engines.materialise.choose import materialiser_for
from pipelines.engines.session import Session


@pytest.mark.parametrize(("n_runs", "is_in_plans"), [(2, True), (2_000, False)])
def test_only_few_rows_go_into_plans(sail: Session, n_runs: int, is_in_plans: bool) -> None:
    """However well rows can be compressed: a plan holds them as they are, several times."""
    rows = pa.table({"run_id": np.repeat(np.arange(n_runs), 20), "role": ["broker"] * (20 * n_runs)})
    materialiser = materialiser_for(sail)
    relation = materialiser.load("node", rows, from_arrow_schema(rows.schema))
    assert ("part.parquet" not in "".join(relation.frame.inputFiles())) == is_in_plans
    assert relation.frame.count() == len(rows)
    materialiser.close()


def test_what_reads_a_relation_waits_for_it(sail: Session) -> None:
    materialiser = materialiser_for(sail)
    numbers = materialiser.cache("numbers", sail.spark.range(100_000).selectExpr("id as run_id"))
    even = materialiser.cache("even", numbers.frame.where("run_id % 2 = 0"))
    none = materialiser.cache("none", even.frame.where("run_id % 2 = 1"))
    assert even.frame.join(numbers.frame, "run_id").count() == 50_000
    assert none.is_empty
    assert not even.is_empty
    materialiser.close()


def test_a_relation_that_cannot_be_written_ends_the_round(sail: Session) -> None:
    """Even if nobody reads it."""
    materialiser = materialiser_for(sail)
    schema = from_arrow_schema(pa.schema([("run_id", pa.int64())]))
    materialiser.declare({"broken": schema})
    broken = materialiser.cache("broken", sail.spark.range(3).selectExpr("raise_error('no rows') as run_id"))
    with pytest.raises(Exception, match="no rows"):
        materialiser.checkpoint({}, {})
    with pytest.raises(Exception, match="no rows"):
        broken.frame.count()
    materialiser.close()


def test_nothing_is_being_written_when_a_round_is_over(sail: Session) -> None:
    """Relations end with it that others, which nobody waits for, may still have to read."""
    materialiser = materialiser_for(sail)
    first = materialiser.cache("first", sail.spark.range(300_000).selectExpr("id as run_id"))
    second = materialiser.cache("second", first.frame.selectExpr("run_id + 1 as run_id"))
    materialiser.checkpoint({}, {})
    first.release()
    assert second.frame.count() == 300_000
    materialiser.close()


def test_a_relation_stays_until_what_is_being_written_has_read_it(sail: Session) -> None:
    """What a round kept ends while increments that read it still wait for a writer."""
    materialiser = materialiser_for(sail)
    first = materialiser.cache("first", sail.spark.range(300_000).selectExpr("id as run_id"))
    (folder,) = {Path(urlsplit(file).path).parent for file in first.frame.inputFiles()}
    for writer in range(3):
        materialiser.cache(
            f"slow_{writer}", sail.spark.range(10_000_000).selectExpr("count(distinct id % 7) as run_id")
        )
    second = materialiser.append("second", first.frame.selectExpr("run_id + 1 as run_id"))
    first.release()
    assert second.frame.count() == 300_000
    materialiser.checkpoint({}, {})
    assert not folder.exists()
    materialiser.close()
