-- Runs in which more than δ nodes were not OPERATIONAL in one round, or none while a subscription stood, with the first
-- of these rounds (rule R11). A recovering node counts as OPERATIONAL from the round in which it reports this status.
-- At the end of the grace period after the last crash or recovery (view grace) it counts as OPERATIONAL without a
-- report. A later report, or no report, violates guarantee ends_in_time. Only members count for the second case: nodes
-- that need not join, and nodes that were up in the round of their join call, from this round on. A single member keeps
-- its subscriptions.
with recovery as (
  select n.run_id, n.node_id, n.name, n.crash_round, n.recovery_round, n.operational_round,
    case when n.recovery_round is null then n.end_round
      else least(coalesce(n.end_round, min(d.settled_round)), min(d.settled_round)) end as end_round
  from node_recovery n
  left join disturbance d on d.run_id = n.run_id and d.round >= n.recovery_round and d.settled_round is not null
  group by n.run_id, n.node_id, n.name, n.crash_round, n.recovery_round, n.operational_round, n.end_round
), absence as (
  select run_id, node_id, name, crash_round as round,
    end_round + case when operational_round = end_round then 1 else 0 end as until_round
  from recovery
), change as (
  select run_id, round, 1 as n from absence
  union all
  select run_id, until_round as round, -1 as n from absence where until_round is not null
), changed as (
  select run_id, round, sum(n) as n from change group by run_id, round
), counted as (
  select run_id, round,
    sum(n) over (partition by run_id order by round rows between unbounded preceding and current row) as n_absent
  from changed
), joined as (
  select j.run_id, j.node_id, j.round, max(r.run_id) is null as is_accepted
  from control_call j
  left join recovery r on r.run_id = j.run_id and r.node_id = j.node_id and r.crash_round <= j.round
    and coalesce(r.recovery_round > j.round, true)
  where j.kind = 'join'
  group by j.run_id, j.node_id, j.round
), member as (
  select n.run_id, n.node_id, coalesce(j.round, 0) as since_round, g.delta,
    count_if(j.run_id is null) over (partition by n.run_id) as n_first
  from node n
  join grace g on g.run_id = n.run_id
  left join joined j on j.run_id = n.run_id and j.node_id = n.node_id
  where coalesce(j.is_accepted, true)
), silent as (
  select c.run_id, c.round
  from (select distinct run_id, round from absence) c
  join member m on m.run_id = c.run_id and m.since_round <= c.round and m.n_first <= m.delta
  left join absence a on a.run_id = c.run_id and a.node_id = m.node_id and a.round <= c.round
    and coalesce(a.until_round > c.round, true)
  where exists (
    select 1 from subscription s
    where s.run_id = c.run_id and s.issued_round <= c.round and coalesce(s.ended_round > c.round, true)
  )
  group by c.run_id, c.round
  having count(distinct m.node_id) > 1 and count(distinct m.node_id) = count(distinct a.node_id)
), exceeded as (
  select run_id, min(round) as round
  from (
    select c.run_id, c.round
    from counted c
    join grace g on g.run_id = c.run_id
    where c.n_absent > g.delta
    union all
    select run_id, round from silent
  ) found
  group by run_id
), absent as (
  select e.run_id, e.round, count(1) as n_nodes, array_join(array_sort(collect_list(a.name)), ', ') as names
  from exceeded e
  join absence a on a.run_id = e.run_id and a.round <= e.round and coalesce(a.until_round > e.round, true)
  group by e.run_id, e.round
)
select a.run_id, a.round, concat(
  a.n_nodes, if(a.n_nodes = 1, ' node', ' nodes'), ' not OPERATIONAL (', a.names, '), ',
  if(a.n_nodes > r.protocol_delta, concat('δ is ', r.protocol_delta), 'and no other node has joined')
) as reason
from absent a
join parameter r on r.run_id = a.run_id
