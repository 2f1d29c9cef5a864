"""What must be left when nothing is on its way any more: no lock, nothing that waits, and one tree."""

from __future__ import annotations

from pyspark.sql import DataFrame, functions as F

from pipelines.contract.audit import FOUND, IN_FLIGHT_RUN, Evidence
from udfs.ginger.tree import BROKEN, broken_trees

_QUIET = f"""
select r.run_id from run r left join ({IN_FLIGHT_RUN}) busy on busy.run_id = r.run_id where busy.run_id is null
"""  # noqa: S608 - built of constants

LEFT_OVER = f"""
with waiting as (
  select run_id, node_id, source, source_seq, concat('still pending on topic ', topic) as detail
  from state_pending
  union all
  select run_id, node_id, source, source_seq, concat('still waits to enter topic ', topic) as detail
  from state_entry_queue
  union all
  select run_id, node_id, source, source_seq, concat('still holds ', kind) as detail
  from state_hold
  union all
  select a.run_id, a.node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq,
    concat('still awaits what ', n.name, ' has to say') as detail
  from state_await a join node n on n.run_id = a.run_id and n.node_id = a.partner
  union all
  select p.run_id, p.node_id, cast(null as bigint) as source, cast(null as bigint) as source_seq,
    concat('still waits for messages that have left the buffer of ', n.name) as detail
  from state_parked p join node n on n.run_id = p.run_id and n.node_id = p.partner
  union all
  select run_id, node_id, source, source_seq, 'never got what has left the buffers' as detail
  from state_gap where status = 'given_up'
  union all
  select run_id, node_id, source, source_seq, concat('still locks key item ', key_item, ' of topic ', topic) as detail
  from state_locked
)
select w.run_id, cast(null as bigint) as round, w.node_id, w.source, w.source_seq, w.detail
from waiting w
join ({_QUIET}) q on q.run_id = w.run_id
"""  # noqa: S608 - built of constants

_UP = f"""
select n.run_id, n.node_id, t.neighbour as parent
from node n
join ({_QUIET}) q on q.run_id = n.run_id
left join state_neighbour t on t.run_id = n.run_id and t.node_id = n.node_id and t.relationship = 'parent'
where n.role = 'broker' and not exists (
  select 1 from node_recovery d where d.run_id = n.run_id and d.node_id = n.node_id and d.until_round is null
)
"""  # noqa: S608 - built of constants
"""The parents of the brokers that are up."""


def nothing_waiting(evidence: Evidence) -> DataFrame:
    """At a quiet end no key item is locked, and no message is pending or waits to enter."""
    return evidence.sql(LEFT_OVER).select(*FOUND)


def one_tree(evidence: Evidence) -> DataFrame:
    """At a quiet end the brokers that are up are one tree: it has one root, and every broker's parents lead there."""
    run = evidence.sql(_UP).groupBy("run_id").agg(F.expr("array_sort(collect_list(struct(node_id, parent))) as nodes"))
    broken = run.mapInArrow(broken_trees, ", ".join(f"{name} {kind}" for name, kind in BROKEN))
    nothing = [f"cast(null as bigint) as {name}" for name in ("round", "source", "source_seq")]
    return broken.selectExpr("run_id", "node_id", "detail", *nothing).select(*FOUND)
