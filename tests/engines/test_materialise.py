"""Which relations go into the plans that read them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from pipelines.materialise import materialiser_for
from pipelines.session import Session


@pytest.mark.parametrize(("n_runs", "is_in_plans"), [(2, True), (2_000, False)])
def test_only_few_rows_go_into_plans(sail: Session, n_runs: int, is_in_plans: bool) -> None:
    """However well rows can be compressed: a plan holds them as they are, several times."""
    rows = pa.table({"run_id": np.repeat(np.arange(n_runs), 20), "role": ["broker"] * (20 * n_runs)})
    materialiser = materialiser_for(sail)
    relation = materialiser.load("node", rows, from_arrow_schema(rows.schema))
    assert (relation.rows is not None) == is_in_plans
    assert relation.frame.count() == len(rows)
    materialiser.close()
