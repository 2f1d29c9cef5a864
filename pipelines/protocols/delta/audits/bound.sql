-- Runs in which more than δ nodes were not OPERATIONAL in one round, with the first of these rounds (rule R11). A
-- recovering node counts as OPERATIONAL from the round in which it reports this status. At the end of the grace period
-- after the last crash or recovery (view grace) it counts as OPERATIONAL without a report. A later report, or no
-- report, violates guarantee ends_in_time.
with recovery as (
  select n.run_id, n.node_id, n.name, n.crash_round, n.operational_round,
    case when n.recovery_round is null then n.end_round
      else least(coalesce(n.end_round, min(d.settled_round)), min(d.settled_round)) end as end_round
  from node_recovery n
  left join disturbance d on d.run_id = n.run_id and d.round >= n.recovery_round and d.settled_round is not null
  group by n.run_id, n.node_id, n.name, n.crash_round, n.recovery_round, n.operational_round, n.end_round
), change as (
  select run_id, crash_round as round, 1 as n from recovery
  union all
  select run_id, end_round + case when operational_round = end_round then 1 else 0 end as round, -1 as n
  from recovery
  where end_round is not null
), changed as (
  select run_id, round, sum(n) as n from change group by run_id, round
), counted as (
  select run_id, round,
    sum(n) over (partition by run_id order by round rows between unbounded preceding and current row) as n_absent
  from changed
), exceeded as (
  select c.run_id, min(c.round) as round
  from counted c
  join grace g on g.run_id = c.run_id
  where c.n_absent > g.delta
  group by c.run_id
), absent as (
  select e.run_id, e.round, count(1) as n_nodes, array_join(array_sort(collect_list(n.name)), ', ') as names
  from exceeded e
  join recovery n on n.run_id = e.run_id and n.crash_round <= e.round
    and (n.end_round is null or n.end_round > e.round
      or (n.end_round = e.round and n.operational_round = e.round))
  group by e.run_id, e.round
)
select a.run_id, a.round, concat(
  a.n_nodes, if(a.n_nodes = 1, ' node', ' nodes'), ' not OPERATIONAL (', a.names, '), δ is ', r.protocol_delta
) as reason
from absent a
join parameter r on r.run_id = a.run_id
