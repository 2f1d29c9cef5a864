"""What protocol ``flooding`` promises to bear, computed from faults, overlay and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import Reader, arrow_rows
from udfs.batches import BEYOND
from udfs.reach import flooding_beyond

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

GIVEN = """
with nodes as (
  select run_id, array_sort(collect_list(node_id)) as nodes from node group by run_id
), links as (
  select run_id, array_sort(collect_list(struct(src, dst))) as links from link group by run_id
), pairs as (
  select p.run_id, array_sort(collect_set(struct(p.source as src, s.subscriber as dst))) as pairs
  from publication p
  join subscription s on s.run_id = p.run_id
  group by p.run_id
), crashes as (
  select run_id,
    array_sort(collect_list(struct(crash_round as round, node_id, recovery_round is null as is_final))) as crashes
  from node_recovery
  group by run_id
), twice as (
  select distinct run_id from fault_event where kind = 'duplicate'
)
select r.run_id, n.nodes, l.links, p.pairs, c.crashes, t.run_id is not null as has_duplicates,
  cast(get_json_object(r.parameters, "$['protocol.max_hops']") as bigint) as max_hops
from run r
join nodes n on n.run_id = r.run_id
left join links l on l.run_id = r.run_id
left join pairs p on p.run_id = r.run_id
left join crashes c on c.run_id = r.run_id
left join twice t on t.run_id = r.run_id
"""


def beyond(reader: Reader) -> DataFrame:
    """Returns the runs in which less is promised than that everybody gets everything once.

    Args:
        reader: The store.

    Returns:
        ``run_id, round, reason``; one row a run.
    """
    return arrow_rows(reader.sql(GIVEN), flooding_beyond, BEYOND)
