"""Where protocol ``gossipsub`` delivers for certain, computed from faults, overlay and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.contract.audit import Reader, arrow_rows
from udfs.batches import BEYOND
from udfs.reach import gossipsub_beyond

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_NUMBERS = ("d_lo", "d_hi", "d_lazy", "history_length", "heartbeat_rounds")
_SETTINGS = ", ".join(
    f"cast(get_json_object(r.parameters, \"$['protocol.{name}']\") as bigint) as {name}" for name in _NUMBERS
)
GIVEN = f"""
with nodes as (
  select run_id, array_sort(collect_list(node_id)) as nodes from node group by run_id
), links as (
  select run_id, array_sort(collect_list(struct(src, dst))) as links, max(latency_rounds) as latency_rounds
  from link
  group by run_id
), crashes as (
  select run_id,
    array_sort(collect_list(struct(crash_round as round, node_id, recovery_round is null as is_final))) as crashes
  from node_recovery
  group by run_id
), slow as (
  select run_id, min(round) as slow_round from fault_event where kind in ('pause', 'delay') group by run_id
), ended as (
  select run_id, min(unsubscribed_round) as left_round from subscription group by run_id
)
select r.run_id, n.nodes, l.links, coalesce(l.latency_rounds, 0) as latency_rounds, c.crashes, s.slow_round,
  e.left_round, get_json_object(r.parameters, "$['protocol.relay']") = 'true' as relay, {_SETTINGS}
from run r
join nodes n on n.run_id = r.run_id
left join links l on l.run_id = r.run_id
left join crashes c on c.run_id = r.run_id
left join slow s on s.run_id = r.run_id
left join ended e on e.run_id = r.run_id
"""  # noqa: S608 - built of constants


def beyond(reader: Reader) -> DataFrame:
    """Returns the runs in which deliveries are a matter of draws (README, section Bound).

    Args:
        reader: The store.

    Returns:
        ``run_id, round, reason``; one row a run.
    """
    return arrow_rows(reader.sql(GIVEN), gossipsub_beyond, BEYOND)
