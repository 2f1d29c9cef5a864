"""What protocol ``repository`` promises to bear: computed from faults and overlay, never from what nodes report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import Reader, arrow_rows
from udfs.batches import BEYOND
from udfs.repository.bound import beyond_runs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GIVEN = """
with gone as (
  select run_id, array_sort(collect_list(struct(crash_round as round, node_id))) as gone
  from node_recovery
  where recovery_round is null
  group by run_id
), ends as (
  select run_id, array_sort(collect_list(node_id)) as ends from node where role <> 'broker' group by run_id
), links as (
  select run_id, array_sort(collect_list(struct(src, dst))) as links from link group by run_id
)
select g.run_id, e.ends, l.links, g.gone
from gone g
join ends e on e.run_id = g.run_id
left join links l on l.run_id = g.run_id
"""
"""The runs in which a node crashes for good, as their scenarios have them."""


def beyond(reader: Reader) -> DataFrame:
    """Returns the runs whose faults are too much for the protocol: clients or repositories without a way for good.

    Args:
        reader: The store.

    Returns:
        ``run_id, round, reason``; one row a run.
    """
    return arrow_rows(reader.sql(GIVEN), beyond_runs, BEYOND)
