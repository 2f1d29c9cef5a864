-- audit: within a bounded time after the last crash or recovery all nodes are OPERATIONAL and all calls confirmed
-- When the grace period (view grace) after the last crash or recovery has passed, nodes are OPERATIONAL again and calls
-- are confirmed. The audit does not check two types of nodes: a node that crashes within the grace period, because it
-- loses its calls and its next recovery has another deadline; and a node whose join point never recovers, because it
-- cannot join.
with overdue as (
  select * from time_limit where coalesce(end_round > limit_round, true)
), fallen as (
  select distinct o.run_id, o.node_id, o.what, o.begin_round
  from overdue o
  join fault_event f on f.run_id = o.run_id and f.node_id = o.node_id and f.kind = 'crash'
    and f.round > o.begin_round and f.round <= o.limit_round
)
select o.run_id, o.begin_round as round, o.node_id, case when o.source_seq is not null then o.node_id end as source,
  o.source_seq, concat(o.what, ' of round ', o.begin_round, ' had to end by round ', o.limit_round, ', ended ',
    coalesce(concat('in round ', o.end_round), 'never')) as detail
from overdue o
left join fallen f on f.run_id = o.run_id and f.node_id = o.node_id and f.what = o.what
  and f.begin_round = o.begin_round
left join unreachable u on u.run_id = o.run_id and u.node_id = o.node_id
where f.run_id is null and u.run_id is null
